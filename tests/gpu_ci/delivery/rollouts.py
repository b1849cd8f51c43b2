"""Runs rollouts against the fake endpoint."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from gpu_ci.delivery.rollout import decide
from gpu_ci.delivery.rollout.loop import Clock, ConflictError, Event, UnavailableError, run
from gpu_ci.delivery.rollout.settings import Settings
from gpu_ci.delivery.targets.vertex import Monitoring, VertexEndpoint
from gpu_ci.gcp.gate.vertex_api import VertexApi

from .fake_vertex import ENDPOINT, FakeVertex, Killed

GOOD, BAD = "4", "5"
QUICK = {"steps": [{"percent": 10, "minutes": 5}, {"percent": 50, "minutes": 5}], "bakeMinutes": 5, "maxHold": 20}


def settings(**changed: Any) -> Settings:
    quick = QUICK if changed.get("strategy", "canary") == "canary" else {**QUICK, "steps": None}
    return Settings.model_validate({key: value for key, value in (quick | changed).items() if value is not None})


def target(fake: FakeVertex) -> VertexEndpoint:
    """Return the endpoint of the fake, through Google's client."""

    class Api(VertexApi):
        def _connection(self) -> Any:
            return fake

    class Counts(Monitoring):
        def _connection(self) -> Any:
            return fake

    return VertexEndpoint(ENDPOINT, Api("europe-west4", retries=0), Counts(retries=0))


class Rollout:
    """A rollout on a fake endpoint, with the commands of a user."""

    def __init__(self, fake: FakeVertex | None = None, **changed: Any) -> None:
        self.fake = fake or FakeVertex()
        self.fake.rates.setdefault(BAD, 0.3)
        self.settings = settings(**changed)
        self.target = target(self.fake)
        self.events: list[Event] = []

    def start(self, version: str = GOOD) -> decide.Write | decide.End:
        return self._write(
            lambda: decide.start(self.target.read(), "scan", version, self.settings, int(self.fake.now))
        )

    def command(self, make: Callable[..., decide.Write | None], *arguments: Any) -> decide.Write | None:
        return self._write(lambda: make(self.target.read(), *arguments))

    def _write(self, make: Callable[[], Any]) -> Any:
        for _ in range(20):
            try:
                action = make()
                if isinstance(action, decide.Write):
                    state = self.target.read()
                    self.target.write(state, action.split, state.merged(action.journal))
                return action
            except (ConflictError, UnavailableError):
                self.fake.sleep(1)
        raise AssertionError("20 conflicts in a row")

    def watch(self, minutes: float | None = None) -> decide.End:
        until = None if minutes is None else self.fake.now + 60 * minutes
        return run(self.target, self.settings, Clock(lambda: self.fake.now, self.fake.sleep), self.events.append, until)

    def patches(self) -> list[dict[str, Any]]:
        return [body for kind, body in self.fake.changes if kind == "patch"]

    def splits(self) -> list[dict[str, int]]:
        """Return the different traffic splits in their order."""
        return [each for at, each in enumerate(self.fake.splits) if not at or each != self.fake.splits[at - 1]]


FAULTS = (
    "lost-request", "lost-answer", "kill-before", "kill-after", "other-writer", "failed-operation", "quota", "outage",
    "late-metrics",
)  # fmt: skip


class History:
    """A random rollout with faults, continued until it ends."""

    def __init__(self, seed: int) -> None:
        self.random = choice = random.Random(seed)
        fake = FakeVertex(seed, stable=choice.random() > 0.1)
        machine = None if fake.models else {"type": "g2-standard-8", "accelerator": "NVIDIA_L4"}
        strategy = choice.choice(["canary", "canary", "blue-green", "immediate"])
        self.rollout = Rollout(
            fake, strategy=strategy, machine=machine, keep=choice.choice([1, 3]),
            onMaxHold=choice.choice(["pause", "rollback"]), latency=choice.choice([None, {"limitMs": 200}]),
        )  # fmt: skip
        self.version = choice.choice([GOOD, BAD])
        fake.per_minute = choice.choice([0, 60, 600])
        self.chance = choice.choice([0.0, 0.05, 0.2])
        fake.fault = self.fault
        fake.other_writer = self.other_writer
        self.foreign = False
        self.ends: list[decide.End] = []

    def fault(self, number: int, method: str, path: str) -> str | None:
        is_in_metrics = "timeSeries" in path
        if self.random.random() >= self.chance:
            return None
        return self.random.choice([each for each in FAULTS if (each == "late-metrics") <= is_in_metrics])

    def other_writer(self) -> None:
        """Change labels, or rarely the split, as a person in the console does."""
        fake = self.rollout.fake
        if self.random.random() < 0.1 and fake.models:
            self.foreign = True
            fake.set_split({self.random.choice(list(fake.models)): 100})
        else:
            fake.relabel()

    def run(self) -> decide.End:
        """Return the last end. Programs that are killed are started again after some minutes."""
        rollout, fake = self.rollout, self.rollout.fake
        for _ in range(200):
            try:
                try:
                    started = rollout.start(self.version)
                    if isinstance(started, decide.End) and started.status == "done":
                        return started
                    end = rollout.watch(self.random.choice([None, 20]))
                except decide.RefusedError as error:
                    return decide.End("error", "refused", str(error))
                self.ends.append(end)
                if end.status in ("done", "rolled-back", "none"):
                    return end
                if end.status in ("paused", "error"):
                    if self.random.random() < 0.5:
                        rollout.command(decide.resume, int(fake.now))
                    else:
                        rollout.command(decide.roll_back, int(fake.now))
                        end = rollout.watch()
                        self.ends.append(end)
                        return end
            except Killed:
                fake.sleep(self.random.choice([1, 60, 900]))
            except decide.RefusedError as error:
                return decide.End("error", "refused", f"{error}: {error.got}")
        raise AssertionError(f"no end: {self.ends[-3:]}")
