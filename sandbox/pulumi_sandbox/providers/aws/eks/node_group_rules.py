"""Rules for managed node groups that are in no schema, each with its source.

- "API model": botocore's service model of EKS (eks 2017-11-01).
- "upstream": terraform-provider-aws, internal/service/eks/node_group.go (at 012e0a32).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gpu_catalog

from pulumi_sandbox.providers.aws import instance_types as types
from pulumi_sandbox.providers.aws.eks import errors as eks_errors
from pulumi_sandbox.providers.inputs import rows, table
from pulumi_sandbox.providers.paths import text
from pulumi_sandbox.providers.resource import Problem
from pulumi_sandbox.providers.values import UNKNOWN

Inputs = dict[str, Any]

# The kubernetes.io labels that a kubelet may set: kubernetes v1.36.0, pkg/kubelet/apis/well_known_labels.go.
KUBELET_PREFIXES = ("kubelet.kubernetes.io", "node.kubernetes.io")
KUBELET_LABELS = {
    "kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch", "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/zone", "topology.kubernetes.io/region", "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os", "beta.kubernetes.io/arch", "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
}  # fmt: skip


def node_group(inputs: Inputs, region: str) -> Iterator[Problem]:
    yield from sizes(inputs)
    yield from instance_types(inputs, region)
    yield from labels(inputs.get("labels"))


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


def labels(given: Any) -> Iterator[Problem]:
    for key in table(given):
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


def _is_kubernetes(domain: str) -> bool:
    return any(domain == one or domain.endswith(f".{one}") for one in ("kubernetes.io", "k8s.io"))


def _number(given: Any) -> float | None:
    return given if isinstance(given, int | float) and not isinstance(given, bool) else None
