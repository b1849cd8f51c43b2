"""Runs rollouts against the fake endpoint."""

from __future__ import annotations

import random
from collections.abc import Callable
from copy import copy
from functools import cache
from typing import Any

from gpu_ci.delivery.rollout import decide
from gpu_ci.delivery.rollout.loop import Clock, Event, command, run
from gpu_ci.delivery.rollout.settings import Settings
from gpu_ci.delivery.targets.vertex import Monitoring, VertexEndpoint
from gpu_ci.gcp.gate.vertex_api import VertexApi

from .fake_vertex import ENDPOINT, FakeVertex, Killed

GOOD, BAD = "4", "5"
QUICK = {"steps": [{"percent": 10, "minutes": 5}, {"percent": 50, "minutes": 5}], "bakeMinutes": 5, "maxHold": 20}


def settings(**changed: Any) -> Settings:
    quick = QUICK if changed.get("strategy", "canary") == "canary" else {**QUICK, "steps": None}
    return Settings.model_validate({key: value for key, value in (quick | changed).items() if value is not None})


class Connected:
    """Google's client with a fake as its connection."""

    fake: FakeVertex

    def _connection(self) -> Any:
        return self.fake


class Api(Connected, VertexApi):
    pass


class Counts(Connected, Monitoring):
    pass


@cache
def clients() -> tuple[Api, Counts]:
    """Return Google's clients. They take a third of a second."""
    return Api("europe-west4", retries=0), Counts(retries=0)


def target(fake: FakeVertex) -> VertexEndpoint:
    """Return the endpoint of the fake, through Google's client."""
    api, counts = map(copy, clients())
    api.fake = counts.fake = fake
    return VertexEndpoint(ENDPOINT, api, counts)


class Rollout:
    """A rollout on a fake endpoint, with the commands of a user."""

    def __init__(self, fake: FakeVertex | None = None, **changed: Any) -> None:
        self.fake = fake or FakeVertex()
        self.fake.rates.setdefault(BAD, 0.3)
        self.settings = settings(**changed)
        self.target = target(self.fake)
        self.events: list[Event] = []

    @property
    def clock(self) -> Clock:
        return Clock(lambda: self.fake.now, self.fake.sleep)

    def start(self, version: str = GOOD) -> Any:
        return self.command(lambda state: decide.start(state, "scan", version, self.settings, int(self.fake.now)))

    def command(self, make: Callable[..., Any], *arguments: Any) -> Any:
        return command(self.target, lambda state: make(state, *arguments), self.clock)[1]

    def watch(self, minutes: float | None = None) -> decide.End:
        until = None if minutes is None else self.fake.now + 60 * minutes
        return run(self.target, self.settings, self.clock, self.events.append, until)

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
        if path.endswith("deployModel") and self.random.random() < 0.4:
            return "failed-operation"
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
        is_started = False
        for _ in range(200):
            try:
                if not is_started:
                    rollout.start(self.version)
                    is_started = True
                end = rollout.watch(self.random.choice([None, 20]))
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
