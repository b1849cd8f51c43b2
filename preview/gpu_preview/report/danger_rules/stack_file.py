"""What the two stack files alone tell: `beyond-quota`, and a value of the configuration that is no longer encrypted."""

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
    """The dangers in the stack file of the head beside the base's, each with its line; `file` is its name in the
    repository. A file that cannot be read has none: cost.cost says so."""
    if after is None:
        return []
    lines = StackLines.read(after, file)
    old, new = ({} if path is None else _config(path) for path in (before, after))
    found = [
        SECRET_EXPOSED.of(f"{file}: {'.'.join(map(str, steps))} was encrypted and is plain text now").model_copy(
            update={"place": lines.at(steps)}
        )
        for steps in secrecy.config(old, new)
    ]
    return [*found, *_beyond_quota(before, after, lines)]


def _beyond_quota(before: Path | None, after: Path, lines: StackLines) -> Iterator[Finding]:
    """Quotas that the pools of the head are the first to be too large for."""
    try:
        file = cost.read(after)
        known = _shortages(cost.read(before)) if before else {}
    except cost.UnpricedError:
        return
    for key, short in _shortages(file).items():
        if key in known and _as_short(known[key], short):
            continue
        text = f"{short.need.name}: the stack file grants {short.got}, and the pools need {short.expected}"
        text += "" if short.certain else "; no source confirms that machines bought so draw on it"
        hint = short.hint(file.project if file else "")
        finding = BEYOND_QUOTA.of(text, hint, component=_only_pool(short))
        yield finding.model_copy(update={"place": lines.at((QUOTAS, *limits.path_of(*key)))})


def _shortages(file: StackFile | None) -> dict[tuple[str, str], quota.Finding]:
    if file is None or file.checked[1]:
        return {}
    found, _ = file.quotas
    return {(each.need.region, each.need.metric): each for each in found.findings if each.is_short}


def _as_short(before: quota.Finding, after: quota.Finding) -> bool:
    """Whether it was too small before by as much: the change is not to blame."""
    old, new = (each.given.limit if each.given else 0 for each in (before, after))
    return before.need.amount - old >= after.need.amount - new


def _only_pool(short: quota.Finding) -> str:
    """The one pool that needs it; none where several do."""
    return short.need.pools[0][0] if len(short.need.pools) == 1 else ""


def _config(path: Path) -> dict[str, Any]:
    """What stands under `config:`, as plain text, and what the project gives every stack; nothing of a file that is not
    to be read."""
    try:
        found = stack_yaml.loaded(path)
    except stack_yaml.InvalidStackFileError:
        return {}
    config = found.get("config") if isinstance(found, dict) else None
    own = {key: value for key, value in config.items() if isinstance(key, str)} if isinstance(config, dict) else {}
    return {**project_file.defaults(path), **own}
