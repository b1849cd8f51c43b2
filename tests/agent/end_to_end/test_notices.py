"""Maintenance is announced up to an hour ahead: a running job continues, and no other job begins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.agent.fakes import blows
from tests.agent.fakes.google import Fault
from tests.agent.fakes.jobs import WAITS, WAITS_FOR_GO, job
from tests.agent.fakes.live_machine import AT_WORK, TOLD, Plan

# These tests run whole machines on the clock of this computer: `make test-boots`.
pytestmark = pytest.mark.many_boots

Live = Callable[..., dict[str, Any]]


def test_a_job_runs_on_to_its_end(live: Live) -> None:
    found = live(Plan(does=job(WAITS_FOR_GO), at=[(AT_WORK, blows.maintain), (TOLD, blows.go)]))
    assert (found["reason"], found["notices"]) == ("job-done", ["maintenance"]), found["serial"]


def test_a_job_that_is_not_done_when_the_host_ends_is_lost_to_maintenance(live: Live) -> None:
    found = live(Plan(does=job(WAITS), at=[(AT_WORK, blows.maintain), (TOLD, blows.terminate)]))
    assert (found["reason"], found["notices"]) == ("maintenance", ["maintenance"]), found["serial"]
    assert found["detail"].endswith("; lost: acme/kernels, run 77, job train")


def test_a_machine_that_is_taken_away_before_its_maintenance_is_preempted(live: Live) -> None:
    found = live(Plan(does=job(WAITS), at=[(AT_WORK, blows.maintain), (TOLD, blows.preempt)]))
    assert (found["reason"], found["notices"]) == ("preempted", ["maintenance", "preempted"]), found["serial"]


def test_a_machine_is_heard_though_nobody_takes_its_guest_attributes(live: Live) -> None:
    """The supervisor tries to write the attributes. It still handles the notice, and reports its end on the serial
    port.
    """
    silent = [Fault("guest-attributes", 999, hang=True)]
    found = live(
        Plan(smoke="import time; time.sleep(60)", google=silent, at=[(6.0, blows.preempt), (6.2, blows.shut_down)])
    )
    assert (found["reason"], found["off"]) == ("preempted", 1), found["serial"]
    said = [line.split(" ")[0] for line in found["serial"].splitlines() if not line.startswith("GPU-AGENT-STEP")]
    assert [word for word in said if word in ("SMOKE-RESULT", "GPU-AGENT-END")] == ["SMOKE-RESULT", "GPU-AGENT-END"]
    assert said.index("GPU-AGENT-END") == said.index("SMOKE-RESULT") + 1
