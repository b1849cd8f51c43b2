"""Sends objects to the real API server as pulumi-kubernetes does: by server-side apply, and with strict field
validation.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from kubernetes.dynamic import DynamicClient
from kubernetes.dynamic.exceptions import DynamicApiError, NotFoundError, ResourceNotFoundError

T = TypeVar("T")
PATIENCE_SEC = 90


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

    def refusal(self, given: Mapping[str, Any]) -> str:
        """Return the message with which the API server refuses an object; empty if it accepts. Nothing is stored."""
        try:
            self.apply(given, dry_run=True)
        except DynamicApiError as error:
            return str(json.loads(error.body)["message"])
        return ""

    def ensure_account(self, namespace: str) -> None:
        """Wait for the default service account of a namespace. A controller creates it; before, no pod is accepted."""
        until(lambda: self.get("v1", "ServiceAccount", namespace, "default"), f"{namespace} has its account")

    def knows(self, version: str, kind: str) -> bool:
        try:
            self.client.resources.get(api_version=version, kind=kind)
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

    def merge(self, version: str, kind: str, namespace: str | None, name: str, change: Mapping[str, Any]) -> None:
        """Change fields of an object (JSON merge patch)."""
        self.client.resources.get(api_version=version, kind=kind).patch(
            name=name, namespace=namespace, body=dict(change), content_type="application/merge-patch+json"
        )

    def token(self, namespace: str, account: str) -> str:
        """Return a token of a service account."""
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 7200}}
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        return str(self.client.request("post", path, body=body).to_dict()["status"]["token"])

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
