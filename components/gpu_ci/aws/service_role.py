"""A role that a service of AWS uses, with managed policies."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pulumi
import pulumi_aws as aws

from . import resource_names


def service_role(
    name: str,
    service: str,
    description: str,
    policies: Mapping[str, str],
    region: str,
    tags: dict[str, str],
    opts: pulumi.ResourceOptions,
) -> tuple[aws.iam.Role, list[pulumi.Resource]]:
    """Create the role of a service such as ec2, and the attachments of AWS's managed policies.

    `policies` has the path of each policy below `policy/`, by a word for its purpose.
    """
    trust = {
        "Effect": "Allow",
        "Principal": {"Service": resource_names.service(service, region)},
        "Action": "sts:AssumeRole",
    }
    role = aws.iam.Role(
        f"{name}-role",
        description=description,
        assume_role_policy=json.dumps({"Version": "2012-10-17", "Statement": [trust]}),
        tags=tags,
        opts=opts,
    )
    attached: list[pulumi.Resource] = [
        aws.iam.RolePolicyAttachment(
            f"{name}-may-{what}",
            role=role.name,
            policy_arn=f"arn:{resource_names.partition(region)}:iam::aws:policy/{policy}",
            opts=opts,
        )
        for what, policy in policies.items()
    ]
    return role, attached
