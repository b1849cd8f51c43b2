"""Mistakes of pools on clusters: all of them at once, each with what to write instead."""

from __future__ import annotations

import copy
from datetime import date
from typing import Any

import pytest
from gpu_ci.program import stack_warnings

from tests.gpu_ci.program.stack import ON_CLUSTER, config, load, refused, told
from tests.gpu_ci.program.test_clusters import HERE, IMAGE, stack

POOL, CLUSTER = "gpu-ci:pools.a10g", "gpu-ci:clusters.ci"
# Each mistake by the path of its problem. No two of them are about the same field.
MISTAKES: dict[str, Any] = {
    f"{POOL}.labels": 3,
    f"{POOL}.max": "many",
    f"{POOL}.zones[0]": ["us-east-1f"],
    f"{POOL}.instanceTypes[1]": ["g5.2xlarge", 3],
    f"{POOL}.runner.image": "ghcr.io/acme/cuda-runner:2.336.0",
    f"{POOL}.runner.cpus": 80,
    f"{POOL}.runner.containerMode": "docker",
    f"{CLUSTER}.region": 3,
    f"{CLUSTER}.namespace": "default",
    f"{CLUSTER}.subnets.us-east-1b": 3,
    f"{CLUSTER}.devicePlugin.deviceListStrategy": "nvidia",
    f"{CLUSTER}.devicePlugin.configs.default": {"kind": "none"},
    f"{CLUSTER}.devicePlugin.configs.half": 2,
    f"{CLUSTER}.controller": [],
}
# What is judged by another one, which is no value it could be judged by.
FOLLOWS = {(f"{POOL}.instanceTypes[1]", f"{POOL}.runner.cpus")}


def wrong(values: dict[str, Any], path: str) -> dict[str, Any]:
    """The same stack with this mistake in it."""
    found = copy.deepcopy(values)
    at: Any = found
    *steps, last = path.partition("[")[0].split(".")
    for step in steps:
        at = at.setdefault(step, {})
    at[last] = copy.deepcopy(MISTAKES[path])
    return found


@pytest.mark.parametrize("path", MISTAKES)
def test_each_of_them_is_one_problem_with_a_hint(path: str) -> None:
    [problem] = refused(wrong(stack(), path)).problems
    assert (problem.path, problem.hint != "") == (path, True)


def test_a_cluster_of_a_pool_without_clusters_is_one_problem() -> None:
    values = stack()
    values["gpu-ci:pools"]["builds"] = {"kind": "cloud-build", "region": "us-central1", "clusterName": "ci"}
    [problem] = refused(values).problems
    assert (problem.path, problem.text) == ("gpu-ci:pools.builds.clusterName", "unknown key")


def test_no_mistake_hides_another() -> None:
    """All of them at once, but for one at a time: what is then missing from the report was hidden."""
    hidden = {}
    for left_out in (None, *MISTAKES):
        values = stack()
        made = [path for path in MISTAKES if path != left_out]
        for path in made:
            values = wrong(values, path)
        found = {problem.path for problem in refused(values).problems}
        expected = {path for path in made if not any(path == follows and cause in made for cause, follows in FOLLOWS)}
        if found != expected:
            hidden[left_out] = found ^ expected
    assert hidden == {}


@pytest.mark.parametrize("given", [[], ["x"]], ids=["empty", "full"])
@pytest.mark.parametrize("path", [f"{POOL}.runner", f"{POOL}.smoke", f"{CLUSTER}.subnets", f"{CLUSTER}.devicePlugin"])
def test_a_list_in_the_place_of_a_map_is_one_problem(path: str, given: list[str]) -> None:
    values = stack()
    *steps, last = path.split(".")
    at: Any = values
    for step in steps:
        at = at[step]
    at[last] = given
    [problem] = refused(values).problems
    assert (problem.path, problem.text) == (path, "must be a map")


def of_cluster(**changes: Any) -> dict[str, Any]:
    """The stack, with these changes of its cluster."""
    return stack(clusters={"ci": {**ON_CLUSTER["gpu-ci:clusters"]["ci"], **changes}})


@pytest.mark.parametrize(
    ("changes", "path", "owner"),
    [
        ({"namespace": "arc-systems"}, "namespace", "controller"),
        ({"namespace": "nvidia-device-plugin"}, "namespace", "device plugin"),
        ({"controller": {"namespace": "gpu-ci"}}, "controller.namespace", "runners"),
        ({"controller": {"namespace": "nvidia-device-plugin"}}, "controller.namespace", "device plugin"),
        ({"devicePlugin": {"namespace": "arc-systems"}}, "devicePlugin.namespace", "controller"),
        ({"namespace": "a", "controller": {"namespace": "a"}}, "controller.namespace", "runners"),
        ({"namespace": "arc-systems", "managed": False}, "namespace", "controller"),
    ],
)
def test_what_a_cluster_has_is_in_namespaces_of_their_own(changes: dict[str, Any], path: str, owner: str) -> None:
    [problem] = refused(of_cluster(**changes)).problems
    assert (problem.path, problem.text) == (
        f"{CLUSTER}.{path}",
        f"is already the namespace of the {owner}",
    )


