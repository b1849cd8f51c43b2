"""Converts GPU names between the catalog and other sources, which spell the names differently."""

from __future__ import annotations

import re

# EC2's families with GPUs: g, gr or p with a number. Other families with these letters have no GPU.
GPU_FAMILIES = re.compile(r"(?:gr?|p)\d")

MEMORY_IN_NAME = re.compile(r" \d+GB$")


def without_memory(gpu_name: str) -> str:
    """Remove the memory size from a name: A100 for A100 80GB. Only the catalog and Google have it in the name."""
    return MEMORY_IN_NAME.sub("", gpu_name)


def in_gpuhunt(gpu_name: str) -> str:
    """Remove the spaces from a name: RTXPRO6000 for RTX PRO 6000."""
    return without_memory(gpu_name).replace(" ", "")


def same_card(ours: str, in_ec2: str) -> bool:
    """Return True if EC2's name is a GPU of the catalog: T4g is T4G, RTX PRO Server 6000 is RTX PRO 6000."""
    return without_memory(ours).upper() == in_ec2.upper().replace(" SERVER ", " ")
