"""The name of a pipeline in Image Builder, for its component and for the commands that list its images."""

from __future__ import annotations

from ... import naming


def pipeline_name(stack: str, pipeline: str) -> str:
    """Return the name of a pipeline of a stack. It is also the name of its recipe, and the start of other names."""
    return naming.fit(f"{stack}-{pipeline}", 100)
