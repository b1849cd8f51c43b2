"""Find the workflow commands in a log as GitHub's runner does (actions/runner@079cdb1: ActionCommand.cs)."""

from __future__ import annotations

import re
from typing import NamedTuple

REGISTERED = {
    "add-mask", "add-matcher", "add-path", "debug", "echo", "endgroup", "error", "group", "notice", "remove-matcher",
    "save-state", "set-env", "set-output", "stop-commands", "warning",
}  # fmt: skip
_DATA = {"%0D": "\r", "%0A": "\n", "%25": "%"}
_PROPERTY = {"%0D": "\r", "%0A": "\n", "%3A": ":", "%2C": ",", "%25": "%"}


class Command(NamedTuple):
    name: str
    properties: dict[str, str]
    data: str


def command_of(line: str) -> Command | None:
    """Return the command in a line of a log, or None: `::name key=value,...::data`, or `##[name]` anywhere."""
    if found := re.match(r"::(.*?)::(.*)", line.lstrip(), re.DOTALL):
        name, _, given = found[1].partition(" ")
        if name.lower() in REGISTERED:
            pairs = (pair.split("=", 1) for pair in given.strip().split(",") if "=" in pair)
            return Command(
                name, {key: _unescaped(value, _PROPERTY) for key, value in pairs}, _unescaped(found[2], _DATA)
            )
    if (old := re.search(r"##\[(.*?)\]", line, re.DOTALL)) and old[1].partition(" ")[0].lower() in REGISTERED:
        return Command(old[1].partition(" ")[0], {}, "")
    return None


def _unescaped(text: str, escapes: dict[str, str]) -> str:
    for code, character in escapes.items():
        text = text.replace(code, character)
    return text
