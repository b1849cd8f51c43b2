"""What a pool cannot have if GitHub reports its jobs by a runner scale set."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple


class Wrong(NamedTuple):
    text: str
    hint: str


PRIORITIES = Wrong(
    "is not supported with demand: scaleSets, because all runners of a scale set have the same labels",
    "remove it, or use demand: sweep",
)
OWN_RUNNERS = Wrong(
    "must be manager with demand: scaleSets, because no machine can register its runner in a scale set",
    "give gpu-ci:site.github.managerApp (docs/guides/runner-manager-setup.md)",
)


def wrong_labels(labels: Collection[str], others: Iterable[tuple[str, Collection[str]]]) -> Wrong | None:
    """Return what is wrong with the labels of a pool, or None. `others` are the names and labels of other pools of its
    runner group.

    GitHub gives a job to one of the scale sets that have all of its labels, and only a runner of that set gets it.
    """
    lower = {label.lower() for label in labels}
    if "self-hosted" in lower:
        hint = "such as [gpu, l4], and write these labels into runs-on of the workflows"
        return Wrong("cannot have self-hosted with demand: scaleSets: GitHub matches no scale set by it", hint)
    if wider := [name for name, other in others if lower <= {label.lower() for label in other}]:
        text = f"are also labels of the pool {wider[0]}, so GitHub would give a job to the scale set of either"
        return Wrong(text, "add a label that no other pool has, or use demand: sweep")
    return None
