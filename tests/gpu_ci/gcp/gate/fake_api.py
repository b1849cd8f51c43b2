"""A Google for gate tests: zones with machines or without, machines that answer or not, time only the gate spends.

Its limits are Compute Engine's: queries of guest attributes by rate, and states in which a VM does not answer.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Event
from typing import Any

from gpu_ci.gcp.gate.compute_api import ApiError, Operation

EXHAUSTED = "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS"
PASSED = json.dumps({"verdict": "pass", "exit_code": 0, "summary": "1 x NVIDIA L4 computes"})
FAILED = json.dumps({"verdict": "fail", "exit_code": 1, "summary": "GPU 0: wrong numbers"})


@dataclass
class FakeClock:
    """A clock whose time passes only during a wait."""

    time: float = 0.0
    pause: float = 0.0

    def now(self) -> float:
        return self.time

    def wait(self, event: Event, seconds: float) -> None:
        self.time += seconds
        if self.pause:  # for tests in which something else must get to run meanwhile
            event.wait(self.pause)


@dataclass
class Machine:
    zone: str
    body: dict[str, Any]
    template: str
    born: float


@dataclass
class FakeGoogle:
    """The behaviour of each zone: `run` creates the machine, and an ApiError is the result of the operation."""

    clock: FakeClock
    zones: Mapping[str, ApiError | None] = field(default_factory=dict)
    boots_in: float = 10.0
    verdict: str | None = PASSED
    verdict_after: float = 60.0
    stops_after: float | None = None
    stops_for: float = 0.0
    """The seconds for which the machine is STOPPING before it is off."""
    gone_after: float | None = None
    serial_text: str = ""
    serial_after: float = 0.0
    serial_error: ApiError | None = None
    attribute_error: ApiError | None = None
    account_known_after: float = 0.0
    account_error: ApiError | None = None
    queries: list[float] = field(default_factory=list)
    refused_queries: int = 0
    """Queries of guest attributes that were above the limits."""
    serial_reads: list[int] = field(default_factory=list)
    """The position at which each read of the serial port began."""
    delete_error: ApiError | None = None
    labels: dict[str, str] = field(default_factory=dict)
    leftovers: dict[str, list[str]] = field(default_factory=dict)
    managed: list[dict[str, Any]] = field(default_factory=list)
    """Machines of a runner manager, as Google lists them."""
    stop_takes: float = 20.0
    """Until when a machine of the manager is STOPPING."""
    machines: dict[str, Machine] = field(default_factory=dict)
    log: list[tuple[str, ...]] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    on_status: Callable[[], None] = lambda: None
    status_error: ApiError | None = None
    status_fails: tuple[float, float] = (0.0, 0.0)
    """The start and the end of the time in which Google answers a request for the state with that error."""
    provisioning_model: str = "SPOT"
    replaced_after: float | None = None
    """When another machine has the name, after the creation of the check machine."""

    def template(self, project: str, region: str, name: str) -> dict[str, Any]:
        self.log.append(("template", project, region, name))
        return {
            "labels": {"gpu-ci-pool": "l4"},
            "metadata": {"items": [{"key": "startup-script", "value": "#!"}, {"key": "gpu-ci-role", "value": "pool"}]},
            "scheduling": {"provisioningModel": self.provisioning_model, "maxRunDuration": {"seconds": "14400"}},
        }

    def insert(self, project: str, zone: str, body: dict[str, Any], template: str) -> Operation:
        # The forms that the discovery document compute v1 has for sourceInstanceTemplate have no query.
        assert "?" not in template
        self.log.append(("insert", zone))
        self.bodies.append(body)
        if self.account_error and self.clock.now() < self.account_known_after:
            raise self.account_error
        if self.zones.get(zone) is None:
            self.machines[body["name"]] = Machine(zone, body, template, self.clock.now())
        return Operation(f"insert-{zone}", target_id="1")

    def delete(self, project: str, zone: str, name: str) -> str:
        self.log.append(("delete", zone))
        if self.delete_error:
            raise self.delete_error
        if any(row["name"] == name for row in self.managed):
            self.managed = [row for row in self.managed if row["name"] != name]
            return f"delete-{zone}"
        if name in self.leftovers.get(zone, []):
            self.leftovers[zone].remove(name)
        elif name not in self.machines:
            raise ApiError("notFound", f"{name} was not found", 404)
        self.machines.pop(name, None)
        return f"delete-{zone}"

    def done(self, project: str, zone: str, operation: str) -> bool:
        error = self.zones.get(zone)
        if operation.startswith("insert") and error:
            raise error
        return not operation.startswith("insert") or self._age(zone) >= self.boots_in

    def instances(self, project: str, zone: str, label: str, value: str) -> list[str]:
        assert label == "gpu-ci-gate"
        return list(self.leftovers.get(zone, []))

    def instances_of_all_zones(self, project: str, expression: str, fields: Any) -> list[dict[str, Any]]:
        """Filtered as Google does, by one label and its value, and the project."""
        self.log.append(("list", project))
        label, _, value = expression.removeprefix("labels.").partition("=")
        for row in self.managed:
            if row["status"] == "STOPPING" and self.clock.now() >= self.stop_takes:
                row["status"] = "TERMINATED"
        found = [row for row in self.managed if row["labels"].get(label) == value]
        return [{key: row[key] for key in fields} for row in found]

    def status(self, project: str, zone: str, name: str) -> tuple[str, str]:
        if states := [row.get("status by now", row["status"]) for row in self.managed if row["name"] == name]:
            return str(states[0]), "2"
        self.on_status()
        first, last = self.status_fails
        if self.status_error and first <= self.clock.now() < last:
            raise self.status_error
        age = self._age(zone)
        if self.gone_after is not None and age >= self.gone_after:
            raise ApiError("notFound", f"{name} was not found", 404)
        if self.replaced_after is not None and age >= self.replaced_after:
            return "RUNNING", "9"
        if self.stops_after is None or age < self.stops_after:
            return "RUNNING", "1"
        return "STOPPING" if age < self.stops_after + self.stops_for else "TERMINATED", "1"

    def guest_attribute(self, project: str, zone: str, name: str, key: str) -> str:
        """docs.cloud.google.com/compute/docs/metadata/manage-guest-attributes: 10 queries a minute, 3 a second."""
        assert key == "gpu-smoke/verdict"
        if self.attribute_error:
            raise self.attribute_error
        now = self.clock.now()
        if any(sum(now - at < seconds for at in self.queries) >= most for most, seconds in ((10, 60), (3, 1))):
            self.refused_queries += 1
            raise ApiError("rateLimitExceeded", "Quota exceeded for guest attribute queries.", 429)
        self.queries.append(now)
        there = self.verdict is not None and self._age(zone) >= self.verdict_after
        return str(self.verdict) if there else ""

    def serial(self, project: str, zone: str, name: str, start: int) -> tuple[str, int]:
        """503 while the machine stops (GoogleCloudPlatform/compute-image-tools#456), nothing of one that is off."""
        self.serial_reads.append(start)
        if self.serial_error:
            raise self.serial_error
        state, _ = self.status(project, zone, name)
        if state == "STOPPING":
            raise ApiError("backendError", "TIMEOUT", 503)
        if state == "TERMINATED":
            return "", 0
        text = self.serial_text if self._age(zone) >= self.serial_after else ""
        return text[start:], len(text)

    def _age(self, zone: str) -> float:
        (machine,) = [machine for machine in self.machines.values() if machine.zone == zone]
        return self.clock.now() - machine.born


def result_line(answer: str) -> str:
    """The verdict as the boot script prints it on the serial port."""
    return f"SMOKE-RESULT {base64.b64encode(answer.encode()).decode()}"


def step_line(name: str) -> str:
    """A step as the agent prints it on the serial port."""
    return f"GPU-AGENT-STEP {json.dumps({'step': name, 'seconds': 2.5})}\r\n"
