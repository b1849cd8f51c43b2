"""Decide which workers may start their next order, by the progress of all of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..plan import ALONE, FREE, Stage
from .process import Child


def startable(children: Sequence[Child], stages: Sequence[Stage]) -> list[Child]:
    """Return the workers that may start their next order now. A worker that is lost or has ended blocks no other."""
    here = [child for child in children if not child.gone]
    begin: list[Child] = []
    for child in here:
        mine = _place(child, stages)
        others = [(_place(other, stages), other.busy or other in begin) for other in here if other is not child]
        if child.idle and child.next and _free(stages, mine, others):
            begin.append(child)
    return begin


def _free(stages: Sequence[Stage], mine: float, others: Sequence[tuple[float, bool]]) -> bool:
    how = stages[int(mine)].how
    slowest = min([mine, *(place for place, _ in others)])
    if how == FREE:  # must only not disturb stages that run alone
        return all(stage.how != ALONE for stage in stages[int(slowest) : int(mine)])
    if how == ALONE and any(busy for place, busy in others if place == mine):
        return False
    return slowest == mine


def _place(child: Child, stages: Sequence[Stage]) -> float:
    """Return the index of a worker's stage; infinity if it has done everything."""
    if child.next is None and child.plan:
        return math.inf
    return stages.index(child.next.stage) if child.next else 0
