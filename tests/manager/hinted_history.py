"""A history whose manager has a webhook. GitHub's deliveries are lost, duplicated, late and forged at random."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from gpu_manager.webhook import Hints

from tests.manager.histories import PASS_SEC, History
from tests.manager.webhook.test_hints import SECRET, headers, queued

_ACTIONS = {"queued": "queued", "in_progress": "in_progress", "completed": "completed"}
_SHORTEST_SEC = 2


@dataclass
class HintedHistory(History):
    """A history in which the next pass begins two seconds after a hint, and ten seconds later without a hint."""

    statuses: dict[int, str] = field(default_factory=dict)
    """The status in the last sent delivery of each job."""
    mail: list[tuple[float, dict[str, str], bytes, bool]] = field(default_factory=list)
    """The time of each delivery, with True for a forged one."""
    woken: bool = False
    early: int = 0
    """The number of passes that began after a hint."""
    forged_that_woke: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.hints = Hints(lambda: SECRET, {"gpu", "l4", "t4"}, self.wake)

    def wake(self) -> None:
        self.woken = True

    def rest(self) -> None:
        left = PASS_SEC
        while left > 0:
            self.world.advance(1)
            left -= 1
            self.send()
            self.receive()
            if self.woken and left > _SHORTEST_SEC:
                self.early += 1
                left = _SHORTEST_SEC
            self.woken = False

    def send(self) -> None:
        """Send a delivery for each job whose state has changed."""
        chance, now = self.world.chance, self.world.now
        for number, job in self.world.jobs.items():
            if self.statuses.get(number) == job.status:
                continue
            self.statuses[number] = job.status
            body = json.dumps(queued(*job.labels, action=_ACTIONS[job.status])).encode()
            signed = headers(body, delivery=f"{number}-{job.status}")
            for _ in range(chance.choice((0, 1, 1, 2))):
                self.mail.append((now + chance.choice((0, 1, 30, 300)), signed, body, False))
            if chance.random() < 0.3:
                self.mail.append((now, headers(body, delivery="forged", secret=b"forged"), body, True))

    def receive(self) -> None:
        due = [each for each in self.mail if each[0] <= self.world.now]
        self.mail = [each for each in self.mail if each[0] > self.world.now]
        for _, given, body, forged in due:
            self.forged_that_woke += self.hints.take(given, body).wakes and forged
