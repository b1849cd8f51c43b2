"""Finds dangers that need only the stack files of base and head: `beyond-quota`, and values no longer encrypted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpu_catalog import limits, quota
from gpu_ci.cli.stack_files import StackFile
from gpu_ci.stack.quotas import QUOTAS

from ... import project_file, stack_yaml
from ...model import Finding
from .. import cost
from ..danger_rule import BEYOND_QUOTA, SECRET_EXPOSED
from ..locations import StackLines
from . import secrecy


def find(before: Path | None, after: Path | None, file: str) -> list[Finding]:
    """Return the dangers of the head's stack file, compared with the base's, each with its line.

    A file that cannot be read has no dangers here: cost.cost reports it.

    Args:
        before: The stack file of the base, or None if it has none.
        after: The stack file of the head, or None if it has none.
        file: The name of the stack file in the repository.
    """
    if after is None:
        return []
    lines = StackLines.read(after, file)
    old, new = ({} if path is None else _config(path) for path in (before, after))
    exposed = [
        SECRET_EXPOSED.of(f"{file}: {'.'.join(map(str, steps))} was encrypted and is plain text now").model_copy(
            update={"place": lines.at(steps)}
        )
        for steps in secrecy.config(old, new)
    ]
    return [*exposed, *_beyond_quota(before, after, lines)]


def _beyond_quota(before: Path | None, after: Path, lines: StackLines) -> Iterator[Finding]:
    """Yield the quotas that are too small for the pools of the head, without shortages that the base already has."""
    try:
        file = cost.read(after)
        shortages_before = _shortages(cost.read(before)) if before else {}
    except cost.UnpricedError:
        return
    for key, shortage in _shortages(file).items():
        if key in shortages_before and _no_worse(shortages_before[key], shortage):
            continue
        text = f"{shortage.need.name}: the stack file grants {shortage.got}, and the pools need {shortage.expected}"
        text += "" if shortage.certain else "; no source confirms that these machines use this quota"
        hint = shortage.hint(file.project if file else "")
        finding = BEYOND_QUOTA.of(text, hint, component=_only_pool(shortage))
        yield finding.model_copy(update={"place": lines.at((QUOTAS, *limits.path_of(*key)))})


def _shortages(file: StackFile | None) -> dict[tuple[str, str], quota.Finding]:
    if file is None or file.checked[1]:
        return {}
    found, _ = file.quotas
    return {(each.need.region, each.need.metric): each for each in found.findings if each.is_short}


def _no_worse(before: quota.Finding, after: quota.Finding) -> bool:
    """Return True if the quota was too small by at least as much before the change."""
    old, new = (each.given.limit if each.given else 0 for each in (before, after))
    return before.need.amount - old >= after.need.amount - new


def _only_pool(shortage: quota.Finding) -> str:
    """Return the pool that needs the quota, or "" if several pools need it."""
    return shortage.need.pools[0][0] if len(shortage.need.pools) == 1 else ""


def _config(path: Path) -> dict[str, Any]:
    """Return the `config:` of a stack file with the project's defaults, or an empty map if the file cannot be read."""
    try:
        found = stack_yaml.loaded(path)
    except stack_yaml.InvalidStackFileError:
        return {}
    config = found.get("config") if isinstance(found, dict) else None
    own = {key: value for key, value in config.items() if isinstance(key, str)} if isinstance(config, dict) else {}
    return {**project_file.defaults(path), **own}