def test_a_namespace_that_another_one_has_left_is_free() -> None:
    values = of_cluster(namespace="arc-systems", controller={"namespace": "arc"})
    assert [pool.name for pool in load(values).pools] == ["a10g"]


def test_a_pool_whose_nodes_have_no_plugin_is_not_kept_from_the_clusters() -> None:
    kept_off = {"devicePlugin": {"builtInPools": ["elsewhere", "a10g"]}}
    assert told(of_cluster(**kept_off)).startswith(
        f"Pulumi.staging.yaml: {CLUSTER}.devicePlugin.builtInPools[1]: has nodes without a built-in device plugin: the "
        "check of the pool would wait for GPUs until its deadline\n  got: 'a10g'\n"
    )
    values = of_cluster(**kept_off)
    values["gpu-ci:pools"]["a10g"]["amiType"] = "BOTTLEROCKET_x86_64_NVIDIA"
    assert [pool.name for pool in load(values).pools] == ["a10g"]


def test_private_ranges_of_a_cluster_are_there_once_each() -> None:
    [problem] = refused(of_cluster(privateRanges=["10.1.0.0/16", "10.2.0.0/16", "10.1.0.0/16"])).problems
    assert (problem.path, problem.text) == (f"{CLUSTER}.privateRanges[2]", "is a duplicate")


def test_two_logins_of_registries_have_two_names() -> None:
    login = {"name": "ghcr", "registry": "ghcr.io", "username": "x", "password": "projects/acme-ci/secrets/token"}
    other = {**login, "registry": "docker.io"}
    [problem] = refused(of_cluster(imagePullSecrets=[login, other])).problems
    assert (problem.path, problem.text, problem.got, problem.hint) == (
        f"{CLUSTER}.imagePullSecrets[1].name",
        "is a duplicate",
        "'ghcr'",
        "give each login another name",
    )
    found = refused(of_cluster(imagePullSecrets=[login, {**other, "registry": "https://docker.io"}])).problems
    assert sorted(each.path for each in found) == [
        f"{CLUSTER}.imagePullSecrets[1].name",
        f"{CLUSTER}.imagePullSecrets[1].registry",
    ]
    assert load(of_cluster(imagePullSecrets=[login, {**other, "name": "hub"}])).clusters["ci"]


def test_a_subnet_in_two_zones_is_reported_for_the_cluster_and_not_for_its_pools() -> None:
    subnet = "subnet-0123456789abcdef0"
    [problem] = refused(of_cluster(subnets={"us-east-1a": subnet, "us-east-1b": subnet})).problems
    assert problem.path == f"{CLUSTER}.subnets.us-east-1b"


def test_an_invalid_resource_name_is_reported_once() -> None:
    [problem] = refused(stack({"runner": {"image": IMAGE, "gpuResource": "amd.com/gpu"}})).problems
    assert (problem.path, problem.text) == (f"{POOL}.runner.gpuResource", "has a form that is not accepted")


def test_runners_that_wait_are_no_more_than_there_are_gpus_also_while_the_runner_is_wrong() -> None:
    found = refused(stack({"minIdle": 3, "runner": {"image": "ghcr.io/acme/cuda-runner:2.336.0"}})).problems
    assert [(problem.path, problem.text) for problem in found][1:] == [
        (f"{POOL}.minIdle", "is more than the 2 runners that fit on 2 nodes")
    ]


@pytest.mark.parametrize(
    ("pool", "text", "hint"),
    [
        (
            {"runner": {"image": "ghcr.io/acme/cuda-runner:2.336.0"}},
            ("runner.image: has no digest, and its tag can point to another, unchecked image later"),
            "docker buildx imagetools inspect <image> prints the digest; add it after the tag: :2.336.0@sha256:…",
        ),
        (
            {"runner": {"image": IMAGE, "containerMode": "kubernetes"}},
            "runner.containerMode: must be a map",
            "write it as {kind: kubernetes}",
        ),
        (
            {"runner": {"image": IMAGE, "containerMode": {"kind": "docker"}}},
            "runner.containerMode.kind: is not one of the choices",
            "such as kind: none",
        ),
        (
            {"machineType": "g5.2xlarge"},
            "machineType: cannot be set",
            "remove it: use instanceTypes instead, which takes a list, such as [g6.2xlarge, g6.4xlarge]",
        ),
        (
            {"instanceTypes": ["p3dn.24xlarge"], "market": "standard"},
            (
                "releaseVersion: is missing: R580 is the last driver that supports the V100 32GB, but "
                "by default nodes use EKS's newest release"
            ),
            (
                "use a release with driver 580, in the format of 1.35.3-20260917; "
                "github.com/awslabs/amazon-eks-ami/releases lists "
                "them"
            ),
        ),
        (
            {"runner": {"image": IMAGE, "gpuResource": "nvidia.com/gpu.shared"}},
            "runner.gpuResource: is on no node of the pool, so no runner would ever start: ci offers nvidia.com/gpu",
            "remove it",
        ),
    ],
)
def test_a_mistake_is_reported_with_a_hint(pool: dict[str, Any], text: str, hint: str) -> None:
    found = told(stack(pool))
    assert (found.splitlines()[0], found.splitlines()[-1]) == (f"{HERE}.{text}", f"  hint: {hint}")


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


