"""A machine that is struck at any of its steps says one reason, switches itself off, and leaves no runner waiting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.agent.fakes.blows import BLOWS, HOLDS, held, oom_kill

Live = Callable[..., dict[str, Any]]
REASONS = {
    "preempt": "preempted",
    "maintain": "maintenance",
    "terminate": "stopped",
    "shut_down": "stopped",
    "oom_kill": "runner-failed",
    "kill_agent": "crashed",
    "kill_supervisor": "crashed",
}
# What is announced up to an hour ahead does not end a job; a test below is about that.
CASES = [(step, blow) for step in HOLDS for blow in BLOWS if blow != "maintain" or step not in ("job", "after-job")]
CASES.append(("job", "oom_kill"))
# One in the job always; all in the job, and some blow at each step, by `make test-slow`; others by `make test-boots`.
ALWAYS = {("job", "kill_agent")}
AT_EACH_STEP = {("job", "oom_kill"), *zip(HOLDS, [*BLOWS, *BLOWS], strict=False), *(("job", blow) for blow in BLOWS)}


def marks(case: tuple[str, str]) -> tuple[pytest.MarkDecorator, ...]:
    if case in ALWAYS:
        return ()
    return (pytest.mark.slow,) if case in AT_EACH_STEP else (pytest.mark.many_boots,)


@pytest.mark.parametrize(("step", "blow"), [pytest.param(*case, marks=marks(case)) for case in CASES])
def test_a_machine_that_is_struck_says_what_struck_it(live: Live, step: str, blow: str) -> None:
    found = live(held(step, {**BLOWS, "oom_kill": oom_kill}[blow]))
    assert (found["reason"], found["hit"]) == (REASONS[blow], step), found["serial"]
    # GitHub takes a runner that has run a job away by itself; a killed agent's, which nobody can, after a day.
    waits = found["registered"] and "job" not in found["serial"].split('"waiting"')[-1] and blow != "kill_agent"
    assert not (waits and found["runners"]), found["serial"]
    if step == "job":
        assert found["end"]["job"] == {"repository": "acme/kernels", "run_id": "77", "job": "train"}
