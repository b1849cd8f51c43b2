"""Published speeds of each GPU model. The floors of the speed checks are shares of them.

A floor is the speed below which a check fails or warns.
"""

from __future__ import annotations

from typing import NamedTuple

from .gpu_table import ROWS

# DCGM fails below 0.75 of NVIDIA's own measurement (nvvs/diag-skus.yaml.in). Healthy GPUs of one node differ by 5 % and
# more (stas00), so a warning must start well below that. FAIL_ONE_PARTY is for a model that only one party measured: no
# credible measurement is wrong by half.
FAIL, WARN, FAIL_ONE_PARTY = 0.75, 0.90, 0.50
# The speed at size 8192 as a share of the speed at the best size:
#
# - L4: 0.84, and 0.80 at size 10240 (zzc120)
# - B200: 0.84 (ao2427 compared with zzc)
# - H200: 0.85, H100: 0.86 (our own compared with zzc)
# - A100 PCIe: 0.92 (zzc108)
BEST_SIZE = 0.80
# A GPU without any measurement only has to reach a share of its theoretical maximum. A T4 reaches 0.37 of that, an L4
# 0.47, and the slowest copy of the table 0.72.
THEORY_GEMM, THEORY_COPY = 0.20, 0.30


class Speed(NamedTuple):
    """The reference for a measured speed. It warns and fails below these shares of `lowest`; 0 means never."""

    lowest: float
    sources: tuple[str, ...]
    warn: float = WARN
    fail: float = FAIL


class Figure(NamedTuple):
    """A published measurement, in one format and size. If `n` is 0, the size is the best one that the source found."""

    value: float
    source: str
    dtype: str = ""
    n: int = 0


class Gpu(NamedTuple):
    """One model: its names in CUDA, its size, and its speed in the format and size in which it is timed."""

    names: tuple[str, ...]
    capability: str
    sm: int
    memory_gb: int
    dtype: str
    n: int
    host: float | None  # GB/s between host and device, used as the floor itself; None: only reported
    products: tuple[Figure, ...]  # TFLOPS, dense
    copies: tuple[Figure, ...]  # GB/s, reads and writes counted

    @property
    def gemm(self) -> Speed | None:
        """The reference for matrix products; None if no measurement is published."""
        timed = any((figure.dtype, figure.n) == (self.dtype, self.n) for figure in self.products)
        return _speed(self.products, 1.0 if timed else BEST_SIZE)

    @property
    def copy(self) -> Speed | None:
        """The reference for copies in its memory; None if no measurement is published."""
        return _speed(self.copies, 1.0)


def _speed(figures: tuple[Figure, ...], share: float) -> Speed | None:
    """Return the lowest measurement as the reference.

    The floor is lower if only one party measured, because its machine may have been exceptionally good.
    """
    if not figures:
        return None
    sources = tuple(dict.fromkeys(figure.source for figure in figures))
    lowest = round(share * min(figure.value for figure in figures), 4)
    return Speed(lowest, sources, fail=FAIL if len(sources) > 1 else FAIL_ONE_PARTY)


# A STREAM triad reads more than a copy does, so its speed is a lower bound for a copy. GPUs with native bfloat16 are
# timed in bfloat16. The P100 gains nothing from float16, because cuBLAS computes its sums in float32 (zzc). The T4 and
# the P100 are timed in the size of the published measurements. chsasank does not say if the measured A100 was a module
# or a card: the table takes the slower card.
GPUS: dict[str, Gpu] = {
    key: Gpu(*facts, tuple(Figure(*each) for each in products), tuple(Figure(*each) for each in copies))
    for key, (facts, products, copies) in ROWS.items()
}

# Dense FLOP of one multiprocessor in one clock, in the format in which an unknown GPU of that capability is timed. It
# is the lowest of its chips (known). Those of 7.5 without tensor cores do 128. GeForce cards of 8.6, 8.9 and 12.0 do
# half of what data center cards do.
FLOP_PER_CLOCK = {
    "6.0": 128, "6.1": 128, "7.0": 1024, "7.5": 128, "8.0": 2048, "8.6": 512, "8.9": 512, "9.0": 4096, "10.0": 8192,
    "10.3": 8192, "12.0": 512,
}  # fmt: skip

PEERS_FAIL, PEERS_WARN = 0.80, 0.90  # of the median of the same model in one machine
# ECC and the driver take a part: an H200 reports 143771 MiB of its 141 GB, an L40S 46068 MiB of its 48 GB.
MEMORY = 0.93

# All-reduce of 256 MiB among eight GPUs, in GB/s of bus bandwidth: two thirds of what aznhc requires for messages of 8
# to 16 GB. That share is our guess, so it only warns.
ALLREDUCE = {"h100-sxm": 300.0, "h200-sxm": 300.0, "a100-40gb": 150.0, "a100-80gb": 150.0}
# The floor for other GPUs is a third of what 16 lanes of generation 3 carry. That is our guess, so it only warns.
# Clouds give a T4 and an A10G eight lanes (data/health.py, LINKS). The lanes of an unknown GPU are unknown.
SUM, SUM_OF_EIGHT_LANES = 5.0, 2.5
EIGHT_LANES = frozenset({"", "t4", "a10g"})
# The number of other GPUs of a machine that each GPU has NVLink to, if that is not all of them (mesh). Copies to the
# rest go through the host.
MESH = {"v100-sxm2-16gb": 4, "v100-sxm2-32gb": 4}
