"""Exactly the intended jobs on GitHub may use an identity: 40 tokens, evaluated as Google and AWS evaluate them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from gpu_ci.aws import github_identity as of_aws
from gpu_ci.gcp import github_identity as of_google
from gpu_ci.github_trust import TEMPLATE_CLAIMS

from .cel import cel, recursion_limit  # noqa: F401 - a fixture
from .iam import allows
from .tokens import JOBS, TRUSTED, Claims, trust

PROVIDER = "arn:aws:iam::123456789012:oidc-provider/token.actions.githubusercontent.com"


def google(name: str) -> str:
    return of_google.condition(of_google.GithubIdentityArgs(project="example-ci", **trust(name)))


def aws(name: str, **changes: Any) -> str:
    return of_aws.trust_policy(of_aws.GithubIdentityArgs(**{**trust(name), **changes}), PROVIDER)


def context(claims: Claims) -> str:
    """GitHub's rules: the environment of the job, else pull_request, else the ref."""
    if "environment" in claims:
        return "environment:" + claims["environment"].replace(":", "%3A")
    return "pull_request" if claims["event_name"] == "pull_request" else f"ref:{claims['ref']}"


def templated(claims: Claims, template: Sequence[str] = TEMPLATE_CLAIMS) -> Claims:
    """The token of a repository with a template, by default ours."""
    subject = ":".join(f"{name}:{claims[name].replace(':', '%3A')}" for name in template)
    return {**claims, "aud": "sts.amazonaws.com", "sub": subject}


def immutable(claims: Claims) -> Claims:
    """The token of a repository with GitHub's immutable subject."""
    owner, _, name = claims["repository"].partition("/")
    start = f"repo:{owner}@{claims['repository_owner_id']}/{name}@{claims['repository_id']}"
    return {**claims, "aud": "sts.amazonaws.com", "sub": f"{start}:{context(claims)}"}


def by_name(claims: Claims) -> Claims:
    """The token of a repository with GitHub's older subject, which has names only."""
    return {**claims, "aud": "sts.amazonaws.com", "sub": f"repo:{claims['repository']}:{context(claims)}"}


@pytest.mark.parametrize("name", TRUSTED)
def test_google_accepts_exactly_the_intended_jobs(name: str) -> None:
    condition = google(name)
    accepted = {what for what, job in JOBS.items() if cel(condition, job.claims())}
    assert accepted == {what for what, job in JOBS.items() if name in job.may} != set()


@pytest.mark.parametrize("name", TRUSTED)
def test_aws_accepts_exactly_the_intended_jobs(name: str) -> None:
    policy = aws(name)
    accepted = {what for what, job in JOBS.items() if allows(policy, templated(job.claims()), PROVIDER)}
    assert accepted == {what for what, job in JOBS.items() if name in job.may} != set()


# The immutable subject names no event, and AWS has no key for it. These jobs get in on top.
BY_ANY_EVENT = {
    "deploy": {
        "a pull request, in production",
        "a pull request target, in production",
        "a comment on an issue, in production",
        "a workflow_run after a pull request",
        "the reusable workflow, called by a pull request",
    },
    "main": {"a pull request that targets main"},
}


@pytest.mark.parametrize("name", ["deploy", "main"])
def test_an_immutable_subject_on_aws_knows_neither_events_nor_a_new_name(name: str) -> None:
    policy = aws(name, subject_claim="immutable", repository="acme/kernels")
    accepted = {what for what, job in JOBS.items() if allows(policy, immutable(job.claims()), PROVIDER)}
    intended = {what for what, job in JOBS.items() if name in job.may}
    # The subject has the environment of a job that has one, so the ref alone is not enough for these.
    with_environment = {what for what in intended if "environment" in JOBS[what].changes} if name == "main" else set()
    assert accepted == (intended | BY_ANY_EVENT[name]) - {"the repository, renamed"} - with_environment


@pytest.mark.parametrize("name", TRUSTED)
def test_aws_accepts_no_subject_that_has_names_only(name: str) -> None:
    policy = aws(name)
    assert [what for what, job in JOBS.items() if allows(policy, by_name(job.claims()), PROVIDER)] == []


@pytest.mark.parametrize("audience", ["https://github.com/acme", "sts.amazonaws.com.evil.example", ""])
def test_aws_accepts_no_other_audience(audience: str) -> None:
    claims = templated(JOBS["a push to main, in production"].claims())
    assert allows(aws("deploy"), claims, PROVIDER)
    assert not allows(aws("deploy"), {**claims, "aud": audience}, PROVIDER)


@pytest.mark.parametrize("claim", ["repository_owner_id", "repository_id", "environment", "event_name"])
def test_google_refuses_a_token_without_a_claim_of_the_condition(claim: str) -> None:
    claims = JOBS["a push to main, in production"].claims()
    assert cel(google("deploy"), claims)
    assert not cel(google("deploy"), {name: value for name, value in claims.items() if name != claim})
