"""The type of a rule. Its texts are data, because the pack, its documentation and the tests use them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Literal


@dataclass(frozen=True)
class Resource:
    """One resource that the engine is about to create or change. Unknown values are UNKNOWN."""

    type: str
    """The token in a URN, such as `gcp:compute/instance:Instance`."""
    name: str
    urn: str
    props: Mapping[str, Any]


@dataclass(frozen=True)
class RuleContext:
    """The settings of a rule, and the current day."""

    settings: Mapping[str, Any]
    today: date


Check = Callable[[Resource, RuleContext], Iterable[str]]
"""A function that returns the violations of a resource, each as one sentence."""


@dataclass(frozen=True)
class Rule:
    """One policy."""

    name: str
    title: str
    """The requirement, as one sentence."""
    why: str
    fix: str
    sources: tuple[str, ...]
    check: Check
    level: Literal["mandatory", "advisory"] = "mandatory"
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """JSON schemas by name, with `description` and optionally `default`."""
    needs_catalog: bool = False
    """True if the rule needs the package gpu_catalog."""

    @property
    def defaults(self) -> dict[str, Any]:
        """The default values of the settings."""
        return {name: schema["default"] for name, schema in self.settings.items() if "default" in schema}
