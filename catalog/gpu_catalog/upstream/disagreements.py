"""Reads data/disagreements.json: the known differences between the catalog and its sources.

Each difference states who is right, and the reason. The tests fail for a difference that the file does not explain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from gpu_catalog.upstream import UpstreamError, read_json
from gpu_catalog.upstream.comparison import Comparison, Difference, Fact

PATH = Path(__file__).parent.parent / "data" / "disagreements.json"
Right = Literal["catalog", "source", "both", "open"]


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Differences with the same reason: each of the machines differs in each of the fields."""

    checks: tuple[str, ...]
    machines: tuple[str, ...]
    fields: tuple[str, ...]
    ours: Fact
    theirs: Fact
    right: Right
    why: str

    def differences(self, machines: Iterable[str]) -> Iterator[Difference]:
        """Yield the differences that this row explains, for the machines that it names."""
        for name in machines:
            if any(fnmatchcase(name, pattern) for pattern in self.machines):
                yield from (Difference(name, field, self.ours, self.theirs) for field in self.fields)


@cache
def disagreements() -> tuple[Disagreement, ...]:
    found = []
    for row in read_json(PATH)["rows"]:
        if row["right"] not in get_args(Right) or not row["why"]:
            raise UpstreamError(f"{PATH.name}: {row['machines']}: does not say which source is right, and why")
        tuples = {key: tuple(row[key]) for key in ("checks", "machines", "fields")}
        found.append(Disagreement(**{**row, **tuples}))
    return tuple(found)


def explanations(comparison: Comparison) -> list[Disagreement]:
    return [each for each in disagreements() if comparison.name in each.checks]


def expected(comparison: Comparison) -> list[Difference]:
    """Return every explained difference. A difference with two explanations appears twice."""
    return [each for one in explanations(comparison) for each in one.differences(sorted(comparison.machines))]
