"""Validates the software of GPU nodes: the AMI, its release and driver, the torch of jobs, and fast image pulls.

A validator returns a valid value and raises an error for an invalid value. `others` has the fields validated before.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import gpu_catalog as catalog
from gpu_catalog import Machine, solver

from ...errors import did_you_mean, invalid
from .rules import machines_of

_SOURCES = {"al2023": "al2023", "bottlerocket": "bottlerocket"}
"""The solver's name of the driver source, by the image's operating system."""

_RELEASES = {
    "al2023": (re.compile(r"(?P<version>1\.[0-9]{2})\.[0-9]+-(?P<date>20[0-9]{6})"), "1.35.3-20260917"),
    "bottlerocket": (re.compile(r"[0-9]+\.[0-9]+\.[0-9]+-(?!20[2-9][0-9][01][0-9]{3}$)[0-9a-f]{8}"), "1.64.0-c9b02bd1"),
}
"""For each system, the pattern of its releases and one example.

A release of AL2023 has the Kubernetes version and the date. A release of Bottlerocket has its own version and a commit.
"""

_TWO_DRIVERS_SINCE = "20260917"
"""The date of the first AL2023 release with two drivers. A node uses the driver for its instance type.

Earlier releases have one driver, 580 or older (awslabs/amazon-eks-ami issue 2768).
"""

_DRIVER_BEFORE = 580
"""The newest possible driver of an AL2023 release before that date."""


def ami_of(choices: Mapping[str, Any]) -> str:
    """Return the chosen AMI type, or the default AMI type. Return "" if the instance types are invalid."""
    machines = machines_of(choices)
    return choices.get("ami_type") or (machines[0].ami_types[0] if machines and machines[0].ami_types else "")


def system_of(ami_type: str) -> str:
    """Return al2023, bottlerocket or another system. Return "" for a name that is not an AMI type of EKS."""
    return next((each.os for each in catalog.ami_types() if each.ami_type == ami_type), "")


def ami_type(value: str | None, others: Mapping[str, Any]) -> str | None:
    """Return an EKS AMI type with an NVIDIA driver that supports the GPU and the architecture."""
    known = [each.ami_type for each in catalog.ami_types()]
    if value == "CUSTOM":
        raise invalid(
            "is set by amiId, which names the image",
            "set-by-ami-id",
            hint="remove it, and set amiId for an image of your own",
        )
    for machine in machines_of(others):
        ami = value or ami_of(others)
        instead = f"amiType: {machine.ami_types[0]}"
        if ami not in known:
            raise invalid("is not an AMI type of EKS", "not-an-ami-type", hint=did_you_mean(ami, known) or instead)
        source = _SOURCES.get(system_of(ami))
        answer = solver.check(machine, ami_type=ami, driver_source=source)
        if isinstance(answer, solver.Refused):
            problems = [
                each for each in answer.problems if each.choice in ("ami_type", "driver_source", "driver_branch")
            ]
            # Only the first problem is reported, because the others follow from it.
            raise invalid(f"is not compatible: {_reasons(machine, problems[:1])}", "ami-does-not-fit", hint=instead)
    return value


def _reasons(machine: Machine, problems: Sequence[solver.Problem]) -> str:
    """Return the problems of a machine as text. The machine has its name in instanceTypes, such as g6.xlarge."""
    reasons = "; ".join(each.text for each in problems)
    return f"{machine.machine_type}: {reasons}".replace(machine.key, machine.machine_type)


def ami_id(value: str | None, others: Mapping[str, Any]) -> str | None:
    """Return the image. It must be built from AL2023, because Bottlerocket reads other user data."""
    chosen = ami_of(others)
    if value is not None and chosen and system_of(chosen) != "al2023":
        raise invalid(f"is for images of AL2023, but amiType is {chosen}", "ami-id-needs-al2023", hint="remove amiType")
    return value


def needed_by_ami_id(value: Any, others: Mapping[str, Any]) -> Any:
    """Return the value. With amiId it is required, because EKS then adds nothing to the user data."""
    if value is None and others.get("ami_id"):
        raise invalid("is missing; amiId requires it", "missing", hint="use the value of the cluster")
    return value


def release_version(value: str | None, others: Mapping[str, Any]) -> str | None:
    """Return the release. It must be for the image's operating system and the cluster's Kubernetes version.

    The driver of the release must support the GPU.
    """
    machines, system = machines_of(others), system_of(ami_of(others))
    if not machines or "ami_type" not in others:
        return value
    if others.get("ami_id"):
        if value is not None:
            raise invalid(
                "is for images of EKS, but amiId names an image of your own",
                "release-with-ami-id",
                hint="remove one of the two",
            )
        return value
    if value is None:
        if last := machines[0].gpu.last_driver_branch:
            raise invalid(
                f"is missing: R{last} is the last driver that supports the {machines[0].gpu.name}, but by default "
                "nodes use EKS's newest release",
                "missing-release",
                hint=f"use a release with driver {last}, in the format of {_RELEASES[system][1]}; {_releases(others)}",
            )
        return value
    form, example = _RELEASES[system]
    found = form.fullmatch(value)
    if not found:
        raise invalid(
            f"is not a release of {ami_of(others)}",
            "not-a-release",
            expected=f"a release such as {example}",
            hint=_releases(others),
        )
    version = others.get("kubernetes_version")
    if system == "al2023" and isinstance(version, str) and found["version"] != version:
        raise invalid(
            f"is for Kubernetes {found['version']}, but the cluster has {version}",
            "release-of-other-version",
            hint=_releases(others),
        )
    branch = branch_of(value)
    for machine in machines:
        answer = solver.check(machine, driver_source=_SOURCES[system], driver_branch=branch) if branch else None
        if isinstance(answer, solver.Refused):
            raise invalid(
                f"has at most driver {branch}: {answer.reason}".replace(machine.key, machine.machine_type),
                "driver-too-old",
                hint=f"a release of {_TWO_DRIVERS_SINCE} or later",
            )
    return value


def _releases(others: Mapping[str, Any]) -> str:
    """Return a hint with the page that lists the releases of an image."""
    if system_of(ami_of(others)) == "bottlerocket":
        return "github.com/bottlerocket-os/bottlerocket/releases lists them"
    return "github.com/awslabs/amazon-eks-ami/releases lists them"


def version_of(release: Any) -> str | None:
    """Return the Kubernetes version of an AL2023 release, or None."""
    found = _RELEASES["al2023"][0].fullmatch(release) if isinstance(release, str) else None
    return found["version"] if found else None


def branch_of(release: str | None) -> int | None:
    """Return the driver branch of a release with one driver. Return None for a release with two drivers, or none."""
    found = _RELEASES["al2023"][0].fullmatch(release or "")
    return _DRIVER_BEFORE if found and found["date"] < _TWO_DRIVERS_SINCE else None


def torch(value: str | None, others: Mapping[str, Any]) -> str | None:
    """Return the torch version. It must have kernels for the GPU, and the image's driver must support its CUDA."""
    if value is None or "ami_type" not in others:
        return value
    for machine in machines_of(others):
        source, branch = _SOURCES.get(system_of(ami_of(others))), branch_of(others.get("release_version"))
        answer = solver.check(machine, driver_source=source, driver_branch=branch, torch=value)
        problems = [each for each in getattr(answer, "problems", ()) if each.choice in ("torch", "driver_branch")]
        if problems:
            raise invalid(
                f"does not run on {_reasons(machine, problems)}",
                "torch-does-not-fit",
                hint=_torch_hint(machine, problems),
            )
    return value


