"""What a gate that did not pass says to whoever runs the deployment: what happened, and what to do about it."""

from __future__ import annotations

from gpu_catalog.quota import google_link, google_path

from .compute_api import ApiError
from .gate_runner import NO_CAPACITY, Question, Verdict


def not_passed(verdict: Verdict) -> str:
    """Why no pool may take the template."""
    if verdict.outcome == NO_CAPACITY:
        hint = "try again later, add zones, or set smoke.onNoCapacity to unproven"
        return f"the smoke check could not run: {verdict.summary}\n  hint: {hint}"
    hint = "nothing has taken this template; the next up asks again, with it or with another one"
    return f"the smoke check failed in {verdict.zone}: {verdict.summary}\n  hint: {hint}"


def unproven(urn: str, summary: str) -> str:
    """The warning that stays until there is a verdict. A URN has signs that a shell would read."""
    return (
        f"the pool has taken a template that is unproven: {summary}\n"
        f"  hint: pulumi up --replace '{urn}' asks again; so does smoke.onNoCapacity: fail"
    )


def refused(error: ApiError, question: Question) -> str:
    """What Google's error means for the check."""
    if error.reason == "unauthenticated":
        hint = "gcloud auth application-default login, or GOOGLE_APPLICATION_CREDENTIALS"
        return f"the check machine could not be asked for: {error}\n  hint: {hint}"
    hint = f"\n  hint: {_more_quota(error, question)}" if error.over_quota else ""
    return f"Google refused the check machine: {error}{hint}"


def _more_quota(error: ApiError, question: Question) -> str:
    quota = error.quota
    what = "another zone and another try draw on the same quota: ask for more"
    if quota and quota.limit:
        what = "the check takes one machine beside those that run: ask for more, or wait until one of them ends"
    path = f"{google_path(quota.id, quota.region, quota.gpu_family)}: " if quota else ""
    return f"{what}, at {path}{google_link(question.project)}"
