"""Paths of properties as the engine writes them: names, numbers in brackets, and names with other signs in quotes.

That is PropertyPath.String of sdk/go/common/resource/property_path.go (pulumi/pulumi), which quotes whatever is more
than letters, digits and underscores. Two things are ours: the parts of a JSON text stand behind a `#`, and a backslash
in a name is escaped, so that each path can be read back.
"""

from __future__ import annotations

import re

Step = str | int
IN_TEXT = "#"
"""The step into a JSON text."""
_PLAIN = re.compile(r"[A-Za-z0-9_]+")
_PART = re.compile(r'\["((?:[^"\\]|\\.)*)"\]|\[(\d{1,9})\]|\.?([^.\[\]]+)', re.DOTALL)


def joined(path: str, step: object) -> str:
    """The path of a part of what is at another path: below a name, or at a number."""
    if isinstance(step, int) and not isinstance(step, bool):
        return f"{path}[{step}]"
    name = str(step)
    if not _PLAIN.fullmatch(name):
        quoted = name.replace("\\", "\\\\").replace('"', '\\"')
        return f'{path}["{quoted}"]'
    return f"{path}.{name}" if path and not path.endswith(IN_TEXT) else f"{path}{name}"


def written(steps: tuple[Step, ...]) -> str:
    """The path of these steps."""
    path = ""
    for step in steps:
        path = f"{path}{IN_TEXT}" if step == IN_TEXT else joined(path, step)
    return path


def steps_of(path: str) -> list[Step]:
    """The names and numbers of a path that the engine wrote."""
    found: list[Step] = []
    for quoted, number, name in _PART.findall(path):
        found.append(int(number) if number else name or re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL))
    return found
