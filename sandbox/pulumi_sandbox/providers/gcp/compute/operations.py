"""The zonal and global operations of the Compute Engine API, in the emulated cloud state."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime

from pulumi_sandbox.providers.gcp import errors
from pulumi_sandbox.providers.gcp.compute.requests import Json, Request
from pulumi_sandbox.providers.gcp.names import everywhere, in_zone, self_link
from pulumi_sandbox.providers.machines.metadata import operator
from pulumi_sandbox.world.store import World

# The keys of the settings with the operations, and with the operation of a requestId.
OPERATION, REQUEST = "gcp/operation/", "gcp/request/"
USER: ContextVar[str | None] = ContextVar("user", default=None)
"""The account of the request that is answered. Without one, it is the sandbox's user."""
HTTP_PHRASES = {403: "FORBIDDEN", 503: "SERVICE UNAVAILABLE"}


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def number() -> str:
    """Return a random id of 19 digits, as the API returns."""
    return str(10**18 + secrets.randbelow(8 * 10**18))


class Operations:
    """The operations of the API, which all servers of a sandbox share."""

    def __init__(self, world: World) -> None:
        self.world = world

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
        self._store(operation, time.time() + sec)
        return self._operation_json(operation, time.time() + max(sec, 1))

    def get(self, zone: str, name: str) -> Json | None:
        stored = json.loads(self.world.setting(f"{OPERATION}{name}") or "null")
        if stored is None or not str(stored["operation"].get("zone", "/zones/")).endswith(f"/zones/{zone}"):
            return None
        return self._operation_json(**stored)

    def found(self, request: Request, zone: str, name: str) -> Json:
        """Answer the method get of zonal operations and, with an empty zone, of global ones."""
        operation = self.get(zone, name)
        if operation is None:
            project, kind = request.project, "operations"
            raise errors.not_found(in_zone(project, zone, kind, name) if zone else everywhere(project, kind, name))
        return operation

    def listed(self, request: Request, zone: str) -> Json:
        """Answer the method list of zonal operations, oldest first."""
        zone_link = self_link(f"projects/{request.project}/zones/{zone}")
        stored = map(json.loads, self.world.settings(OPERATION))
        rows = [self._operation_json(**each) for each in stored if each["operation"].get("zone") == zone_link]
        rows.sort(key=lambda operation: str(operation["insertTime"]))
        return request.listed("operationList", f"zones/{zone}/operations", rows)

    def finish(self, name: str, sec: float) -> None:
        """Finish a running operation in `sec` seconds, or earlier if it was due earlier."""
        stored = json.loads(self.world.setting(f"{OPERATION}{name}") or "null")
        if stored:
            self._store(stored["operation"], min(stored["done"], time.time() + sec))

    def of_request(self, request_id: str, zone: str) -> Json | None:
        """Return the operation that a request with this requestId started."""
        name = self.world.setting(f"{REQUEST}{request_id}")
        return self.get(zone, name) if name else None

    def remember(self, request_id: str, name: str) -> None:
        self.world.set_setting(f"{REQUEST}{request_id}", name)

    def _operation_json(self, operation: Json, done: float) -> Json:
        if time.time() >= done:
            return operation | {"status": "DONE", "progress": 100, "endTime": now()}
        return {
            key: value
            for key, value in operation.items()
            if key not in ("error", "httpErrorStatusCode", "httpErrorMessage")
        } | {"status": "RUNNING", "progress": 0}

    def _store(self, operation: Json, done: float) -> None:
        self.world.set_setting(f"{OPERATION}{operation['name']}", json.dumps({"operation": operation, "done": done}))
