"""Creates the image pipelines of a stack, and returns their outputs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .pool import Pipeline

# The fields of a pipeline that the outputs contain.
_SHOWN = {"region"}


def build(pipelines: Iterable[Pipeline]) -> dict[str, dict[str, Any]]:
    """Create one component for each pipeline, and return its kind, its main fields and its outputs by name."""
    found = {}
    for each in pipelines:
        component = each.component(each.name, each.args, each.options)
        shown = each.args.model_dump(mode="json", by_alias=True, include=_SHOWN)
        found[each.name] = {"kind": each.kind, **shown, **component.state()}
    return found
