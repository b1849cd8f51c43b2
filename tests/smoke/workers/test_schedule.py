"""The schedule of stages: alone, together, or as soon as a worker is ready."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from gpu_smoke import plan
from gpu_smoke.plan import ALONE, FREE, TOGETHER, Stage, Task
from gpu_smoke.workers.coordinator import startable
from hypothesis import given
from hypothesis import strategies as st

STAGES = tuple(
    Stage(name, name, (name,), how=how)
    for name, how in [("a", FREE), ("b", FREE), ("c", TOGETHER), ("d", ALONE), ("e", FREE), ("f", TOGETHER)]
)


class Worker(SimpleNamespace):
    """The part of a worker process that the schedule uses."""

    def __init__(self, at: int = 0, idle: bool = True, gone: bool = False) -> None:
        super().__init__(plan=[Task(stage, {}) for stage in STAGES], at=at, idle=idle, gone=gone, busy=not idle)

    @property
    def next(self) -> Task | None:
        return self.plan[self.at] if self.at < len(self.plan) else None


def begins(*workers: Worker) -> list[int]:
    chosen: Any = startable(list[Any](workers), STAGES)
    return [index for index, worker in enumerate(workers) if any(worker is each for each in chosen)]


def test_a_free_stage_starts_at_once() -> None:
    assert begins(Worker(0), Worker(1), Worker(0, idle=False)) == [0, 1]


def test_a_together_stage_starts_when_the_last_worker_has_reached_it() -> None:
    assert begins(Worker(2), Worker(1, idle=False)) == []
    assert begins(Worker(2), Worker(2)) == [0, 1]


def test_an_alone_stage_starts_on_one_worker_after_the_other() -> None:
    assert begins(Worker(3), Worker(3)) == [0]
    assert begins(Worker(3, idle=False), Worker(3)) == []
    assert begins(Worker(4), Worker(3)) == [1]  # what follows would disturb it
    assert begins(Worker(4), Worker(4)) == [0, 1]


def test_a_worker_that_hangs_or_has_died_blocks_no_other() -> None:
    assert begins(Worker(2), Worker(1, idle=False, gone=True)) == [0]
    assert begins(Worker(3), Worker(3, idle=False, gone=True)) == [0]


@given(st.lists(st.integers(1, 3), min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_every_order_is_done_once_at_any_speed_of_the_workers(paces: list[int], luck: Any) -> None:
    workers = [Worker() for _ in paces]
    for _ in range(1000):
        for index in begins(*workers):
            workers[index].idle, workers[index].busy = False, True
        busy = [worker for worker in workers if worker.busy]
        alone = [worker for worker in busy if worker.next.stage.how == ALONE]
        assert len(alone) <= 1
        assert not alone or busy == alone
        if not busy:
            break
        done = luck.choice(busy)
        done.at, done.idle, done.busy = done.at + 1, True, False
    assert [worker.at for worker in workers] == [len(STAGES)] * len(workers)


@pytest.mark.parametrize(
    ("capability", "trains_in"),
    [((7, 5), "float16"), ((8, 0), "bfloat16"), ((12, 0), "bfloat16"), (None, "bfloat16")],
)
def test_bfloat16_is_multiplied_from_ampere_on_and_by_a_cpu(capability: tuple[int, int] | None, trains_in: str) -> None:
    assert plan.training_dtype(capability) == trains_in
