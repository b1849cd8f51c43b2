"""The accounts of manager, builds and host images reach only machines, disks and images of their own names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from gpu_ci.gcp.host_image_pipeline import HostImagePipeline
from gpu_ci.gcp.runner_manager import RunnerManager, RunnerManagerArgs
from gpu_ci.kinds.cloud_build_gpu.component import BuildGpuBridge
from gpu_ci.stack.parse import Stack
from gpu_common import google_permissions
from pulumi_sandbox.providers.gcp.compute.templates import api_form
from pulumi_sandbox.providers.gcp.permissions import Asked, holds, of_machine

from tests.gpu_ci.gcp import test_build_gpu_bridge, test_host_image_pipeline
from tests.gpu_ci.gcp.host_image.images import of_image
from tests.gpu_ci.harness import Deployment, deploy
from tests.gpu_ci.identity.cel import recursion_limit  # noqa: F401 - a fixture
from tests.gpu_ci.support import COMPUTED

PROJECT = "example-ci"
ZONE = f"projects/{PROJECT}/zones/us-central1-a"
POOLS = [f"pool{number}" for number in range(8)]


def manager() -> Deployment:
    accounts = {pool: f"{pool}@example-ci.iam.gserviceaccount.com" for pool in POOLS}
    given = {"project": PROJECT, "app_key": "projects/p/secrets/key", "machine_accounts": accounts}
    args = RunnerManagerArgs(**RunnerManager.EXAMPLE, **given, configuration="{}")
    return deploy(lambda: RunnerManager("manager", args), computed=COMPUTED)


MADE = {
    "manager": (manager, "manager-machines-role"),
    "gpu-tests": (test_build_gpu_bridge.build, "gpu-tests-machines-role"),
    "gpu-host": (test_host_image_pipeline.build, "gpu-host-role"),
}
# The stack of the harness is `stack`.
OWN = {
    "manager": ["pool0-1a2b3c4d", "pool7-1a2b3c4d"],
    "gpu-tests": ["gpu-tests-stack-build-1a2b3c"],
    "gpu-host": ["gpu-host-stack-build-1a2b3c", "gpu-host-stack-check-1a2b3c"],
}
FOREIGN = ["database", "pool9-1a2b3c4d", "pool-1a2b3c4d", "gpu-tests-other-build-1a2b3c", "gpu-tests-stack-builds",
           "gpu-host-1a2b3c", "x-gpu-tests-stack-build-1a2b3c", "l4-1a2b3c4d"]  # fmt: skip


def may(name: str, deployment: Deployment, permission: str, path: str) -> bool:
    """Return True if the account of a component has a permission on a resource."""
    [own] = [row for row in deployment.rows if row.name == MADE[name][1]]
    [others] = [row for row in deployment.rows if row.name == f"{name}-project-role"]
    if permission in others.inputs["permissions"]:
        return True
    grants = [row for row in deployment.rows if re.fullmatch(rf"{name}-machines\d*", row.name)]
    expressions = [row.inputs["condition"]["expression"] for row in grants]
    # cloud.google.com/iam/quotas: logical operators in a condition, bindings of one role and member.
    assert all(each.count("||") <= 12 for each in expressions)
    assert len(expressions) <= 20
    found = any(holds(each, Asked(path)) for each in expressions)
    return permission in own.inputs["permissions"] and found


def inserts(name: str, deployment: Deployment, machine: str) -> Iterator[tuple[str, str]]:
    """What the inserts of a component's templates need; those of the manager are of pools, as those of a bridge."""
    templates = (test_build_gpu_bridge.build() if name == "manager" else deployment).of(":RegionInstanceTemplate")
    assert templates
    for template in templates:
        body = api_form(template.type, template.inputs)["properties"]
        instance = {**body, "labels": {"gpu-ci-pool": "one"}}
        yield from of_machine(PROJECT, f"{ZONE}/instances/{machine}", instance, f"projects/{PROJECT}/global/t/one")
    if name == "gpu-host":
        disk = {"name": "gpu-host-stack-0123456789ab", "labels": {"a": "b"}, "sourceDisk": f"{ZONE}/disks/{machine}"}
        yield from of_image(PROJECT, disk)


@pytest.mark.parametrize("name", MADE)
def test_it_may_make_its_own_machines_and_no_others(name: str) -> None:
    deployment = MADE[name][0]()
    for machine in OWN[name]:
        needed = {each for each in inserts(name, deployment, machine) if each[0] != "iam.serviceAccounts.actAs"}
        assert {"compute.disks.setLabels", "compute.instances.setLabels"} <= {permission for permission, _ in needed}
        assert {each for each in needed if not may(name, deployment, *each)} == set()
    for machine in FOREIGN:
        for permission, path in inserts(name, deployment, machine):
            if f"/{machine}" in path and "actAs" not in permission:
                assert not may(name, deployment, permission, path), (permission, path)


@pytest.mark.parametrize("name", MADE)
def test_machines_disks_and_images_of_other_names_are_out_of_its_reach(name: str) -> None:
    deployment = MADE[name][0]()
    granted = {each for row in deployment.of(":IAMCustomRole") for each in row.inputs["permissions"]}
    # The manager also deletes machines of pools that the stack no longer has.
    reach = {"compute.instances.delete", "compute.instances.get"} if name == "manager" else set()
    for permission in sorted(each for each in granted if google_permissions.is_limited_by_name(each)):
        collection = permission.split(".")[1]
        place = f"projects/{PROJECT}/global" if collection == "images" else ZONE
        for other in FOREIGN:
            assert may(name, deployment, permission, f"{place}/{collection}/{other}") is (permission in reach)


def problems(stack: str, pools: dict[str, Any], images: dict[str, Any]) -> list[tuple[str, str]]:
    found = Stack("", stack, {"gpu-ci:pools": pools, "gpu-ci:images": images}).problems
    return [(each.path, each.rule) for each in found if each.rule == "name-of-other-builds"]


def test_a_name_that_starts_as_the_names_of_others_builds_is_refused() -> None:
    bridge = {"kind": "cloud-build-gpu", **BuildGpuBridge.EXAMPLE}
    host = {"kind": "host", **HostImagePipeline.EXAMPLE}
    pools = {"gpu": bridge, "gpu-prod-build-x": bridge, "gpu-prod-tests": bridge}
    images = {"host": host, "host-prod": host}
    assert problems("prod", pools, images) == [
        ("gpu-ci:pools.gpu-prod-build-x", "name-of-other-builds"),
        ("gpu-ci:images.host-prod", "name-of-other-builds"),
    ]
    assert problems("staging", pools, images) == []
