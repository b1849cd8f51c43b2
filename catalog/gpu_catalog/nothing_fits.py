"""Why no machine meets the needs, and which one comes nearest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from .models import Machine
from .needs import Lack, Needs
from .offers import best, shortfalls
from .recommend import candidates, rank


@dataclass(frozen=True, slots=True)
class NothingFits:
    """What is in the way."""

    needs: Needs
    machines: int
    """How many were looked at."""
    excluded: Mapping[str, int]
    """How many machines each need excludes, the strictest first."""
    freed: Mapping[str, int]
    """How many would do if that need alone were dropped; only needs for which some would."""
    nearest: Machine
    lacks: tuple[Lack, ...]
    """What the nearest one lacks."""

    @property
    def need(self) -> str:
        """The need that excludes the most."""
        return next(iter(self.excluded))

    @property
    def text(self) -> str:
        """All of it in words."""
        without = [f"without {need} {count} would do" for need, count in self.freed.items()]
        parts = [
            f"{self.need} excludes the most: {self.excluded[self.need]} of {self.machines} machines",
            *(without or ["no need dropped alone would help"]),
            f"the nearest is {self.nearest.key}: it {', '.join(lack.text for lack in self.lacks)}",
        ]
        return "; ".join(parts)


# What each need is when it is dropped.
_NOT_ASKED: dict[str, Any] = {each.name: 0 if each.name == "gpu_count" else each.default for each in fields(Needs)}


def nothing_fits(needs: Needs) -> NothingFits | None:
    """Why `recommend` finds nothing; None when it finds something."""
    found = [(each, shortfalls(each, needs)) for each in candidates()]
    if not all(missing for _, missing in found):
        return None
    nearest, least = min(found, key=lambda pair: _distance(*pair))
    excluded = Counter(lack.need for _, missing in found for lack in missing)
    freed = {need: _fitting(replace(needs, **{need: _NOT_ASKED[need]})) for need in excluded}
    return NothingFits(needs, len(found), _counted(excluded), _counted(freed), nearest, tuple(least))


def _fitting(needs: Needs) -> int:
    return sum(not shortfalls(each, needs) for each in candidates())


def _distance(machine: Machine, missing: list[Lack]) -> tuple[object, ...]:
    """The fewest needs unmet, by the least; then as `recommend` ranks."""
    return len(missing), sum(lack.distance for lack in missing), *rank(best(machine))


def _counted(counts: Mapping[str, int]) -> dict[str, int]:
    """How many for each need: the most first, and else in the order of the fields; none without any."""
    order = [*_NOT_ASKED]
    return {
        need: counts[need]
        for need in sorted(counts, key=lambda need: (-counts[need], order.index(need)))
        if counts[need]
    }
