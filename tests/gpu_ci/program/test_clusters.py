"""Pools on EKS clusters: what a stack file says of them, what they share, and what they wait for."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cache
from typing import Any

import pulumi
import pytest

from tests.gpu_ci.harness import Deployment
from tests.gpu_ci.program.stack import ON_CLUSTER, config, load, refused
from tests.gpu_ci.program.test_program import ALL_CALLS, KEY, cluster, run
from tests.gpu_ci.support import COMPUTED

pytestmark = pytest.mark.usefixtures("short_definitions")

IMAGE = f"ghcr.io/acme/cuda-runner:2.336.0@sha256:{'a1' * 32}"
APP = {"id": 17, "installationId": 18}
A10G: dict[str, Any] = {
    "kind": "eks-runners",
    "clusterName": "ci",
    "instanceTypes": ["g5.2xlarge", "g5.4xlarge"],
    "market": "spot",
    "max": 2,
    "runner": {"image": IMAGE},
}


def stack(pool: dict[str, Any] | None = None, **keys: Any) -> dict[str, Any]:
    """A stack of one pool on a cluster, after these changes of the pool and of whole keys."""
    around = copy.deepcopy(ON_CLUSTER) | {f"gpu-ci:{name}": value for name, value in keys.items()}
    return config({"a10g": {**A10G, **(pool or {})}}) | around


ARN = "arn:aws:secretsmanager:us-west-2:123456789012:secret:github-runner-app-key"
READ_SECRET = "aws:secretsmanager/getSecretVersion:getSecretVersion"


def on_aws_alone() -> dict[str, Any]:
    values = stack()
    del values["gcp:project"]
    values["gpu-ci:site"]["github"]["runnerApp"]["privateKey"] = ARN
    return values


def test_a_stack_on_aws_alone_needs_no_google_project() -> None:
    def secret(asked: Mapping[str, Any]) -> dict[str, str]:
        assert (asked["secretId"], asked["region"]) == (ARN, "us-west-2")
        return {"secretString": KEY}

    found = run(on_aws_alone(), calls=ALL_CALLS | {READ_SECRET: secret})
    assert found.one(":Secret").inputs["stringData"]["value"]["github_app_private_key"] == KEY
    assert [row.type for row in found.rows if row.type.startswith(("gcp:", "pulumi:providers:gcp"))] == []


def test_a_secret_of_aws_that_cannot_be_read_is_a_problem_at_its_place() -> None:
    def denied(_: Any) -> Any:
        raise RuntimeError("AccessDeniedException: no")

    with pytest.raises(Exception, match=r"runnerApp\.privateKey: cannot read arn:.* from AWS Secrets Manager"):
        run(on_aws_alone(), calls=ALL_CALLS | {READ_SECRET: denied})


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"gpu-ci:site": {"github": {"owner": "acme", "runnerApp": {**APP, "privateKey": "projects/p/secrets/k"}}}},
            "is missing, and secrets in Secret Manager need it: gpu-ci:site.github.runnerApp.privateKey",
        ),
        ({"gpu-ci:pools": {"a10g": A10G, "builds": {"kind": "cloud-build", "region": "us-central1"}}}, "is missing"),
    ],
)
def test_a_google_project_is_missing_if_something_is_on_google(changes: dict[str, Any], text: str) -> None:
    assert load(on_aws_alone()).project == ""
    found = refused(on_aws_alone() | changes).problems
    assert [(problem.path, problem.text) for problem in found] == [("gcp:project", text)]


@cache
def deployed() -> Deployment:
    """The stack as it is, for the tests that change nothing of it."""
    return run(stack())


def release(found: Deployment, name: str) -> dict[str, Any]:
    [row] = [row for row in found.rows if row.name == name]
    return row.inputs


def test_nothing_of_a_cluster_is_looked_up_where_no_pool_is_on_it() -> None:
    values = config()
    found = run(values | ON_CLUSTER | {"gpu-ci:site": {**ON_CLUSTER["gpu-ci:site"], **values["gpu-ci:site"]}})
    assert [row.type for row in found.rows if "aws" in row.type or "kubernetes" in row.type] == []


def on_cluster(strategy: str) -> dict[str, Any]:
    """The clusters' key with this way to tell nodes of GPUs."""
    given = copy.deepcopy(ON_CLUSTER["gpu-ci:clusters"])
    given["ci"]["devicePlugin"]["deviceListStrategy"] = strategy
    return dict(given)


