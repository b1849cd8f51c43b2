"""Valid arguments of a node group, and the values that are derived from them."""

from __future__ import annotations

from typing import Any

import gpu_catalog as catalog
import pytest
from gpu_catalog import cost, quota
from gpu_ci.aws.gpu_node_group import GpuNodeGroupArgs
from gpu_ci.aws.nodes import rules
from gpu_ci.errors import ArgsError

from tests.gpu_ci.aws.node_groups import BLOCK, P3DN, SUBNET_A, TYPES, Late, args, group


def test_what_the_program_fills_in_is_no_mistake_of_a_stack_file() -> None:
    choices = {"instanceTypes": ["g6e.48xlarge"], "efa": True, "zones": ["us-east-1a"], "max": 2}
    assert GpuNodeGroupArgs.choice_problems(choices) == []
    (found,) = GpuNodeGroupArgs.choice_problems({**choices, "region": "us-east-1"})
    assert (found.path, found.text) == ("region", "is set by gpu-ci, not in a stack file")


def test_every_machine_the_catalog_has_can_be_a_node_where_it_is() -> None:
    machines = [each for each in catalog.machines(cloud="aws") if each.regions]
    wrong = [each.machine_type for each in machines if ami_type_where_it_is(each) != each.ami_types[0]]
    assert wrong == []


def ami_type_where_it_is(machine: catalog.Machine) -> str:
    region = machine.regions[0]
    choices: dict[str, Any] = {
        **GpuNodeGroupArgs.open_wiring(),
        "region": region,
        "kubernetes_version": "1.35",
        "subnets": {f"{region}a": "subnet-0123456789abcdef0"},
        "instance_types": [machine.machine_type],
        "market": "standard" if "standard" in machine.markets else machine.markets[0],
        "max": 1,
    }
    if machine.gpu.last_driver_branch:
        choices["release_version"] = "1.35.3-20260917"
    if choices["market"] == "capacity-block":
        choices["capacity_reservation_id"] = BLOCK["capacity_reservation_id"]
    return str(GpuNodeGroupArgs(**choices).chosen_ami_type)


def test_a_torch_that_runs_is_taken_and_put_nowhere() -> None:
    with_torch = group(**P3DN, torch="2.14.0+cu126").rows
    without = group(**P3DN).rows
    assert [row.inputs for row in with_torch] == [row.inputs for row in without]


def test_the_disk_is_accepted_up_to_the_limits_of_ebs() -> None:
    most = args(disk_gib=160, disk_iops=80_000, disk_throughput_mib=2_000)
    assert (most.disk_iops, most.disk_throughput_mib) == (80_000, 2_000)
    assert args(disk_gib=30).disk_iops == 3_000


def test_wiring_that_comes_late_is_checked_with_the_same_words() -> None:
    with pytest.raises(Exception, match="clusterName: has a form that is not accepted"):
        group(cluster_name=Late("-ci"))


def test_offerings_that_come_late_are_held_against_the_zones() -> None:
    late = {name: Late(["us-east-1a"]) for name in TYPES}
    with pytest.raises(Exception, match=r"GpuNodeGroup 'l4': zones: us-east-1b does not offer g6.2xlarge"):
        group(offerings=late)
    assert group(offerings=late, zones=["us-east-1a"]).one(":NodeGroup").inputs["subnetIds"] == [SUBNET_A]


def test_a_cluster_version_that_comes_late_is_held_against_the_release() -> None:
    with pytest.raises(Exception, match=r"releaseVersion: is for Kubernetes 1.35, but the cluster has 1.34"):
        group(release_version="1.35.3-20260917", kubernetes_version=Late("1.34"))


def test_what_is_unknown_in_a_preview_is_left_for_the_update() -> None:
    late = {name: Late(None, known=False) for name in TYPES}
    rows = group(preview=True, offerings=late).rows
    assert len(rows) == 16


def test_machines_alike_have_the_same_gpus_and_processor() -> None:
    assert rules.types_with_same_gpus(catalog.machine("g6.xlarge")) == (
        "g6.xlarge", "g6.2xlarge", "g6.4xlarge", "gr6.4xlarge", "g6.8xlarge", "gr6.8xlarge", "g6.16xlarge",
    )  # fmt: skip
    assert rules.types_with_same_gpus(catalog.machine("p5.48xlarge")) == ("p5.48xlarge",)


def test_what_a_group_asks_of_aws_is_every_node_of_the_largest_type() -> None:
    demand = args().demand("l4")
    assert (demand.machine.machine_type, demand.market, demand.region) == ("g6.4xlarge", "spot", "us-east-1")
    assert (demand.max_machines, demand.machines_at_rest, demand.most_machines) == (4, 0, 4)
    needed = quota.needs([demand])
    assert {key: (need.amount, need.unit) for key, need in needed.items()} == {
        ("us-east-1", "L-3819A6DF"): (64, "vCPU")
    }
    (pool,) = cost.of_stack([demand]).pools
    assert pool.usd_per_hour_at_rest == 0


def test_a_capacity_block_draws_on_no_quota_the_catalog_knows() -> None:
    demand = args(**BLOCK).demand("h100")
    assert (demand.market, quota.needs([demand])) == ("capacity-block", {})


@pytest.mark.parametrize(("name", "hint"), [("g5.3xlarge", "g5.4xlarge"), ("g5.24xlarg", "g5.24xlarge")])
def test_a_size_that_does_not_exist_gets_the_next_larger_one(name: str, hint: str) -> None:
    with pytest.raises(ArgsError) as caught:
        args(instance_types=[name])
    assert [problem.hint for problem in caught.value.problems] == [f"did you mean {hint}"]
