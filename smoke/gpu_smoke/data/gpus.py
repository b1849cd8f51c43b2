"""How fast each GPU is, as others measured it: what the floors of the speed checks are taken from."""

from __future__ import annotations

from typing import NamedTuple

SOURCES = {
    "zzc": "zzc0721/torch-performance-test-data@9d82827 database.md: torch.mm, users' own runs",
    "zzc126": "github.com/zzc0721/torch-performance-test-data/issues/126: A10G, torch 2.7.0+cu128",
    "chsasank": "chsasank/device-benchmarks@7ccc883 README.md: torch.matmul and copy_, users' own runs",
    "stas00": "stas00/ml-engineering@744d01e compute/accelerator/README.md: best shape found",
    "stas00-net": "stas00/ml-engineering@744d01e network/benchmarks/README.md",
    "dcgm": "NVIDIA/DCGM@72fa3fe nvvs/diag-skus.yaml.in, comment of that GPU: STREAM triad",
    "nvforum-t4": "forums.developer.nvidia.com/t/about-gpu-peak-performance/264462: 70 W holds it to 24",
    "h100": "our own, by gpu-smoke: one H100 at 700 W, torch 2.11.0+cu130, bench/results/2026-11-23-h100-h200.md",
    "h200": "our own, by gpu-smoke: one H200 at 700 W, torch 2.11.0+cu130, bench/results/2026-11-23-h100-h200.md",
    "aznhc": "Azure/azurehpc-health-checks@0e0a1ac conf/*.conf: floors of nvbandwidth",
    "gpuhunt": "dstackai/gpuhunt@3584151 src/gpuhunt/_internal/constraints.py: memory and compute capability",
    "known": "NVIDIA's data sheet as generally known, not read again",
    "estimate": "0.72 of the peak, as its relatives reach; nobody has published a measurement",
}


class Speed(NamedTuple):
    """The lowest credible measurement, and where it and those that confirm it come from.

    `alone` marks what only one party measured: it can warn, and never fails.
    """

    lowest: float
    sources: tuple[str, ...]
    alone: bool = False


class Gpu(NamedTuple):
    """One model: its names in CUDA, its size, and what it reaches in the format it is timed in."""

    names: tuple[str, ...]
    capability: str
    sm: int
    memory_gb: int
    dtype: str
    n: int
    gemm: Speed  # TFLOPS, dense
    copy: Speed  # GB/s, reads and writes counted
    host: float | None = None  # GB/s between host and device, a floor already; None is only reported
    source: str = "sm: known; memory and capability: gpuhunt"


# A triad reads more than a copy does, so it is a lower bound for one. bfloat16 is timed where it is native; the P100
# gains nothing from float16, whose sums cuBLAS makes in float32 (zzc).
GPUS: dict[str, Gpu] = {
    "t4": Gpu(
        ("Tesla T4",), "7.5", 40, 16, "float16", 8192,
        Speed(24, ("nvforum-t4", "chsasank", "zzc")), Speed(240, ("chsasank", "dcgm")),
    ),
    "v100-sxm2-16gb": Gpu(
        ("Tesla V100-SXM2-16GB",), "7.0", 80, 16, "float16", 8192,
        Speed(84, ("chsasank", "zzc")), Speed(766, ("chsasank", "dcgm")), 9,
    ),
    "p100-pcie-16gb": Gpu(
        ("Tesla P100-PCIE-16GB",), "6.0", 56, 16, "float32", 4096,
        Speed(8.63, ("zzc",), alone=True), Speed(530, ("estimate",), alone=True),
    ),
    "l4": Gpu(
        ("NVIDIA L4",), "8.9", 58, 24, "bfloat16", 8192,
        Speed(66, ("chsasank", "zzc")), Speed(235, ("chsasank", "dcgm")),
    ),
    # Both measurements of the copy are kept, though one is of an A10, which has the same memory.
    "a10g": Gpu(
        ("NVIDIA A10G",), "8.6", 80, 24, "bfloat16", 8192,
        Speed(62.48, ("zzc126",), alone=True), Speed(469, ("chsasank", "dcgm")),
    ),
    "l40s": Gpu(
        ("NVIDIA L40S",), "8.9", 142, 48, "bfloat16", 8192,
        Speed(264.02, ("zzc",), alone=True), Speed(700, ("dcgm",), alone=True),
    ),
    "a100-40gb": Gpu(
        ("NVIDIA A100-SXM4-40GB", "NVIDIA A100-PCIE-40GB"), "8.0", 108, 40, "bfloat16", 8192,
        Speed(234.14, ("zzc",), alone=True), Speed(1293, ("dcgm",), alone=True), 21,
    ),
    "a100-80gb": Gpu(
        ("NVIDIA A100-SXM4-80GB", "NVIDIA A100 80GB PCIe"), "8.0", 108, 80, "bfloat16", 8192,
        Speed(237, ("chsasank", "zzc", "stas00")), Speed(1490, ("chsasank", "dcgm")), 21,
    ),
    "h100-pcie": Gpu(
        ("NVIDIA H100 PCIe",), "9.0", 114, 80, "bfloat16", 8192,
        Speed(449, ("chsasank", "zzc")), Speed(1630, ("chsasank", "dcgm")),
    ),
    "h100-sxm": Gpu(
        ("NVIDIA H100 80GB HBM3",), "9.0", 132, 80, "bfloat16", 8192,
        Speed(687.9, ("h100", "zzc", "stas00")), Speed(2540, ("dcgm", "h100")), 48,
    ),
    "h200-sxm": Gpu(
        ("NVIDIA H200",), "9.0", 132, 141, "bfloat16", 8192,
        Speed(668.7, ("h200", "zzc")), Speed(4251, ("h200",), alone=True), 48,
    ),
    # The higher of the two figures for the B200 is of the best shape found, so for 8192^3 there is one party.
    "b200": Gpu(
        ("NVIDIA B200",), "10.0", 148, 180, "bfloat16", 8192,
        Speed(1627.64, ("zzc",), alone=True), Speed(5430, ("dcgm",), alone=True),
    ),
    "rtx-pro-6000-se": Gpu(
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition",), "12.0", 188, 96, "bfloat16", 8192,
        Speed(409.42, ("zzc",), alone=True), Speed(1480, ("dcgm",), alone=True),
    ),
}  # fmt: skip

# DCGM fails below 0.75 of NVIDIA's own measurement (nvvs/diag-skus.yaml.in); healthy GPUs of one node differ by 5 % and
# more (stas00), so a warning has to begin well below that.
FAIL, WARN = 0.75, 0.90
PEERS_FAIL, PEERS_WARN = 0.80, 0.90  # of the median of the same model in one machine
# An H200 shows 143771 MiB of its 141 GB, an L40S 46068 MiB of its 48: ECC and the driver take their part.
MEMORY = 0.93

# All-reduce of 256 MiB among eight GPUs, in GB/s of bus bandwidth: two thirds of what aznhc asks of messages of 8 to 16
# GB. That share is our guess, so it warns.
ALLREDUCE = {"h100-sxm": 300.0, "h200-sxm": 300.0, "a100-40gb": 150.0, "a100-80gb": 150.0}
