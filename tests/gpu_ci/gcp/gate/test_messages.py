"""The message of a gate about a machine that reported a reason: the reason, its text, and what to do first."""

from __future__ import annotations

import json

import pytest
from gpu_agent.outcomes import OUTCOMES
from gpu_ci.gcp.gate.compute_api import ApiError
from gpu_ci.gcp.gate.messages import NEXT_STEPS, refused
from gpu_ci.gcp.gate.runner import CheckSpec
from gpu_ci.gcp.gate.verdict import (
    FAIL,
    PASS,
    Verdict,
    current_step,
    from_guest_attribute,
)

# After a pass, or of machines that are no check's.
_NO_CHECK = {
    "job-done",
    "job-refused",
    "rehearsed",
    "proven",
    "not-clean",
    "used",
    "idle",
    "runner-failed",
    "gpu-unhealthy",
    "gpu-fault",
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
