"""Compares versions of GKE, such as 1.34.1-gke.3720000."""

from __future__ import annotations

import re
from typing import Any

FORM = r"^1\.[0-9]{1,3}\.[0-9]{1,3}-gke\.[0-9]{1,10}$"
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
