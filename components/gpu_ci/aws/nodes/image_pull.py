"""Validates parallelImagePull, with which nodes download and unpack the layers of an image in parallel (SOCI).

Source of the numbers: awslabs/amazon-eks-ami@81fec2e:nodeadm/doc/examples.md, "Enabling fast image pull".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import invalid
from . import ami
from .rules import machines_of

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
    if release and _is_too_old(ami.system_of(ami.ami_of(others)), release):
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
