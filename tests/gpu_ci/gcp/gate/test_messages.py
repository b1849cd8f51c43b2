"""What a gate says of a machine that told why it ended: the reason, its sentence, and what to do first."""

from __future__ import annotations

import base64
import json

import pytest
from gpu_agent.outcomes import OUTCOMES
from gpu_ci.gcp.gate.messages import NEXT_STEPS, not_passed
from gpu_ci.gcp.gate.verdict import FAIL, NO_VERDICT, PASS, Verdict, current_step, from_guest_attribute, from_serial_log

AGAIN = "nothing has taken this template; the next up asks again, with it or with another one"
# After a pass, or of machines that are no check's.
_NO_CHECK = {
    "job-done",
    "rehearsed",
    "proven",
    "used",
    "idle",
    "runner-failed",
    "gpu-unhealthy",
    "preempted",
    "maintenance",
}
# A sentence of their own says all that can be done.
_SAID = {"check-failed", "no-config", "stopped"}


def test_every_end_of_a_check_has_a_next_step_and_nothing_else_has_one() -> None:
    assert set(NEXT_STEPS) == set(OUTCOMES) - _NO_CHECK - _SAID


def test_an_app_that_github_refuses_is_said_with_what_to_mend_there() -> None:
    verdict = Verdict(FAIL, "GitHub answers 401 to the App 17", "us-central1-a", "refused")
    assert not_passed(verdict) == (
        "the check machine ended with refused in us-central1-a: GitHub answers 401 to the App 17\n"
        "  hint: mend on GitHub what it names; what this stack makes there, such as a runner group, comes back by "
        f"pulumi up --refresh; {AGAIN}"
    )


def test_a_machine_that_said_nothing_in_time_may_need_more_of_it() -> None:
    verdict = Verdict(FAIL, "no verdict within 120 s of the start; it named no step", "us-central1-a", NO_VERDICT)
    assert not_passed(verdict) == (
        "the check machine gave no verdict in us-central1-a: no verdict within 120 s of the start; it named no step\n"
        f"  hint: raise smoke.deadlineSec; {AGAIN}"
    )


@pytest.mark.parametrize("reason", ["", "check-failed", "a-word-of-a-newer-agent"])
def test_what_has_no_next_step_has_the_usual_hint(reason: str) -> None:
    text = not_passed(Verdict(FAIL, "l4: no CUDA device", "us-central1-a", reason))
    assert text.endswith(f" in us-central1-a: l4: no CUDA device\n  hint: {AGAIN}")
    assert text.startswith("the smoke check failed") == (reason != "a-word-of-a-newer-agent")


def test_a_verdict_without_a_reason_is_read_as_before() -> None:
    assert from_guest_attribute('{"verdict": "pass", "summary": "1 x L4"}', "z") == Verdict(PASS, "1 x L4", "z", "")


def test_the_reason_of_a_verdict_is_kept() -> None:
    told = json.dumps({"verdict": "fail", "exit_code": 2, "summary": "s", "reason": "no-secret"})
    assert from_guest_attribute(told, "z") == Verdict(FAIL, "s", "z", "no-secret")


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        ('{"step": "driver", "seconds": 12.5}', "driver"),
        ('{"step": "after-job"}', "after-job"),
        ("", ""),
        ("{", ""),
        ("[]", ""),
        ('"driver"', ""),
        ('{"step": 1}', ""),
        ('{"step": "\\u001b[2J"}', ""),
        (json.dumps({"step": "x" * 32}), ""),
    ],
)
def test_a_step_is_one_short_word_or_nothing(answer: str, name: str) -> None:
    assert current_step(answer) == name


@pytest.mark.parametrize("front", ["", "Nov 22 10:00:00 vm google_metadata_script_runner[881]: startup-script: "])
def test_a_verdict_that_a_program_printed_is_none(front: str) -> None:
    """The agent puts a bar before each line of a program's."""
    mine, forged = (
        base64.b64encode(json.dumps({"verdict": word, "summary": word}).encode()).decode() for word in (FAIL, PASS)
    )
    lines = [f"SMOKE-RESULT {mine}", f"| SMOKE-RESULT {forged}", f"| x SMOKE-RESULT {forged}"]
    found = from_serial_log("\n".join(front + line for line in lines), "us-central1-a")
    assert found is not None
    assert found.outcome == FAIL
    assert from_serial_log(f"{front}{lines[1]}", "us-central1-a") is None
