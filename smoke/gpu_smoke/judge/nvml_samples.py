"""Samples of NVML for one GPU during one stage. Each sample is added to the sums when it arrives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..data.health import IDLE, LOST

_BITS = 64


def error_of(value: Any) -> Mapping[str, Any] | None:
    """Return the error that NVML gave instead of an answer; None if it answered."""
    return value if isinstance(value, Mapping) and "refused" in value else None


def other_processes(pids: Any, own_pids: Collection[int]) -> int:
    """Return the number of processes on a GPU that do not belong to the check.

    In a container NVML may report the process ids of the host. These never equal the check's own ids. The result is
    then the number of processes less the number of the check's own.
    """
    if not isinstance(pids, list):  # an error of NVML
        return 0
    others = [pid for pid in pids if pid not in own_pids]
    return len(others) if len(others) < len(pids) else max(0, len(pids) - len(own_pids))


@dataclass
class Samples:
    """The sums of all samples of a GPU.

    `loaded` counts the samples under load. `reasons` and `highest` are of these only: the number of samples with each
    reason for low clocks, and the maximum of each number. `other_processes` is the maximum of a sample. `refusals` has
    NVML's error for each field that it did not report.
    """

    samples: int = 0
    loaded: int = 0
    reasons: Counter[int] = field(default_factory=Counter)
    highest: dict[str, float] = field(default_factory=dict)
    other_processes: int = 0
    refusals: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def add(self, sample: Mapping[str, Any], others: int) -> None:
        """Add a sample. `others` is the number of processes on the GPU that do not belong to the check."""
        self.samples += 1
        self.other_processes = max(self.other_processes, others)
        self.refusals |= {name: error for name, value in sample.items() if (error := error_of(value))}
        reasons = sample["reasons"]
        if isinstance(reasons, int) and reasons & IDLE:
            return
        self.loaded += 1
        if isinstance(reasons, int):
            self.reasons.update(1 << bit for bit in range(_BITS) if reasons >> bit & 1)
        for name in ("temperature", "power", "clock", "generation", "width"):
            if isinstance(sample[name], int | float):
                self.highest[name] = max(self.highest.get(name, 0.0), sample[name])

    def share_of(self, reason: int) -> float:
        """Return the share of the samples under load that gave this reason."""
        return self.reasons[reason] / self.loaded if self.loaded else 0.0

    def record(self) -> dict[str, Any]:
        """Return the sums in the form of the receipt."""
        reasons = {f"{reason:#x}": count for reason, count in sorted(self.reasons.items())}
        return {"samples": self.samples, "loaded": self.loaded, "reasons": reasons, **self.highest}


def merged(summaries: Iterable[Samples]) -> Samples:
    """Merge the samples of several stages."""
    whole = Samples()
    for part in summaries:
        whole.samples += part.samples
        whole.loaded += part.loaded
        whole.reasons += part.reasons
        whole.other_processes = max(whole.other_processes, part.other_processes)
        whole.refusals |= part.refusals
        for name, value in part.highest.items():
            whole.highest[name] = max(whole.highest.get(name, 0.0), value)
    return whole


def gpu_lost_error(values: Iterable[Any]) -> Mapping[str, Any] | None:
    """Return the first error that says that the GPU is lost."""
    return next((error for value in values if (error := error_of(value)) and error["refused"] in LOST), None)
