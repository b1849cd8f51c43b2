"""GPU capacity for CI as Pulumi components: typed pools whose GPUs are checked before they take a job."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .kinds import component_for, kind_names, kinds

if TYPE_CHECKING:
    from .args import Args, In, Input
    from .component import Component
    from .errors import ArgsError, Problem

__all__ = [
    "Args",
    "ArgsError",
    "Component",
    "In",
    "Input",
    "Problem",
    "component_for",
    "kind_names",
    "kinds",
]

# Imported at first use, because pydantic and pulumi take long to import and some programs need neither.
_LATER = {
    "Args": "args",
    "In": "args",
    "Input": "args",
    "Component": "component",
    "ArgsError": "errors",
    "Problem": "errors",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)
