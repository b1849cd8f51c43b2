"""Store zonal and global operations of the Compute Engine API in files that all servers of a sandbox share."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import time
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pulumi_sandbox.providers.gcp.names import everywhere, in_zone, self_link
from pulumi_sandbox.providers.machines.metadata import operator

Json = dict[str, Any]

# Google's documents give no figure and call the retention "limited". One day is longer than any wait.
RETENTION_SEC = 24 * 3600
USER: ContextVar[str | None] = ContextVar("user", default=None)
"""The account of the request that is answered. Without one, it is the sandbox's user."""
HTTP_PHRASES = {403: "FORBIDDEN", 503: "SERVICE UNAVAILABLE"}


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def number() -> str:
    """Return a random id of 19 digits, as the API returns."""
    return str(10**18 + secrets.randbelow(8 * 10**18))


class Operations:
    """The operations of the API, each in one file of a folder."""

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
        """Start an operation that is done after `sec` seconds, with `error` if it is given.

        `fields` are further fields of the operation. Without a zone, the operation is global.
        """
        name = (
            f"operation-{int(time.time() * 1000)}-{secrets.token_hex(6)}-{secrets.token_hex(4)}-{secrets.token_hex(4)}"
        )
        path = in_zone(project, zone, "operations", name) if zone else everywhere(project, "operations", name)
        place = {"zone": self_link(f"projects/{project}/zones/{zone}")} if zone else {}
        operation: Json = {
            "kind": "compute#operation",
            "id": number(),
            "name": name,
            **place,
            "operationType": kind,
            "targetLink": self_link(target),
            "targetId": number(),
            "user": USER.get() or operator(project),
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
            stored = json.loads((self.folder / f"{name}.json").read_text()) if re.fullmatch(r"[-\w]+", name) else None
        except (OSError, ValueError):
            return None
        if stored is None or not str(stored["operation"].get("zone", "/zones/")).endswith(f"/zones/{zone}"):
            return None
        return self._operation_json(stored["operation"], stored["done"])

    def all(self, project: str, zone: str) -> list[Json]:
        """Return the operations of a zone, oldest first. Operations are deleted after one day."""
        zone_link = self_link(f"projects/{project}/zones/{zone}")
        operations = []
        for file in self.folder.glob("operation-*.json"):
            with contextlib.suppress(OSError, ValueError):  # another process removed the old file
                stored = json.loads(file.read_text())
                if stored["operation"].get("zone") == zone_link:
                    operations.append(self._operation_json(stored["operation"], stored["done"]))
        return sorted(operations, key=lambda operation: str(operation["insertTime"]))

    def finish(self, name: str, sec: float) -> None:
        """Finish a running operation in `sec` seconds, or earlier if it was due earlier."""
        file = self.folder / f"{name}.json"
        with contextlib.suppress(OSError, ValueError):  # already removed
            stored = json.loads(file.read_text())
            self._store(name, {**stored, "done": min(stored["done"], time.time() + sec)})

    def of_request(self, request_id: str, zone: str) -> Json | None:
        """Return the operation that a request with this requestId started."""
        try:
            name = (self.folder / f"request-{request_id}").read_text()
        except OSError:
            return None
        return self.get(zone, name)

    def remember(self, request_id: str, name: str) -> None:
        (self.folder / f"request-{request_id}").write_text(name)

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

    def _store(self, name: str, stored: Json) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for old in (*self.folder.glob("operation-*.json"), *self.folder.glob("request-*")):
            if time.time() - old.stat().st_mtime > RETENTION_SEC:
                old.unlink(missing_ok=True)
        draft = self.folder / f".{name}.{os.getpid()}"
        # Errors quote the user's inputs, so only the user may read the file, as with the emulated state.
        with os.fdopen(os.open(draft, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as file:
            file.write(json.dumps(stored))
        draft.replace(self.folder / f"{name}.json")
