"""Rules for managed node groups that are in no schema, each with its source.

- "API model": botocore's service model of EKS (eks 2017-11-01).
- "upstream": terraform-provider-aws, internal/service/eks/node_group.go (at 012e0a32).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import gpu_catalog

from pulumi_sandbox.providers.aws.ec2 import instance_types as types
from pulumi_sandbox.providers.aws.eks import errors as eks_errors
from pulumi_sandbox.providers.inputs import is_known, rows, table
from pulumi_sandbox.providers.paths import text
from pulumi_sandbox.providers.resource import DEFAULTS, Problem
from pulumi_sandbox.providers.values import UNKNOWN

Inputs = dict[str, Any]

NAME_MOST = 63
# The length of the timestamp and counter after a prefix (terraform-plugin-sdk, helper/id).
PREFIX_ENDING = 26
TAINTS_MOST = 50
UNAVAILABLE_MOST = 100
TYPES_MOST = 20
TEMPLATE_ID = r"lt-[0-9a-z]+"
# The last Kubernetes version with images of Amazon Linux 2 (docs.aws.amazon.com/eks/latest/userguide/
# eks-ami-deprecation-faqs.html).
LAST_AL2 = (1, 32)
# The kubernetes.io labels that a kubelet may set: kubernetes v1.36.0, pkg/kubelet/apis/well_known_labels.go.
KUBELET_PREFIXES = ("kubelet.kubernetes.io", "node.kubernetes.io")
KUBELET_LABELS = {
    "kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch", "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/zone", "topology.kubernetes.io/region", "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os", "beta.kubernetes.io/arch", "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
}  # fmt: skip
# kubernetes v1.36.0, staging/src/k8s.io/apimachinery/pkg/util/validation/validation.go.
LABEL_VALUE = r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)?"


def node_group(inputs: Inputs, region: str) -> Iterator[Problem]:
    """Check one node group, except for rules about the content of its launch template."""
    yield from names(inputs)
    yield from sizes(inputs)
    yield from instance_types(inputs, region)
    yield from with_template(inputs)
    yield from capacity(inputs)
    yield from labels(inputs.get("labels"))
    yield from taints(inputs.get("taints"))
    yield from updates(inputs.get("updateConfig"))
    yield from repair(inputs.get("nodeRepairConfig"))
    yield from warm_pool(inputs)


def names(inputs: Inputs) -> Iterator[Problem]:
    for key, max_length in (("nodeGroupName", NAME_MOST), ("nodeGroupNamePrefix", NAME_MOST - PREFIX_ENDING)):
        name = inputs.get(key)
        if isinstance(name, str) and len(name) > max_length:  # upstream
            yield Problem(key, f"expected length of {key} to be in the range (0 - {max_length}), got {name}")
    both = is_known(inputs.get("nodeGroupNamePrefix")) and is_known(inputs.get("nodeGroupName"))
    if both and "nodeGroupName" not in rows(inputs.get(DEFAULTS)):
        yield Problem("nodeGroupName", '"nodeGroupName": conflicts with nodeGroupNamePrefix')


def sizes(inputs: Inputs) -> Iterator[Problem]:
    config = table(inputs.get("scalingConfig"))
    min_size, desired_size, max_size = (_number(config.get(name)) for name in ("minSize", "desiredSize", "maxSize"))
    if min_size is not None and desired_size is not None and min_size > desired_size:
        yield Problem("scalingConfig.minSize", f"{eks_errors.MIN_ABOVE}: {min_size:g} is above {desired_size:g}")
    if desired_size is not None and max_size is not None and desired_size > max_size:
        yield Problem(
            "scalingConfig.desiredSize", f"{eks_errors.DESIRED_ABOVE}: {desired_size:g} is above {max_size:g}"
        )


def instance_types(inputs: Inputs, region: str) -> Iterator[Problem]:
    types_input = rows(inputs.get("instanceTypes"))
    if len(types_input) > TYPES_MOST:  # API model, CreateNodegroupRequest.instanceTypes
        yield Problem("instanceTypes", f"expected at most {TYPES_MOST} instance types, got {len(types_input)}")
    for index, name in enumerate(types_input):
        if isinstance(name, str) and not types.is_offered_in(name, region):
            yield Problem(
                f"instanceTypes[{index}]", eks_errors.unknown_types([name]), types.availability_hint(name, region)
            )
    names = [name for name in types_input if isinstance(name, str) and types.architecture(name)]
    if not types_input and inputs.get("instanceTypes") is not UNKNOWN and not inputs.get("launchTemplate"):
        names = [types.DEFAULT]
    yield from architectures(names, inputs.get("amiType"), "instanceTypes")


def architectures(names: list[str], ami_type: Any, path: str) -> Iterator[Problem]:
    """Check that all types have the architecture of the AMI type, or the same one if no AMI type is set."""
    architecture_of = {name: types.architecture(name) for name in names}
    ami = next((one for one in gpu_catalog.ami_types() if one.ami_type == ami_type), None)
    if ami and ami.architecture:
        unsuitable = [name for name, kind in architecture_of.items() if kind not in ("", ami.architecture)]
        if unsuitable:
            yield Problem(
                path, eks_errors.wrong_architecture(unsuitable, str(ami_type)), _ami_types_hint(unsuitable[0])
            )
    elif len(set(architecture_of.values())) > 1:
        listed = ", ".join(f"{name} is {kind}" for name, kind in architecture_of.items())
        yield Problem(path, f"expected instance types of one architecture, got several: {listed}")


def _ami_types_hint(name: str) -> str:
    offer = types.offer(name)
    return f"AMI types for {name}: {', '.join(offer.ami_types)}" if offer and offer.ami_types else ""


def with_template(inputs: Inputs) -> Iterator[Problem]:
    template = inputs.get("launchTemplate")
    if not template:
        return
    if is_known(inputs.get("diskSize")):
        yield Problem("diskSize", eks_errors.DISK)
    if inputs.get("remoteAccess"):
        yield Problem("remoteAccess", eks_errors.REMOTE_ACCESS)
    if template is UNKNOWN:
        return
    chosen = [name for name in ("id", "name") if table(template).get(name) not in (None, "")]
    if len(chosen) != 1:  # API model, LaunchTemplateSpecification; upstream: ConflictsWith
        text = (
            "You must specify either the launch template ID or the launch template name in the request, but not both."
        )
        yield Problem("launchTemplate", text)
    identity = table(template).get("id")
    if isinstance(identity, str) and identity and not re.fullmatch(TEMPLATE_ID, identity):
        # terraform-provider-aws, internal/verify/validate.go, ValidLaunchTemplateID
        text = f"\"id\" must begin with 'lt-' and be comprised of only alphanumeric characters: {identity}"
        yield Problem("launchTemplate.id", text)


def capacity(inputs: Inputs) -> Iterator[Problem]:
    if inputs.get("capacityType") == "CAPACITY_BLOCK":
        # docs.aws.amazon.com/eks/latest/userguide/capacity-blocks-mng.html
        if not inputs.get("launchTemplate"):
            text = "Managed node groups with Capacity Blocks can only be created with custom launch templates"
            hint = "name the reservation and the instance type in a launch template"
            yield Problem("launchTemplate", text, hint)
        if inputs.get("instanceTypes"):
            yield Problem("instanceTypes", "must be left out for CAPACITY_BLOCK: the launch template names the type")
        subnets = inputs.get("subnetIds")
        if isinstance(subnets, list) and len(subnets) != 1:
            text = f"expected the one subnet in the Availability Zone of the Capacity Block, got {len(subnets)}"
            yield Problem("subnetIds", text)


def labels(given: Any) -> Iterator[Problem]:
    for key, value in table(given).items():
        domain, slash, _ = key.rpartition("/")
        path = text(("labels", key))
        if domain == "eks.amazonaws.com":
            yield Problem(path, eks_errors.RESERVED_LABEL)
        elif slash and _is_kubernetes(domain) and key not in KUBELET_LABELS and not domain.endswith(KUBELET_PREFIXES):
            # EKS accepts the label, but no node can join: https://github.com/terraform-aws-modules/terraform-aws-eks/issues/3346
            kubelet_error = f"unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels: [{key}]"
            yield Problem(
                path, f"NodeCreationFailure: Instances failed to join the kubernetes cluster: {kubelet_error}"
            )
        if isinstance(value, str) and not re.fullmatch(LABEL_VALUE, value):
            # https://github.com/aws-controllers-k8s/community/issues/2208
            yield Problem(
                path,
                f"Invalid value: {value} : field must consist of alphanumeric characters, '-', '_' or '.', and must "
                "start and end with an alphanumeric character",
            )


def _is_kubernetes(domain: str) -> bool:
    return any(domain == one or domain.endswith(f".{one}") for one in ("kubernetes.io", "k8s.io"))


def taints(given: Any) -> Iterator[Problem]:
    if len(rows(given)) > TAINTS_MOST:  # upstream, with Terraform's message
        yield Problem(
            "taints",
            f"Attribute taint supports {TAINTS_MOST} item maximum, but config has {len(rows(given))} declared.",
        )


def updates(given: Any) -> Iterator[Problem]:
    """Check the update settings (upstream: ExactlyOneOf, IntBetween(1, 100))."""
    if not isinstance(given, dict):
        return
    chosen = [name for name in ("maxUnavailable", "maxUnavailablePercentage") if given.get(name) is not None]
    if len(chosen) != 1:
        got = " and ".join(chosen) or "neither"
        text = f"expected exactly one of maxUnavailable and maxUnavailablePercentage, got {got}"
        yield Problem("updateConfig", text)
    nodes = _number(given.get("maxUnavailable"))
    if nodes is not None and nodes > UNAVAILABLE_MOST:
        text = f"expected maxUnavailable to be in the range (1 - {UNAVAILABLE_MOST}), got {nodes:g}"
        yield Problem("updateConfig.maxUnavailable", text)


def repair(given: Any) -> Iterator[Problem]:
    """Check that a limit has either a number or a percentage (API model, NodeRepairConfig)."""
    config = table(given)
    for stem in ("maxParallelNodesRepaired", "maxUnhealthyNodeThreshold"):
        if all(config.get(f"{stem}{kind}") is not None for kind in ("Count", "Percentage")):
            yield Problem(f"nodeRepairConfig.{stem}Count", f'"{stem}Count": conflicts with {stem}Percentage')


def warm_pool(inputs: Inputs) -> Iterator[Problem]:
    """Check the warm pool features that Bottlerocket does not support (API model, WarmPoolConfig)."""
    config, image = table(inputs.get("warmPoolConfig")), inputs.get("amiType")
    if not isinstance(image, str) or not image.startswith("BOTTLEROCKET"):
        return
    if config.get("poolState") == "HIBERNATED":
        text = "Warm pool instances in the Hibernated state are not supported with Bottlerocket AMIs."
        yield Problem("warmPoolConfig.poolState", text)
    if config.get("reuseOnScaleIn") is True:
        yield Problem("warmPoolConfig.reuseOnScaleIn", "This feature is not supported for Bottlerocket AMIs.")


def too_old(ami_type: Any, version: Any) -> bool:
    """Return True if an AMI type has no image for a Kubernetes version."""
    if not isinstance(ami_type, str) or not ami_type.startswith("AL2_") or not isinstance(version, str):
        return False
    numbers = version.split(".")
    return all(one.isdigit() for one in numbers[:2]) and tuple(map(int, numbers[:2])) > LAST_AL2


def _number(given: Any) -> float | None:
    return given if isinstance(given, int | float) and not isinstance(given, bool) else None
