"""Speaks to the sandbox's Compute Engine API over HTTP, as a client library would."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from pulumi_sandbox.providers.gcp.compute.vm_store import INSTANCE, SERIAL
from pulumi_sandbox.providers.gcp.names import in_zone
from pulumi_sandbox.providers.machines.metadata import TOKEN

from tests.sandbox.providers.gcp.conftest import Google

ZONE = "us-central1-a"
WAIT_SEC = 60.0
MAX_PAUSE_SEC = 0.25
# Never use a proxy of the user who runs the tests.
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass
class Api:
    google: Google
    token: str = f"Bearer {TOKEN}"

    def call(self, method: str, path: str, body: Any = None, **query: str) -> tuple[int, dict[str, Any]]:
        port = self.google.workspace.compute_port
        url = f"http://127.0.0.1:{port}/compute/v1/projects/ci-project/{path}?{urlencode(query)}"
        headers = {"Authorization": self.token} if self.token else {}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, headers, method=method)
        try:
            with OPENER.open(request, timeout=WAIT_SEC) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def ok(self, method: str, path: str, body: Any = None, **query: str) -> dict[str, Any]:
        status, answer = self.call(method, path, body, **query)
        assert status == 200, answer
        return answer

    def insert(self, template: str, name: str = "check", zone: str = ZONE, **body: Any) -> dict[str, Any]:
        """The finished operation of an insert."""
        begun = self.ok("POST", f"zones/{zone}/instances", {"name": name, **body}, sourceInstanceTemplate=template)
        return self.done(begun["name"], zone)

    def done(self, operation: str, zone: str = ZONE) -> dict[str, Any]:
        """The operation, once it is done."""
        found: dict[str, Any] = {}

        def is_done() -> bool:
            nonlocal found
            found = self.ok("GET", f"zones/{zone}/operations/{operation}")
            return bool(found["status"] == "DONE")

        self.until(is_done, "DONE")
        return found

    def instance(self, name: str = "check", zone: str = ZONE) -> dict[str, Any]:
        return self.ok("GET", f"zones/{zone}/instances/{name}")

    def serial(self, name: str = "check", zone: str = ZONE) -> str:
        """Return the serial port's output so far. The API has no output of a machine that is off."""
        record = self.google.world.get(INSTANCE, in_zone("ci-project", zone, "instances", name))
        assert record is not None
        return str(record.outputs.get(SERIAL, ""))

    def until(self, true: Callable[[], bool], what: str) -> None:
        """Wait for what the machine does in its own time, with pauses."""
        end, pause_sec = time.monotonic() + WAIT_SEC, 0.02
        while not true():
            assert time.monotonic() < end, f"it never came to this: {what}"
            time.sleep(pause_sec)
            pause_sec = min(pause_sec * 1.2, MAX_PAUSE_SEC)

    def off(self, name: str = "check") -> str:
        """Wait until the machine is off; what its serial port printed."""
        self.until(lambda: self.instance(name)["status"] == "TERMINATED", "TERMINATED")
        return self.serial(name)


def script(text: str, **metadata: str) -> dict[str, dict[str, str]]:
    return {"metadata": {"startup-script": text, "enable-guest-attributes": "TRUE", **metadata}}


def printed(serial: str) -> list[str]:
    return [
        line.removeprefix("startup-script: ") for line in serial.splitlines() if line.startswith("startup-script: ")
    ]
