"""How others spell what the catalog names."""

from __future__ import annotations

import re

# EC2's families with GPUs: g and gr with a number, p with a number. Everything else with such a letter is none.
GPU_FAMILIES = re.compile(r"(?:gr?|p)\d")

MEMORY_IN_NAME = re.compile(r" \d+GB$")


def without_memory(gpu_name: str) -> str:
    """A100 80GB -> A100: only the catalog and Google tell memory sizes apart by name."""
    return MEMORY_IN_NAME.sub("", gpu_name)


def in_gpuhunt(gpu_name: str) -> str:
    """RTX PRO 6000 -> RTXPRO6000: one word."""
    return without_memory(gpu_name).replace(" ", "")


def same_card(ours: str, in_ec2: str) -> bool:
    """Whether EC2's name is that of one of our cards: T4g is T4G, RTX PRO Server 6000 is RTX PRO 6000."""
    return without_memory(ours).upper() == in_ec2.upper().replace(" SERVER ", " ")
