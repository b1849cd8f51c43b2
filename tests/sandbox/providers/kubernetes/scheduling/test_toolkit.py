"""The GPUs of a container depend on the toolkit of its node, the device plugin and its pod."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from gpu_ci.aws.nodes.user_data import user_data
from gpu_ci.kubernetes import gpu_namespace
from gpu_ci.kubernetes.smoke_job import SmokeJob, SmokeJobArgs
from gpu_ci.payload import smoke_archive
from pulumi_sandbox.providers.kubernetes.scheduling.nodes import BY_MOUNTS, PACKAGED, Toolkit, gpus, toolkit
from pulumi_sandbox.providers.kubernetes.workloads import jobs
from pulumi_sandbox.providers.readiness import NotReady
from pulumi_sandbox.world.store import Record

from tests.gpu_ci.harness import deploy
from tests.sandbox.providers.kubernetes.conftest import GPU, JOB, Cluster
from tests.sandbox.providers.kubernetes.scheduling.test_scheduler import group, plugin
from tests.sandbox.providers.kubernetes.workloads.test_network import policies

CLOSED = Toolkit(by_variable=False, by_mounts=False)
READY = Toolkit(by_variable=False, by_mounts=True)
MOUNTS, CDI, VARIABLE = ["volume-mounts"], ["cdi-cri"], ["envvar"]
ALL = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
ASKING = {"resources": {"limits": {GPU: 1}}}
OPEN = base64.b64encode(b"accept-nvidia-visible-devices-envvar-when-unprivileged = true").decode()


@pytest.mark.parametrize(
    ("ami", "given", "expected"),
    [
        ("AL2023_x86_64_NVIDIA", None, PACKAGED),
        ("AL2023_x86_64_NVIDIA", user_data("al2023"), READY),
        ("AL2023_ARM_64_NVIDIA", OPEN, PACKAGED),
        ("AL2023_ARM_64_NVIDIA", "[secret:0a1b2c]", PACKAGED),
        ("BOTTLEROCKET_x86_64_NVIDIA", None, READY),
        ("BOTTLEROCKET_x86_64_NVIDIA", user_data("bottlerocket"), BY_MOUNTS),
        ("BOTTLEROCKET_x86_64_NVIDIA", OPEN, Toolkit(by_variable=True, by_mounts=True)),
    ],
)
def test_a_nodes_user_data_says_what_its_toolkit_listens_to(ami: str, given: Any, expected: Toolkit) -> None:
    assert toolkit(ami, given) == expected


@pytest.mark.parametrize(
    ("container", "strategies", "counts"),
    [
        # Of four: on a node as the package has it, closed, and closed with mounts.
        ({"env": ALL}, MOUNTS, (4, 0, 0)),
        ({}, VARIABLE, (0, 0, 0)),
        (ASKING, VARIABLE, (1, 0, 0)),
        (ASKING, MOUNTS, (0, 0, 1)),
        (ASKING, CDI, (1, 1, 1)),
        ({**ASKING, "env": ALL}, CDI, (4, 1, 1)),
        ({"securityContext": {"privileged": True}}, MOUNTS, (4, 4, 4)),
    ],
)
def test_a_container_has_what_the_page_on_kubernetes_says(
    container: dict[str, Any], strategies: list[str], counts: tuple[int, int, int]
) -> None:
    assert tuple(gpus(container, node, strategies, 4) for node in (PACKAGED, CLOSED, READY)) == counts


@pytest.fixture
def proven(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """A cluster with the plugin, and what a smoke Job brings; its own check is taken to pass."""
    monkeypatch.setattr(jobs, "NEW_NODE_SEC", 0.0)
    plugin(cluster, deviceListStrategy="volume-mounts", affinity={}, tolerations=[{"operator": "Exists"}])
    cluster.settings("guest: {}\nvalues: {kubernetes: {namespaces: [ci]}}\n")
    meta = {"name": "check", "namespace": "ci"}
    cluster.up(
        "kubernetes:core/v1:ConfigMap", "check", {"metadata": meta, "binaryData": {"gpu_smoke.pyz": smoke_archive()}}
    )
    return cluster


def smoke_job(**choices: Any) -> dict[str, Any]:
    """The Job of a SmokeJob, without the container that computes."""
    image = f"docker.io/pytorch/pytorch:2.10.0@sha256:{'0' * 64}"
    made = deploy(
        lambda: SmokeJob("l4", SmokeJobArgs(namespace="ci", pool="l4", image=image, **choices)),
        computed={"kubernetes:core/v1:ConfigMap": {"metadata": {"name": "check"}}, JOB: {"status": {"succeeded": 1}}},
    )
    given: dict[str, Any] = made.one(":Job").inputs
    pod = given["spec"]["template"]["spec"]
    pod["containers"] = pod["containers"][1:]
    pod["nodeSelector"] = {}
    return {**given, "metadata": {"name": "smoke", "namespace": "ci"}}


def nodes(cluster: Cluster, given: str | None) -> None:
    template = {"userData": given} if given else {}
    cluster.world.insert(Record("aws:ec2/launchTemplate:LaunchTemplate", "lt-1", "t4", "", template, template))
    group(cluster, instanceTypes=["g4dn.12xlarge"], launchTemplate={"id": "lt-1", "version": "1"})


def test_a_smoke_job_passes_where_the_nodes_are_closed(proven: Cluster) -> None:
    nodes(proven, user_data("al2023"))
    proven.up(JOB, "smoke", smoke_job())
    assert ("status", "gpu-smoke: l4: pass: a container that requested no GPU has none") in proven.messages


def test_a_smoke_job_fails_where_nodes_give_gpus_to_whoever_says_so(proven: Cluster) -> None:
    nodes(proven, None)
    with pytest.raises(NotReady) as caught:
        proven.up(JOB, "smoke", smoke_job())
    reasons = "\n".join(caught.value.reasons)
    assert "[Error] l4: a container that requested no GPU has 4: nvidia0, nvidia1, nvidia2, nvidia3\nhint: " in reasons


def test_a_smoke_job_passes_where_network_policies_close_the_namespace_after_a_moment(proven: Cluster) -> None:
    nodes(proven, user_data("al2023"))
    policies(proven, gpu_namespace.closed())
    proven.up(JOB, "smoke", smoke_job(closedToCluster=True))
    assert ("status", "gpu-smoke: l4: pass: a container that requested no GPU has none") in proven.messages


@pytest.mark.slow
def test_a_smoke_job_fails_where_the_cluster_does_not_enforce_network_policies(proven: Cluster) -> None:
    nodes(proven, user_data("al2023"))
    policies(proven, gpu_namespace.closed())
    proven.settings("guest: {}\nvalues: {kubernetes: {namespaces: [ci], networkPolicies: false}}\n")
    with pytest.raises(NotReady) as caught:
        proven.up(JOB, "smoke", smoke_job(closedToCluster=True))
    found = "\n".join(caught.value.reasons)
    assert "[Error] l4: a container reaches 127.0.0.1:" in found
    assert "hint: the cluster does not enforce the network policies of this namespace" in found
