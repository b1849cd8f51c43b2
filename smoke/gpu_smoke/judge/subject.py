"""The device that a check is about: its properties, and the expected speeds of its model (data/gpus.py)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..checks import place
from ..data.gpus import FLOP_PER_CLOCK, GPUS, THEORY_COPY, THEORY_GEMM, Gpu, Speed
from ..options import capability
from ..plan import training_dtype

# For example 1g.5gb, or 1c.3g.20gb for a part of a slice (docs.nvidia.com/datacenter/tesla/mig-user-guide, "MIG Device
# Names").
_MIG = re.compile(r"(.+?) MIG ((?:\d+c\.)?\d+g\.\d+gb.*)")
_UNKNOWN_SIZE = 8192


@dataclass(frozen=True)
class Subject:
    """One device. On the CPU it has no index."""

    index: int | None
    name: str
    cc: str = ""
    sm: int = 0
    mem_bytes: int = 0
    # Maximum clocks and the width of the memory bus; 0 if torch does not report them.
    clock_mhz: int = 0
    memory_clock_mhz: int = 0
    memory_bus_bits: int = 0

    @classmethod
    def of(cls, device: str, reported: Mapping[str, Any]) -> Subject:
        """Build a subject from the properties that a worker reported."""
        if device == "cpu":
            return cls(None, "CPU")
        clocks = {name: reported.get(name, 0) for name in ("clock_mhz", "memory_clock_mhz", "memory_bus_bits")}
        return cls(reported["index"], reported["name"], reported["cc"], reported["sm"], reported["mem_bytes"], **clocks)

    @property
    def on_cpu(self) -> bool:
        """True if the run is on the CPU, so it tests the check itself and no GPU."""
        return self.index is None

    @property
    def place(self) -> str:
        """The name of the device in a sentence."""
        return place("cpu" if self.on_cpu else "cuda", self.index)

    @property
    def capability(self) -> tuple[int, int] | None:
        """The compute capability as numbers; None on a CPU."""
        return capability(self.cc) if self.cc else None

    @property
    def slice(self) -> str:
        """The profile of a MIG slice, such as 1g.5gb; empty for a whole GPU."""
        found = _MIG.fullmatch(self.name)
        return found[2] if found else ""

    @property
    def key(self) -> str:
        """The key of its model in the table GPUS; empty if the table does not have the model."""
        return next((key for key, gpu in GPUS.items() if whole_gpu(self.name) in gpu.names), "")

    @property
    def row(self) -> Gpu | None:
        """The row of its model in the table."""
        return GPUS.get(self.key)

    @property
    def share(self) -> float:
        """The share of the GPU's multiprocessors that the device has: 1 for a whole GPU, less for a MIG slice."""
        whole = self.row.sm if self.row else 0
        return min(1.0, self.sm / whole) if whole and self.slice else 1.0

    @property
    def timed(self) -> tuple[str, int]:
        """The format and the size in which its matrix speed is measured."""
        return (self.row.dtype, self.row.n) if self.row else (training_dtype(self.capability), _UNKNOWN_SIZE)

    @property
    def gemm(self) -> Speed | None:
        """The expected speed of matrix products: a published one, else a share of the theoretical maximum."""
        known = self.row.gemm if self.row else None
        sm = self.row.sm if self.row else self.sm
        most = sm * self.clock_mhz * FLOP_PER_CLOCK.get(self.cc, 0) / 1e6
        return known or _theory(most, THEORY_GEMM)

    @property
    def copy(self) -> Speed | None:
        """The expected speed of copies in its memory."""
        known = self.row.copy if self.row else None
        # Memory transfers twice a clock. torch does not report the part of the bus that a slice has.
        most = 0.0 if self.slice else 2 * self.memory_clock_mhz * self.memory_bus_bits / 8 / 1e3
        return known or _theory(most, THEORY_COPY)


def _theory(most: float, share: float) -> Speed | None:
    return Speed(most, ("theory",), warn=0.0, fail=share) if most else None


def whole_gpu(name: str) -> str:
    """Return a GPU's name. For a MIG slice this is the name of the GPU that it belongs to."""
    found = _MIG.fullmatch(name)
    return found[1] if found else name
