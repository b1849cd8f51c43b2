"""Drafts pools on EKS from EKS node groups and from terraform-aws-github-runner in a state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import gpu_catalog

from gpu_ci.cli.migrate import nodes
from gpu_ci.cli.migrate.draft import NODES, Cluster, Draft, Pool
from gpu_ci.cli.migrate.google import unknown as unknown_type
from gpu_ci.cli.migrate.scale_sets import ScaleSet, number
from gpu_ci.cli.migrate.terraform import Resource

NODE_GROUP = "aws_eks_node_group"
_MARKETS = {"SPOT": "spot", "ON_DEMAND": "standard", "CAPACITY_BLOCK": "capacity-block"}


def node_groups(resources: Sequence[Resource], scale_sets: Iterable[ScaleSet], draft: Draft) -> None:
    """Add a pool to the draft for each scale set on a node group, and for each node group without one."""
    groups = [each for each in resources if each.type == NODE_GROUP]
    sets = list(scale_sets)
    for group in groups:
        name = group.text("node_group_name")
        labels = group.values.get("labels")
        own = nodes.scale_sets_on(sets, name, labels, "eks.amazonaws.com/nodegroup", is_only=len(groups) == 1)
        for scale_set in own:
            pool = nodes.new_pool(group, scale_set, name, NODES, "EKS")
            draft.pools.append(pool)
            _instance_types(pool, group.values.get("instance_types") or ())
            if pool.skipped:
                continue
            pool.covers.append(group.address)
            pool.fields["clusterName"] = group.text("cluster_name")
            _cluster(pool.fields["clusterName"], group, resources, draft)
            pool.fields["market"] = _MARKETS.get(group.text("capacity_type"), "standard")
            most = number(group.block("scaling_config").get("max_size"))
            if most:
                pool.fields["max"] = most
            else:
                pool.missing["max"] = "the maximum number of nodes is not in the state"
            pool.keep_disk_size(number(group.values.get("disk_size")))
            nodes.take_over_runner(pool, scale_set)


def scale_up_functions(resources: Sequence[Resource], draft: Draft) -> None:
    """Add a pool for each runner configuration of terraform-aws-github-runner.

    Its function `scale_up` has the settings as environment variables (modules/runners/scale-up.tf). No other variable
    is read.
    """
    zones = _zones(resources)
    for function in resources:
        if function.type != "aws_lambda_function" or function.name != "scale_up":
            continue
        variables = function.block("environment").get("variables")
        settings: Mapping[str, Any] = variables if isinstance(variables, Mapping) else {}
        pool = Pool(function.title, function.address, "terraform-aws-github-runner", NODES)
        draft.pools.append(pool)
        if not settings:
            pool.skipped = "the settings of its function are sensitive, or missing"
            continue
        _instance_types(pool, [each for each in str(settings.get("INSTANCE_TYPES") or "").split(",") if each])
        if pool.skipped:
            continue
        pool.missing["clusterName"] = "gpu-ci runs jobs on EC2 only as nodes of an EKS cluster"
        pool.fields["market"] = "spot" if settings.get("INSTANCE_TARGET_CAPACITY_TYPE") == "spot" else "standard"
        most = number(settings.get("RUNNERS_MAXIMUM_COUNT"))
        if most and most > 0:
            pool.fields["max"] = most
        else:  # -1 is no maximum (variables.tf, runners_maximum_count)
            pool.missing["max"] = "the module has no maximum"
        pool.missing["runner.image"] = "jobs run in pods; the image takes the place of the AMI"
        if labels := str(settings.get("RUNNER_LABELS") or ""):
            pool.notes["runs-on"] = f"was {labels.replace(',', ', ')}; a job on EKS names the pool instead"
        pool.runner_group = str(settings.get("RUNNER_GROUP_NAME") or "")
        subnets = [each for each in str(settings.get("SUBNET_IDS") or "").split(",") if each]
        listed = ", ".join(f"{zones[each]}: {each}" if each in zones else each for each in subnets)
        if listed:
            pool.notes["subnets"] = f"were {listed}; those of the cluster belong under gpu-ci:clusters"


def _instance_types(pool: Pool, names: Sequence[str]) -> None:
    """Set the instance types. Skip the pool if none has an NVIDIA GPU."""
    known, unknown = [], {}
    for name in names:
        try:
            found = gpu_catalog.machine(name)
            if found.cloud == "aws" and gpu_catalog.is_nvidia(found):
                known.append(found)
            else:
                unknown[name] = f"{name} has no NVIDIA GPU"
        except LookupError as error:
            unknown[name] = unknown_type(name, error)
    same = [each for each in known if each.gpu.key == known[0].gpu.key and each.gpu_count == known[0].gpu_count]
    unknown |= {each.machine_type: f"{each.machine_type} has other GPUs" for each in known if each not in same}
    if not same:
        pool.skipped = "; ".join(unknown.values()) or "the state does not have its instance types"
        return
    pool.machine = same[0]
    pool.fields["instanceTypes"] = [
        each.machine_type for each in sorted(same, key=lambda each: (each.vcpus, each.memory_gib))
    ]
    if unknown:
        pool.notes["instanceTypes"] = "; ".join(unknown.values())


def _cluster(name: str, group: Resource, resources: Sequence[Resource], draft: Draft) -> None:
    cluster = draft.clusters.setdefault(name, Cluster())
    # arn:aws:eks:<region>:<account>:nodegroup/...
    if region := (group.text("arn").split(":") + [""] * 4)[3]:
        cluster.fields.setdefault("region", region)
    if "region" not in cluster.fields:
        cluster.comments["region"] = "the state does not have it."
    zones = _zones(resources)
    placed = {zones[subnet]: subnet for subnet in group.values.get("subnet_ids") or () if zones.get(subnet)}
    if placed:
        cluster.fields["subnets"] = {**placed, **cluster.fields.get("subnets", {})}
    cluster.unplaced += [
        each for each in group.values.get("subnet_ids") or () if not zones.get(each) and each not in cluster.unplaced
    ]
    if cluster.unplaced:
        listed = ", ".join(cluster.unplaced)
        cluster.comments["subnets"] = f"the state does not have the zone of {listed}; write <zone>: <subnet>."


def _zones(resources: Sequence[Resource]) -> dict[str, str]:
    """Return the zone of each subnet in the state."""
    return {
        each.text("id"): each.text("availability_zone")
        for each in resources
        if each.type == "aws_subnet" and each.text("availability_zone")
    }
