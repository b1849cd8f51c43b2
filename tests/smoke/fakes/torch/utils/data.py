"""A loader without processes, which can die as those of the real one do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .. import faulted
from ..words import Words


class DataLoader:
    def __init__(self, items: Any, batch_size: int, **how: Any) -> None:
        self.items, self.batch_size = items, batch_size
        assert how == {"num_workers": 2, "timeout": 30, "multiprocessing_context": "fork"}

    def __iter__(self) -> Iterator[Words]:
        if faulted("bus error"):
            raise RuntimeError("DataLoader worker (pid 7) is killed by signal: Bus error. It is possible that ...")
        for begin in range(0, len(self.items), self.batch_size):
            batch = [self.items[index] for index in range(begin, begin + self.batch_size)]
            values = [sum(column) for column in zip(*(item.values for item in batch), strict=True)]
            yield Words([value + bool(faulted("torn")) for value in values], batch[0].count)
