"""The cloud's notices, which the agent receives whatever it does."""

from __future__ import annotations

import json
import threading
from typing import Any, cast

import pytest
from gpu_agent import agent
from gpu_agent.agent import listen
from gpu_agent.host import Notice

MAINTENANCE, PREEMPTED = Notice("maintenance", "in an hour"), Notice("preempted", "now")


class AnnouncingHost:
    """A cloud that returns these notices one after the other, and then none."""

    def __init__(self, *answers: Notice | Exception | None, publishes: Exception | None = None) -> None:
        self.answers, self.publishes = list(answers), publishes
        self.published: list[tuple[str, Any]] = []

    def notice(self, _: float) -> Notice | None:
        if not self.answers:
            threading.Event().wait()
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def publish(self, key: str, value: str) -> None:
        self.published.append((key, json.loads(value)))
        if self.publishes:
            raise self.publishes


def notices_until_end(host: AnnouncingHost, monkeypatch: pytest.MonkeyPatch) -> list[Notice]:
    """Return the notices until the machine had to end. The signal that ends it is not sent."""
    received: list[Notice] = []

    def tell(notice: Notice) -> bool:
        received.append(notice)
        return notice is PREEMPTED

    monkeypatch.setattr(agent, "_PAUSE_SEC", 0)
    monkeypatch.setattr(agent.signal, "pthread_kill", lambda *_: None)
    listener = listen(cast(Any, host), tell)
    listener.join(20)
    assert not listener.is_alive()
    return received


def test_a_repeated_notice_is_reported_once_and_the_next_one_too(monkeypatch: pytest.MonkeyPatch) -> None:
    host = AnnouncingHost(MAINTENANCE, MAINTENANCE, None, PREEMPTED)
    assert notices_until_end(host, monkeypatch) == [MAINTENANCE, PREEMPTED]
    assert [value["reason"] for _, value in host.published] == ["maintenance", "preempted"]


@pytest.mark.parametrize("failure", [OSError(), RuntimeError("can't start new thread")])
def test_a_notice_that_cannot_be_published_still_reaches_the_agent(
    failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = AnnouncingHost(MAINTENANCE, PREEMPTED, publishes=failure)
    assert notices_until_end(host, monkeypatch) == [MAINTENANCE, PREEMPTED]
