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
    written = ""
    for step in path:
        if isinstance(step, int):
            written += f"[{step}]"
        elif PLAIN_KEY.match(step):
            written += f".{step}" if written else step
        else:
            written += f"[{json.dumps(step, ensure_ascii=False)}]"
    return written


def texts(paths: Collection[Path]) -> list[str]:
    return sorted(text(path) for path in paths)


def parse(written: str) -> Path:
    """Parse the text of a path. Raise ValueError with the part that is not valid."""
    steps: list[str | int] = []
    position = 0
    while position < len(written):
        found = STEP.match(written, position)
        if found is None:
            raise ValueError(f"not a property path at {written[position:]!r}")
        position = found.end()
        if found["index"] is not None:
            steps.append(int(found["index"]))
        else:
            steps.append(found["key"] or (json.loads(found["quoted"]) if found["quoted"] else ANY))
    if not steps:
        raise ValueError("an empty property path")
    return tuple(steps)


def inside(path: Path, pattern: Path) -> bool:
    """Return True if a path is at or below a pattern. In a pattern, `*` matches any single step."""
    if len(path) < len(pattern):
        return False
    return all(wanted in (ANY, step) for wanted, step in zip(pattern, path, strict=False))
