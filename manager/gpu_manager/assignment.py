"""Divides a stack's pools into shares, one share for each of several managers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import pairwise

from .model import Pool

Assignment = tuple[tuple[str, ...], ...]
"""The pool names of each share."""


def assign(pools: Sequence[Pool], instances: int) -> Assignment:
    """Divide the pools into shares, one for each instance.

    The sizes of the shares differ by one pool at most, and no share is empty. Fewer pools than instances give fewer
    shares. Pools of one runner group stay next to each other, because a share sweeps only the repositories of its own
    groups.
    """
    names = [pool.name for pool in sorted(pools, key=_place)]
    count = min(instances, len(names))
    bounds = [len(names) * number // count for number in range(count + 1)]
    return tuple(tuple(names[begin:end]) for begin, end in pairwise(bounds))


def first_pool_of_groups(pools: Sequence[Pool], groups: Collection[str] | None) -> Pool:
    """Return the first pool, in the order of the shares, that has one of these runner groups.

    The share of that pool sweeps the repositories of the groups. All pools are candidates without `groups`, or if no
    pool has one of these groups.
    """
    return min([pool for pool in pools if groups is None or pool.runner_group in groups] or pools, key=_place)


def ownership(pools: Sequence[Pool], own: Collection[str] | None) -> Callable[[str], bool]:
    """Return a function from a pool's name to True or False: whether the pool's machines belong to the share `own`.

    Without `own`, all machines belong to the share. Machines of removed pools belong to the share of the first pool.
    """
    if own is None:
        return lambda _: True
    if pools[0].name not in own:
        return lambda pool: pool in own
    others = {pool.name for pool in pools} - set(own)
    return lambda pool: pool not in others


def _place(pool: Pool) -> tuple[str, str]:
    """Return the sort key of the pool. The sorted pools are cut into shares."""
    return pool.runner_group, pool.name
