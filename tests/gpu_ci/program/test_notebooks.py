"""Notebook pipelines of a stack file: what they get of their pool and cluster, and what is created around them."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from pulumi.runtime import rpc
from pulumi_sandbox.providers.kubernetes.tekton.listener import evaluate

from tests.gpu_ci.harness import Deployment, Row
from tests.gpu_ci.program import gke
from tests.gpu_ci.program.test_program import ALL_CALLS, GET_CLUSTER, gke_cluster, run

pytestmark = pytest.mark.usefixtures("short_definitions")

IMAGE = f"ghcr.io/acme/notebook:1@sha256:{'a1' * 32}"
SECRETS = {name: f"projects/example-ci/secrets/{name}" for name in ("webhook", "key", "slack", "ghcr")}
ENTRY: dict[str, Any] = {
    "pool": "l4",
    "image": IMAGE,
    "repositories": ["kernels", "Detector"],
    "storage": {"kind": "bucket", "url": "gs://acme-notebooks/ci"},
    "access": {"kind": "ingress", "host": "notebooks.acme.dev", "ingressClassName": "nginx", "tlsSecret": "tls"},
    "webhookSecret": SECRETS["webhook"],
    "github": {"id": 19, "installationId": 20, "privateKey": SECRETS["key"]},
    "notify": {"url": SECRETS["slack"]},
    "imagePullSecrets": ["ghcr"],
}
LOGIN = {"name": "ghcr", "registry": "ghcr.io", "username": "bot", "password": SECRETS["ghcr"]}
PROJECT = {"gcp:organizations/getProject:getProject": lambda _: {"number": "123456789012"}}
POOLS = {"workloadIdentityConfigs": [{"workloadPool": "example-ci.svc.id.goog"}]}
CALLS = {**ALL_CALLS, **PROJECT, GET_CLUSTER: lambda asked: gke_cluster(asked, **POOLS)}


def on_gke(cluster: Any = None, **changes: Any) -> dict[str, Any]:
    entry = {key: value for key, value in {**ENTRY, **changes}.items() if value is not None}
    shared = {"tekton": {}, "imagePullSecrets": [LOGIN], **(cluster or {})}
    values: dict[str, Any] = gke.stack(cluster=shared, notebooks={"analysis": entry})
    return values


@cache
def deployed() -> Deployment:
    return run(on_gke(), calls=CALLS)


def row(name: str, found: Deployment | None = None) -> Row:
    [one] = [each for each in (found or deployed()).rows if each.name == name]
    return one


def plain(value: Any) -> Any:
    """Return a value without the wrapping of secrets."""
    if isinstance(value, dict):
        return plain(value["value"]) if rpc._special_sig_key in value else {key: plain(value[key]) for key in value}
    return value


def test_secrets_are_only_in_secrets_and_on_both_sides_of_the_webhook() -> None:
    data = {
        each.name: plain(each.inputs["stringData"])
        for each in deployed().rows
        if each.type == "kubernetes:core/v1:Secret"
    }
    held = {name: f"what {path} holds" for name, path in SECRETS.items()}
    assert data["analysis-webhook"] == {"secret": held["webhook"]}
    assert data["analysis-github"] == {"id": "19", "installationId": "20", "privateKey": held["key"]}
    assert data["analysis-notify"] == {"url": held["slack"]}
    assert "ghcr.io" in data["analysis-pods-pull-ghcr"][".dockerconfigjson"]
    for repository in ("kernels", "Detector"):
        hook = row(f"analysis-webhook-{repository.lower()}")
        assert hook.inputs["repository"] == repository
        assert plain(hook.inputs["configuration"]) == {
            "url": "https://notebooks.acme.dev/",
            "contentType": "json",
            "insecureSsl": False,
            "secret": held["webhook"],
        }
        assert row("analysis-eventlistener").urn in hook.request.dependencies
    rest = [each.inputs for each in deployed().rows if not each.type.endswith((":Secret", ":RepositoryWebhook"))]
    assert [value for value in held.values() if value in json.dumps(rest)] == []


def test_tasks_that_run_code_of_a_repository_read_no_secret_and_have_no_token() -> None:
    tests = {"repository": "kernels-tests", "revision": "v1"}
    found = run(on_gke(tests=tests), calls=CALLS)
    read = {}
    for each in found.rows:
        if each.type.endswith(":Task"):
            [step] = each.inputs["spec"]["steps"]
            sources = [one["valueFrom"]["secretKeyRef"]["name"] for one in step["env"] if "valueFrom" in one]
            read[step["name"]] = set(sources)
            assert "envFrom" not in step
            assert {"secret", "projected"}.isdisjoint(key for one in each.inputs["spec"]["volumes"] for key in one)
    github, notify = "analysis-github", "analysis-notify"
    with_secrets = {"prepare": {github}, "fetch-tests": {github}, "publish": {github, notify}}
    without: dict[str, set[str]] = {name: set() for name in ("execute", "convert", "test", "verdict")}
    assert read == {**without, **with_secrets}
    [template] = row("analysis-triggertemplate", found).inputs["spec"]["resourcetemplates"]
    assert template["spec"]["taskRunTemplate"]["podTemplate"]["automountServiceAccountToken"] is False


def cel(found: Deployment) -> tuple[str, str]:
    """Return the filter of the listener, and the expression for the name of a run."""
    [trigger] = plain(row("analysis-eventlistener", found).inputs["spec"])["triggers"]
    params = {each["name"]: each["value"] for one in trigger["interceptors"] for each in one["params"]}
    return params["filter"], params["overlays"][0]["expression"]


def pushed(**changes: Any) -> dict[str, Any]:
    repository = {"id": 123_450_050, "name": "Kernels", "full_name": "acme/Kernels", "default_branch": "main"}
    body = {"ref": "refs/heads/main", "deleted": False, "after": "0123456789abcdef" * 2, "repository": repository}
    return {"body": {**body, **changes, "repository": {**repository, **changes.get("repository", {})}}}


@pytest.mark.parametrize(
    ("choices", "push", "starts"),
    [
        ({}, {}, True),
        ({}, {"repository": {"full_name": "acme/detector"}}, True),
        ({}, {"repository": {"full_name": "fork/kernels"}}, False),
        ({}, {"repository": {"full_name": "acme/kernels2"}}, False),
        ({}, {"deleted": True}, False),
        ({}, {"ref": "refs/heads/other"}, False),
        ({}, {"ref": "refs/tags/main"}, False),
        ({"branches": ["release/1"]}, {}, False),
        ({"branches": ["main", "release/1"]}, {"ref": "refs/heads/release/1"}, True),
        ({"rolloutPercent": 50}, {}, False),
        ({"rolloutPercent": 51}, {}, True),
    ],
)
def test_pushes_of_the_listed_repositories_and_branches_start_a_run(
    choices: dict[str, Any], push: dict[str, Any], starts: bool
) -> None:
    found, _ = cel(run(on_gke(**choices), calls=CALLS) if choices else deployed())
    assert evaluate(found, pushed(**push)) is starts


def test_the_name_of_a_run_fits_into_a_label() -> None:
    _, name = cel(deployed())
    assert evaluate(name, pushed()) == "run-kernels-0123456789ab"
    long = evaluate(name, pushed(repository={"name": "A_b.c" + "x" * 95}))
    assert long == f"run-a-b-c{'x' * 31}-0123456789ab"
    assert len(long) <= 63


def test_gke_without_a_workload_pool_is_refused() -> None:
    with pytest.raises(Exception, match="has no Workload Identity Federation for GKE"):
        run(on_gke(), calls={**CALLS, GET_CLUSTER: gke_cluster})
