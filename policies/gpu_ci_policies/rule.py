"""What a rule is. Its texts are data, because the pack, its documentation and the tests all read them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Literal


@dataclass(frozen=True)
class Resource:
    """One resource as the engine is about to make it; values nobody knows yet are UNKNOWN."""

    type: str
    """The token in a URN, such as `gcp:compute/instance:Instance`."""
    name: str
    urn: str
    props: Mapping[str, Any]
    provider: Mapping[str, Any] = field(default_factory=dict)
    """The settings of the provider that makes it."""


@dataclass(frozen=True)
class RuleContext:
    """What a rule gets besides the resource: its settings, and the day."""

    settings: Mapping[str, Any]
    today: date


Check = Callable[[Resource, RuleContext], Iterable[str]]
"""What is wrong with a resource, each as one sentence; nothing where the rule has nothing to say about it."""
StackCheck = Callable[[Sequence[Resource], RuleContext], Iterable[str]]
"""What is wrong with the stack as a whole."""


@dataclass(frozen=True)
class Rule:
    """One policy; `check` for each resource, or `check_stack` for all of them together."""

    name: str
    title: str
    """What must be so, as one sentence."""
    why: str
    fix: str
    sources: tuple[str, ...]
    check: Check | None = None
    check_stack: StackCheck | None = None
    level: Literal["mandatory", "advisory"] = "mandatory"
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """JSON schemas by name, with `description` and, where there is one, `default`."""
    needs_catalog: bool = False
    """Whether it can only be asked where the package gpu_catalog is installed."""

    @property
    def defaults(self) -> dict[str, Any]:
        """The settings as they are where nobody chose any."""
        return {name: schema["default"] for name, schema in self.settings.items() if "default" in schema}
