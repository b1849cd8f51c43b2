"""Validates the fields of GkeGpuNodePoolArgs by the rules of GKE and the facts of gpu_catalog.

Each function validates the field of its name: it returns a valid value and raises an error for an invalid value.
`others` has the fields validated before. machine/rules.py validates the machine, its zones and its disks. A
version of GKE is text such as 1.34.1-gke.3720000.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import gpu_catalog as catalog
from gpu_catalog import Machine, solver

from ...errors import did_you_mean, invalid
from ...machines.rules import machine_of
from ..regions import COMPUTE
from ..resource_names import REGION, ZONE

_COS = "COS_CONTAINERD"

VERSION = r"^1\.[0-9]{1,3}\.[0-9]{1,3}-gke\.[0-9]{1,10}$"
_NUMBER = re.compile(r"[0-9]+")

# docs.cloud.google.com/kubernetes-engine/docs/how-to/gpus: before this version, a user installs the driver.
AUTOMATIC_DRIVER = "1.30.1-gke.1156000"
# docs.cloud.google.com/kubernetes-engine/docs/how-to/dws-flex-start.
FLEX_START = "1.32.2-gke.1652000"
# docs.cloud.google.com/kubernetes-engine/docs/concepts/node-pool-upgrade-strategies, "Autoscaled blue-green upgrades".
AUTOSCALED_BLUE_GREEN = "1.34.0-gke.2201000"

# docs.cloud.google.com/kubernetes-engine/docs/how-to/gpus: the driver DEFAULT is R535 on Ubuntu, and on
# Container-Optimized OS of the versions 1.31 to 1.33. No source names the driver of later versions.
OLD_DRIVER, _OLD_DRIVER_BEFORE = 535, "1.34"


def location(value: str) -> str:
    """Return the location of a cluster: a region of Google Cloud, or one of its zones."""
    if not is_location(value):
        hint = did_you_mean(value, COMPUTE) or "such as us-central1"
        raise invalid("is not a region or a zone of Google Cloud", "not-a-location", hint=hint)
    return value


def is_location(value: str) -> bool:
    """Return True for a region of Google Cloud, or one of its zones."""
    region = catalog.region_of(value) if re.fullmatch(ZONE, value) else value
    return re.fullmatch(REGION, region) is not None and region in COMPUTE


def standard_cluster(value: bool) -> bool:
    """Return False. Raise an error for an Autopilot cluster, which has no node pools."""
    if value:
        raise invalid(
            "the cluster is an Autopilot cluster, which has no node pools",
            "autopilot",
            hint="use a Standard cluster of GKE",
        )
    return value


def control_plane_version(value: str) -> str:
    """Return the version. GKE must install the NVIDIA driver itself."""
    if older(value, AUTOMATIC_DRIVER):
        raise invalid(
            "does not install the NVIDIA driver on nodes",
            "cluster-too-old",
            expected=f"{AUTOMATIC_DRIVER} or newer",
            hint="upgrade the control plane",
        )
    return value


def machine_type(value: str, _others: Mapping[str, Any]) -> str:
    """Return the machine type. Its GPUs must be whole."""
    if not catalog.takes_accelerator(value) and (machine := catalog.machine(value)).gpu_count < 1:
        whole = [each for each in catalog.machines(cloud="gcp", gpu=machine.gpu) if each.gpu_count == 1]
        raise invalid(
            "has a fraction of a GPU, which needs NVIDIA's vGPU driver; no source says that GKE installs it",
            "fraction-of-gpu",
            hint=f"use {whole[0].machine_type}, the smallest type with a whole GPU",
        )
    return value


def zones(values: list[str], others: Mapping[str, Any]) -> list[str]:
    """Return the zones. They must be in the region of the cluster."""
    cluster_region = _region_of_cluster(others)
    # All zones are in one region (machine/rules.py).
    if cluster_region and (region := catalog.region_of(values[0])) != cluster_region:
        raise invalid(
            f"are in {region}, but the cluster is in {cluster_region}",
            "other-region",
            hint=f"use zones of {cluster_region}",
        )
    return values


def subnetwork(value: str | None, others: Mapping[str, Any]) -> str | None:
    """Return the subnetwork. It must be in the region of the cluster."""
    cluster_region = _region_of_cluster(others)
    # Late values are checked when they are known.
    found = re.search(r"/regions/([^/]+)/", value) if isinstance(value, str) else None
    if cluster_region and found and found[1] != cluster_region:
        raise invalid(
            f"is in {found[1]}, but the cluster is in {cluster_region}",
            "other-region",
            hint=f"use a subnetwork of {cluster_region}",
        )
    return value


def _region_of_cluster(others: Mapping[str, Any]) -> str:
    """Return the region of the cluster; empty if it is invalid, or not known yet."""
    place = others.get("location")
    if not isinstance(place, str):
        return ""
    return catalog.region_of(place) if re.fullmatch(ZONE, place) else place


def market(value: str, others: Mapping[str, Any]) -> str:
    """Return the market. The version of the cluster must support flex-start with GPUs."""
    if value == "flex-start":
        _needs_version(FLEX_START, others, "flex-start with GPUs", "upgrade the control plane, or use spot")
    return value


def _needs_version(least: str, others: Mapping[str, Any], feature: str, hint: str) -> None:
    if older(found := others.get("control_plane_version"), least):
        raise invalid(
            f"the control plane has {found}, but {feature} requires {least} or newer", "cluster-too-old", hint=hint
        )


def driver(value: str, others: Mapping[str, Any]) -> str:
    """Return the driver. It must be available for the node image, and support the GPU."""
    image = others.get("image_type")
    if value == "LATEST" and image not in (_COS, None):
        raise invalid(f"is available on {_COS} only", "needs-cos", hint="driver: DEFAULT, or remove imageType")
    branch, machine = branch_of({**others, "driver": value}), machine_of(others)
    if branch and machine:
        _check_driver(machine, branch, others)
    return value


def torch(value: str | None, others: Mapping[str, Any]) -> str | None:
    """Return the torch version. It must have kernels for the GPU, and the driver must support its CUDA version."""
    machine = machine_of(others)
    if value is None or machine is None:
        return value
    branch = branch_of(others) if "driver" in others else None
    answer = solver.check(machine, driver_source="cos", driver_branch=branch, torch=value)
    for problem in getattr(answer, "problems", ()):
        fix = (problem.fix or {}).get("torch")
        if problem.choice == "torch":
            raise invalid(
                problem.text, "torch-does-not-fit", hint=f"torch: {fix}" if fix else "use another machineType"
            )
        if problem.choice == "driver_branch" and branch:
            raise invalid(f"{problem.text}, {_default_driver(others)}", "torch-does-not-fit", hint=newer_driver(others))
    return value


def branch_of(choices: Mapping[str, Any]) -> int | None:
    """Return the branch of the driver, or None if it is not known."""
    if choices.get("driver") != "DEFAULT":
        return None
    return default_driver(choices.get("control_plane_version"), choices.get("image_type"))


def _check_driver(machine: Machine, branch: int, others: Mapping[str, Any]) -> None:
    answer = solver.check(machine, driver_source="cos", driver_branch=branch)
    problems = [each for each in getattr(answer, "problems", ()) if each.choice == "driver_branch"]
    if problems:
        raise invalid(
            f"{problems[0].text}; {branch} is {_default_driver(others)}", "driver-too-old", hint=newer_driver(others)
        )


def _default_driver(others: Mapping[str, Any]) -> str:
    on = "Ubuntu" if others.get("image_type") == "UBUNTU_CONTAINERD" else f"GKE {others.get('control_plane_version')}"
    return f"the driver DEFAULT of {on}"


def newer_driver(others: Mapping[str, Any]) -> str:
    """Return a hint with the settings for a newer driver."""
    other_image = others.get("image_type") == "UBUNTU_CONTAINERD"
    return f"driver: LATEST and imageType: {_COS}" if other_image else "driver: LATEST"


def image_streaming(value: bool, others: Mapping[str, Any]) -> bool:
    """Return the value. Image streaming requires Container-Optimized OS.

    Source: docs.cloud.google.com/kubernetes-engine/docs/how-to/image-streaming, "Requirements".
    """
    if value and others.get("image_type") not in (_COS, None):
        raise invalid(f"requires {_COS}", "needs-cos", hint="remove imageType, or imageStreaming")
    return value


def secondary_boot_disk(value: str | None, others: Mapping[str, Any]) -> str | None:
    """Return the disk image. A secondary boot disk requires image streaming.

    Source: docs.cloud.google.com/kubernetes-engine/docs/how-to/data-container-image-preloading.
    """
    if value is not None and others.get("image_streaming") is False:
        raise invalid(
            "requires image streaming, which reads images from the disk",
            "needs-image-streaming",
            hint="imageStreaming: true",
        )
    return value


def upgrade_strategy(value: str | None, others: Mapping[str, Any]) -> str | None:
    """Return the strategy. GKE decides it for flex-start, and older versions do not have autoscaled blue-green."""
    if value is None:
        return value
    if others.get("market") == "flex-start":
        raise invalid("is set by GKE for flex-start nodes, which live a limited time", "set-by-gke", hint="remove it")
    if value == "BLUE_GREEN":
        _needs_version(
            AUTOSCALED_BLUE_GREEN,
            others,
            "an autoscaled blue-green upgrade",
            "SURGE, or remove upgradeStrategy",
        )
    return value


def older(version: Any, least: str) -> bool:
    """Return True if a version is known, and older than `least`."""
    return isinstance(version, str) and _numbers(version) < _numbers(least)


def default_driver(version: Any, image_type: str | None) -> int | None:
    """Return the branch of the driver that GKE names DEFAULT. Return None if it is not known."""
    if image_type == "UBUNTU_CONTAINERD" or older(version, _OLD_DRIVER_BEFORE):
        return OLD_DRIVER
    return None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, _NUMBER.findall(version)))
