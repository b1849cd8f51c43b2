"""Zonal operations of the Compute Engine API, kept in files so that every server of this sandbox answers for them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pulumi_sandbox.providers.gcp.names import in_zone, self_link
from pulumi_sandbox.providers.machines.metadata import operator

Json = dict[str, Any]

# The documents call it "limited": long enough for whoever waits, short enough not to pile up.
RETENTION_SEC = 24 * 3600
HTTP_PHRASES = {403: "FORBIDDEN", 503: "SERVICE UNAVAILABLE"}


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def number() -> str:
    """An id such as the API gives: 19 digits."""
    return str(10**18 + secrets.randbelow(8 * 10**18))


class Operations:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(
        self,
        project: str,
        zone: str,
        kind: str,
        target: str,
        *,
        error: Json | None = None,
        code: int = 0,
        sec: float = 0,
        fields: Mapping[str, str] | None = None,
    ) -> Json:
        """Begin one; it is done after `sec` seconds, with the error if there is one. `fields` are more of its own."""
        name = (
            f"operation-{int(time.time() * 1000)}-{secrets.token_hex(6)}-{secrets.token_hex(4)}-{secrets.token_hex(4)}"
        )
        path = in_zone(project, zone, "operations", name)
        operation: Json = {
            "kind": "compute#operation",
            "id": number(),
            "name": name,
            "zone": self_link(f"projects/{project}/zones/{zone}"),
            "operationType": kind,
            "targetLink": self_link(target),
            "targetId": number(),
            "user": operator(project),
            "insertTime": now(),
            "startTime": now(),
            "selfLink": self_link(path),
            **(fields or {}),
        }
        if error is not None:
            operation["error"] = {"errors": [error]}
            operation |= {"httpErrorStatusCode": code, "httpErrorMessage": HTTP_PHRASES.get(code, "BAD REQUEST")}
        self._store(name, {"operation": operation, "done": time.time() + sec})
        return self._operation_json(operation, time.time() + max(sec, 1))

    def get(self, zone: str, name: str) -> Json | None:
        try:
            kept = json.loads((self.folder / f"{name}.json").read_text()) if re.fullmatch(r"[-\w]+", name) else None
        except (OSError, ValueError):
            return None
        if kept is None or not kept["operation"]["zone"].endswith(f"/zones/{zone}"):
            return None
        return self._operation_json(kept["operation"], kept["done"])

    def all(self, project: str, zone: str) -> list[Json]:
        """Those of a zone, oldest first. They are kept for a day."""
        here = self_link(f"projects/{project}/zones/{zone}")
        found = []
        for file in self.folder.glob("operation-*.json"):
            with contextlib.suppress(OSError, ValueError):  # removed meanwhile, as it is too old
                kept = json.loads(file.read_text())
                if kept["operation"]["zone"] == here:
                    found.append(self._operation_json(kept["operation"], kept["done"]))
        return sorted(found, key=lambda one: str(one["insertTime"]))

    def finish(self, name: str, sec: float) -> None:
        """One that has begun is done after `sec` seconds from now, and no later than it would have been."""
        file = self.folder / f"{name}.json"
        with contextlib.suppress(OSError, ValueError):  # too old, or removed
            kept = json.loads(file.read_text())
            self._store(name, {**kept, "done": min(kept["done"], time.time() + sec)})

    def of_request(self, identity: str, zone: str) -> Json | None:
        """The operation that a request with this requestId began."""
        try:
            name = (self.folder / f"request-{identity}").read_text()
        except OSError:
            return None
        return self.get(zone, name)

    def remember(self, identity: str, name: str) -> None:
        (self.folder / f"request-{identity}").write_text(name)

    def wait(self, zone: str, name: str, most_sec: float = 120) -> Json | None:
        """As the API's wait does: returns when it is done, or after two minutes at most."""
        until = time.time() + most_sec
        while (operation := self.get(zone, name)) and operation["status"] != "DONE" and time.time() < until:
            time.sleep(0.05)
        return operation

    def _operation_json(self, operation: Json, done: float) -> Json:
        if time.time() >= done:
            return operation | {"status": "DONE", "progress": 100, "endTime": now()}
        return {
            key: value
            for key, value in operation.items()
            if key not in ("error", "httpErrorStatusCode", "httpErrorMessage")
        } | {
            "status": "RUNNING",
            "progress": 0,
        }

    def _store(self, name: str, kept: Json) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for old in (*self.folder.glob("operation-*.json"), *self.folder.glob("request-*")):
            if time.time() - old.stat().st_mtime > RETENTION_SEC:
                old.unlink(missing_ok=True)
        draft = self.folder / f".{name}.{os.getpid()}"
        # Errors quote what a user wrote: for the user alone, as the world is.
        with os.fdopen(os.open(draft, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as file:
            file.write(json.dumps(kept))
        draft.replace(self.folder / f"{name}.json")
