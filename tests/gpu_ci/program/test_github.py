"""The settings of a stack file on GitHub: a runner group, secrets and rules, created as the site's App."""

from __future__ import annotations

import json
from typing import Any

import pytest
from gpu_common import pulumi_wire

from tests.gpu_ci.program.stack import L4, config, config_of, load, refused, site
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


def test_staging_has_every_kind_of_pool_and_the_github_side() -> None:
    rows = run(config_of("Pulumi.staging.yaml")).rows
    components = sorted(
        (row.type, row.name) for row in rows if row.type.startswith("gpu-ci:") and not row.request.custom
    )
    assert components == [
        ("gpu-ci:aws:EksRunnerPool", "a10g"),
        ("gpu-ci:aws:GpuNodeGroup", "a10g-nodes"),
        ("gpu-ci:gcp:BuildGpuBridge", "gpu-tests"),
        ("gpu-ci:gcp:BuildPool", "builds"),
        ("gpu-ci:gcp:GkeGpuNodePool", "l4-gke-nodes"),
        ("gpu-ci:gcp:GkeRunnerPool", "l4-gke"),
        ("gpu-ci:gcp:RunnerPool", "l4"),
        ("gpu-ci:gcp:RunnerPool", "t4"),
        ("gpu-ci:github:ActionsSecrets", "kernels"),
        ("gpu-ci:github:RepositoryRules", "kernels"),
        ("gpu-ci:github:RunnerGroup", "runners"),
        ("gpu-ci:kubernetes:ArcController", "example-ci-arc"),
        ("gpu-ci:kubernetes:ArcController", "gke-ci-arc"),
        ("gpu-ci:kubernetes:DevicePlugin", "example-ci-plugin"),
        ("gpu-ci:kubernetes:GpuNamespace", "example-ci-runners"),
        ("gpu-ci:kubernetes:GpuNamespace", "gke-ci-runners"),
        ("gpu-ci:kubernetes:RunnerScaleSet", "a10g-runners"),
        ("gpu-ci:kubernetes:RunnerScaleSet", "l4-gke-runners"),
        ("gpu-ci:kubernetes:SmokeJob", "a10g-smoke"),
        ("gpu-ci:kubernetes:SmokeJob", "l4-gke-smoke"),
    ]


def test_a_secret_is_read_where_it_lies_and_goes_on_as_a_secret() -> None:
    found = run(stack())
    secret = found.one(":ActionsSecret").inputs
    assert secret["value"] == {pulumi_wire.SIGNATURE: pulumi_wire.SECRET, "value": f"what {TOKEN} holds"}
    assert secret["secretName"] == "TOKEN"
    exported = found.outputs[STACK]["github"]
    assert exported == {
        "owner": "acme",
        "runnerGroup": "gpu-stack",
        "secrets": {"kernels": "repository kernels"},
        "rules": {"kernels": 7},
    }


def test_the_app_acts_with_a_key_that_stays_a_secret() -> None:
    key = "projects/example-ci/secrets/app-key"
    provider = run(stack(app={"id": 17, "installationId": 18, "privateKey": key})).one("pulumi:providers:github").inputs
    assert provider["owner"] == "acme"
    assert provider["appAuth"][pulumi_wire.SIGNATURE] == pulumi_wire.SECRET
    assert json.loads(provider["appAuth"]["value"]) == {
        "id": "17",
        "installationId": "18",
        "pemFile": f"what {key} holds",
    }


def test_everything_on_github_is_created_with_the_app_of_the_site() -> None:
    found = run(stack(app={"id": 17, "installationId": 18, "privateKey": "projects/example-ci/secrets/app-key"}))
    provider = f"{found.one('pulumi:providers:github').urn}::github-acme-id"
    made_by = {row.name: row.request.provider for row in found.rows if row.type.startswith("github:")}
    assert made_by == {
        "kernels-ruleset": provider,
        "kernels-secret-TOKEN": provider,
        "runners-group": provider,
    }


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


def test_secrets_take_their_transform() -> None:
    entry = KERNELS["secrets"]["kernels"] | {"transform": {"secret-TOKEN": {"repository": "website"}}}
    found = run(stack(KERNELS | {"secrets": {"kernels": entry}}))
    assert found.one("ActionsSecret").inputs["repository"] == "website"