def _torch_hint(machine: Machine, problems: Sequence[solver.Problem]) -> str:
    fixes = [str(each.fix["torch"]) for each in problems if each.fix and "torch" in each.fix]
    return (
        f"torch: {fixes[0]}"
        if fixes
        else f"no similar torch version runs on {machine.machine_type}; use another instance type"
    )


# "We recommend at least 600MiB/s throughput. Below that value, you may see longer image pull times."
LEAST_THROUGHPUT_MIB = 600
# "We recommend a 2xlarge instance or larger." Nodes with less than 4 CPUs or 7 GiB ignore the setting
# (the same repository, nodeadm/internal/containerd/config.go, UseSOCISnapshotter).
_LEAST_VCPUS = 8

# The first releases with the SOCI snapshotter: AL2023 by its date (the same repository, CHANGELOG.md, #2352), and
# Bottlerocket by its version (bottlerocket-os/bottlerocket#4593, in the notes of v1.44.0).
_AL2023_SINCE = "20250813"
_BOTTLEROCKET_SINCE = (1, 44)


def parallel_image_pull(value: bool, others: Mapping[str, Any]) -> bool:
    """Return the value. Raise an error if images would not be pulled faster."""
    machines = machines_of(others)
    if not value or not machines:
        return value
    if others.get("ami_id"):
        raise invalid(
            "has no effect with amiId: images that were pulled into the image are not stored in the SOCI snapshotter",
            "parallel-pull-with-ami-id",
            hint="remove one of the two",
        )
    if small := [f"{each.machine_type} ({each.vcpus:g} vCPUs)" for each in machines if each.vcpus < _LEAST_VCPUS]:
        raise invalid(
            f"is for nodes with at least {_LEAST_VCPUS} vCPUs, but the pool has {', '.join(small)}: unpacking layers "
            "in parallel needs CPUs and memory",
            "machine-too-small",
            hint="use larger instance types, or remove parallelImagePull",
        )
    release = others.get("release_version")
    if release and _is_too_old(system_of(ami_of(others)), release):
        raise invalid(
            f"requires a newer image: {release} has no SOCI snapshotter",
            "release-too-old",
            hint=f"a release of AL2023 since {_AL2023_SINCE}, or Bottlerocket 1.44.0 or newer",
        )
    throughput = others.get("disk_throughput_mib")
    # An instance store is faster. With it, images are not on the disk of diskThroughputMib.
    if throughput and throughput < LEAST_THROUGHPUT_MIB and not others.get("instance_store"):
        raise invalid(
            f"requires diskThroughputMib of at least {LEAST_THROUGHPUT_MIB}, but it is {throughput}: on a slower "
            "disk, a pull can take longer than without parallelImagePull",
            "disk-too-slow",
            hint=f"diskThroughputMib: {LEAST_THROUGHPUT_MIB}, or instanceStore: true",
        )
    return value


def _is_too_old(system: str, release: str) -> bool:
    """Return True if a valid release of this system has no SOCI snapshotter."""
    if system == "bottlerocket":
        major, minor = release.split(".")[:2]
        return (int(major), int(minor)) < _BOTTLEROCKET_SINCE
    return release.rpartition("-")[2] < _AL2023_SINCE
