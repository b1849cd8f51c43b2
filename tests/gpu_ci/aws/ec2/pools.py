"""Pools on EC2 as the tests of this folder ask for them."""

from __future__ import annotations

import base64
from typing import Any

from gpu_ci import payload
from gpu_ci.kinds.ec2.component import Ec2RunnerPool, Ec2RunnerPoolArgs
from gpu_ci.machines.runner import RunnerGithub
from gpu_ci.mailbox.boot import Definition

from tests.gpu_ci.harness import Deployment, Row, deploy
from tests.gpu_ci.support import CALLS, COMPUTED, EC2_WIRING

TEMPLATE, GROUP = "aws:ec2/launchTemplate:LaunchTemplate", "aws:ec2/securityGroup:SecurityGroup"
SUBNETS = {
    "us-east-1a": "subnet-0a1b2c3d4e5f60001",
    "us-east-1b": "subnet-0a1b2c3d4e5f60002",
    "us-east-2a": "subnet-0a1b2c3d4e5f60003",
}
LADDER = [{"market": "standard"}, {"machineType": "g6.xlarge", "zones": ["us-east-2a"]}]


def made(**changes: Any) -> tuple[Ec2RunnerPool, Deployment]:
    """Deploy a pool `a10g` with runners, after these changes of its arguments."""
    found: list[Ec2RunnerPool] = []

    def program() -> None:
        args = {**Ec2RunnerPool.EXAMPLE, "subnets": SUBNETS, **EC2_WIRING, "tags": {"team": "ml"}, **changes}
        args.setdefault("github", RunnerGithub(owner="acme", runner_group="gpu"))
        found.append(Ec2RunnerPool("a10g", Ec2RunnerPoolArgs(**args)))

    deployment = deploy(program, computed=COMPUTED, calls=CALLS)
    return found[0], deployment


def template(**changes: Any) -> Row:
    """Return the launch template of a pool."""
    return made(**changes)[1].one(TEMPLATE)


def definition(row: Row) -> Definition:
    """Return what the runner manager reads in the user data of a template."""
    found = Definition.parse(base64.b64decode(row.inputs["userData"], validate=True).decode())
    assert found.payloads == payload.digests()
    return found
