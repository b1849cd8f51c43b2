"""A Google Cloud in virtual time: machines that run commands, a bucket, and build steps that can be killed anywhere.

Each step is a thread, but only one runs at a time. It gives control back when it waits.
"""

from __future__ import annotations

import hashlib
import heapq
import itertools
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any, BinaryIO

from gpu_ci.gcp.gate.compute_api import ApiError, Operation
from gpu_ci.gcp.gpu_bridge.build import BridgeBuild, Options, refused
from gpu_ci.gcp.gpu_bridge.failures import BridgeError
from gpu_ci.gcp.gpu_bridge.protocol import Settings
from gpu_ci.gcp.gpu_bridge.storage import Entry

TEMPLATE = "projects/ci-project/regions/us-central1/instanceTemplates/l4-1"
ZONES = ("us-central1-a", "us-central1-b")
RUNGS = [{"zone": zone, "market": "spot", "machine_type": "g2-standard-8", "gpu": "nvidia-l4"} for zone in ZONES]
SETTINGS = Settings("ci-project", "l4", TEMPLATE, RUNGS, "acme-bridge", max=4)
EXHAUSTED = ApiError("ZONE_RESOURCE_POOL_EXHAUSTED", "us-central1-a has no such machine now.", 503)
CHECKED_SEC, FETCHED_SEC = 60.0, 70.0
"""When a machine has passed its check and begins its command, after its creation."""
UNAVAILABLE = ApiError("backendError", "The service is currently unavailable.", 503)


class Killed(BaseException):
    """The process of a step was killed: no further call is made."""


class Task:
    """A step that runs in its own thread."""

    def __init__(self, time: VirtualTime, work: Callable[[], None]) -> None:
        self.resume, self.yielded = threading.Semaphore(0), threading.Semaphore(0)
        self.is_dead = self.is_done = False
        self.failure: BaseException | None = None

        def run() -> None:
            self.resume.acquire()
            try:
                work()
            except Killed:
                pass
            except BaseException as error:  # reported by the thread of the test
                self.failure = error
            self.is_done = True
            self.yielded.release()

        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()
        time.push(0.0, self)


class VirtualTime:
    """The time of all steps."""

    def __init__(self) -> None:
        self.now_sec = 0.0
        self.current: Task | None = None
        self._queue: list[tuple[float, int, Task]] = []
        self._numbers = itertools.count()

    def push(self, seconds: float, task: Task) -> None:
        heapq.heappush(self._queue, (self.now_sec + seconds, next(self._numbers), task))

    def now(self) -> float:
        return self.now_sec

    def wait(self, event: Event, seconds: float) -> None:
        task = self.current
        assert task is not None
        self.push(seconds, task)
        task.yielded.release()
        task.resume.acquire()
        if task.is_dead:
            raise Killed

    def advance(self, seconds: float) -> None:
        """Let the steps run until this much time has passed, or until all have ended."""
        until = self.now_sec + seconds
        while self._queue and self._queue[0][0] <= until:
            at, _, task = heapq.heappop(self._queue)
            self.now_sec = max(self.now_sec, at)
            self.current = task
            task.resume.release()
            task.yielded.acquire()
            if task.failure:
                raise task.failure
        self.now_sec = until


@dataclass
class Machine:
    """A machine. Its command is `lines N exit CODE`: N lines, one a second."""

    zone: str
    body: dict[str, Any]
    born: float
    is_off: bool = False
    written: int = 0
    preempt_at: float | None = None

    request: dict[str, Any] = field(default_factory=dict)
    """The request, which the machine reads at its boot."""
    id: str = "1"

    @property
    def place(self) -> dict[str, str]:
        [text] = [item["value"] for item in self.body["metadata"]["items"] if item["key"] == "gpu-ci-build"]
        found: dict[str, str] = json.loads(text)
        return found

    @property
    def longest_sec(self) -> int:
        return int(self.body["scheduling"]["maxRunDuration"]["seconds"])


