"""Where a run's reports go: to what the options name, and to what GitHub Actions sets up for a step."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Targets:
    """Paths, a guest attribute's name, and whether annotations are read; empty where nobody asked."""

    termination_log: str = ""
    junit: str = ""
    prometheus: str = ""
    guest_attribute: str = ""
    # Of GitHub Actions, which nobody asked for: https://docs.github.com/actions/reference/variables-reference
    step_summary: str = ""
    output: str = ""
    annotations: bool = False

    def paths(self) -> Iterator[tuple[str, str]]:
        """Every file that was asked for, with its option."""
        for name in ("termination_log", "junit", "prometheus"):
            if path := getattr(self, name):
                yield option(name), path


def option(name: str) -> str:
    """A target's option on the command line."""
    return f"--{name.replace('_', '-')}"


def take(given: dict[str, Any], environment: Mapping[str, str] = os.environ) -> Targets:
    """The targets of a parsed command line, removed from it, and those of the environment."""
    asked = {name: given.pop(name) for name in Targets.__dataclass_fields__ if name in given}
    return Targets(
        **asked,
        step_summary=environment.get("GITHUB_STEP_SUMMARY", ""),
        output=environment.get("GITHUB_OUTPUT", ""),
        annotations=environment.get("GITHUB_ACTIONS") == "true",
    )