@pytest.mark.parametrize(
    ("version", "image", "strategy", "is_taken"),
    [
        ("1.31", "AL2023_x86_64_NVIDIA", "cdi-cri", False),
        ("1.31", "AL2023_x86_64_NVIDIA", "volume-mounts", True),
        ("1.31", "BOTTLEROCKET_x86_64_NVIDIA", "cdi-cri", True),
        ("1.32", "AL2023_x86_64_NVIDIA", "cdi-cri", True),
    ],
)
def test_cdi_is_refused_where_the_nodes_have_it_off(version: str, image: str, strategy: str, is_taken: bool) -> None:
    calls = ALL_CALLS | {"aws:eks/getCluster:getCluster": lambda asked: {**cluster(asked), "version": version}}
    values = stack({"amiType": image}, clusters=on_cluster(strategy))
    if is_taken:
        assert run(values, calls=calls).one(":NodeGroup").inputs["version"] == version
        return
    with pytest.raises(pulumi.RunError) as refusal:
        run(values, preview=True, calls=calls)
    assert str(refusal.value) == (
        "Pulumi.stack.yaml: gpu-ci:clusters.ci.devicePlugin.deviceListStrategy: gives jobs of a10g no GPU: "
        "containerd has CDI off on AL2023 with Kubernetes 1.31\n  got: 'cdi-cri'\n"
        "  expected: volume-mounts, or Kubernetes 1.32 or newer\n"
        "  hint: remove it: the default, volume-mounts, works on nodes of every pool"
    )


def login(name: str) -> dict[str, str]:
    return {"name": name, "registry": f"{name}.io", "username": "bot", "password": f"projects/acme-ci/secrets/{name}"}


def with_job_pods(*, novolume: dict[str, Any], **clusters: Any) -> dict[str, Any]:
    """The stack with two more pools, whose jobs run in pods of their own; one has its own App."""
    modes = {"l4": {"kind": "kubernetes-novolume"}, "t4": {"kind": "kubernetes", "storageClass": "gp3", "workGib": 9}}
    described = {**ON_CLUSTER["gpu-ci:clusters"]["ci"], "imagePullSecrets": [login("ghcr"), login("quay")], **clusters}
    values = stack(clusters={"ci": described})
    values["gpu-ci:site"]["github"]["poolApps"] = {"l4": {"id": 7, "installationId": 8, "privateKey": ARN}}
    for name, mode in modes.items():
        values["gpu-ci:pools"][name] = {**A10G, "runner": {"image": IMAGE, "containerMode": mode}}
    values["gpu-ci:pools"]["l4"] |= {"max": 5, "prePull": {"images": [IMAGE]}, **novolume}
    return values


def of_namespaces(found: Deployment, kind: str) -> dict[str, set[str]]:
    """The names of the objects of a kind, by namespace."""
    names: dict[str, set[str]] = {}
    for row in found.rows:
        if row.type.endswith(kind):
            metadata = row.inputs["metadata"]
            names.setdefault(metadata["namespace"], set()).add(metadata.get("name", row.name))
    return names


OWN_APP_KEY = "-----BEGIN PRIVATE KEY-----\nown\n-----END PRIVATE KEY-----\n"


