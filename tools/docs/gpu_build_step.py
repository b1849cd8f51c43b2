"""Writes the arguments and exit codes of a GPU build step into docs/reference/gpu-build-step.md.

The other text of the page is not generated.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from gpu_ci.gcp.gpu_bridge import arguments
from gpu_ci.gcp.gpu_bridge.failures import BY_NAME

PAGE = Path(__file__).resolve().parents[2] / "docs/reference/gpu-build-step.md"
_START = "## Arguments\n"


def page() -> str:
    """Return the page with the tables of the program. They are its last sections."""
    text = PAGE.read_text(encoding="utf-8")
    return text[: text.index(_START)] + _START + "\n" + "\n".join(_tables())


def _tables() -> Iterator[str]:
    yield "| argument | meaning |"
    yield "|---|---|"
    [commands] = [each for each in arguments.parser()._actions if isinstance(each, argparse._SubParsersAction)]
    for action in commands.choices["run"]._actions:
        if isinstance(action, argparse._HelpAction):
            continue
        value = f" {action.metavar or action.dest.upper()}" if action.nargs != 0 and action.option_strings else ""
        name = f"{action.option_strings[0]}{value}" if action.option_strings else str(action.metavar)
        yield f"| `{name}` | {action.help or action.dest} |"
    yield ""
    yield "## Exit codes"
    yield ""
    yield "These codes are outside those of commands and of signals. The step prints cause and hint with the details."
    yield ""
    yield "| code | cause | hint |"
    yield "|---|---|---|"
    for failure in BY_NAME.values():
        yield f"| {failure.code} | {failure.cause} | {failure.hint} |"
    yield ""
