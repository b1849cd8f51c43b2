"""The rule `public`: resources that the whole Internet can newly reach or read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...diff.value_pairs import ValuePair, plain
from ...engine.states import Change, StackStates, State
from ...model import Finding
from ..danger_rule import PUBLIC, shortened
from . import policy_documents
from .firewalls import FIREWALLS


@dataclass(frozen=True)
class Exposes:
    """A property that makes something public."""

    types: str
    """A pattern of types of resources."""
    key: str
    """The property's name, at any depth."""
    is_public: Callable[[Any], bool]
    text: str
    by_default: bool = False
    """True if removing the property from an existing resource also makes it public."""


def _true(value: Any) -> bool:
    return value is True or (isinstance(value, str) and value.lower() == "true")


def _false(value: Any) -> bool:
    return value is False or (isinstance(value, str) and value.lower() == "false")


def _some(value: Any) -> bool:
    return isinstance(value, list) and bool(value)


def _one_of(*values: str) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and value.lower() in values


_EVERYBODY = _one_of("allusers", "allauthenticatedusers")
_BLOCKS = ("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets")
_BLOCK = r"aws:s3/(bucketPublicAccessBlock|accountPublicAccessBlock):.*"

EXPOSES = (
    Exposes("gcp:compute/.*", "accessConfigs", _some, "gives machines a public address"),
    Exposes("gcp:compute/.*", "ipv6AccessConfigs", _some, "gives machines a public IPv6 address"),
    Exposes("gcp:container/.*", "enablePrivateEndpoint", _false, "opens the control plane to the Internet", True),
    Exposes("gcp:container/.*", "enablePrivateNodes", _false, "gives nodes public addresses", True),
    Exposes("gcp:sql/.*", "ipv4Enabled", _true, "gives the database a public address"),
    Exposes("gcp:storage/bucket:Bucket", "publicAccessPrevention", _one_of("inherited"), "may be made public", True),
    Exposes("gcp:storage/.*", "predefinedAcl", _one_of("publicread", "publicreadwrite"), "lets everybody read it"),
    Exposes("gcp:storage/.*", "entity", _EVERYBODY, "gives everybody access"),
    Exposes("gcp:.*", "member", _EVERYBODY, "grants the role to everybody"),
    Exposes("gcp:.*", "members", lambda value: isinstance(value, list) and any(map(_EVERYBODY, value)),
            "grants the role to everybody"),
    Exposes("aws:.*", "associatePublicIpAddress", _true, "gives machines a public address"),
    Exposes("aws:ec2/subnet:Subnet", "mapPublicIpOnLaunch", _true, "gives every machine in it a public address"),
    Exposes("aws:.*", "publiclyAccessible", _true, "gives it a public address"),
    Exposes("aws:lambda/functionUrl:FunctionUrl", "authorizationType", _one_of("none"), "lets everybody call it"),
    Exposes("aws:s3/.*", "acl", _one_of("public-read", "public-read-write"), "lets everybody read it"),
    *(Exposes(_BLOCK, key, _false, "turns off a block of public access", True) for key in _BLOCKS),
    Exposes("github:.*", "allowsPublicRepositories", _true, "lets anybody's pull request to a public repository run "
            "on the runners"),
    Exposes("github:index/repository:Repository", "visibility", _one_of("public"), "makes the repository public"),
    Exposes("github:index/repository:Repository", "private", _false, "makes the repository public"),
)  # fmt: skip

_EKS = "aws:eks/cluster:Cluster"
_SERVICE = "kubernetes:core/v1:Service"
_NETWORK_POLICY = "kubernetes:networking.k8s.io/v1:NetworkPolicy"
# Annotations that keep a load balancer inside (GKE's, and those of the two controllers on AWS).
_INSIDE = {
    "networking.gke.io/load-balancer-type": ("internal",),
    "cloud.google.com/load-balancer-type": ("internal",),
    "service.beta.kubernetes.io/aws-load-balancer-scheme": ("internal",),
    "service.beta.kubernetes.io/aws-load-balancer-internal": ("true", "0.0.0.0/0"),
}


def check(change: Change, stack_states: StackStates) -> Iterator[Finding]:
    for pair in change.inputs:
        for rule in EXPOSES:
            if pair.key == rule.key and _opens(rule, pair, change) and re.fullmatch(rule.types, change.type):
                yield PUBLIC.found(change, f"{change.name}: {shortened(pair.text, 120)} {rule.text}")
    yield from (PUBLIC.found(change, f"{change.name} {text}") for text in _resource_texts(change, stack_states))


def _opens(rule: Exposes, pair: ValuePair, change: Change) -> bool:
    """Return True if the property is public now and was not before. A list that was already public is not reported."""
    if pair.path[-1] != rule.key:
        return False
    gone = rule.by_default and change.before is not None and pair.after is None and plain(pair.before)
    return (gone or rule.is_public(pair.after)) and not rule.is_public(pair.before)


def _resource_texts(change: Change, stack_states: StackStates) -> Iterator[str]:
    """Yield exposures that depend on several properties."""
    before, after = change.before, change.after
    if before and change.ends == "is deleted":
        if re.fullmatch(_BLOCK, change.type) and not _bucket_goes(before, stack_states):
            yield "is deleted: the bucket can be made public"
        if change.type == _NETWORK_POLICY and not set(before.dependencies) & stack_states.deleted:
            yield "is deleted: traffic that it blocked may reach its pods"
        return
    if after is None:
        return
    firewall = FIREWALLS.get(change.type, _no_firewall)
    if opened := sorted(firewall(after.inputs) - (firewall(before.inputs) if before else set())):
        yield f"allows traffic from {shortened(', '.join(opened), 200)}"
    if (
        change.type == _EKS
        and _open_control_plane(after.inputs)
        and not (before and _open_control_plane(before.inputs))
    ):
        yield "has a control plane that the whole Internet can reach (endpointPublicAccess)"
    if change.type == _SERVICE and _outside(after.inputs) and not (before and _outside(before.inputs)):
        yield "is a load balancer with a public address"
    anyone = policy_documents.open_to_anyone
    if new := sorted(anyone(after.inputs) - (anyone(before.inputs) if before else set())):
        yield f"lets anyone do {shortened(', '.join(new), 200)}"


def _no_firewall(_inputs: Mapping[str, Any]) -> set[str]:
    return set()


def _bucket_goes(block: State, stack_states: StackStates) -> bool:
    return any(":Bucket" in urn for urn in set(block.dependencies) & stack_states.deleted)


def _open_control_plane(inputs: Mapping[str, Any]) -> bool:
    """Check the endpoint of an EKS cluster, which is public by default
    (docs.aws.amazon.com/eks/latest/userguide/cluster-endpoint.html)."""
    config = inputs.get("vpcConfig")
    if not isinstance(config, Mapping) or not (
        config.get("endpointPublicAccess") is None or _true(config.get("endpointPublicAccess"))
    ):
        return False
    cidrs = config.get("publicAccessCidrs")
    return "0.0.0.0/0" in cidrs or "::/0" in cidrs if isinstance(cidrs, list) and cidrs else cidrs in (None, [])


def _outside(inputs: Mapping[str, Any]) -> bool:
    spec, metadata = inputs.get("spec"), inputs.get("metadata")
    if not isinstance(spec, Mapping) or spec.get("type") != "LoadBalancer":
        return False
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    given = annotations if isinstance(annotations, Mapping) else {}
    return not any(str(given.get(key)).lower() in values for key, values in _INSIDE.items())
