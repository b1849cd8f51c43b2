"""The check of several nodes at once: what keeps its pods on nodes of their own, and lets them know of each other."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest
from gpu_ci.kubernetes.smoke_job import SmokeJob, SmokeJobArgs
from gpu_smoke import options

from tests.gpu_ci import harness

JOB, SERVICE = "kubernetes:batch/v1:Job", "kubernetes:core/v1:Service"
CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
COMPUTED = {
    CONFIG_MAP: {"metadata": {"name": "l4-check-1a2b3c4d"}},
    SERVICE: {"metadata": {"name": "l4-peers-1a2b3c4d"}},
}
IMAGE = f"docker.io/pytorch/pytorch:2.10.0-cuda13.0-cudnn9-runtime@sha256:{'0' * 64}"


def args(**changes: Any) -> SmokeJobArgs:
    return SmokeJobArgs(**{"namespace": "gpu-ci", "pool": "l4", "image": IMAGE, "nodes": 3, **changes})


def deployed(succeeded: int = 3, **changes: Any) -> harness.Deployment:
    computed = {**COMPUTED, JOB: {"status": {"succeeded": succeeded}}}
    return harness.deploy(lambda: SmokeJob("l4", args(**changes)), computed=computed)


def inputs(of: str, **changes: Any) -> dict[str, Any]:
    [row] = [row for row in deployed(int(changes.get("nodes", 3)), **changes).rows if row.type == of]
    return row.inputs


def pod(**changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = inputs(JOB, **changes)["spec"]["template"]["spec"]
    return found


def test_as_many_pods_as_nodes_run_at_once_and_the_first_that_fails_fails_them_all() -> None:
    spec = inputs(JOB)["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 3, 3)
    assert spec["backoffLimit"] == 0
    assert {"podFailurePolicy", "backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"} & set(spec) == set()


def test_no_two_of_its_pods_are_on_one_node_at_the_same_time() -> None:
    template = inputs(JOB)["spec"]["template"]
    [term] = template["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["topologyKey"] == "kubernetes.io/hostname"
    assert (
        term["labelSelector"]
        == {"matchLabels": template["metadata"]["labels"]}
        == {"matchLabels": {"gpu-ci-pool": "l4"}}
    )


def test_its_pods_find_each_other_by_a_headless_service_that_names_only_those_that_run() -> None:
    given = inputs(SERVICE)
    assert given["spec"] == {"clusterIP": "None", "selector": {"gpu-ci-pool": "l4"}}
    assert given["metadata"] == {"namespace": "gpu-ci", "labels": {"gpu-ci-pool": "l4"}}
    assert pod()["subdomain"] == "l4-peers-1a2b3c4d"


def test_the_check_reads_who_is_checked_with_it_and_gives_up_before_the_job_does() -> None:
    [container] = pod(deadlineSec=1200)["containers"]
    fields = {one["name"]: one["valueFrom"]["fieldRef"]["fieldPath"] for one in container["env"] if "valueFrom" in one}
    assert fields == {"JOB_NAME": "metadata.labels['batch.kubernetes.io/job-name']", "NODE_NAME": "spec.nodeName"}
    said = [
        word.replace("$(JOB_NAME)", "l4-job-9").replace("$(NODE_NAME)", "ip-10-0-0-7") for word in container["command"]
    ]
    chosen = options.parse(said[2:], {})
    assert chosen.peers == tuple(f"l4-job-9-{index}.l4-peers-1a2b3c4d" for index in range(3))
    assert (chosen.node, chosen.peers_sec, chosen.linger_sec) == ("ip-10-0-0-7", 600, 60)


def test_no_container_of_a_pod_ends_before_its_check_or_the_pod_would_have_no_name() -> None:
    spec = pod()
    assert [container["name"] for container in spec["containers"]] == ["gpu-smoke"]
    assert [container["name"] for container in spec["initContainers"]] == ["unasked"]


def test_one_node_is_checked_as_ever() -> None:
    rows = deployed(1, nodes=1).rows
    assert [row.type for row in rows if row.type == SERVICE] == []
    spec = inputs(JOB, nodes=1)["spec"]
    assert sorted(spec) == ["activeDeadlineSeconds", "backoffLimit", "template"]
    assert {"affinity", "subdomain", "initContainers"} & set(spec["template"]["spec"]) == set()
    container, unasked = spec["template"]["spec"]["containers"]
    assert unasked["name"] == "unasked"
    assert [one for one in container["env"] if "valueFrom" in one] == []
    assert container["command"][-2:] == ["--termination-log", "/dev/termination-log"]


def test_how_many_nodes_have_passed_is_an_output() -> None:
    deployment = deployed()
    assert deployment.outputs[deployment.rows[0].urn] == {"verdict": "pass", "provenNodes": 3}


@pytest.mark.parametrize("succeeded", [0, 2])
def test_fewer_passes_than_nodes_are_no_pass(succeeded: int) -> None:
    with pytest.raises(pulumi.RunError, match="the smoke Job has not succeeded, so it does not prove the GPUs"):
        deployed(succeeded)


def test_a_namespace_with_just_enough_gpus_will_do() -> None:
    assert args(gpus=8, namespaceGpus=24).namespace_gpus == 24