def test_a_job_that_gets_the_token_of_its_runner_finds_only_the_secrets_and_pods_of_its_own_pool() -> None:
    runner = {"image": IMAGE, "containerMode": {"kind": "kubernetes-novolume"}, "imagePullSecrets": ["quay"]}
    found = run(
        with_job_pods(novolume={"runner": runner}),
        calls=ALL_CALLS | {READ_SECRET: lambda _: {"secretString": OWN_APP_KEY}},
    )
    assert of_namespaces(found, ":Secret") == {
        "gpu-ci": {"ghcr", "quay", "a10g-runners-app"},
        "gpu-ci-l4": {"quay", "l4-runners-app"},
        "gpu-ci-t4": {"t4-runners-app"},
    }
    own = {"a10g": "gpu-ci", "l4": "gpu-ci-l4", "t4": "gpu-ci-t4"}
    assert of_namespaces(found, ":Job") == {space: {f"{pool}-smoke-job"} for pool, space in own.items()}
    assert of_namespaces(found, ":DaemonSet") == {"gpu-ci-l4": {"l4-pre-pull-daemonset"}}
    releases = {row.name: row.inputs["namespace"] for row in found.rows if row.name.endswith("-runners-release")}
    assert releases == {f"{pool}-runners-release": space for pool, space in own.items()}
    apps = {row.name: row.inputs["stringData"]["value"] for row in found.rows if row.name.endswith("-runners-app")}
    assert {name: (app["github_app_id"], app["github_app_private_key"]) for name, app in apps.items()} == {
        "a10g-runners-app": ("17", KEY),
        "l4-runners-app": ("7", OWN_APP_KEY),
        "t4-runners-app": ("17", KEY),
    }
    label = "pod-security.kubernetes.io/enforce"
    labels = {row.name: row.inputs["metadata"]["labels"] for row in found.rows if row.type.endswith("v1:Namespace")}
    assert {name: each[label] for name, each in labels.items() if "arc" not in name and "plugin" not in name} == {
        "ci-runners-namespace": "restricted",
        "l4-pods-namespace": "baseline",
        "t4-pods-namespace": "baseline",
    }


def test_a_namespace_of_its_own_has_the_quota_the_policies_and_the_queue_of_its_pool() -> None:
    kueue = {"queues": {"vision": {"gpus": 4}, "text": {"gpus": 4}}}
    values = with_job_pods(novolume={"queue": "text"}, kueue=kueue)
    values["gpu-ci:pools"]["a10g"]["queue"] = values["gpu-ci:pools"]["t4"]["queue"] = "vision"
    found = run(values, calls=ALL_CALLS | {READ_SECRET: lambda _: {"secretString": OWN_APP_KEY}})
    quotas = {
        row.inputs["metadata"]["namespace"]: row.inputs["spec"]["hard"]["requests.nvidia.com/gpu"]
        for row in found.rows
        if row.type.endswith(":ResourceQuota")
    }
    assert quotas == {"gpu-ci": "3", "gpu-ci-l4": "6", "gpu-ci-t4": "3"}
    assert of_namespaces(found, ":LocalQueue") == {"gpu-ci": {"vision"}, "gpu-ci-l4": {"text"}, "gpu-ci-t4": {"vision"}}
    policies = of_namespaces(found, ":NetworkPolicy")
    assert policies == {space: {"deny", "dns", "egress"} for space in quotas}


def test_a_pool_whose_jobs_run_in_the_runner_stays_where_it_is_beside_one_with_pods() -> None:
    beside = with_job_pods(novolume={})
    alone = copy.deepcopy(beside)
    for name in ("l4", "t4"):
        del alone["gpu-ci:pools"][name]
    del alone["gpu-ci:site"]["github"]["poolApps"]
    before, after = (
        {
            row.name: row.inputs
            for row in run(values, calls=ALL_CALLS | {READ_SECRET: lambda _: {"secretString": OWN_APP_KEY}}).rows
            if row.name.startswith(("a10g", "ci-runners"))
        }
        for values in (alone, beside)
    )
    assert before == after


@pytest.mark.parametrize(("nodes", "gpus"), [(1, "12"), (2, "16")])
def test_a_check_has_gpus_in_the_quota_while_jobs_have_all_of_the_pools_own(nodes: int, gpus: str) -> None:
    found = run(stack({"instanceTypes": ["g5.12xlarge"], "max": 2, "smoke": {"nodes": nodes}}), preview=True)
    [quota] = [row for row in found.rows if row.name == "ci-runners-quota"]
    assert quota.inputs["spec"]["hard"]["requests.nvidia.com/gpu"] == gpus


def test_the_whole_pool_may_be_checked_before_a_runner_is_there() -> None:
    found = run(stack({"max": 2, "smoke": {"nodes": 2, "deadlineSec": 3600}}), preview=True)
    [job] = [row for row in found.rows if row.name == "a10g-smoke-job"]
    assert (job.inputs["spec"]["completions"], job.inputs["spec"]["parallelism"]) == (2, 2)
    urns = {row.name: row.urn for row in found.rows}
    assert urns["a10g-smoke-peers"] in job.request.dependencies
    assert urns["a10g-nodes-nodes"] in {
        urn for row in found.rows if row.name == "a10g-smoke-peers" for urn in row.request.dependencies
    }


