"""A copy of a machine: a machine for a person, like one that has run a job, without a runner (`gpu-ci repro`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

_OF_RUNNER = ("github", "registered_by", "reuse", "runner")


class Copy(NamedTuple):
    """A copy that was requested from a supplier."""

    operation: str
    """The supplier's name of the request."""
    connect: str
    """The command that logs in."""
    end: str
    """The command that deletes the copy before its time."""


def software(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the driver and the torch of a machine with this configuration of its agent (agent/gpu_agent/config.py)."""
    driver = config.get("driver") or {}
    # A driver of the image has no version of its own, and an installer with this digest installs one version.
    parts = [driver.get("source") or "image", driver.get("branch"), driver.get("sha256")]
    return {"driver": " ".join(str(each) for each in parts if each), "torch": str(config.get("torch") or "unknown")}


def without_runner(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration of an agent that checks the GPU, and then leaves the machine on."""
    return {key: value for key, value in config.items() if key not in _OF_RUNNER}
