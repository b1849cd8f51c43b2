"""What the GitHub identities of both clouds refuse, with path, problem and what to do."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest
from gpu_ci.args import Args
from gpu_ci.aws.github_identity import GithubIdentityArgs as OfAws
from gpu_ci.errors import ArgsError
from gpu_ci.gcp.github_identity import GithubIdentityArgs as OfGoogle

from tests.gpu_ci.support import run

GOOD: dict[str, Any] = {"purpose": "deploy", "ownerId": "9919", "repositoryId": "1296269", "environment": "production"}
GOOGLE = GOOD | {"project": "example-ci"}

NO_ID = "is not a numeric id of GitHub"
NO_REPOSITORY = "is required, because without it every repository of the owner could use the identity"
NO_CONTEXT = "is required, because without ref or environment every branch could use the identity"
NO_REF = "is not the full name of a branch or tag"
NO_ENVIRONMENT = "is not a name of an environment that a condition can contain"
NO_WORKFLOW = "is not a reusable workflow with its ref"

# What is wrong -> the changes (None removes a field), the path and the problem. For both clouds.
SHARED: dict[str, tuple[dict[str, Any], str, str]] = {
    "no purpose": ({"purpose": None}, "purpose", "is missing"),
    "another purpose": ({"purpose": "admin"}, "purpose", "must be one of 'preview' or 'deploy'"),
    "the owner's name": ({"ownerId": "acme"}, "ownerId", NO_ID),
    "a wildcard as the owner": ({"ownerId": "*"}, "ownerId", NO_ID),
    "an owner of zero": ({"ownerId": 0}, "ownerId", NO_ID),
    "a negative owner": ({"ownerId": -1}, "ownerId", NO_ID),
    "true as the owner": ({"ownerId": True}, "ownerId", NO_ID),
    "an empty owner": ({"ownerId": ""}, "ownerId", NO_ID),
    "a fraction as the owner": ({"ownerId": 9919.7}, "ownerId", NO_ID),
    "infinity as the owner": ({"ownerId": float("inf")}, "ownerId", NO_ID),
    "no number as the owner": ({"ownerId": float("nan")}, "ownerId", NO_ID),
    "an owner with a leading zero": ({"ownerId": "09919"}, "ownerId", NO_ID),
    "an owner with a space": ({"ownerId": " 9919"}, "ownerId", NO_ID),
    "an owner with a line break": ({"ownerId": "9919\n"}, "ownerId", NO_ID),
    "an owner in other digits": ({"ownerId": "\uff19\uff19\uff11\uff19"}, "ownerId", NO_ID),
    "a list of owners": ({"ownerId": ["9919"]}, "ownerId", NO_ID),
    "an id that is too long": ({"ownerId": "9" * 21}, "ownerId", NO_ID),
    "a ref with a space": ({"ref": "refs/heads/a b"}, "ref", NO_REF),
    "a ref with a space at its end": ({"ref": "refs/heads/main "}, "ref", NO_REF),
    "a ref with a line break": ({"ref": "refs/heads/main\n"}, "ref", NO_REF),
    "every tag": ({"ref": "refs/tags/v?"}, "ref", NO_REF),
    "a remote ref": ({"ref": "refs/remotes/origin/main"}, "ref", NO_REF),
    "no owner": ({"ownerId": None}, "ownerId", "is missing"),
    "the repository's name": ({"repositoryId": "acme/kernels"}, "repositoryId", NO_ID),
    "two repositories": ({"repositoryId": "1,2"}, "repositoryId", NO_ID),
    "a condition in the id": ({"repositoryId": '1" || true || "'}, "repositoryId", NO_ID),
    "no repository": ({"repositoryId": None}, "repositoryId", NO_REPOSITORY),
    "no repository, and the flag is false": (
        {"repositoryId": None, "allowOrganization": False},
        "repositoryId",
        NO_REPOSITORY,
    ),
    "a repository and the whole organization": (
        {"allowOrganization": True},
        "repositoryId",
        "is set, but allowOrganization trusts every repository of the owner",
    ),
    "yes for the flag": ({"allowOrganization": "yes", "repositoryId": None}, "allowOrganization", ""),
    "neither ref nor environment": ({"environment": None}, "environment", NO_CONTEXT),
    "an organization without ref and environment": (
        {"environment": None, "repositoryId": None, "allowOrganization": True},
        "environment",
        NO_CONTEXT,
    ),
    "a short branch": ({"ref": "main"}, "ref", NO_REF),
    "every branch": ({"ref": "refs/heads/*"}, "ref", NO_REF),
    "a ref with a quote": ({"ref": 'refs/heads/a"b'}, "ref", NO_REF),
    "an empty ref": ({"ref": ""}, "ref", NO_REF),
    "the ref of a pull request": ({"ref": "refs/pull/7/merge"}, "ref", "is the ref of one pull request"),
    "an empty environment": ({"environment": ""}, "environment", NO_ENVIRONMENT),
    "a quote in the environment": ({"environment": 'a" || true || "'}, "environment", NO_ENVIRONMENT),
    "a backslash in the environment": ({"environment": "a\\"}, "environment", NO_ENVIRONMENT),
    "every environment": ({"environment": "*"}, "environment", NO_ENVIRONMENT),
    "an IAM variable as the environment": ({"environment": "${aws:username}"}, "environment", NO_ENVIRONMENT),
    "a line break in the environment": ({"environment": "a\nb"}, "environment", NO_ENVIRONMENT),
    "a long environment": ({"environment": "e" * 256}, "environment", NO_ENVIRONMENT),
    "a workflow without a ref": ({"jobWorkflowRef": "acme/ci/.github/workflows/a.yaml"}, "jobWorkflowRef", NO_WORKFLOW),
    "a workflow of any ref": ({"jobWorkflowRef": "acme/ci/.github/workflows/a.yaml@*"}, "jobWorkflowRef", NO_WORKFLOW),
    "no event at all": ({"events": []}, "events", "is empty, so no job could use the identity"),
    "an event that is none": ({"events": ["pushes"]}, "events[0]", "must be one of 'merge_group', "),
    "pull requests that deploy": (
        {"events": ["push", "pull_request"]},
        "events",
        "has pull_request, which runs code before a review, but a deploy identity has write access",
    ),
    "an unknown key": ({"repositoryID": "1296269"}, "repositoryID", "unknown key"),
}

OF_GOOGLE: dict[str, tuple[dict[str, Any], str, str]] = {
    "a reserved pool": ({"poolId": "gcp-github"}, "poolId", "begins with gcp-, which Google reserves"),
    "a long pool": ({"poolId": "p" * 33}, "poolId", ""),
    "a basic role": (
        {"roles": {"all": "roles/owner"}},
        "roles.all",
        "is a basic role, which permits far more than a job needs",
    ),
    "a role without a prefix": ({"roles": {"all": "viewer"}}, "roles.all", ""),
}

OF_AWS: dict[str, tuple[dict[str, Any], str, str]] = {
    "an immutable subject without names": (
        {"subjectClaim": "immutable"},
        "repository",
        "is required for subjectClaim immutable",
    ),
    "names in the template": (
        {"repository": "acme/kernels"},
        "repository",
        "is for subjectClaim immutable only, because the template has no names",
    ),
    "a repository without its owner": (
        {"subjectClaim": "immutable", "repository": "kernels"},
        "repository",
        "is not the full name of a repository",
    ),
    "an organization with an immutable subject": (
        {"subjectClaim": "immutable", "repositoryId": None, "allowOrganization": True, "repository": "acme/kernels"},
        "subjectClaim",
        "immutable names one repository, but allowOrganization trusts every repository of the owner",
    ),
    "events of an immutable subject": (
        {"subjectClaim": "immutable", "repository": "acme/kernels", "events": ["push"]},
        "events",
        "is for subjectClaim template only, because the immutable subject has no event and AWS has no such key",
    ),
    "the provider of another issuer": (
        {"providerArn": "arn:aws:iam::123456789012:oidc-provider/gitlab.com"},
        "providerArn",
        "",
    ),
}

CASES = {
    **{f"google: {name}": (OfGoogle, GOOGLE, *case) for name, case in (SHARED | OF_GOOGLE).items()},
    **{f"aws: {name}": (OfAws, GOOD, *case) for name, case in (SHARED | OF_AWS).items()},
}


@pytest.mark.parametrize(("model", "good", "changes", "path", "text"), CASES.values(), ids=CASES)
def test_a_mistake_is_named(
    model: type[Args], good: dict[str, Any], changes: dict[str, Any], path: str, text: str
) -> None:
    given = {key: value for key, value in (good | changes).items() if value is not None}
    with pytest.raises(ArgsError) as caught:
        model(**given)
    found = {problem.path: problem.text for problem in caught.value.problems}
    assert list(found) == [path]
    assert text in found[path]


@pytest.mark.parametrize(("model", "good"), [(OfGoogle, GOOGLE), (OfAws, GOOD)])
def test_what_is_good_is_taken(model: type[Args], good: dict[str, Any]) -> None:
    assert model(**good).model_dump()["events"] == ["push", "schedule", "workflow_dispatch"]
    numbers = model(**{**good, "ownerId": 9919, "repositoryId": 1296269.0}).model_dump()
    assert (numbers["owner_id"], numbers["repository_id"]) == ("9919", "1296269")


def test_a_basic_role_that_comes_later_is_named_too() -> None:
    async def settle() -> None:
        await OfGoogle(**GOOGLE, roles={"all": pulumi.Output.from_input("roles/editor")}).settle()

    with pytest.raises(ArgsError) as caught:
        run(settle())
    assert [problem.path for problem in caught.value.problems] == ["roles.all"]
