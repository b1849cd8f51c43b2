"""The targets of reports: those of the options, and those that GitHub Actions sets up for a step."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Targets:
    """Paths, the name of a guest attribute, and the use of annotations; empty if not requested."""

    termination_log: str = ""
    junit: str = ""
    prometheus: str = ""
    guest_attribute: str = ""
    # Set by GitHub Actions, not by an option: https://docs.github.com/actions/reference/variables-reference
    step_summary: str = ""
    output: str = ""
    annotations: bool = False

    def paths(self) -> Iterator[tuple[str, str]]:
        """Return every requested file with its option."""
        for name in ("termination_log", "junit", "prometheus"):
            if path := getattr(self, name):
                yield option(name), path


def option(name: str) -> str:
    """Return the option of a target."""
    return f"--{name.replace('_', '-')}"


def take(given: dict[str, Any], environment: Mapping[str, str] = os.environ) -> Targets:
    """Remove the targets from the parsed options, and return them with those of the environment."""
    requested = {name: given.pop(name) for name in Targets.__dataclass_fields__ if name in given}
    return Targets(
        **requested,
        step_summary=environment.get("GITHUB_STEP_SUMMARY", ""),
        output=environment.get("GITHUB_OUTPUT", ""),
        annotations=environment.get("GITHUB_ACTIONS") == "true",
    )
