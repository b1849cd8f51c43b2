"""The name of the file that configures this stack."""

from __future__ import annotations

import pulumi


def stack_file() -> str:
    """What a report calls the file that all of this stands in."""
    return f"Pulumi.{pulumi.get_stack()}.yaml"
