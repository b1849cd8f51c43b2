"""Drafts pools on EKS from EKS node groups and from terraform-aws-github-runner in a state."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import gpu_catalog

from gpu_ci.cli.migrate.draft import NODES, Cluster, Draft, Pool
from gpu_ci.cli.migrate.google import runs_on
from gpu_ci.cli.migrate.google import unknown as unknown_type
from gpu_ci.cli.migrate.scale_sets import ScaleSet, number
from gpu_ci.cli.migrate.terraform import Resource

NODE_GROUP = "aws_eks_node_group"
_DIGEST = re.compile(r".+@sha256:[0-9a-f]{64}")
_MARKETS = {"SPOT": "spot", "ON_DEMAND": "standard", "CAPACITY_BLOCK": "capacity-block"}
_LONGEST_SET_NAME = 45
_NEW_SET = "-next"


def node_groups(resources: Sequence[Resource], scale_sets: Iterable[ScaleSet], draft: Draft) -> None:
    """Add a pool to the draft for each scale set on a node group, and for each node group without one."""
    groups = [each for each in resources if each.type == NODE_GROUP]
    sets = list(scale_sets)
    for group in groups:
        name = group.text("node_group_name")
        own: list[ScaleSet | None] = [
            each for each in sets if runs_on(each, name, group.values.get("labels"), "eks.amazonaws.com/nodegroup")
        ]
        if len(groups) == 1:
            own = own or [*sets]
        for scale_set in own or [None]:
            pool = Pool(
                scale_set.name if scale_set else name or group.title,
                f"{scale_set.address} on {group.address}" if scale_set else group.address,
                "scale set on EKS" if scale_set else "EKS node group",
                NODES,
            )
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
            _runner(pool, scale_set)


def scale_sets_without_nodes(scale_sets: Iterable[ScaleSet], draft: Draft) -> None:
    """Add a pool for each scale set whose nodes are not in the state."""
    for scale_set in scale_sets:
        pool = Pool(scale_set.name, scale_set.address, "scale set", NODES)
        pool.missing = {
            "clusterName": "the state does not have the nodes of the scale set",
            "instanceTypes": "the state does not have the nodes of the scale set",
        }
        if scale_set.max:
            pool.fields["max"] = scale_set.max
            pool.notes["max"] = "was maxRunners; here it is the number of nodes"
        else:
            pool.missing["max"] = "the scale set has no maxRunners"
        _runner(pool, scale_set)
        draft.pools.append(pool)


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


def _runner(pool: Pool, scale_set: ScaleSet | None) -> None:
    """Set the runner. Its scale set gets a name of its own, because both exist during the migration."""
    runner: dict[str, Any] = {}
    if scale_set and _DIGEST.fullmatch(scale_set.image):
        runner["image"] = scale_set.image
    else:
        was = f"{scale_set.image} has no digest" if scale_set and scale_set.image else "the state names no image"
        pool.missing["runner.image"] = f"{was}; jobs need CUDA, torch and GitHub's runner in it"
    if scale_set:
        runner["scaleSetName"] = f"{scale_set.name[: _LONGEST_SET_NAME - len(_NEW_SET)]}{_NEW_SET}"
        pool.notes["runner.scaleSetName"] = f"{scale_set.name} is free only after the old release is deleted"
        pool.runner_group = scale_set.group
        if scale_set.gpus:
            runner["gpus"] = scale_set.gpus
        if scale_set.min:
            pool.fields["minIdle"] = scale_set.min
        if scale_set.container_mode:
            pool.notes["runner.containerMode"] = f"was {scale_set.container_mode}; compare the choices in the reference"
        if scale_set.unread:
            pool.notes["Helm values"] = scale_set.unread
    if runner:
        pool.fields["runner"] = runner


def _cluster(name: str, group: Resource, resources: Sequence[Resource], draft: Draft) -> None:
    cluster = draft.clusters.setdefault(name, Cluster())
    # arn:aws:eks:<region>:<account>:nodegroup/...
    region = (group.text("arn").split(":") + [""] * 4)[3]
    cluster.region = cluster.region or region
    zones = _zones(resources)
    for subnet in group.values.get("subnet_ids") or ():
        if zone := zones.get(subnet, ""):
            cluster.subnets.setdefault(zone, subnet)
        elif subnet not in cluster.unplaced:
            cluster.unplaced.append(subnet)


def _zones(resources: Sequence[Resource]) -> dict[str, str]:
    """Return the zone of each subnet in the state."""
    return {
        each.text("id"): each.text("availability_zone")
        for each in resources
        if each.type == "aws_subnet" and each.text("availability_zone")
    }
