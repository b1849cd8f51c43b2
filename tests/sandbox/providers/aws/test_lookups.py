"""Lookups: what the world has comes before the examples, what is not listed is not there, and who sells what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gpu_catalog
import pytest
from pulumi_sandbox.providers.aws import types
from pulumi_sandbox.providers.resource import Refused

from tests.sandbox.providers.aws.conftest import NODE_GROUP, REGION, Amazon, listing

CLUSTER = "aws:eks/getCluster:getCluster"
AUTH = "aws:eks/getClusterAuth:getClusterAuth"
OFFERINGS = "aws:ec2/getInstanceTypeOfferings:getInstanceTypeOfferings"
PARAMETER = "aws:ssm/getParameter:getParameter"
SUBNET = "aws:ec2/getSubnet:getSubnet"


def look(amazon: Amazon, token: str, **arguments: Any) -> dict[str, Any]:
    return amazon.cloud.invoke(token, arguments)[0]


def refusal(amazon: Amazon, token: str, **arguments: Any) -> str:
    with pytest.raises(Refused) as answer:
        amazon.cloud.invoke(token, arguments)
    return str(answer.value)


def test_a_cluster_that_a_lookup_found_may_be_used_with_its_subnets(amazon: Amazon) -> None:
    group = {**NODE_GROUP, "nodeRoleArn": "arn:aws:iam::210987654321:role/theirs", "subnetIds": ["subnet-1"]}
    with pytest.raises(Refused, match="No cluster found for name: ci"):
        amazon.make(types.NODE_GROUP, "l4", group)
    assert look(amazon, CLUSTER, name="ci")["version"] == "1.34"
    with pytest.raises(Refused, match="The subnet ID 'subnet-1' does not exist"):
        amazon.make(types.NODE_GROUP, "l4", group)
    look(amazon, SUBNET, id="subnet-1")
    assert amazon.make(types.NODE_GROUP, "l4", group).id == "ci:l4"


def test_a_cluster_of_the_world_is_returned_with_its_real_fields(account: Amazon) -> None:
    made = account.make(
        types.CLUSTER,
        "c",
        {
            "name": "mine",
            "version": "1.33",
            "roleArn": "arn:aws:iam::123456789012:role/eks-cluster",
            "vpcConfig": {"subnetIds": NODE_GROUP["subnetIds"]},
            "accessConfig": {"authenticationMode": "API_AND_CONFIG_MAP"},
        },
    ).outputs
    found = look(account, CLUSTER, name="mine")
    for name in ("arn", "version", "endpoint", "identities", "vpcConfig", "roleArn"):
        assert found[name] == made[name], name
    assert found["certificateAuthorities"] == [made["certificateAuthority"]]
    assert found["accessConfigs"] == [{"authenticationMode": "API_AND_CONFIG_MAP"}]


def test_a_cluster_that_is_not_listed_is_not_there_once_any_is(account: Amazon) -> None:
    assert look(account, CLUSTER, name="ci")["name"] == "ci"
    words = "reading EKS Cluster (other): couldn't find resource" + listing("cluster/other")
    assert refusal(account, CLUSTER, name="other") == refusal(account, AUTH, name="other") == words


def test_the_answer_of_sandbox_yaml_comes_before_everything(tmp_path: Path) -> None:
    odd = "/aws/service/eks/optimized-ami/1.34/ours/image_id"
    amazon = Amazon(
        tmp_path,
        settings=f"lookups:\n  '{PARAMETER}':\n    - match: {{name: {odd}}}\n      result: {{value: ami-ours}}\n",
    )
    assert look(amazon, PARAMETER, name=odd)["value"] == "ami-ours"


def filters(**wanted: list[str]) -> list[dict[str, Any]]:
    return [{"name": name.replace("_", "-"), "values": values} for name, values in wanted.items()]


def test_every_region_of_the_catalog_has_zones_that_offer_its_types(amazon: Amazon) -> None:
    types_by_region: dict[str, set[str]] = {}
    for machine in gpu_catalog.machines(cloud="aws"):
        for region in machine.regions:
            types_by_region.setdefault(region, set()).add(machine.machine_type)
    for region, names in types_by_region.items():
        assert look(amazon, "aws:index/getRegion:getRegion", name=region)["description"], region
        [zone, *_] = look(amazon, "aws:index/getAvailabilityZones:getAvailabilityZones", region=region)["names"]
        wanted = filters(instance_type=sorted(names), location=[zone])
        found = look(amazon, OFFERINGS, filters=wanted, region=region, locationType="availability-zone")
        assert set(found["instanceTypes"]) == names, region


def test_the_letter_of_a_zone_may_be_that_of_another_account(amazon: Amazon) -> None:
    wanted = filters(instance_type=["g6.xlarge"], location=["us-west-1b", "us-west-1z", "us-east-1a"])
    found = look(amazon, OFFERINGS, filters=wanted, region="us-west-2", locationType="availability-zone")
    assert found["locations"] == []
    wanted = filters(instance_type=["g4dn.xlarge"], location=["us-west-1b", "us-west-1z", "us-east-1a"])
    found = look(amazon, OFFERINGS, filters=wanted, region="us-west-1", locationType="availability-zone")
    assert found["locations"] == ["us-west-1b"]


def test_a_type_of_the_catalog_is_offered_in_its_regions_and_another_one_everywhere(amazon: Amazon) -> None:
    wanted = filters(instance_type=["g6.xlarge", "p5e.48xlarge", "t3.micro"])
    here = look(amazon, OFFERINGS, filters=wanted)
    assert here["instanceTypes"] == ["g6.xlarge", "t3.micro"]
    assert (here["locations"], here["locationTypes"]) == ([REGION] * 2, ["region"] * 2)
    assert "p5e.48xlarge" in look(amazon, OFFERINGS, filters=wanted, region="us-east-2")["instanceTypes"]
    assert "g6.xlarge" in look(amazon, OFFERINGS)["instanceTypes"]
