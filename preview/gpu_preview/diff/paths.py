"""Property paths in the engine's form: names, indexes in brackets, and other names in quotes.

The form is PropertyPath.String of sdk/go/common/resource/property_path.go (pulumi/pulumi), which quotes names with
other characters than letters, digits and underscores. Two additions are ours. A `#` precedes the parts of a JSON text,
and a backslash in a name is escaped, so that each path can be parsed.
"""

from __future__ import annotations

import re

Step = str | int
IN_TEXT = "#"
"""The step into a JSON text."""
_PLAIN = re.compile(r"[A-Za-z0-9_]+")
_PART = re.compile(r'\["((?:[^"\\]|\\.)*)"\]|\[(\d{1,9})\]|\.?([^.\[\]]+)', re.DOTALL)


def joined(path: str, step: object) -> str:
    """Return the path of a child: below a name, or at an index."""
    if isinstance(step, int) and not isinstance(step, bool):
        return f"{path}[{step}]"
    name = str(step)
    if not _PLAIN.fullmatch(name):
        quoted = name.replace("\\", "\\\\").replace('"', '\\"')
        return f'{path}["{quoted}"]'
    return f"{path}.{name}" if path and not path.endswith(IN_TEXT) else f"{path}{name}"


def written(steps: tuple[Step, ...]) -> str:
    """Return the path of these steps."""
    path = ""
    for step in steps:
        path = f"{path}{IN_TEXT}" if step == IN_TEXT else joined(path, step)
    return path


def steps_of(path: str) -> list[Step]:
    """Return the names and indexes of a path of the engine."""
    found: list[Step] = []
    for quoted, number, name in _PART.findall(path):
        found.append(int(number) if number else name or re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL))
    return found
