"""The message of a gate about a machine that reported a reason: the reason, its text, and what to do first."""

from __future__ import annotations

import base64
import json

import pytest
from gpu_agent.outcomes import OUTCOMES
from gpu_ci.gcp.gate.compute_api import ApiError
from gpu_ci.gcp.gate.messages import NEXT_STEPS, not_passed, refused
from gpu_ci.gcp.gate.runner import CheckSpec
from gpu_ci.gcp.gate.verdict import (
    FAIL,
    NO_VERDICT,
    PASS,
    Verdict,
    current_step,
    from_guest_attribute,
    from_serial_log,
    last_step,
)

AGAIN = "no pool uses this template; the next pulumi up runs the check again"
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
    "build-done",
    "no-source",
    "wrong-source",
    "no-image",
    "no-artifacts",
    "storage-refused",
    "storage-unreachable",
}
# A sentence of their own says all that can be done.
_SAID = {"check-failed", "no-config", "stopped"}


def test_every_end_of_a_check_has_a_next_step_and_nothing_else_has_one() -> None:
    assert set(NEXT_STEPS) == set(OUTCOMES) - _NO_CHECK - _SAID


def test_an_app_that_github_refuses_is_reported_with_a_hint() -> None:
    verdict = Verdict(FAIL, "GitHub answers 401 to the App 17", "us-central1-a", "refused")
    assert not_passed(verdict) == (
        "the check machine failed with reason refused in us-central1-a: GitHub answers 401 to the App 17\n"
        "  hint: fix the named setting on GitHub; pulumi up --refresh restores resources of this stack, such as a "
        f"runner group; {AGAIN}"
    )


def test_a_missing_verdict_suggests_a_longer_deadline() -> None:
    verdict = Verdict(FAIL, "no verdict within 120 s of the start; it reported no step", "us-central1-a", NO_VERDICT)
    assert not_passed(verdict) == (
        "the check machine reported no verdict in us-central1-a: no verdict within 120 s of the start; "
        "it reported no step\n"
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


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (
            ApiError("conditionNotMet", "Constraint constraints/compute.trustedImageProjects violated.", 412),
            (
                "the organization policy compute.trustedImageProjects forbids this machine: ask the administrator of "
                "the policy for an "
                "exception for the project p, or change the pool so that the policy allows it "
                "(docs/start/bootstrap.md)"
            ),
        ),
        (
            ApiError("SERVICE_ACCOUNT_ACCESS_DENIED", "The user does not have access to service account 'a'.", 400),
            "grant the deployer roles/iam.serviceAccountUser on that account; a grant takes minutes to apply",
        ),
        (
            ApiError("forbidden", "Required 'compute.instances.setServiceAccount' permission for 'projects/p'", 403),
            (
                "if bootstrap/ created the deployer's role gpu_ci_deploy, add the permission: gcloud iam roles update "
                "gpu_ci_deploy --project p --add-permissions compute.instances.setServiceAccount"
            ),
        ),
    ],
)
def test_what_google_refuses_for_a_policy_an_account_or_a_permission_has_a_next_step(
    error: ApiError, hint: str
) -> None:
    question = CheckSpec("urn", "p", "projects/p/regions/r/instanceTemplates/t", ["us-central1-a"], "l4")
    assert refused(error, question) == f"Google rejected the check machine: {error}\n  hint: {hint}"


@pytest.mark.parametrize("noise", ["[  12.3] NVRM: Xid", "%%%", "=", ""])
def test_a_verdict_that_another_writer_broke_is_none(noise: str) -> None:
    whole = base64.b64encode(json.dumps({"verdict": "pass", "summary": "1 x L4"}).encode()).decode()
    broken = f"SMOKE-RESULT {whole[:20]}{noise}{whole[24:]}"
    assert from_serial_log(broken, "z") is None
    assert from_serial_log(f"SMOKE-RESULT {whole}\n{broken}\n", "z") == Verdict(PASS, "1 x L4", "z")


def test_the_last_step_is_the_agents_and_not_a_programs() -> None:
    lines = ['GPU-AGENT-STEP {"step": "driver", "seconds": 1}', '| GPU-AGENT-STEP {"step": "key"}', "GPU-AGENT-STEP {"]
    assert last_step("\r\n".join(lines)) == "driver"
    assert last_step("boot") == ""
