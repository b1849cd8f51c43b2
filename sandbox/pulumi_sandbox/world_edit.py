"""Changes one value deep inside the JSON the world stores."""

from __future__ import annotations

from typing import Any

Path = tuple[str | int, ...]


def put(tree: Any, path: Path, value: Any) -> Any:
    """A copy of a tree with another value at a path; None takes it away. Raises LookupError with what is wrong."""
    if not path:
        return value
    step, *rest = path
    if isinstance(step, int):
        items = [] if tree is None else tree
        if not isinstance(items, list):
            raise LookupError("there is no list there")
        if step > len(items) or (step == len(items) and value is None):
            raise LookupError(f"the list has {len(items)} items")
        inner = put(items[step] if step < len(items) else None, tuple(rest), value)
        after = items[step + 1 :]
        return [*items[:step], *([] if inner is None else [inner]), *after]
    properties = {} if tree is None else tree
    if not isinstance(properties, dict):
        raise LookupError("there is no object there")
    inner = put(properties.get(step), tuple(rest), value)
    changed = {**properties, step: inner}
    if inner is None:
        del changed[step]
    return changed