@dataclass
class Cloud:
    """The cloud of all steps."""

    time: VirtualTime = field(default_factory=VirtualTime)
    machines: dict[str, Machine] = field(default_factory=dict)
    objects: dict[str, tuple[bytes, str]] = field(default_factory=dict)
    """Content and digest by name."""
    preempted: list[tuple[str, str]] = field(default_factory=list)
    """Names and ids of preempted machines."""
    most_machines: int = 0
    inserts: list[tuple[str, str, str]] = field(default_factory=list)
    """Zone, template and provisioning model of each machine that was created."""
    zones: dict[str, ApiError] = field(default_factory=dict)
    """The error of each zone in which no machine can start."""
    verdict: str = "pass"
    reason: str = ""
    """The reason of a machine that fails its check."""
    is_cut: bool = False
    """True while no step reaches Google."""
    builds: dict[str, str] = field(default_factory=dict)
    """The status of each build in Cloud Build."""

    def tick(self) -> None:
        """Let the machines do what they have done until now, and let Google delete those whose time is over."""
        now = self.time.now_sec
        for name, machine in list(self.machines.items()):
            self._run(name, machine, now)
            if now >= machine.born + machine.longest_sec:
                del self.machines[name]
            elif machine.preempt_at is not None and now >= machine.preempt_at:
                self.preempted.append((name, machine.id))
                del self.machines[name]

    def _run(self, name: str, machine: Machine, now: float) -> None:
        age = min(now, machine.preempt_at if machine.preempt_at is not None else now) - machine.born
        if not machine.request and machine.place["name"] in self.objects:
            content, digest = self.objects[machine.place["name"]]
            assert digest == machine.place["sha256"]
            machine.request = json.loads(content)
        if machine.is_off or age < FETCHED_SEC or self.verdict != "pass" or not machine.request:
            return
        request = machine.request
        prefix, command = request["prefix"], request["command"]
        content, _ = self.objects.get(request["source"], (b"", ""))
        got = hashlib.sha256(content).hexdigest()
        if got != request["source_sha256"]:
            self._end(machine, prefix, failed="fetch", reason="wrong-source", detail=f"got sha256 {got}")
            return
        lines, code = int(command[1]), int(command[3])
        limit = min(lines, int(age - FETCHED_SEC), request["timeout_sec"])
        while machine.written < limit:
            machine.written += 1
            self.put(f"{prefix}log-{machine.written:08d}", f"line {machine.written}\n".encode())
        if limit == lines:
            self._end(machine, prefix, failed="command" if code else "", code=code)
        elif limit == request["timeout_sec"]:
            self._end(machine, prefix, failed="timeout", reason="timed-out", detail="the command did not end")

    def _end(
        self, machine: Machine, prefix: str, *, failed: str = "", reason: str = "", detail: str = "", code: int = 0
    ) -> None:
        result = {
            "format": 1, "failed": failed, "reason": reason, "detail": detail, "logs": machine.written,
            "exit_code": code if code >= 0 else None, "signal": -code if code < 0 else None,
            "artifacts": None, "seconds": {},
        }  # fmt: skip
        self.put(f"{prefix}result.json", json.dumps(result).encode())
        machine.is_off = True

    def put(self, name: str, content: bytes) -> None:
        self.objects[name] = (content, hashlib.sha256(content).hexdigest())

    def preempt(self, name: str) -> None:
        self.machines[name].preempt_at = self.time.now_sec

    def change(self, name: str, content: bytes) -> None:
        """Change an object's content, and keep its digest."""
        self.objects[name] = (content, self.objects[name][1])