def test_private_images_of_a_cluster_are_pulled_with_its_logins() -> None:
    login = {
        "name": "ghcr",
        "registry": "ghcr.io",
        "username": "acme-bot",
        "password": "projects/acme-ci/secrets/ghcr-token",
    }
    clusters = {"ci": {**ON_CLUSTER["gpu-ci:clusters"]["ci"], "imagePullSecrets": [login]}}
    found = run(stack({"runner": {"image": IMAGE, "imagePullSecrets": ["ghcr"]}}, clusters=clusters))
    rows = {row.name: row for row in found.rows}
    assert rows["ci-runners-pull-ghcr"].inputs["metadata"] == {"name": "ghcr", "namespace": "gpu-ci"}
    job = rows["a10g-smoke-job"]
    assert job.inputs["spec"]["template"]["spec"]["imagePullSecrets"] == [{"name": "ghcr"}]
    assert rows["ci-runners-pull-ghcr"].urn in job.request.dependencies
    # A new password replaces the Secret, and with it all that takes a value from it.
    takers = {urn for each in job.request.propertyDependencies.values() for urn in each.urns}
    assert rows["ci-runners-pull-ghcr"].urn not in takers
    assert rows["a10g-runners-release"].inputs["values"]["template"]["spec"]["imagePullSecrets"] == [{"name": "ghcr"}]


def test_another_way_to_hand_out_gpus_is_another_check_and_another_pool_is_none() -> None:
    def mark(values: dict[str, Any]) -> Any:
        job = release(run(values), "a10g-smoke-job")
        return job["spec"]["template"]["metadata"]["annotations"]["gpu-ci-proves"]

    other = copy.deepcopy(ON_CLUSTER["gpu-ci:clusters"])
    other["ci"]["devicePlugin"]["deviceListStrategy"] = "cdi-cri"
    beside = stack()
    beside["gpu-ci:pools"]["l4"] = {**A10G, "amiType": "BOTTLEROCKET_x86_64_NVIDIA"}
    assert mark(stack()) == mark(beside) != mark(stack(clusters=other))


@pytest.mark.parametrize(
    ("of", "change"),
    [
        ("aws:ec2/launchTemplate:LaunchTemplate", {"latestVersion": 4}),
        ("aws:eks/nodeGroup:NodeGroup", {"releaseVersion": "1.35.3-20261001"}),
        ("aws:eks/nodeGroup:NodeGroup", {"amiType": "BOTTLEROCKET_x86_64_NVIDIA"}),
    ],
)
def test_nodes_made_of_something_else_are_checked_again(
    monkeypatch: pytest.MonkeyPatch, of: str, change: dict[str, Any]
) -> None:
    before = release(run(stack()), "a10g-smoke-job")
    assert release(run(stack()), "a10g-smoke-job") == before
    monkeypatch.setitem(COMPUTED, of, {**COMPUTED[of], **change})
    assert release(run(stack()), "a10g-smoke-job") != before


def test_scale_sets_of_one_name_on_two_clusters_are_two() -> None:
    values = stack(clusters=dict.fromkeys(("ci", "other"), ON_CLUSTER["gpu-ci:clusters"]["ci"]))
    values["gpu-ci:pools"]["b"] = {**A10G, "clusterName": "other", "runner": {"image": IMAGE, "scaleSetName": "a10g"}}
    assert [pool.name for pool in load(values).specs] == ["a10g", "b"]


def test_the_longest_name_of_a_pool_is_deployed() -> None:
    values = stack()
    values["gpu-ci:pools"] = {"p" * 40: {**A10G, "prePull": {}}}
    found = run(values)
    assert found.one(":NodeGroup").inputs["labels"]["gpu-ci-pool"] == "p" * 40
    parts = [row.name for row in found.rows if row.parent_name == "p" * 40]
    assert [len(name) for name in parts] == [40, 40, 40, 40]
    assert len(set(parts)) == 4
