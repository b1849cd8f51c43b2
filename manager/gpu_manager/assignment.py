"""Which share of a stack's pools each of its managers has."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import pairwise

from .model import Pool

Assignment = tuple[tuple[str, ...], ...]
"""The names of the pools of each share."""


def assign(pools: Sequence[Pool], instances: int) -> Assignment:
    """As many shares as there are instances, but none without a pool; their sizes differ by one pool at most.

    Pools of one runner group are next to each other: a share sweeps the repositories of its own groups alone.
    """
    names = [pool.name for pool in sorted(pools, key=_place)]
    count = min(instances, len(names))
    bounds = [len(names) * number // count for number in range(count + 1)]
    return tuple(tuple(names[begin:end]) for begin, end in pairwise(bounds))


def lowest(pools: Sequence[Pool], groups: Collection[str] | None) -> Pool:
    """A pool of the lowest share that sees the repositories with these runner groups, or with all where it is None."""
    return min([pool for pool in pools if groups is None or pool.runner_group in groups] or pools, key=_place)


def ownership(pools: Sequence[Pool], own: Collection[str] | None) -> Callable[[str], bool]:
    """Whether the machines of a pool of this name belong to the share with the pools `own`; all do where it is None.

    Those of pools that were removed belong to the share of the first pool.
    """
    if own is None:
        return lambda _: True
    if pools[0].name not in own:
        return lambda pool: pool in own
    others = {pool.name for pool in pools} - set(own)
    return lambda pool: pool not in others


def _place(pool: Pool) -> tuple[str, str]:
    """Where the pool is in the order that is cut into shares."""
    return pool.runner_group, pool.name
