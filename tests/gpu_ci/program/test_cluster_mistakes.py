"""Mistakes of pools on clusters: all of them at once, each with what to write instead."""

from __future__ import annotations

import copy
from datetime import date
from typing import Any

import pytest
from gpu_ci.program import stack_warnings

from tests.gpu_ci.program.stack import ON_CLUSTER, config, load, told
from tests.gpu_ci.program.test_clusters import IMAGE, stack


def of_cluster(**changes: Any) -> dict[str, Any]:
    """The stack, with these changes of its cluster."""
    return stack(clusters={"ci": {**ON_CLUSTER["gpu-ci:clusters"]["ci"], **changes}})


def test_a_namespace_that_another_one_has_left_is_free() -> None:
    values = of_cluster(namespace="arc-systems", controller={"namespace": "arc"})
    assert [pool.name for pool in load(values).specs] == ["a10g"]


def test_a_pool_whose_nodes_have_no_plugin_is_not_kept_from_the_clusters() -> None:
    kept_off = {"devicePlugin": {"builtInPools": ["elsewhere", "a10g"]}}
    values = of_cluster(**kept_off)
    values["gpu-ci:pools"]["a10g"]["amiType"] = "BOTTLEROCKET_x86_64_NVIDIA"
    assert [pool.name for pool in load(values).specs] == ["a10g"]


@pytest.mark.parametrize("key", ["gpu-ci:site", "gpu-ci:github", "gpu-ci:clusters"])
def test_fields_of_an_unreadable_key_are_not_reported_as_missing(key: str) -> None:
    found = told(stack(), secrets=[key])
    assert found.startswith(f"Pulumi.staging.yaml: {key}: is a secret, but ")
    assert "config rm" not in found


SHARED = {"kind": "time-slicing", "replicas": 4}


def sharing(**changes: Any) -> dict[str, Any]:
    """The clusters of the stack, with this way to hand out GPUs."""
    found: dict[str, Any] = copy.deepcopy(ON_CLUSTER["gpu-ci:clusters"])
    found["ci"]["devicePlugin"] = {"sharing": {**SHARED, **changes}}
    return found


def test_gpus_that_are_shared_under_their_own_name_are_taken() -> None:
    assert [pool.name for pool in load(stack(clusters=sharing(renameByDefault=False))).specs] == ["a10g"]


def test_mixed_mig_is_refused_and_single_taken() -> None:
    def clusters(strategy: str) -> dict[str, Any]:
        found: dict[str, Any] = copy.deepcopy(ON_CLUSTER["gpu-ci:clusters"])
        found["ci"]["devicePlugin"] = {"sharing": {"kind": "mig", "strategy": strategy}}
        return found

    assert "\n  got: nvidia.com/mig-…\n" in told(stack(clusters=clusters("mixed")))
    assert [pool.name for pool in load(stack(clusters=clusters("single"))).specs] == ["a10g"]


def test_nodes_of_bottlerocket_have_a_plugin_of_their_own_whatever_the_cluster_shares() -> None:
    values = stack({"amiType": "BOTTLEROCKET_x86_64_NVIDIA"}, clusters=sharing())
    assert [pool.name for pool in load(values).specs] == ["a10g"]


DAY = date(2025, 6, 28)


def test_a_pull_secret_that_the_stack_does_not_make_is_worth_a_word() -> None:
    values = stack({"runner": {"image": IMAGE, "imagePullSecrets": ["ghcr"]}})
    [warning] = stack_warnings.warnings(load(values), DAY)
    assert warning.startswith("gpu-ci:pools.a10g.runner.imagePullSecrets: the stack does not create the Secret ghcr")
    values["gpu-ci:clusters"]["ci"]["imagePullSecrets"] = [
        {"name": "ghcr", "registry": "ghcr.io", "username": "bot", "password": "projects/acme-ci/secrets/ghcr"}
    ]
    assert stack_warnings.warnings(load(values), DAY) == []


@pytest.mark.parametrize(
    "mode", [{"kind": "kubernetes-novolume"}, {"kind": "kubernetes", "storageClass": "gp3", "workGib": 10}]
)
def test_runners_that_create_pods_are_said_to_give_jobs_the_apps_key(mode: dict[str, Any]) -> None:
    values = stack({"runner": {"image": IMAGE, "containerMode": mode}, "smoke": {"image": IMAGE}})
    path = "gpu-ci:pools.a10g.runner.containerMode"
    [warning, closed] = stack_warnings.warnings(load(values), DAY)
    assert warning.startswith(f"{path}: a job that gets the token of its runner")
    assert closed.startswith(f"{path}: network policies block private addresses, so jobs fail")
    for key, value in (("privateRanges", ["172.20.0.1/32"]), ("networkPolicies", False)):
        others = copy.deepcopy(values)
        others["gpu-ci:clusters"]["ci"][key] = value
        assert stack_warnings.warnings(load(others), DAY) == [warning]


def test_a_cluster_without_a_pool_is_worth_a_word() -> None:
    values = config() | {"gpu-ci:clusters": ON_CLUSTER["gpu-ci:clusters"]}
    assert stack_warnings.warnings(load(values), DAY) == [
        (
            "gpu-ci:clusters.ci: no pool uses this cluster, so the stack creates nothing on it; hint: remove it, or "
            "set it as the clusterName of a pool"
        )
    ]
    assert stack_warnings.warnings(load(stack()), DAY) == []


def test_a_quota_of_aws_is_printed_with_its_name() -> None:
    assert stack_warnings.warnings(load(stack(quotas={"us-east-1": {"L-DB2E81BA": 8}})), DAY) == [
        (
            'gpu-ci:quotas: lacks L-3819A6DF "All G and VT Spot Instance Requests" (us-east-1), '
            "so these limits are unknown"
        )
    ]
