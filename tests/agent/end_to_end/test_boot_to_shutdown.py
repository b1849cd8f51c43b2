"""A machine of the pool from power-on to power-off: its output, and what remains of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.agent.fakes import events
from tests.agent.fakes.jobs import WAITS, job
from tests.agent.fakes.manager import Answer
from tests.agent.fakes.runner import NO_LIBICU
from tests.agent.fakes.whole_machine import AT_WORK, Plan

RunMachine = Callable[..., dict[str, Any]]


def test_a_machine_takes_one_job_that_cannot_reach_its_identity_and_switches_itself_off(
    run_machine: RunMachine,
) -> None:
    found = run_machine(Plan())
    assert (found["reason"], found["end"]["step"]) == ("job-done", "after-job"), found["serial"]
    assert found["end"]["job"] == {"repository": "acme/kernels", "run_id": "77", "job": "train"}
    assert (found["verdict"]["verdict"], found["registered"]) == ("pass", 1)
    assert steps(found["serial"]) == [
        *("config", "driver", "check", "key", "runner", "register", "waiting", "job", "after-job")
    ]
    assert "job: ConnectionRefusedError" in found["serial"]
    # GitHub's runner has the secret in two places. The scanner finds it there, so the scanner works.
    assert found["allowed"] == [["blob", "environ"], ["credential", "file"]]


def test_a_machine_that_the_manager_registers_takes_one_job_and_reads_no_key(run_machine: RunMachine) -> None:
    found = run_machine(Plan(answer=Answer()))
    assert (found["reason"], found["end"]["step"]) == ("job-done", "after-job"), found["serial"]
    assert (found["verdict"]["verdict"], found["registered"]) == ("pass", 1)
    assert steps(found["serial"]) == ["config", "driver", "check", "runner", "register", "waiting", "job", "after-job"]
    assert found["allowed"] == [["blob", "environ"], ["credential", "file"]]


@pytest.mark.slow
def test_a_machine_whose_manager_does_not_answer_starts_no_runner_and_switches_itself_off(
    run_machine: RunMachine,
) -> None:
    found = run_machine(Plan(answer=Answer("never"), register_sec=5))
    assert (found["reason"], found["end"]["stops_pool"], found["registered"]) == ("not-registered", False, 0)
    assert found["detail"] == "the runner manager sent no registration within 5 s"


def test_a_check_machine_rehearses_and_registers_nothing(run_machine: RunMachine) -> None:
    found = run_machine(Plan(role="check"))
    assert found["verdict"] == {"verdict": "pass", "exit_code": 0, "summary": "fine", "reason": "rehearsed"}
    assert (found["reason"], found["registered"]) == ("rehearsed", 0)


@pytest.mark.parametrize("role", ["check", ""])
@pytest.mark.slow
def test_a_runner_that_does_not_start_on_the_image_fails_the_gate_and_registers_nothing(
    run_machine: RunMachine, role: str
) -> None:
    found = run_machine(Plan(role=role, loads=NO_LIBICU))
    assert (found["reason"], found["end"]["step"], found["registered"]) == ("no-tool", "runner", 0), found["serial"]
    words = "GitHub's runner does not start on this image: it was killed by signal 6; its output: Process terminated."
    assert found["detail"].startswith(f"{words} Couldn't find a valid ICU package")


def test_a_preemption_during_a_job_ends_it_and_names_it(run_machine: RunMachine) -> None:
    found = run_machine(Plan(does=job(WAITS), at=[(AT_WORK, events.preempt)]))
    assert found["reason"] == "preempted", found["serial"]
    assert found["detail"].endswith("; lost: acme/kernels, run 77, job train")


def steps(serial: str) -> list[str]:
    return [json.loads(line.split(" ", 1)[1])["step"] for line in serial.splitlines() if "GPU-AGENT-STEP " in line]
