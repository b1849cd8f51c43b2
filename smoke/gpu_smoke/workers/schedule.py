"""Decide which workers may start their next task, by the progress of all workers.

plan.py defines the stages, and how each may start: FREE, TOGETHER or ALONE.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..plan import ALONE, FREE, Stage
from .process import WorkerProcess


def startable(processes: Sequence[WorkerProcess], stages: Sequence[Stage]) -> list[WorkerProcess]:
    """Return the workers that may start their next task now. A worker that has ended blocks no other worker."""
    present = [worker for worker in processes if not worker.gone]
    starting: list[WorkerProcess] = []
    for worker in present:
        own = _stage_index(worker, stages)
        others = [
            (_stage_index(other, stages), other.busy or other in starting) for other in present if other is not worker
        ]
        if worker.idle and worker.next and _may_start(stages, own, others):
            starting.append(worker)
    return starting


def _may_start(stages: Sequence[Stage], own: float, others: Sequence[tuple[float, bool]]) -> bool:
    """Return True if a worker may start its stage.

    `own` is the index of the stage. `others` has the stage index and the busy state of each other worker.
    """
    how = stages[int(own)].how
    slowest = min([own, *(index for index, _ in others)])
    if how == FREE:  # a free stage only waits for stages that run alone
        return all(stage.how != ALONE for stage in stages[int(slowest) : int(own)])
    if how == ALONE and any(busy for index, busy in others if index == own):
        return False
    return slowest == own


def _stage_index(worker: WorkerProcess, stages: Sequence[Stage]) -> float:
    """Return the index of a worker's next stage; infinity if the worker has done all tasks."""
    if worker.next is None and worker.plan:
        return math.inf
    return stages.index(worker.next.stage) if worker.next else 0