@pytest.mark.parametrize(
    ("clusters", "got"),
    [
        (sharing(), "nvidia.com/gpu.shared"),
        (sharing(kind="mps"), "nvidia.com/gpu.shared"),
    ],
)
def test_gpus_under_another_name_than_a_check_asks_for_are_refused(clusters: dict[str, Any], got: str) -> None:
    assert told(stack(clusters=clusters)) == (
        f"Pulumi.staging.yaml: {CLUSTER}.devicePlugin.sharing: gives GPUs another name, and the check of a10g would "
        f"wait for nvidia.com/gpu until its deadline\n  got: {got}\n  expected: nvidia.com/gpu, which "
        f"the check of a pool "
        "requests\n  hint: renameByDefault: false, or strategy: single for MIG"
    )


def test_gpus_that_are_shared_under_their_own_name_are_taken() -> None:
    assert [pool.name for pool in load(stack(clusters=sharing(renameByDefault=False))).pools] == ["a10g"]


def test_mixed_mig_is_refused_and_single_taken() -> None:
    def clusters(strategy: str) -> dict[str, Any]:
        found: dict[str, Any] = copy.deepcopy(ON_CLUSTER["gpu-ci:clusters"])
        found["ci"]["devicePlugin"] = {"sharing": {"kind": "mig", "strategy": strategy}}
        return found

    assert "\n  got: nvidia.com/mig-…\n" in told(stack(clusters=clusters("mixed")))
    assert [pool.name for pool in load(stack(clusters=clusters("single"))).pools] == ["a10g"]


def test_nodes_of_bottlerocket_have_a_plugin_of_their_own_whatever_the_cluster_shares() -> None:
    values = stack({"amiType": "BOTTLEROCKET_x86_64_NVIDIA"}, clusters=sharing())
    assert [pool.name for pool in load(values).pools] == ["a10g"]


DAY = date(2025, 6, 28)


def test_a_grace_longer_than_a_spot_nodes_notice_is_worth_a_word() -> None:
    def words(seconds: int, market: str = "spot") -> list[str]:
        runner = {"image": IMAGE, "terminationGraceSec": seconds}
        return stack_warnings.warnings(load(stack({"runner": runner, "market": market})), DAY)

    assert words(121) == [
        (
            "gpu-ci:pools.a10g.runner.terminationGraceSec: a spot node ends 120 seconds after its interruption notice, "
            "and its job with it: got 121; hint: 120 or less, or market: standard"
        )
    ]
    assert (words(120), words(121, "standard")) == ([], [])


def test_a_session_that_an_up_may_outlive_is_worth_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    def words(**cluster: str) -> list[str]:
        values = stack({"runner": {"image": IMAGE, "drainTimeoutSec": 600}, "smoke": {"deadlineSec": 1801}})
        values["gpu-ci:clusters"]["ci"] |= cluster
        return stack_warnings.warnings(load(values), DAY)

    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    assert words() == []
    monkeypatch.setenv("AWS_SESSION_TOKEN", "hush")
    [warning] = words()
    assert warning == (
        "AWS_SESSION_TOKEN: nothing renews this session, one hour by default, and an `up` may take 61 minutes: "
        "smoke.deadlineSec, runner.drainTimeoutSec and 20 minutes for a10g; hint: request a longer session "
        "(role-duration-seconds in GitHub Actions; MaxSessionDuration of the role allows it), or give the cluster a "
        "profile"
    )
    assert words(roleArn="arn:aws:iam::123456789012:role/deployer") != []
    assert words(profile="ci") == []


def test_a_session_as_long_as_an_up_is_no_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "hush")
    values = stack({"runner": {"image": IMAGE, "drainTimeoutSec": 600}, "smoke": {"deadlineSec": 1800}})
    assert stack_warnings.warnings(load(values), DAY) == []


def test_a_pull_secret_that_the_stack_does_not_make_is_worth_a_word() -> None:
    values = stack({"runner": {"image": IMAGE, "imagePullSecrets": ["ghcr"]}})
    [warning] = stack_warnings.warnings(load(values), DAY)
    assert warning.startswith("gpu-ci:pools.a10g.runner.imagePullSecrets: the stack does not create the Secret ghcr")
    values["gpu-ci:clusters"]["ci"]["imagePullSecrets"] = [
        {"name": "ghcr", "registry": "ghcr.io", "username": "bot", "password": "projects/acme-ci/secrets/ghcr"}
    ]
    assert stack_warnings.warnings(load(values), DAY) == []


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