@dataclass
class Client:
    """The cloud as one step sees it: the calls of Compute Engine and of Cloud Storage."""

    cloud: Cloud
    calls: int = 0
    killed_at: int | None = None
    """The call before which the process is killed."""
    failing: dict[int, ApiError] = field(default_factory=dict)
    """The errors of calls, by their number."""
    failing_polls: Callable[[str], ApiError | None] = lambda _: None
    """The error of a call that is repeated, by its name."""
    failures: int = 0
    task: Task | None = None
    names: list[str] = field(default_factory=list)

    def _called(self, name: str) -> None:
        task = self.cloud.time.current
        if task is not None and (task.is_dead or self.calls == self.killed_at):
            task.is_dead = True
            raise Killed
        self.calls += 1
        self.names.append(name)
        self.cloud.tick()
        if error := self.failing.get(self.calls - 1) or self.failing_polls(name):
            self.failures += 1
            raise error
        if self.cloud.is_cut:
            raise ApiError("unreachable", "cannot connect to the compute API: timed out")

    def template(self, project: str, region: str, name: str) -> dict[str, Any]:
        self._called("template")
        return {
            "labels": {},
            "metadata": {"items": [{"key": "startup-script", "value": "#!"}]},
            "scheduling": {"provisioningModel": "SPOT", "preemptible": True},
        }

    def insert(self, project: str, zone: str, body: dict[str, Any], template: str) -> Operation:
        self._called("insert")
        number = str(len(self.cloud.inserts) + 1)
        if zone not in self.cloud.zones:
            self.cloud.machines[body["name"]] = Machine(zone, body, self.cloud.time.now_sec, id=number)
            self.cloud.inserts.append((zone, template, body["scheduling"]["provisioningModel"]))
            self.cloud.most_machines = max(self.cloud.most_machines, len(self.cloud.machines))
        return Operation(f"insert {zone}", target_id=number)

    def delete(self, project: str, zone: str, name: str) -> str:
        self._called("delete")
        if name not in self.cloud.machines:
            raise ApiError("notFound", f"{name} was not found", 404)
        del self.cloud.machines[name]
        return "delete"

    def done(self, project: str, zone: str, operation: str) -> bool:
        self._called("done")
        if operation.startswith("insert") and (error := self.cloud.zones.get(zone)):
            raise error
        return True

    def instances(self, project: str, zone: str, label: str, value: str) -> list[str]:
        self._called("instances")
        rows = self.cloud.machines.items()
        return [name for name, row in rows if row.zone == zone and row.body["labels"].get(label) == value]

    def instances_of_all_zones(self, project: str, expression: str, fields: Any) -> list[dict[str, Any]]:
        self._called("aggregated")
        assert expression == "labels.gpu-ci-bridge=l4"
        return [
            {
                "name": name,
                "zone": f"zones/{row.zone}",
                "status": "TERMINATED" if row.is_off else "RUNNING",
                "labels": row.body["labels"],
            }
            for name, row in self.cloud.machines.items()
        ]

    def status(self, project: str, zone: str, name: str) -> tuple[str, str]:
        self._called("status")
        if name not in self.cloud.machines:
            raise ApiError("notFound", f"{name} was not found", 404)
        machine = self.cloud.machines[name]
        return "TERMINATED" if machine.is_off else "RUNNING", machine.id

    def guest_attribute(self, project: str, zone: str, name: str, key: str) -> str:
        self._called("guest attribute")
        machine = self.cloud.machines.get(name)
        if machine is None or self.cloud.time.now_sec - machine.born < CHECKED_SEC:
            return ""
        return json.dumps({"verdict": self.cloud.verdict, "reason": self.cloud.reason, "summary": "1 x NVIDIA L4"})

    def serial(self, project: str, zone: str, name: str, start: int) -> tuple[str, int]:
        self._called("serial")
        return "", 0

    def operations(self, project: str, zone: str, expression: str) -> Iterator[dict[str, Any]]:
        self._called("operations")
        found = [number for name, number in self.cloud.preempted if f'/instances/{name}"' in expression]
        return iter([{"targetId": number} for number in found])

    def find(self, name: str, *, once: bool = False) -> Entry | None:
        self._called("poll" if once else "find")
        found = self.cloud.objects.get(name)
        return Entry(len(found[0]), found[1], found) if found else None

    def read(self, entry: Entry, sink: BinaryIO, *, once: bool = False) -> None:
        self._called("poll" if once else "read")
        sink.write(entry.blob[0])

    def write(self, name: str, content: bytes) -> None:
        self._called("write")
        self.cloud.put(name, content)

    def remove(self, name: str) -> None:
        self._called("remove")
        self.cloud.objects.pop(name, None)

    def upload(self, name: str, path: Path, sha256: str) -> None:
        self._called("upload")
        self.cloud.put(name, path.read_bytes())


@dataclass
class Bucket:
    """The bucket of a client. It is separate, because both APIs have a method `delete`."""

    client: Client

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)

    def delete(self, name: str) -> None:
        self.client.remove(name)


class Step:
    """A step with its client, its output and its exit code."""

    def __init__(
        self,
        cloud: Cloud,
        folder: Path,
        number: int = 1,
        lines: int = 3,
        code: int = 0,
        settings: Settings = SETTINGS,
        **options: Any,
    ) -> None:
        self.cloud, self.client = cloud, Client(cloud)
        self.printed = b""
        self.log: list[str] = []
        self.code: int | None = None
        self.error: BridgeError | None = None
        self.cancel = Event()
        self.build_id = f"build-{number}"
        cloud.builds[self.build_id] = "WORKING"
        command = ["lines", str(lines), "exit", str(code)]
        self.expected = b"".join(f"line {line}\n".encode() for line in range(1, lines + 1))
        made = Options(command, self.build_id, folder=folder, **options)
        bucket: Any = Bucket(self.client)
        self.build = BridgeBuild(
            settings, made, self.client, bucket, self.log.append, self._print, self.cancel, cloud.time,
            lambda: cloud.time.now_sec, f"token{number}",
        )  # fmt: skip
        self.task = Task(cloud.time, self._run)

    def _print(self, content: bytes) -> None:
        self.printed += content

    def _run(self) -> None:
        try:
            self.code = self.build.run()
        except BridgeError as error:
            self.error, self.code = error, error.code
        except ApiError as error:
            self.error = refused(error)
            self.code = self.error.code
        self.cloud.builds[self.build_id] = "SUCCESS" if self.code == 0 else "FAILURE"

    def kill(self) -> None:
        """Kill the process of the step. Cloud Build then ends the build."""
        self.task.is_dead = True
        self.cloud.builds[self.build_id] = "FAILURE"

    @property
    def is_over(self) -> bool:
        return self.task.is_done
