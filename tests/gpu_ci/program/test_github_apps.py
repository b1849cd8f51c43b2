"""The two GitHub Apps of a stack: one that administers the organization, and one whose key machines can read."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest
from gpu_ci.program import stack_warnings

from tests.gpu_ci.program.stack import L4, config, config_of, load, refused, site
from tests.gpu_ci.program.test_github import KERNELS
from tests.gpu_ci.program.test_program import run

ADMIN = {"id": 17, "installationId": 18, "privateKey": "projects/example-ci/secrets/admin-key"}
RUNNERS = {"id": 27, "installationId": 28, "privateKey": "projects/example-ci/secrets/runner-key"}
GROUP: dict[str, Any] = {"runnerGroup": {"repositories": ["kernels"]}}


def stack(asked: Any = KERNELS, pools: Any = None, **github: Any) -> dict[str, Any]:
    return config(pools, **site(github={"owner": "acme", **github})) | {"gpu-ci:github": asked}


@pytest.mark.parametrize("asked", [KERNELS, GROUP])
def test_machines_do_not_register_as_the_app_that_administers_the_organization(asked: dict[str, Any]) -> None:
    [problem] = refused(stack(asked, app=ADMIN)).problems
    assert problem.path == "gpu-ci:site.github.managerApp"
    for app in ("runnerApp", "managerApp"):
        assert load(stack(asked, app=ADMIN, **{app: RUNNERS})).specs


@pytest.mark.parametrize("github", [{}, {"app": ADMIN}])
def test_a_stack_whose_machines_register_nothing_needs_no_second_app(github: dict[str, Any]) -> None:
    asked = {"rules": KERNELS["rules"]}
    assert load(stack(asked, {"l4": L4}, **github)).specs


def test_staging_keeps_the_administering_key_from_machines_and_pods() -> None:
    found = run(config_of("Pulumi.staging.yaml"))
    admin = "github-admin-app-key"
    holders = [row.name for row in found.rows if admin in json.dumps(row.inputs)]
    assert holders == ["github-example-org"]


WORKFLOWS = {"selectedWorkflows": ["acme/web/.github/workflows/gpu.yml@refs/heads/main"]}


def test_a_feature_that_the_plan_has_not_is_refused_in_the_preview() -> None:
    asked = {"runnerGroup": {**GROUP["runnerGroup"], **WORKFLOWS}}
    [problem] = refused(stack(asked, runnerApp=RUNNERS, plan="team")).problems
    assert problem.path == "gpu-ci:github.runnerGroup.selectedWorkflows"
    assert load(stack(asked, runnerApp=RUNNERS, plan="enterprise")).specs
    assert load(stack(asked, runnerApp=RUNNERS)).specs


def test_the_preview_names_the_plans_where_the_stack_file_has_none() -> None:
    day = date(2026, 11, 1)
    [note] = stack_warnings.warnings(load(stack(GROUP, runnerApp=RUNNERS)), day)
    assert note.startswith("GitHub plans: gpu-ci:github.runnerGroup may need GitHub Team")
    assert stack_warnings.warnings(load(stack(GROUP, runnerApp=RUNNERS, plan="team")), day) == []
