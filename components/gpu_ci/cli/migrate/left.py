"""The resources that stay in Terraform: what takes their place, and when they can be deleted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpu_ci.cli.migrate.draft import Draft
from gpu_ci.cli.migrate.scale_sets import chart_of
from gpu_ci.cli.migrate.terraform import Resource

_DRAINED = "no job runs on its machines"
_EMPTY = "its machines are deleted"
_MODULE = "all runners of the module are deleted"
_NODES = "no runner pod runs on its nodes"
_RELEASE = "its listener and runners have no job"

# Type -> what takes its place, when it can be deleted. A type that ends with * is a prefix.
_TYPES = {
    "google_compute_instance_group_manager": ("the pool's own instance group", _DRAINED),
    "google_compute_region_instance_group_manager": ("the pool's own instance group", _DRAINED),
    "google_compute_autoscaler": ("the runner manager", "with its instance group"),
    "google_compute_region_autoscaler": ("the runner manager", "with its instance group"),
    "google_compute_instance_template": ("the pool's own template", _EMPTY),
    "google_compute_region_instance_template": ("the pool's own template", _EMPTY),
    "google_container_node_pool": ("the pool's own node pool", _NODES),
    "aws_eks_node_group": ("the pool's own node group", _NODES),
    "helm_release": ("the stack's controller and scale sets", _RELEASE),
    "aws_launch_template": ("the launch template of the pool's node group", _EMPTY),
    "aws_lambda_function": ("the controller on the cluster", _MODULE),
    "aws_lambda_*": ("the controller on the cluster", _MODULE),
    "aws_sqs_*": ("the long poll of the scale set", _MODULE),
    "aws_apigatewayv2_*": ("the long poll of the scale set", "the webhook of the GitHub App is off"),
    "aws_cloudwatch_event_*": ("the controller on the cluster", _MODULE),
    "aws_scheduler_*": ("minIdle of the pool", _MODULE),
    "aws_ssm_parameter": ("Secret Manager for keys of Apps; the stack file for settings", _MODULE),
}
# Resources of these types are listed only if a pool replaces them (`Pool.covers`). Other software may use the others.
# Node groups are listed in any case: the controller and the listeners of pools on EKS run on nodes without GPUs.
_COVERED = (
    "google_compute_instance_",
    "google_compute_region_",
    "google_compute_autoscaler",
    "google_container_node_pool",
    "aws_eks_node_group",
)
_CHARTS = ("gha-runner-scale-set", "gha-runner-scale-set-controller")
_NETWORK = ("google_compute_network", "google_compute_router", "google_compute_router_nat", "google_compute_subnetwork")
_NODE_GROUPS = ("aws_eks_node_group", "google_container_node_pool")
_KEPT = ("kept: the draft uses it", "never; terraform destroy would delete it")
_NOT_DRAFTED = ("kept: the draft has no pool for it", "no pod runs on its nodes")


@dataclass(frozen=True)
class Left:
    """Resources of one type that stay in Terraform until they are deleted."""

    type: str
    addresses: tuple[str, ...]
    replaced_by: str
    delete_when: str


def left(resources: Sequence[Resource], draft: Draft) -> list[Left]:
    """Return the resources of runners that stay in Terraform, by type."""
    covered = {address for pool in draft.drafted for address in pool.covers}
    modules = {_around(each) for each in resources if each.type == "aws_lambda_function" and each.name == "scale_up"}
    networks = {_around(each) for each in resources if _is_subnetwork_of(each, draft)}
    found: dict[tuple[str, tuple[str, str]], list[str]] = {}
    for each in resources:
        if each.mode != "managed":
            continue
        if each.address in draft.kept:
            rule: tuple[str, str] | None = _KEPT
        elif each.type in _NETWORK:
            rule = _KEPT if _around(each) in networks else None
        elif each.type.startswith(_COVERED):
            rule = _rule(each.type) if each.address in covered else None
            if rule is None and each.type in _NODE_GROUPS:
                rule = _NOT_DRAFTED
        elif each.type == "helm_release":
            rule = _rule(each.type) if chart_of(each) in _CHARTS else None
        else:  # other software uses these types too, so only those of a runner module are listed
            rule = _rule(each.type) if _around(each) in modules else None
        if rule:
            found.setdefault((each.type, rule), []).append(each.address)
    return [Left(kind, tuple(addresses), *rule) for (kind, rule), addresses in found.items()]


def _is_subnetwork_of(resource: Resource, draft: Draft) -> bool:
    link = resource.text("self_link")
    return resource.type == "google_compute_subnetwork" and any(
        link.endswith(f"/{each}") for each in draft.subnetworks.values()
    )


def _rule(kind: str) -> tuple[str, str] | None:
    return _TYPES.get(kind) or next(
        (rule for name, rule in _TYPES.items() if name.endswith("*") and kind.startswith(name[:-1])), None
    )


def _around(resource: Resource) -> str:
    """Return the outermost module of a resource, such as `module.runners`, or an empty text."""
    return f"module.{resource.modules[0][0]}" if resource.modules else ""
