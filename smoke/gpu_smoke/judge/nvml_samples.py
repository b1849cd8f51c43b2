"""Samples of NVML for one GPU during one stage, aggregated as they arrive."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..data.health import IDLE, LOST

_BITS = 64


def refused(value: Any) -> Mapping[str, Any] | None:
    """Return the error that NVML gave instead of an answer; None if it answered."""
    return value if isinstance(value, Mapping) and "refused" in value else None


def strangers(found: Any, ours: Collection[int]) -> int:
    """Count the processes that do not belong to the check.

    In a container NVML may report the process ids of the machine. Then no id matches one of the check, so only
    processes beyond the number of the check's own count as others.
    """
    if not isinstance(found, list):  # an error of NVML
        return 0
    others = [pid for pid in found if pid not in ours]
    return len(others) if len(others) < len(found) else max(0, len(found) - len(ours))


@dataclass
class Seen:
    """The maximum of each number, and the count of each reason for low clocks, over samples under load."""

    samples: int = 0
    loaded: int = 0
    reasons: Counter[int] = field(default_factory=Counter)
    highest: dict[str, float] = field(default_factory=dict)
    strangers: int = 0
    refusals: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def add(self, sample: Mapping[str, Any], others: int) -> None:
        """Add a sample."""
        self.samples += 1
        self.strangers = max(self.strangers, others)
        self.refusals |= {name: error for name, value in sample.items() if (error := refused(value))}
        reasons = sample["reasons"]
        if isinstance(reasons, int) and reasons & IDLE:
            return
        self.loaded += 1
        if isinstance(reasons, int):
            self.reasons.update(1 << bit for bit in range(_BITS) if reasons >> bit & 1)
        for name in ("temperature", "power", "clock", "generation", "width"):
            if isinstance(sample[name], int | float):
                self.highest[name] = max(self.highest.get(name, 0.0), sample[name])

    def of(self, reason: int) -> float:
        """Return the share of the samples under load that gave this reason."""
        return self.reasons[reason] / self.loaded if self.loaded else 0.0

    def record(self) -> dict[str, Any]:
        """Return the samples as the receipt has them."""
        reasons = {f"{reason:#x}": count for reason, count in sorted(self.reasons.items())}
        return {"samples": self.samples, "loaded": self.loaded, "reasons": reasons, **self.highest}


def together(summaries: Iterable[Seen]) -> Seen:
    """Merge the samples of several stages."""
    whole = Seen()
    for part in summaries:
        whole.samples += part.samples
        whole.loaded += part.loaded
        whole.reasons += part.reasons
        whole.strangers = max(whole.strangers, part.strangers)
        whole.refusals |= part.refusals
        for name, value in part.highest.items():
            whole.highest[name] = max(whole.highest.get(name, 0.0), value)
    return whole


def lost(values: Iterable[Any]) -> Mapping[str, Any] | None:
    """Return the first error that says that the GPU is lost."""
    return next((error for value in values if (error := refused(value)) and error["refused"] in LOST), None)
