"""A pool whose machines all boot at once, with a GitHub that accepts 180 registrations a minute."""

from __future__ import annotations

import functools
import random
from collections import Counter
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from gpu_agent.github import registration
from gpu_agent.github.app_token import app_jwt
from gpu_agent.http import Answer
from gpu_agent.outcomes import AgentExit

from .fakes.clock import FakeClock
from .fakes.github import FakeGithub, ask_of
from .fakes.world import CONFIG, RUNNER

# The number of registrations that GitHub accepts in a minute, as far as we know. GitHub does not document it.
A_MINUTE = 180
REGISTER_SEC = 300


class Own(FakeClock):
    """The clock of one machine. The seconds are the same for all machines, and the random waits differ."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._chance = random.Random(number)

    def jitter(self, seconds: float) -> float:
        return seconds * self._chance.uniform(0.5, 1)


class Busy(FakeGithub):
    """A GitHub that refuses requests above its limit, with the seconds until the next minute."""

    def __init__(self, key: RSAPublicKey) -> None:
        super().__init__(key, lambda: 1_800_001_000)
        self.clock = FakeClock()
        self.taken: Counter[int] = Counter()
        self.turned_away = 0

    def answer(self, method: str, target: str, headers: Any, body: bytes) -> Answer:
        now = int(self.clock.now())
        if target.endswith("generate-jitconfig"):
            if self.taken[now // 60] >= A_MINUTE:
                self.turned_away += 1
                words = b'{"message": "You have exceeded a secondary rate limit."}'
                return Answer(403, {"retry-after": str(60 - now % 60)}, words)
            self.taken[now // 60] += 1
        return super().answer(method, target, headers, body)


@pytest.fixture(autouse=True)
def one_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the signature by a constant, because openssl would take a while for so many machines."""
    signed = functools.cache(lambda app_id, key: app_jwt(app_id, key, 1_800_001_000))
    monkeypatch.setattr(registration, "app_jwt", lambda app_id, key, _: signed(app_id, key))


def start(count: int, key: bytes, public_key: RSAPublicKey) -> tuple[Busy, Counter[str]]:
    """Return how each of this number of machines ended. Each has its own clock; only GitHub's minutes are common."""
    served, ends = Busy(public_key), Counter[str]()
    for number in range(count):
        clock = served.clock = Own(number)
        try:
            agent = registration.Github(CONFIG, key, clock, ask_of(served, clock))
            agent.register(f"machine-{number}", RUNNER, clock.now() + REGISTER_SEC)
            ends["registered"] += 1
        except AgentExit as ended:
            ends[ended.end.reason] += 1
    return served, ends


def test_four_hundred_machines_at_once_all_register(app_key: bytes, public_key: RSAPublicKey) -> None:
    served, ends = start(400, app_key, public_key)
    assert ends == {"registered": 400}
    assert len(served.runners) == 400
    assert max(served.taken.values()) <= A_MINUTE
    assert served.turned_away <= 2 * 400


def test_machines_beyond_githubs_limit_end_as_rate_limited(app_key: bytes, public_key: RSAPublicKey) -> None:
    served, ends = start(1_500, app_key, public_key)
    assert ends.keys() == {"registered", "rate-limited"}
    assert ends["registered"] == len(served.runners) >= 3 * A_MINUTE
    # No machine retries if the next answer could only come too late.
    assert served.turned_away <= 5 * 1_500
