"""The rules of AWS beyond its schemas. Policy documents are checked by the schemas of cfn-lint, one for each kind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import gpu_catalog
import jsonschema
import referencing
from referencing.jsonschema import DRAFT202012

from pulumi_sandbox.providers.aws import documents, image_builder, instance_types, types
from pulumi_sandbox.providers.aws.eks import errors as eks_errors
from pulumi_sandbox.providers.inputs import rows, table
from pulumi_sandbox.providers.paths import text
from pulumi_sandbox.providers.resource import Problem
from pulumi_sandbox.providers.values import UNKNOWN

Inputs = dict[str, Any]
TRUST, IDENTITY = "policy_trust", "policy_identity"
# The inputs of a type that are documents, and their schema.
DOCUMENTS = {
    types.ROLE: (("assumeRolePolicy", TRUST),),
    types.ROLE_POLICY: (("policy", IDENTITY),),
    types.POLICY: (("policy", IDENTITY),),
}
MARKETS = {"spot": "SPOT", "capacity-block": "CAPACITY_BLOCK", "on-demand": "ON_DEMAND"}


def rules(token: str, inputs: dict[str, Any], region: str) -> Iterator[Problem]:
    """Check the rules of AWS or its provider that are in no schema."""
    yield from _policies(token, inputs)
    match token:
        case types.NODE_GROUP:
            yield from _node_group(inputs, region)
        case types.LAUNCH_TEMPLATE | types.INSTANCE:
            yield from _launch_template(inputs, region)
        case types.IMAGE_COMPONENT:
            yield from image_builder.document_problems(inputs)


def _launch_template(inputs: dict[str, Any], region: str) -> Iterator[Problem]:
    """Check the machine of a launch template or of a VM."""
    name, market = inputs.get("instanceType"), table(inputs.get("instanceMarketOptions")).get("marketType")
    if not isinstance(name, str) or not name:
        return
    if not instance_types.is_offered_in(name, region):
        # https://github.com/terraform-aws-modules/terraform-aws-eks/issues/3648
        text = f"The specified instance type {name} is not valid"
        yield Problem("instanceType", text, instance_types.availability_hint(name, region))
    if market in MARKETS:
        yield from instance_types.check_market(name, MARKETS[market], "instanceType")
    machine = instance_types.offer(name)
    efas = sum(str(table(row).get("interfaceType")).startswith("efa") for row in rows(inputs.get("networkInterfaces")))
    if machine and "efa_interfaces" not in machine.uncertain and efas > machine.efa_interfaces:
        # docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html; gpu_catalog
        yield Problem("networkInterfaces", f"{name} has {machine.efa_interfaces} EFA interfaces, got {efas}")


def _policies(token: str, inputs: Inputs) -> Iterator[Problem]:
    """Yield the problems of the policy documents of a resource."""
    for name, schema in DOCUMENTS.get(token, ()):
        yield from _policy(inputs.get(name), name, schema)
    for index, row in enumerate(rows(inputs.get("inlinePolicies")) if token == types.ROLE else ()):
        yield from _policy(table(row).get("policy"), f"inlinePolicies[{index}].policy", IDENTITY)


def _policy(value: Any, path: str, schema: str) -> Iterator[Problem]:
    if not isinstance(value, str):  # a document that is not known yet
        return
    try:
        document = json.loads(value)
    except ValueError as error:
        yield Problem(path, f'"{path}" contains an invalid JSON policy: {error}')
        return
    for each in _validator(schema).iter_errors(document):
        # An IAM variable may be anywhere in a text.
        if "${" not in str(each.instance):
            yield Problem(path, f"MalformedPolicyDocument: {each.json_path}: {each.message}")


@cache
def _validator(name: str) -> Any:
    base = DRAFT202012.create_resource(documents.iam_schema("policy"))
    registry = referencing.Registry().with_resource("policy", base)
    kind = jsonschema.validators.extend(jsonschema.Draft202012Validator, {"requiredXor": _exactly_one})
    return kind(documents.iam_schema(name), registry=registry)


def _exactly_one(_: Any, names: list[str], instance: Any, __: Any) -> Iterator[jsonschema.ValidationError]:
    if isinstance(instance, dict) and sum(name in instance for name in names) != 1:
        yield jsonschema.ValidationError(f"exactly one of {', '.join(names)} is required")


# Sources of the rules for node groups: botocore's service model of EKS (eks 2017-11-01), and terraform-provider-aws,
# internal/service/eks/node_group.go (at 012e0a32).
# The kubernetes.io labels that a kubelet may set: kubernetes v1.36.0, pkg/kubelet/apis/well_known_labels.go.
KUBELET_PREFIXES = ("kubelet.kubernetes.io", "node.kubernetes.io")
KUBELET_LABELS = {
    "kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch", "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/zone", "topology.kubernetes.io/region", "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os", "beta.kubernetes.io/arch", "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
}  # fmt: skip


def _node_group(inputs: Inputs, region: str) -> Iterator[Problem]:
    yield from _sizes(inputs)
    yield from _instance_types(inputs, region)
    yield from _labels(inputs.get("labels"))


def _sizes(inputs: Inputs) -> Iterator[Problem]:
    config = table(inputs.get("scalingConfig"))
    min_size, desired_size, max_size = (_number(config.get(name)) for name in ("minSize", "desiredSize", "maxSize"))
    if min_size is not None and desired_size is not None and min_size > desired_size:
        yield Problem("scalingConfig.minSize", f"{eks_errors.MIN_ABOVE}: {min_size:g} is above {desired_size:g}")
    if desired_size is not None and max_size is not None and desired_size > max_size:
        yield Problem(
            "scalingConfig.desiredSize", f"{eks_errors.DESIRED_ABOVE}: {desired_size:g} is above {max_size:g}"
        )


def _instance_types(inputs: Inputs, region: str) -> Iterator[Problem]:
    types_input = rows(inputs.get("instanceTypes"))
    for index, name in enumerate(types_input):
        if isinstance(name, str) and not instance_types.is_offered_in(name, region):
            yield Problem(
                f"instanceTypes[{index}]",
                eks_errors.unknown_types([name]),
                instance_types.availability_hint(name, region),
            )
    names = [name for name in types_input if isinstance(name, str) and instance_types.architecture(name)]
    if not types_input and inputs.get("instanceTypes") is not UNKNOWN and not inputs.get("launchTemplate"):
        names = [instance_types.DEFAULT]
    yield from _architectures(names, inputs.get("amiType"), "instanceTypes")


def _architectures(names: list[str], ami_type: Any, path: str) -> Iterator[Problem]:
    """Check that all types have the architecture of the AMI type, or the same one if no AMI type is set."""
    architecture_of = {name: instance_types.architecture(name) for name in names}
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
    offer = instance_types.offer(name)
    return f"AMI types for {name}: {', '.join(offer.ami_types)}" if offer and offer.ami_types else ""


def _labels(given: Any) -> Iterator[Problem]:
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
