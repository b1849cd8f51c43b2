"""Maintenance is announced up to an hour ahead: a running job continues, and no other job begins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.agent.fakes import events
from tests.agent.fakes.google import Fault
from tests.agent.fakes.jobs import WAITS, WAITS_FOR_GO, job
from tests.agent.fakes.whole_machine import ANNOUNCED, AT_WORK, Plan

# These tests run whole machines on the clock of this computer: `make test-boots`.
pytestmark = pytest.mark.many_boots

RunMachine = Callable[..., dict[str, Any]]


def test_a_job_runs_on_to_its_end(run_machine: RunMachine) -> None:
    found = run_machine(Plan(does=job(WAITS_FOR_GO), at=[(AT_WORK, events.maintain), (ANNOUNCED, events.go)]))
    assert (found["reason"], found["notices"]) == ("job-done", ["maintenance"]), found["serial"]


def test_a_job_that_is_not_done_when_the_host_ends_is_lost_to_maintenance(run_machine: RunMachine) -> None:
    found = run_machine(Plan(does=job(WAITS), at=[(AT_WORK, events.maintain), (ANNOUNCED, events.terminate)]))
    assert (found["reason"], found["notices"]) == ("maintenance", ["maintenance"]), found["serial"]
    assert found["detail"].endswith("; lost: acme/kernels, run 77, job train")


def test_a_machine_that_is_taken_away_before_its_maintenance_is_preempted(run_machine: RunMachine) -> None:
    found = run_machine(Plan(does=job(WAITS), at=[(AT_WORK, events.maintain), (ANNOUNCED, events.preempt)]))
    assert (found["reason"], found["notices"]) == ("preempted", ["maintenance", "preempted"]), found["serial"]


def test_an_end_reaches_the_serial_port_if_guest_attributes_cannot_be_written(run_machine: RunMachine) -> None:
    """The supervisor tries to write the attributes. It still handles the notice, and reports its end on the serial
    port.
    """
    silent = [Fault("guest-attributes", 999, hang=True)]
    found = run_machine(
        Plan(smoke="import time; time.sleep(60)", google=silent, at=[(6.0, events.preempt), (6.2, events.shut_down)])
    )
    assert (found["reason"], found["off"]) == ("preempted", 1), found["serial"]
    said = [line.split(" ")[0] for line in found["serial"].splitlines() if not line.startswith("GPU-AGENT-STEP")]
    assert [word for word in said if word in ("SMOKE-RESULT", "GPU-AGENT-END")] == ["SMOKE-RESULT", "GPU-AGENT-END"]
    assert said.index("GPU-AGENT-END") == said.index("SMOKE-RESULT") + 1
