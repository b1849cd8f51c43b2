"""Problems that only a lookup at GitHub or Google finds: reported at their path, without a traceback."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi
import pytest

from tests.gpu_ci.harness import Calls, RefusedLookup
from tests.gpu_ci.program.test_github import TOKEN, stack
from tests.gpu_ci.program.test_program import ALL_CALLS, run
from tests.gpu_ci.support import repository

REPOSITORY = "github:index/getRepository:getRepository"
SECRET = "gcp:secretmanager/getSecretVersionAccess:getSecretVersionAccess"
NO_ACCESS = (
    "Error retrieving available secret manager secret version access: googleapi: Error 403: Permission "
    "'secretmanager.versions.access' denied"
)


def told(asked: Any, calls: Calls = ALL_CALLS, **site: Any) -> str:
    """Return the error of the preview of a stack. Pulumi shows a RunError without a traceback."""
    with pytest.raises(pulumi.RunError) as caught:
        run(stack(asked, **site), preview=True, calls=calls)
    return str(caught.value)


def refusing(token: str, words: str) -> Calls:
    def refuse(arguments: dict[str, Any]) -> Mapping[str, Any]:
        raise RefusedLookup(f"invocation of {token} returned an error: invoking {token}: {words}")

    return {**ALL_CALLS, token: refuse}


def test_a_wrong_repository_of_an_organization_secret_is_reported_at_its_path() -> None:
    scope = {"kind": "organization", "repositories": ["web", "nowhere"]}
    text = told({"secrets": {"all": {"scope": scope, "variables": {"A": "b"}}}})
    assert text.startswith(
        "Pulumi.stack.yaml: gpu-ci:github.secrets.all.scope.repositories[1]: GitHub has no such repository\n"
    )


def test_a_too_long_secret_is_reported_at_its_path_and_not_shown() -> None:
    calls = {**ALL_CALLS, SECRET: lambda _: {"secretData": "hunter2" * 7023}}
    asked = {"secrets": {"k": {"scope": {"kind": "repository", "repository": "k"}, "secrets": {"TOKEN": TOKEN}}}}
    text = told(asked, calls)
    assert text.startswith("Pulumi.stack.yaml: gpu-ci:github.secrets.k.secrets.TOKEN: has more than 49152 bytes\n")
    assert "hunter2" not in text


def test_a_failed_lookup_of_a_repository_is_reported_with_githubs_message() -> None:
    words = "1 error occurred:\n\t* GET https://api.github.com/repos/acme/kernels: 403 Resource not accessible []\n\n"
    one_alone: Calls = {
        **ALL_CALLS,
        REPOSITORY: lambda asked: (
            refusing(REPOSITORY, words)[REPOSITORY](asked) if asked["name"] == "kernels" else repository(asked)
        ),
    }
    assert told({"runnerGroup": {"repositories": ["kernels", "open-web"]}}, one_alone) == (
        "Pulumi.stack.yaml: gpu-ci:github.runnerGroup.repositories[0]: could not be looked up on GitHub\n"
        "  got: GET https://api.github.com/repos/acme/kernels: 403 Resource not accessible []\n"
        "  expected: an answer to GET /repos/{owner}/{repo}\n"
        "  hint: check that the token or the App may read the repository's metadata, and that api.github.com is "
        "reachable\n"
        "Pulumi.stack.yaml: gpu-ci:github.runnerGroup.repositories[1]: is a public repository: any user's pull request "
        "could run code on the machines\n"
        "  got: 'open-web'\n"
        "  expected: a private or internal repository\n"
        "  hint: remove it, or set publicRepositories: true in a stack of its own (docs/guides/github.md)"
    )


def test_an_unreadable_secret_is_reported_at_its_path() -> None:
    asked = {"secrets": {"k": {"scope": {"kind": "repository", "repository": "k"}, "secrets": {"TOKEN": TOKEN}}}}
    assert told(asked, refusing(SECRET, NO_ACCESS)) == (
        f"Pulumi.stack.yaml: gpu-ci:github.secrets.k.secrets.TOKEN: cannot read {TOKEN} from Secret Manager\n"
        f"  got: {NO_ACCESS}\n"
        "  expected: a secret with a version that the deployer can read (roles/secretmanager.secretAccessor)\n"
        "  hint: check its name and its permissions: gcloud secrets get-iam-policy registry-token --project=example-ci"
    )


def test_all_unreadable_secrets_are_in_one_report_without_values() -> None:
    def answer(arguments: dict[str, Any]) -> Mapping[str, Any]:
        if arguments["secret"].endswith("fine"):
            return {"secretData": "hunter2"}
        return refusing(SECRET, NO_ACCESS)[SECRET](arguments)

    secrets = {name.upper(): f"projects/example-ci/secrets/{name}" for name in ("one", "fine", "two")}
    asked = {"secrets": {"k": {"scope": {"kind": "repository", "repository": "k"}, "secrets": secrets}}}
    app = {"id": 17, "installationId": 18, "privateKey": "projects/example-ci/secrets/app-key"}
    text = told(asked, {**ALL_CALLS, SECRET: answer}, app=app)
    assert [line.split(": ")[1] for line in text.splitlines() if line.startswith("Pulumi.stack.yaml: ")] == [
        "gpu-ci:site.github.app.privateKey",
        "gpu-ci:github.secrets.k.secrets.ONE",
        "gpu-ci:github.secrets.k.secrets.TWO",
    ]
    assert "hunter2" not in text
