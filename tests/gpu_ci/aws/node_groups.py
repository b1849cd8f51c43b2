"""Node groups with GPUs as the tests of this folder ask for them."""

from __future__ import annotations

import asyncio
from functools import cache
from typing import Any

import pulumi
from gpu_ci.aws.gpu_node_group import GpuNodeGroup, GpuNodeGroupArgs
from gpu_ci.errors import ArgsError, Problem

from tests.gpu_ci.harness import Deployment, Row, deploy
from tests.gpu_ci.support import AWS_WIRING, COMPUTED

SUBNET_A, SUBNET_B = AWS_WIRING["subnets"].values()  # type: ignore[attr-defined]
TYPES = ["g6.2xlarge", "g6.4xlarge", "gr6.4xlarge"]
ONE_ZONE = {"zones": ["us-east-1a"]}
RESERVATION = "cr-0123456789abcdef0"
BLOCK = {
    "instance_types": ["p5.48xlarge"],
    "market": "capacity-block",
    "capacity_reservation_id": RESERVATION,
    **ONE_ZONE,
}
EFA = {
    "instance_types": ["g6e.48xlarge"],
    "efa": True,
    "vpc_id": "vpc-0123456789abcdef0",
    "cluster_security_group_id": "sg-0123456789abcdef0",
    **ONE_ZONE,
}
OWN_IMAGE = {
    "ami_id": "ami-0123456789abcdef0",
    "cluster_endpoint": "https://EXAMPLE.gr7.us-east-1.eks.amazonaws.com",
    "cluster_certificate": "LS0tLS1CRUdJTg==",
    "service_cidr": "172.20.0.0/16",
}
P3DN = {"instance_types": ["p3dn.24xlarge"], "release_version": "1.35.3-20260917"}


def choices(**changes: Any) -> dict[str, Any]:
    """Three types and their wiring after these changes; None removes a key."""
    given = {"instance_types": TYPES, "max": 4, **AWS_WIRING, **changes}
    return {key: value for key, value in given.items() if value is not None}


def args(**changes: Any) -> GpuNodeGroupArgs:
    return GpuNodeGroupArgs(**choices(**changes))


def problems(**changes: Any) -> tuple[Problem, ...]:
    """Return the problems of the arguments after these changes."""
    try:
        args(**changes)
    except ArgsError as error:
        return error.problems
    return ()


class Late:
    """A value that is an Output in the program: only there is the loop an Output needs."""

    def __init__(self, value: Any, known: bool = True) -> None:
        self.value = value
        self.known = known

    def output(self) -> pulumi.Output[Any]:
        known: asyncio.Future[bool] = asyncio.Future()
        value: asyncio.Future[Any] = asyncio.Future()
        secret: asyncio.Future[bool] = asyncio.Future()
        known.set_result(self.known)
        value.set_result(self.value)
        secret.set_result(False)
        return pulumi.Output(set(), value, known, secret)


_deployed: dict[str, Deployment] = {}


def group(name: str = "l4", preview: bool = False, **changes: Any) -> Deployment:
    """Return the resources of a program with one node group. Tests with equal arguments share one deployment."""
    key = repr((name, preview, changes))  # a Late is another one each time
    if key not in _deployed:
        _deployed[key] = deploy(
            lambda: GpuNodeGroup(name, args(**_outputs(changes))), computed=COMPUTED, preview=preview
        )
    return _deployed[key]


def _outputs(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _outputs(each) for key, each in value.items()}
    return value.output() if isinstance(value, Late) else value


def nodes(**changes: Any) -> dict[str, Any]:
    """The inputs of the managed node group."""
    return group(**changes).one(":NodeGroup").inputs


def template(**changes: Any) -> dict[str, Any]:
    """The inputs of the launch template."""
    return group(**changes).one(":LaunchTemplate").inputs


def scaling_tags(deployment: Deployment) -> dict[str, str]:
    """The tags on the Auto Scaling group, by their keys."""
    return {row.inputs["tag"]["key"]: row.inputs["tag"]["value"] for row in tag_rows(deployment)}


def tag_rows(deployment: Deployment) -> list[Row]:
    return deployment.of("autoscaling/tag:Tag")


@cache
def cloudformation(name: str) -> dict[str, Any]:
    """The schema of a resource type that cfn-lint carries."""
    # Here, because it takes a second to load, and every worker of a run loads this module.
    from cfnlint.schema import PROVIDER_SCHEMA_MANAGER

    schema: dict[str, Any] = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", name).schema
    return schema
