"""Property paths in Pulumi's form: `versions[0].instanceTemplate`, `labels["a.b"]`, and `[*]` in ignoreChanges."""

from __future__ import annotations

import json
import re
from collections.abc import Collection

from pulumi_sandbox.providers.values import Path

PLAIN_KEY = re.compile(r"[A-Za-z_$][\w$]*\Z")
STEP = re.compile(
    r"""\.?(?P<key>[^.\[\]]+) | \[(?P<index>\d+)\] | \[(?P<any>\*)\] | \[(?P<quoted>"(?:[^"\\]|\\.)*")\]""", re.VERBOSE
)
ANY = "*"


def text(path: Path) -> str:
    """Return the text of a path. A key that is not an identifier is put in brackets."""
    result = ""
    for step in path:
        if isinstance(step, int):
            result += f"[{step}]"
        elif PLAIN_KEY.match(step):
            result += f".{step}" if result else step
        else:
            result += f"[{json.dumps(step, ensure_ascii=False)}]"
    return result


def texts(paths: Collection[Path]) -> list[str]:
    return sorted(text(path) for path in paths)


def parse(path_text: str) -> Path:
    """Parse the text of a path. Raise ValueError with the part that is not valid."""
    steps: list[str | int] = []
    position = 0
    while position < len(path_text):
        match = STEP.match(path_text, position)
        if match is None:
            raise ValueError(f"not a property path at {path_text[position:]!r}")
        position = match.end()
        if match["index"] is not None:
            steps.append(int(match["index"]))
        else:
            steps.append(match["key"] or (json.loads(match["quoted"]) if match["quoted"] else ANY))
    if not steps:
        raise ValueError("an empty property path")
    return tuple(steps)


def inside(path: Path, pattern: Path) -> bool:
    """Return True if a path is at or below a pattern. In a pattern, `*` matches any single step."""
    if len(path) < len(pattern):
        return False
    return all(pattern_step in (ANY, step) for pattern_step, step in zip(pattern, path, strict=False))
