"""The calls of GitHub's Actions service by which ARC registers scale sets and runners (actions/scaleset v0.4.0,
client.go). No job arrives.
"""

from __future__ import annotations

import base64
import itertools
import json
import time
from typing import Any
from urllib.parse import parse_qs

from pulumi_sandbox.providers.machines.local_server import Answer, LocalServer, Request, as_json

SCALE_SETS = "/_apis/runtime/runnerscalesets"


class ActionsService:
    """One organization with any runner group. Each scale set is new, and in the group that was looked up last."""

    def __init__(self) -> None:
        self.server = LocalServer("actions", self._answer, ("GET", "POST", "PATCH", "DELETE"))
        self.url = f"http://{self.server.address}"
        self._numbers, self._group = itertools.count(1), ""

    def _answer(self, request: Request) -> Answer:
        path, _, query = request.path.partition("?")
        given = json.loads(request.content or b"{}")
        later = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))
        if path.endswith(("/access_tokens", "/registration-token")):
            return as_json(201, {"token": "token", "expires_at": later})
        if path.endswith("/runner-registration"):
            parts = {"alg": "HS256"}, {"exp": int(time.time()) + 3600}
            token = ".".join(base64.urlsafe_b64encode(json.dumps(one).encode()).decode().rstrip("=") for one in parts)
            return as_json(200, {"url": self.url, "token": f"{token}.e30"})
        if path.startswith("/_apis/runtime/runnergroups"):
            self._group = parse_qs(query)["groupName"][0]
            return as_json(200, {"count": 1, "value": [{"id": 1, "name": self._group}]})
        return self._scale_sets(request.command, path, given)

    def _scale_sets(self, method: str, path: str, given: dict[str, Any]) -> Answer:
        if path.endswith("/generatejitconfig"):
            runner = {"id": next(self._numbers), "name": given["name"]}
            return as_json(200, {"runner": runner, "encodedJITConfig": "e30="})
        if method == "DELETE":
            return Answer(204, "", "application/json")
        if method in ("POST", "PATCH"):
            number = next(self._numbers) if method == "POST" else int(path.rpartition("/")[2])
            return as_json(200, {**given, "id": number, "runnerGroupName": self._group})
        return as_json(200, {"count": 0, "value": []})
