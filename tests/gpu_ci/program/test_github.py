"""The settings of a stack file on GitHub: a runner group, secrets and rules, created as the site's App."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gpu_ci.program.stack import L4, config, load, refused, site
from tests.gpu_ci.program.test_program import STACK, run

TOKEN = "projects/example-ci/secrets/registry-token"
KERNELS: dict[str, Any] = {
    "runnerGroup": {"repositories": ["kernels"]},
    "secrets": {"kernels": {"scope": {"kind": "repository", "repository": "kernels"}, "secrets": {"TOKEN": TOKEN}}},
    "rules": {"kernels": {"repository": "kernels", "requiredChecks": [{"context": "gpu"}]}},
}


RUNNER_APP = {"id": 27, "installationId": 28, "privateKey": "projects/example-ci/secrets/runner-app-key"}


def stack(asked: Any = KERNELS, **changes: Any) -> dict[str, Any]:
    runner_app = {"runnerApp": RUNNER_APP} if "app" in changes else {}
    return config(**site(github={"owner": "acme", **runner_app, **changes})) | {"gpu-ci:github": asked}


def test_a_stack_that_asks_for_nothing_there_does_not_load_githubs_package() -> None:
    assert load(config()).github is None
    assert "github" not in run(config()).outputs[STACK]


PEM = "-----BEGIN RSA PRIVATE KEY-----\nhunter2\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    "values",
    [
        stack({"secrets": {"REGISTRY_TOKEN": "hunter2"}}),
        stack({"secrets": {"k": {"scope": "hunter2"}}}),
        stack({"secrets": {"k": {"scope": {"kind": "repository", "repository": "k"}, "variables": "hunter2"}}}),
        stack({"secrets": "hunter2"}),
        stack(app="hunter2"),
        stack(app=PEM),
        stack(app={"id": "hunter2", "installationId": 1, "privateKey": TOKEN}),
        stack(owner="ghp_hunter2"),
        config({"l4": L4 | {"torch": "ghp_hunter2"}}),
        config({"l4": L4 | {"runnerLabels": ["https://me:hunter2@example.org"]}}),
        config({"l4": L4 | {"github_pat_hunter2": 1}}),
        config({"ghp_hunter2": L4}),
    ],
)
def test_what_was_pasted_into_the_wrong_place_is_not_shown(values: dict[str, Any]) -> None:
    error = refused(values)
    assert "hunter2" not in str(error)
    assert all("hunter2" not in repr(problem) for problem in error.problems)


def test_everything_on_github_is_made_anew_for_another_owner() -> None:
    rows = [row for row in run(stack(owner="acme")).rows if row.type.startswith("github:")]
    assert len(rows) == 3
    assert {row.request.replacement_trigger.string_value for row in rows} == {"acme"}
    names = [run(stack(owner=owner)).one("pulumi:providers:github").name for owner in ("acme", "other")]
    assert names == ["github-acme", "github-other"]
