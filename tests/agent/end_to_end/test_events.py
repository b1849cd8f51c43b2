"""A machine that an event hits in any step reports one reason, switches itself off, and leaves no idle runner at
GitHub.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.agent.fakes.events import EVENTS, STEP_PLANS, oom_kill, plan_at

RunMachine = Callable[..., dict[str, Any]]
REASONS = {
    "preempt": "preempted",
    "maintain": "maintenance",
    "terminate": "stopped",
    "shut_down": "stopped",
    "oom_kill": "runner-failed",
    "kill_agent": "crashed",
    "kill_supervisor": "crashed",
}
# An announcement of up to an hour ahead ends no job. Another test below covers it.
CASES = [
    (step, event) for step in STEP_PLANS for event in EVENTS if event != "maintain" or step not in ("job", "after-job")
]
CASES.append(("job", "oom_kill"))
# One case in the step `job` always runs. `make test-slow` runs all of that step and one for each other step, and `make
# test-boots` runs the rest.
ALWAYS = {("job", "kill_agent")}
AT_EACH_STEP = {
    ("job", "oom_kill"),
    *zip(STEP_PLANS, [*EVENTS, *EVENTS], strict=False),
    *(("job", event) for event in EVENTS),
}


def marks(case: tuple[str, str]) -> tuple[pytest.MarkDecorator, ...]:
    if case in ALWAYS:
        return ()
    return (pytest.mark.slow,) if case in AT_EACH_STEP else (pytest.mark.many_boots,)


@pytest.mark.parametrize(("step", "event"), [pytest.param(*case, marks=marks(case)) for case in CASES])
def test_a_machine_that_an_event_hits_reports_that_event(run_machine: RunMachine, step: str, event: str) -> None:
    found = run_machine(plan_at(step, {**EVENTS, "oom_kill": oom_kill}[event]))
    assert (found["reason"], found["hit"]) == (REASONS[event], step), found["serial"]
    # GitHub itself removes a runner after its job. It removes the runner of a killed agent after a day.
    waits = found["registered"] and "job" not in found["serial"].split('"waiting"')[-1] and event != "kill_agent"
    assert not (waits and found["runners"]), found["serial"]
    if step == "job":
        assert found["end"]["job"] == {"repository": "acme/kernels", "run_id": "77", "job": "train"}
