"""Compares facts about AWS with botocore and cfn-lint, so that a newer release of them shows a changed fact."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import botocore.session
import gpu_catalog as catalog
import pytest
from gpu_ci.aws import resource_names
from gpu_ci.aws.gpu_node_group import _CAPACITY_TYPES
from gpu_ci.aws.nodes import rules
from pydantic import TypeAdapter, ValidationError

from tests.gpu_ci.aws.node_groups import BLOCK, EFA, cloudformation, nodes


@cache
def shape(service: str, name: str) -> Any:
    return botocore.session.Session().get_service_model(service).shape_for(name)


def test_every_ami_type_of_the_catalog_is_one_of_the_api_and_none_is_missing() -> None:
    assert sorted(each.ami_type for each in catalog.ami_types()) == sorted(shape("eks", "AMITypes").enum)


def test_the_capacity_types_are_the_apis() -> None:
    assert sorted(_CAPACITY_TYPES.values()) == sorted(shape("eks", "CapacityTypes").enum)


def test_the_limits_of_a_disk_are_the_apis() -> None:
    said = shape("ec2", "EbsBlockDevice").members
    assert _gp3(said["Iops"].documentation) == rules.IOPS
    assert _gp3(said["VolumeSize"].documentation)[1] == rules.SIZE_GIB[1]
    least, most = re.findall(r"(?:Minimum|Maximum) value of ([0-9,]+)", said["Throughput"].documentation)
    assert (_number(least), _number(most)) == rules.THROUGHPUT_MIB


def _gp3(text: str) -> tuple[int, int]:
    found = re.search(r"gp3</code>: ([0-9,]+) - ([0-9,]+)", text)
    assert found, text
    return _number(found[1]), _number(found[2])


def _number(text: str) -> int:
    return int(text.replace(",", ""))


def test_a_clusters_name_has_the_apis_form() -> None:
    form = shape("eks", "ClusterName")
    assert (form.metadata["min"], form.metadata["max"]) == (1, 100)
    assert form.metadata["pattern"] == r"^[0-9A-Za-z][A-Za-z0-9\-_]*"
    names = TypeAdapter[str](resource_names.ClusterName)
    assert names.validate_python("c" * 100) == "c" * 100
    for wrong in ("", "c" * 101, "-c", "c d"):
        with pytest.raises(ValidationError):
            names.validate_python(wrong)


@pytest.mark.parametrize("changes", [{}, BLOCK, EFA])
@pytest.mark.slow
def test_a_node_group_is_what_cloudformations_schema_takes(changes: dict[str, Any]) -> None:
    """Names of properties, of what is in them, and their words."""
    schema = cloudformation("AWS::EKS::Nodegroup")
    words = {"nodeRoleArn": "NodeRole", "subnetIds": "Subnets", "region": None}
    found = {key: value for key, value in nodes(**changes).items() if words.get(key, key)}
    assert _wrong(found, schema, schema, words) == []


def _wrong(value: Any, rule: dict[str, Any], schema: dict[str, Any], words: dict[str, Any]) -> list[str]:
    rule = schema["definitions"][rule["$ref"].rpartition("/")[2]] if "$ref" in rule else rule
    if isinstance(value, dict) and "properties" in rule:
        problems = []
        for key, each in value.items():
            name = words.get(key) or key[0].upper() + key[1:]
            inner = rule["properties"].get(name)
            problems += [f"no {name}"] if inner is None else _wrong(each, inner, schema, {})
        return problems
    if isinstance(value, list):
        return [problem for each in value for problem in _wrong(each, rule["items"], schema, {})]
    if "enum" in rule and value not in rule["enum"]:
        return [f"{value} is not one of {rule['enum']}"]
    return (
        [f"{value} is below {rule['minimum']}"]
        if value.__class__ is float and value < rule.get("minimum", value)
        else []
    )


@pytest.mark.parametrize(
    ("region", "partition"), [("us-east-1", "aws"), ("cn-north-1", "aws-cn"), ("us-gov-west-1", "aws-us-gov")]
)
def test_partitions_are_botocores(region: str, partition: str) -> None:
    session = botocore.session.Session()
    assert session.get_partition_for_region(region) == partition == resource_names.partition(region)
    (said,) = (each for each in session.get_data("partitions")["partitions"] if each["id"] == partition)
    assert resource_names.service("ec2", region) == f"ec2.{said['outputs']['dnsSuffix']}"
