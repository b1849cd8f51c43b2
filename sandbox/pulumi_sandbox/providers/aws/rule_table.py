"""The rules of each type beyond AWS's schemas."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pulumi_sandbox.providers import paths
from pulumi_sandbox.providers.aws import types
from pulumi_sandbox.providers.aws.ec2 import launch_template_rules as template_rules
from pulumi_sandbox.providers.aws.eks import node_group_rules
from pulumi_sandbox.providers.aws.iam import rules as iam_rules
from pulumi_sandbox.providers.aws.imagebuilder import component_document
from pulumi_sandbox.providers.inputs import table
from pulumi_sandbox.providers.resource import Problem

Inputs = dict[str, Any]
TAGS_MOST = 50
# The inputs that terraform-provider-aws validates with verify.ValidARN or its type ARN (internal/service/eks,
# internal/service/iam).
ARNS = {
    types.ATTACHMENT: ("policyArn",),
    types.ACCESS_ENTRY: ("principalArn",),
    types.ACCESS_POLICY: ("principalArn", "policyArn"),
    types.POD_IDENTITY: ("roleArn", "targetRoleArn"),
    types.ADDON: ("serviceAccountRoleArn",),
    types.CLUSTER: ("roleArn",),
}
ARN = r"arn:aws(-[a-z]+)*:[^:]+:([a-z]{2}(-[a-z]+)+-\d{1,2})?:(aws|aws-managed|\d{12}|cw.{10})?:.+"
CLUSTER_NAME = r"^[0-9A-Za-z][A-Za-z0-9\-_]*$"
CLUSTER_NAME_MOST = 100


def rules(token: str, inputs: Inputs, region: str) -> Iterator[Problem]:
    """Check the rules of AWS or its provider that are in no schema."""
    if token in types.TARGETS:
        yield from tags(inputs.get("tags"))
        yield from cluster_name(inputs.get("clusterName"))
    yield from iam_rules.rules(token, inputs)
    for name in ARNS.get(token, ()):
        yield from arn(inputs.get(name), name)
    if regional_rule := _REGIONAL.get(token):
        yield from regional_rule(inputs, region)
    if other_rule := _OTHER.get(token):
        yield from other_rule(inputs)


def tags(given: Any) -> Iterator[Problem]:
    """Check the number of tags and their reserved names.

    Source: docs.aws.amazon.com/tag-editor/latest/userguide/best-practices-and-strats.html.
    """
    pairs = table(given)
    if len(pairs) > TAGS_MOST:
        yield Problem("tags", f"expected at most {TAGS_MOST} tags, got {len(pairs)}")
    for key in pairs:
        if key.lower().startswith("aws:"):
            yield Problem(paths.text(("tags", key)), "tag keys that begin with aws: are reserved for AWS")


def cluster_name(given: Any) -> Iterator[Problem]:
    """Check the name of a cluster.

    Sources: terraform-provider-aws, internal/service/eks/validate.go, validClusterName; botocore, eks, ClusterName.
    """
    if not isinstance(given, str):
        return
    if not 1 <= len(given) <= CLUSTER_NAME_MOST:
        text = f"expected length of clusterName to be in the range (1 - {CLUSTER_NAME_MOST}), got {len(given)}"
        yield Problem("clusterName", text)
    elif not re.match(CLUSTER_NAME, given):
        yield Problem("clusterName", f'"clusterName" ("{given}") doesn\'t match regexp "{CLUSTER_NAME}"')


def arn(given: Any, name: str) -> Iterator[Problem]:
    """Check an ARN, as in terraform-provider-aws, internal/verify/validate.go, ValidARN."""
    if not isinstance(given, str) or not given or re.fullmatch(ARN, given):
        return
    reason = (
        "arn: invalid prefix" if not given.startswith("arn:") else "arn: not enough sections, or one that is malformed"
    )
    yield Problem(name, f'"{name}" ({given}) is an invalid ARN: {reason}')


def placement_group(inputs: Inputs) -> Iterator[Problem]:
    """Check a placement group, as in terraform-provider-aws, internal/service/ec2/ec2_placement_group.go
    (at 05e34de7).
    """
    strategy, count = inputs.get("strategy"), inputs.get("partitionCount")
    if isinstance(count, int | float) and not 0 <= count <= 7:
        yield Problem("partitionCount", f"expected partition_count to be in the range (0 - 7), got {count:g}")
    if isinstance(strategy, str):
        if count and strategy != "partition":
            yield Problem("partitionCount", f'partition_count must not be set when strategy = "{strategy}"')
        if inputs.get("spreadLevel") and strategy != "spread":
            yield Problem("spreadLevel", f'spread_level must not be set when strategy = "{strategy}"')


def capacity_reservation(inputs: Inputs, region: str) -> Iterator[Problem]:
    yield from template_rules.machine(inputs.get("instanceType"), region)


# The rules that depend on the region of the resource.
_REGIONAL: dict[str, Callable[[Inputs, str], Iterable[Problem]]] = {
    types.NODE_GROUP: node_group_rules.node_group,
    types.LAUNCH_TEMPLATE: template_rules.launch_template,
    types.CAPACITY_RESERVATION: capacity_reservation,
}
_OTHER: dict[str, Callable[[Inputs], Iterable[Problem]]] = {
    types.PLACEMENT_GROUP: placement_group,
    types.IMAGE_COMPONENT: component_document.problems,
}
