"""The messages of a smoke gate whose check did not pass. A message has the reason and a hint.

A template is unproven if no zone had capacity for a check machine, and `onNoCapacity: unproven` lets the pool use the
template anyway.
"""

from __future__ import annotations

from gpu_catalog.quota import google_link, google_path
from gpu_common import google_permissions

from . import google_service
from .compute_api import ApiError
from .runner import CheckSpec
from .verdict import NO_CAPACITY, NO_VERDICT, Verdict

NEXT_STEPS = {
    "no-driver": "use another image or driver branch (docs/guides/machines.md)",
    "check-hung": "raise smoke.deadlineSec if driver and torch take long to install; if the GPU hangs, try again to "
    "get another machine",
    "no-secret": "add a version of the App's key to the secret that gpu-ci:site.github.runnerApp.privateKey names, "
    "in its project; a new grant can take minutes to apply, and pulumi up --refresh restores a removed grant",
    "secrets-unreachable": "check status.cloud.google.com, and that the subnetwork reaches Google APIs, through "
    "Private Google Access or Cloud NAT",
    "refused": "fix the named setting on GitHub; pulumi up --refresh restores resources of this stack, such as a "
    "runner group",
    "rate-limited": "wait until GitHub's rate limit resets",
    "github-unreachable": "check githubstatus.com, and that the network has internet access, such as Cloud NAT",
    "not-registered": "allow guest attributes in the project (organization policy compute.disableGuestAttributesAccess)"
    ", because machines publish a key as a guest attribute",
    "no-tool": "use an image that contains the named program",
    "no-runner": "check that the network has internet access, or include the runner in the image",
    "wrong-checksum": "correct runner.sha256 or driver.sha256: the summary names the file and its checksum",
    "no-docker": "use an image in which rootless Docker starts (docs/how-it-works/job-isolation.md), or "
    "runner.docker: none",
    "disk-full": "raise diskGib",
    "not-isolated": "remove the named access from the image, or use another value of runner.docker, because a job "
    "with this access could use the machine's service account",
    "runner-deprecated": "use a newer runner.version, with its sha256",
    "timed-out": "raise smoke.deadlineSec, or runner.registerSec if the step is runner or register",
    "crashed": "report this message with the machine's entry in Cloud Logging (log gpu-agent); the gate has deleted "
    "the machine",
}
"""The hint for each reason with which a machine fails (agent/gpu_agent/outcomes.py)."""
_MORE_TIME = "raise smoke.deadlineSec"


def not_passed(verdict: Verdict) -> str:
    """Return the error message of a check that did not pass."""
    if verdict.outcome == NO_CAPACITY:
        hint = "try again later, add zones, or set smoke.onNoCapacity to unproven"
        return f"the smoke check could not run: {verdict.summary}\n  hint: {hint}"
    consequence = "no pool uses this template; the next pulumi up runs the check again"
    step = _MORE_TIME if verdict.reason == NO_VERDICT else NEXT_STEPS.get(verdict.reason)
    hint = f"{step}; {consequence}" if step else consequence
    return f"{_failure(verdict)} in {verdict.zone}: {verdict.summary}\n  hint: {hint}"


def _failure(verdict: Verdict) -> str:
    """Return what failed: the smoke check, or another step of the machine."""
    if verdict.reason == NO_VERDICT:
        return "the check machine reported no verdict"
    if verdict.reason in ("", "check-failed"):
        return "the smoke check failed"
    return f"the check machine failed with reason {verdict.reason}"


def unproven(urn: str, summary: str) -> str:
    """Return the warning about an unproven template. Each `pulumi up` repeats the warning until a check has passed.

    The URN in the command is quoted, because it contains special characters of the shell.
    """
    return (
        f"the pool uses a template that is unproven: {summary}\n  hint: run pulumi up --replace '{urn}' to check "
        "again, or set smoke.onNoCapacity: fail"
    )


def refused(error: ApiError, spec: CheckSpec) -> str:
    """Return the message for an error with which Google rejected the check machine."""
    if error.reason == "unauthenticated":
        return f"could not request the check machine: {error}\n  hint: {google_service.HINT}"
    hint = _next_step(error, spec)
    return f"Google rejected the check machine: {error}" + (f"\n  hint: {hint}" if hint else "")


def _next_step(error: ApiError, spec: CheckSpec) -> str:
    if error.over_quota:
        return _more_quota(error, spec)
    if error.constraint:
        return (
            f"the organization policy {error.constraint} forbids this machine: ask the administrator of the policy for "
            f"an exception for the project {spec.project}, or change the pool so that the policy allows it "
            "(docs/start/bootstrap.md)"
        )
    if error.permission:
        role = google_permissions.DEPLOYER_ROLE_ID
        add = google_permissions.add_to_role(role, spec.project, [error.permission])
        return f"if bootstrap/ created the deployer's role {role}, add the permission: {add}"
    if error.about_account:
        return "grant the deployer roles/iam.serviceAccountUser on that account; a grant takes minutes to apply"
    return ""


def _more_quota(error: ApiError, spec: CheckSpec) -> str:
    quota = error.quota
    advice = "other zones use the same quota, so request more"
    if quota and quota.limit:
        advice = (
            "the check takes one machine in addition to the running ones: wait until one of them ends, or request more"
        )
    path = f"{google_path(quota.id, quota.region, quota.gpu_family)}: " if quota else ""
    return f"{advice} at {path}{google_link(spec.project)}"
