"""What a gate that did not pass says to whoever runs the deployment: what happened, and what to do about it."""

from __future__ import annotations

from gpu_catalog.quota import google_link, google_path

from . import credentials
from .compute_api import ApiError
from .runner import Question
from .verdict import NO_CAPACITY, NO_VERDICT, Verdict

NEXT_STEPS = {
    "no-driver": "take another image or driver branch (docs/how-it-works/gpu-checks.md)",
    "check-hung": "raise smoke.deadlineSec where drivers and torch take long; should the GPU hang, the next machine "
    "has another one",
    "no-secret": "give the App's key a version in Secret Manager, in the project and under the name that "
    "gpu-ci:site.github.runnerApp.privateKey says; a new grant can take minutes to hold, and one that somebody took "
    "away comes back by pulumi up --refresh",
    "secrets-unreachable": "see status.cloud.google.com, and whether the subnetwork reaches Google's services: Private "
    "Google Access, or a way out",
    "refused": "mend on GitHub what it names; what this stack makes there, such as a runner group, comes back by "
    "pulumi up --refresh",
    "rate-limited": "wait until GitHub's limit lets up",
    "github-unreachable": "see githubstatus.com, and whether the network has a way out",
    "not-registered": "allow guest attributes in the project (organization policy compute.disableGuestAttributesAccess)"
    ": machines publish a key there",
    "no-tool": "take an image that has the program it names",
    "no-runner": "see whether the network has a way out, or bake the runner into the image",
    "wrong-checksum": "set runner.sha256 to what the release notes of the runner say",
    "no-docker": "take an image in which rootless Docker starts (docs/how-it-works/runner-machine.md), or "
    "runner.docker: none",
    "disk-full": "raise diskGib",
    "not-isolated": "close what it names, in the image or by another runner.docker: a job could have reached the "
    "machine's identity through it",
    "runner-deprecated": "take a newer runner.version, with its sha256",
    "timed-out": "raise smoke.deadlineSec, or runner.registerSec where its step is runner or register",
    "crashed": "report it, with this message and the machine's entry in Cloud Logging (log gpu-agent): the gate has "
    "deleted the machine itself",
}
"""What to do first about an end that is not the check's own, in the words of a stack file."""
_MORE_TIME = "raise smoke.deadlineSec"


def not_passed(verdict: Verdict) -> str:
    """Why no pool may take the template."""
    if verdict.outcome == NO_CAPACITY:
        hint = "try again later, add zones, or set smoke.onNoCapacity to unproven"
        return f"the smoke check could not run: {verdict.summary}\n  hint: {hint}"
    again = "nothing has taken this template; the next up asks again, with it or with another one"
    step = _MORE_TIME if verdict.reason == NO_VERDICT else NEXT_STEPS.get(verdict.reason)
    first = f"{step}; " if step else ""
    return f"{_ended(verdict)} in {verdict.zone}: {verdict.summary}\n  hint: {first}{again}"


def _ended(verdict: Verdict) -> str:
    """What failed: the check itself, unless the machine has another word for it."""
    if verdict.reason == NO_VERDICT:
        return "the check machine gave no verdict"
    proper = verdict.reason not in ("", "check-failed")
    return f"the check machine ended with {verdict.reason}" if proper else "the smoke check failed"


def unproven(urn: str, summary: str) -> str:
    """The warning that stays until there is a verdict. A URN has signs that a shell would read."""
    return (
        f"the pool has taken a template that is unproven: {summary}\n"
        f"  hint: pulumi up --replace '{urn}' asks again; so does smoke.onNoCapacity: fail"
    )


def refused(error: ApiError, question: Question) -> str:
    """What Google's error means for the check."""
    if error.reason == "unauthenticated":
        return f"the check machine could not be asked for: {error}\n  hint: {credentials.HINT}"
    hint = _next_step(error, question)
    return f"Google refused the check machine: {error}" + (f"\n  hint: {hint}" if hint else "")


def _next_step(error: ApiError, question: Question) -> str:
    if error.over_quota:
        return _more_quota(error, question)
    if error.constraint:
        return (
            f"the organization policy {error.constraint} forbids it: ask its administrator to except the project "
            f"{question.project}, or change the pool to what the policy allows (docs/how-it-works/check.md)"
        )
    if error.about_account:
        return "grant the deployer roles/iam.serviceAccountUser on that account; a grant takes minutes to hold"
    return ""


def _more_quota(error: ApiError, question: Question) -> str:
    quota = error.quota
    what = "another zone and another try draw on the same quota: ask for more"
    if quota and quota.limit:
        what = "the check takes one machine beside those that run: ask for more, or wait until one of them ends"
    path = f"{google_path(quota.id, quota.region, quota.gpu_family)}: " if quota else ""
    return f"{what}, at {path}{google_link(question.project)}"
