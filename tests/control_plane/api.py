"""Sends objects to the real API server as pulumi-kubernetes does: by server-side apply, and with strict field
validation.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from kubernetes.dynamic import DynamicClient
from kubernetes.dynamic.exceptions import DynamicApiError, NotFoundError, ResourceNotFoundError

T = TypeVar("T")
PATIENCE_SEC = 30
# `failed to create typed patch object (ci/it; batch/v1, Kind=Job): .spec.x: field not declared in schema`; several
# are listed below `errors:`.
TYPED = re.compile(r"failed to create typed patch object \([^)]*\): (?:errors:\n)?(.*)", re.DOTALL)
# A problem that is found after validation names no field.
UNPLACED = re.compile(r"failed to convert new object \([^)]*\) .* unable to convert unstructured object to [^:]*(: .*)")
# A server-side apply names the elements of some lists by their keys: `spec.containers[name="smoke"].image: …`.
KEYED = re.compile(r"\[(\w+=[^]]*)]")


@dataclass(frozen=True)
class Api:
    client: DynamicClient

    def apply(self, given: Mapping[str, Any], *, dry_run: bool = False) -> dict[str, Any]:
        """Apply an object and return it as the API server stores it. Raises an error if the API server refuses it."""
        asked = [("fieldValidation", "Strict"), *([("dryRun", "All")] if dry_run else [])]
        kind = self.client.resources.get(api_version=given["apiVersion"], kind=given["kind"])
        meta = given["metadata"]
        made = self.client.server_side_apply(
            kind, dict(given), meta["name"], meta.get("namespace"), field_manager="gpu-ci", query_params=asked
        )
        found: dict[str, Any] = made.to_dict()
        return found

    def problems_of(self, given: Mapping[str, Any], *, dry_run: bool = True) -> list[str]:
        """Return all problems of an object that the API server reports, as `path: text`. A dry run stores nothing."""
        try:
            self.apply(given, dry_run=dry_run)
        except DynamicApiError as error:
            return _problems_in(json.loads(error.body))
        return []

    def ensure_account(self, namespace: str) -> None:
        """Wait for the default service account of a namespace. A controller creates it; before, no pod is accepted."""
        until(lambda: self.get("v1", "ServiceAccount", namespace, "default"), f"{namespace} has its account")

    def knows(self, given: Mapping[str, Any]) -> bool:
        try:
            self.client.resources.get(api_version=given["apiVersion"], kind=given["kind"])
        except ResourceNotFoundError:
            return False
        return True

    def get(self, version: str, kind: str, namespace: str | None = None, name: str | None = None) -> list[Any]:
        """Return one object, or the list of all objects if no name is given. The list is empty if none exists."""
        try:
            found = self.client.resources.get(api_version=version, kind=kind).get(name=name, namespace=namespace)
        except NotFoundError:
            return []
        return [found.to_dict()] if name else list(found.to_dict()["items"])

    def patch_status(
        self, version: str, kind: str, name: str, status: Mapping[str, Any], namespace: str | None = None
    ) -> None:
        self.client.resources.get(api_version=version, kind=kind).status.patch(
            name=name,
            namespace=namespace,
            body={"status": dict(status)},
            content_type="application/strategic-merge-patch+json",
        )

    def delete(self, version: str, kind: str, name: str, namespace: str | None = None) -> None:
        """Delete an object at once, because no kubelet ends its pod."""
        resource = self.client.resources.get(api_version=version, kind=kind)
        try:
            resource.delete(name=name, namespace=namespace, grace_period_seconds=0, propagation_policy="Background")
        except NotFoundError:
            return


def until(found: Callable[[], T | None], what: str) -> T:
    """Call the function repeatedly until it returns a value."""
    last = time.monotonic() + PATIENCE_SEC
    while True:
        answer = found()
        if answer:
            return answer
        assert time.monotonic() < last, f"after {PATIENCE_SEC} s still not: {what}"
        time.sleep(0.1)


def _problems_in(status: Mapping[str, Any]) -> list[str]:
    """Return the problems of a Status as `path: text`. The path is empty if the API server names no field."""
    causes = (status.get("details") or {}).get("causes") or []
    if causes:
        # `[]` is the path of the whole object.
        return [f"{one['field'].removeprefix('[]')}: {one['message']}" for one in causes]
    message = str(status["message"])
    if found := TYPED.search(message):
        return [line.strip().removeprefix(".") for line in found[1].splitlines()]
    found = UNPLACED.search(message)
    return [found[1] if found else message]


def numbered(line: str, given: Mapping[str, Any]) -> str:
    """Return the same problem with list elements named by their index, as programs do."""
    path, colon, text = line.partition(": ")
    while found := KEYED.search(path):
        wanted = {key: json.loads(value) for key, value in (one.split("=") for one in found[1].split(","))}
        listed = _at(given, path[: found.start()])
        at = next(
            at for at, one in enumerate(listed) if all(one.get(key, value) == value for key, value in wanted.items())
        )
        path = f"{path[: found.start()]}[{at}]{path[found.end() :]}"
    return path + colon + text


def _at(given: Any, path: str) -> Any:
    for step in re.findall(r"\w+", path):
        given = given[int(step)] if step.isdigit() else given[step]
    return given
