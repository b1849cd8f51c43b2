"""A runner pool on nodes of any cloud: its rules follow the nodes, and its runners wait for the check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import gpu_catalog
import pulumi_kubernetes as kubernetes
import pytest
from gpu_ci.args import Args, Integer
from gpu_ci.kubernetes.name_types import Toleration
from gpu_ci.kubernetes.pool.args import RunnerPoolArgs
from gpu_ci.kubernetes.pool.rules import Node
from gpu_ci.kubernetes.pool.runners import ClusterRunnerPool
from gpu_ci.kubernetes.scale_set.args import GithubApp
from pydantic import Field

from tests.gpu_ci.harness import Deployment, deploy
from tests.gpu_ci.support import COMPUTED, CONTROLLER, scale_set_wiring
from tests.gpu_ci.test_imports import loaded

RUNNER, OTHER = (f"ghcr.io/acme/{name}@sha256:{digest * 64}" for name, digest in (("runner", "a"), ("other", "b")))
TWO_L4 = gpu_catalog.machine("g2-standard-24", "gcp")  # 24 vCPUs, 96 GiB


class Nodes(Args):
    """The nodes of a cloud that only this test has: all of one machine type, with 20 CPUs and 80 GiB for pods."""

    WIRING: ClassVar[frozenset[str]] = frozenset({"account"})

    max: Integer = Field(ge=1, description="the maximum number of nodes")
    disk_gib: Integer = Field(default=100, ge=10, description="the size of the disk")
    account: str = Field(default="", description="a field that the program sets")


class PoolArgs(RunnerPoolArgs, Nodes):
    """A pool on these nodes."""

    WIRING: ClassVar[frozenset[str]] = RunnerPoolArgs.WIRING | Nodes.WIRING

    @classmethod
    def node_of(cls, fields: Mapping[str, Any]) -> Node | None:
        disk = fields.get("disk_gib")
        return Node(TWO_L4, 20, 80, disk, None if disk is None else disk - 20, "machine type")

    @property
    def pod_environment(self) -> Mapping[str, str]:
        return {"LD_LIBRARY_PATH": "/usr/local/nvidia/lib64"}

    @property
    def pod_tolerations(self) -> Sequence[Toleration]:
        return [Toleration(key="kubernetes.io/arch", value="arm64")]


class Pool(ClusterRunnerPool):
    """A pool on these nodes."""

    TYPE: ClassVar[str] = "gpu-ci:kubernetes:TestPool"
    ARGS: ClassVar[type[Args]] = PoolArgs

    def __init__(self, name: str, args: PoolArgs) -> None:
        super().__init__(name, args)
        nodes = kubernetes.core.v1.ConfigMap(f"{name}-nodes", opts=self.child())
        self.add_runners(
            name,
            args,
            nodes,
            node_labels={"gke-nodepool": "l4-new"},
            rerun_on=["one"],
        )
        self.register()


# What the program fills in. `app` is not validated: secrets must be Outputs, which exist only in a running program.
WIRING = {
    "account": "here",
    "namespace": "gpu-ci",
    "controller": CONTROLLER,
    "app": GithubApp.model_construct(id="", installation_id="", private_key=""),
    "github_config_url": "https://github.com/acme",
    "runner_group": "gpu",
}


def args(**changes: Any) -> PoolArgs:
    """The arguments of a pool of two nodes, with these changes."""
    choices = {"max": 2, "runner": {"image": RUNNER}, **changes}
    return PoolArgs(**{**WIRING, **choices})


def pool(**changes: Any) -> Deployment:
    return deploy(lambda: Pool("l4", args(**scale_set_wiring(), **changes)), computed=COMPUTED)


def test_a_runner_pool_loads_no_cloud() -> None:
    clouds = ("gpu_ci.aws", "gpu_ci.gcp", "pulumi_aws", "pulumi_gcp", "pulumi_kubernetes")
    assert loaded("import gpu_ci.kubernetes.pool.runners", *clouds) == ["pulumi_kubernetes"]


def test_the_largest_number_of_gpus_in_use_includes_the_nodes_of_the_check() -> None:
    assert args(max=3, smoke={"nodes": 2}).max_gpus == 10
    assert args(max=3, smoke={"nodes": 2}, proveNodes={}).max_gpus == 16


@pytest.mark.parametrize(
    ("runner", "disk", "most"),
    [
        ({}, 100, 2),  # by GPUs
        ({"gpus": 2}, 100, 1),
        ({"cpus": 11}, 100, 1),
        ({"memoryGib": 41}, 100, 1),
        ({"ephemeralStorageGib": 41}, 100, 1),
        ({"ephemeralStorageGib": 41}, 102, 2),
        ({"scratch": {"sizeGib": 30}}, 100, 2),  # with the 10 GiB of ephemeralStorageGib
        ({"scratch": {"sizeGib": 31}}, 100, 1),
    ],
)
def test_a_node_has_as_many_runners_as_it_has_room_for(runner: dict[str, Any], disk: int, most: int) -> None:
    assert args(max=1, disk_gib=disk, runner={"image": RUNNER, **runner}).max_runners == most


def test_a_stack_file_has_the_cluster_and_the_program_has_the_rest() -> None:
    found = PoolArgs.wiring_of({"account": "here", "namespace": "gpu-ci", "cluster_name": "ci"})
    assert found == {"account": "here", "namespace": "gpu-ci"}
    assert PoolArgs.choice_names() == (
        "max",
        "diskGib",
        "runner",
        "minIdle",
        "queue",
        "smoke",
        "proveNodes",
        "prePull",
        "transform",
    )
