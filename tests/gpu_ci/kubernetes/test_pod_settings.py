"""Tolerations and environment variables that pods with GPUs need on the nodes of some clouds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from gpu_ci.args import Args
from gpu_ci.kubernetes.gpu_namespace import GpuNamespace
from gpu_ci.kubernetes.image_pre_pull import ImagePrePull
from gpu_ci.kubernetes.runner_scale_set import RunnerScaleSet
from gpu_ci.kubernetes.smoke_job import SmokeJob

from tests.gpu_ci.kubernetes.clusters import scale_set, values
from tests.gpu_ci.kubernetes.test_image_pre_pull import pod as pre_pull_pod
from tests.gpu_ci.kubernetes.test_smoke_job import pod as smoke_pod

OURS = {"key": "nvidia.com/gpu", "operator": "Equal", "value": "present", "effect": "NoSchedule"}
ARM = {"key": "kubernetes.io/arch", "value": "arm64", "effect": "NoSchedule"}
QUEUED = {"key": "cloud.google.com/gke-queued", "operator": "Exists"}
TOLERATED = [OURS, {"operator": "Equal", **ARM}, QUEUED]
LIBRARIES = {"LD_LIBRARY_PATH": "/usr/local/nvidia/lib64"}
LIBRARIES_ENV = {"name": "LD_LIBRARY_PATH", "value": "/usr/local/nvidia/lib64"}
FORM = "has a form that is not accepted"


def test_every_pod_on_the_nodes_tolerates_their_other_taints() -> None:
    more = {"tolerations": [ARM, QUEUED]}
    assert smoke_pod(**more)["tolerations"] == TOLERATED
    assert pre_pull_pod(**more)["tolerations"] == TOLERATED
    assert values(scale_set(**more))["template"]["spec"]["tolerations"] == TOLERATED


def test_a_runner_without_a_gpu_tolerates_nothing_and_its_jobs_tolerate_the_taints() -> None:
    made = scale_set(tolerations=[ARM], containerMode={"kind": "kubernetes-novolume"})
    assert "tolerations" not in values(made)["template"]["spec"]
    assert job_pod(made)["tolerations"] == TOLERATED[:2]


def job_pod(made: Any) -> dict[str, Any]:
    """Return the settings that the container hooks add to the pod of a job."""
    found: dict[str, Any] = json.loads(made.one(":ConfigMap").inputs["data"]["job-pod.json"])["spec"]
    return found


def test_the_container_of_the_check_that_has_gpus_gets_the_variables() -> None:
    plain, given = smoke_pod()["containers"], smoke_pod(environment=LIBRARIES)["containers"]
    assert given[0]["env"] == [LIBRARIES_ENV, *plain[0]["env"]]
    assert given[1] == plain[1]


def test_the_container_of_a_job_gets_the_variables() -> None:
    [plain], [given] = (
        values(scale_set(**changes))["template"]["spec"]["containers"] for changes in ({}, {"environment": LIBRARIES})
    )
    assert given["env"] == [LIBRARIES_ENV, *plain["env"]]


def test_a_job_in_its_own_pod_gets_the_variables_and_its_runner_does_not() -> None:
    mode = {"containerMode": {"kind": "kubernetes-novolume"}}
    made = scale_set(environment=LIBRARIES, **mode)
    assert job_pod(made)["containers"][0]["env"] == [LIBRARIES_ENV]
    [runner] = values(made)["template"]["spec"]["containers"]
    assert LIBRARIES_ENV not in runner["env"]
    assert "env" not in job_pod(scale_set(**mode))["containers"][0]


def test_variables_that_gpu_ci_sets_are_there_once_with_its_value() -> None:
    container = smoke_pod(environment={"HOME": "/root", "A": "1"})["containers"][0]
    assert [each for each in container["env"] if each["name"] in ("HOME", "A")] == [
        {"name": "A", "value": "1"},
        {"name": "HOME", "value": "/tmp"},  # noqa: S108 - the pod's own
    ]


@pytest.mark.parametrize("component", [SmokeJob, RunnerScaleSet, ImagePrePull])
@pytest.mark.parametrize(
    ("toleration", "path", "text", "hint"),
    [
        ({"value": "arm64"}, ".key", "is missing", "such as key: kubernetes.io/arch"),
        ({"key": "nvidia.com/gpu"}, ".key", "is the taint of GPU nodes, which the pods tolerate anyway", "remove it"),
        ({"key": "-a"}, ".key", FORM, ""),
        ({"key": "a/b/c"}, ".key", FORM, ""),
        ({"key": "Acme.com/a"}, ".key", FORM, ""),
        ({"key": "k" * 64}, ".key", FORM, ""),
        ({"key": ""}, ".key", FORM, ""),
        (
            {"key": "a", "operator": "Exists", "value": "b"},
            ".value",
            "must be empty with the operator Exists",
            "remove it, or use operator: Equal",
        ),
        ({"key": "a", "operator": "In"}, ".operator", "must be one of 'Equal' or 'Exists'", ""),
        (
            {"key": "a", "effect": "NO_SCHEDULE"},
            ".effect",
            "must be one of 'NoSchedule', 'PreferNoSchedule' or 'NoExecute'",
            "",
        ),
        ({"key": "a", "tolerationSeconds": 3}, ".tolerationSeconds", "unknown key", "remove it"),
        ("kubernetes.io/arch", "", "must be a map", ""),
    ],
)
def test_a_wrong_toleration_is_one_problem(component: Any, toleration: Any, path: str, text: str, hint: str) -> None:
    [problem] = problems(component, {"tolerations": [toleration]})
    assert (problem.path, problem.text) == (f"tolerations[0]{path}", text)
    assert hint in problem.hint


@pytest.mark.parametrize("component", [SmokeJob, RunnerScaleSet])
@pytest.mark.parametrize(
    ("environment", "path", "text", "hint"),
    [
        (
            {"NVIDIA_VISIBLE_DEVICES": "all"},
            "environment.NVIDIA_VISIBLE_DEVICES",
            "cannot be set: the device plugin assigns the GPUs of a container",
            "remove it",
        ),
        ({"A-B": "1"}, "environment.A-B", FORM, ""),
        ({"1A": "1"}, "environment.1A", FORM, ""),
        ({"A": 1}, "environment.A", "must be text", ""),
        (["A=1"], "environment", "must be a map", ""),
    ],
)
def test_a_wrong_environment_is_one_problem(component: Any, environment: Any, path: str, text: str, hint: str) -> None:
    [problem] = problems(component, {"environment": environment})
    assert (problem.path, problem.text) == (path, text)
    assert hint in problem.hint


@pytest.mark.parametrize(
    ("addresses", "path", "text"),
    [
        (["169.254.169.254/32"], "dnsAddresses[0]", "is not an IP address"),
        (["dns.google"], "dnsAddresses[0]", "is not an IP address"),
        (["fe80::1%eth0"], "dnsAddresses[0]", "has a zone, which a NetworkPolicy does not support"),
        (
            ["10.0.0.10", "8.8.8.8"],
            "dnsAddresses[1]",
            "is a public address: queries to a public server could carry data out of the cluster",
        ),
        (["10.0.0.10", "10.0.0.10"], "dnsAddresses[1]", "is a duplicate"),
    ],
)
def test_a_wrong_address_of_a_dns_server_is_one_problem(addresses: Any, path: str, text: str) -> None:
    [problem] = problems(GpuNamespace, {"dnsAddresses": addresses})
    assert (problem.path, problem.text, problem.hint != "") == (path, text, True)


def problems(component: Any, changes: dict[str, Any]) -> Any:
    args: type[Args] = component.ARGS
    return args.choice_problems({**component.EXAMPLE, **changes})
