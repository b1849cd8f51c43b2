"""Published speeds of each GPU model. The floors of the speed checks are shares of them.

A floor is the speed below which a check fails or warns.
"""

from __future__ import annotations

from typing import NamedTuple

SOURCES = {
    "zzc": "zzc0721/torch-performance-test-data@9d82827 database.md: torch.mm, the best of five sizes, users' own runs",
    **{
        f"zzc{issue}": f"github.com/zzc0721/torch-performance-test-data/issues/{issue}: torch.mm by size, {user}'s run"
        for issue, user in {
            77: "xiaoxi68",
            79: "HaxxorCialtion",
            95: "htdxd",
            108: "yjzxkxdn",
            120: "Arcannite",
            126: "a-cold-bird",
            140: "YiLg8765",
            161: "HarryZhang0806",
            164: "xxx11-OPS",
            174: "DQZ618",
        }.items()
    },
    "chsasank": "chsasank/device-benchmarks@7ccc883 README.md: torch.matmul up to 6888 and copy_, users' own runs",
    "stas00": "stas00/ml-engineering@744d01e compute/accelerator/README.md: best shape found",
    "ao2427": "github.com/pytorch/ao/pull/2427: torch.matmul by size on a B200, torchao's benchmark",
    "dcgm": "NVIDIA/DCGM@72fa3fe nvvs/diag-skus.yaml.in, that GPU's comment, or its limit over 0.75: STREAM triad",
    "nvforum-t4": "forums.developer.nvidia.com/t/about-gpu-peak-performance/264462: 4096, 70 W holds it to 24",
    "h100": "our own, by gpu-smoke: one H100 at 700 W, torch 2.11.0+cu130, bench/results/2026-11-23-h100-h200.md",
    "h200": "our own, by gpu-smoke: one H200 at 700 W, torch 2.11.0+cu130, bench/results/2026-11-23-h100-h200.md",
    "aznhc": "Azure/azurehpc-health-checks@0e0a1ac conf/*.conf: floors of nvbandwidth",
    "gpuhunt": "dstackai/gpuhunt@3584151 src/gpuhunt/_internal/constraints.py: memory and compute capability",
    "mesh": "nvidia-smi topo -m of a DGX-1 with eight V100, in microsoft/msccl tests/test_topologies.py",
    "known": "NVIDIA's data sheet as generally known, not read again",
    "estimate": "0.72 of the peak, as its relatives reach; no measurement is published",
    "theory": "what CUDA reports: multiprocessors x clock x FLOP of one per clock; bus width x memory clock x 2",
}

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
    products: tuple[Figure, ...]  # TFLOPS, dense
    copies: tuple[Figure, ...]  # GB/s, reads and writes counted
    host: float | None = None  # GB/s between host and device, used as the floor itself; None: only reported
    source: str = "sm: known; memory and capability: gpuhunt"

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


def _bf16(value: float, source: str, n: int = 0) -> Figure:
    return Figure(value, source, "bfloat16", n)


def _fp16(value: float, source: str, n: int = 0) -> Figure:
    return Figure(value, source, "float16", n)


# A STREAM triad reads more than a copy does, so its speed is a lower bound for a copy. GPUs with native bfloat16 are
# timed in bfloat16. The P100 gains nothing from float16, because cuBLAS computes its sums in float32 (zzc). The T4 and
# the P100 are timed in the size of the published measurements. chsasank does not say if the measured A100 was a module
# or a card: the table takes the slower card.
GPUS: dict[str, Gpu] = {
    "t4": Gpu(
        ("Tesla T4",), "7.5", 40, 16, "float16", 4096,
        (_fp16(24, "nvforum-t4", 4096), _fp16(25, "chsasank"), _fp16(41.91, "zzc")),
        (Figure(240, "chsasank"), Figure(244, "dcgm")),
    ),
    "v100-sxm2-16gb": Gpu(
        ("Tesla V100-SXM2-16GB",), "7.0", 80, 16, "float16", 8192,
        (_fp16(97.36, "zzc140", 8192), _fp16(94.84, "zzc"), _fp16(84, "chsasank")),
        (Figure(766, "chsasank"), Figure(810, "dcgm")), 9,
    ),
    "v100-sxm2-32gb": Gpu(
        ("Tesla V100-SXM2-32GB",), "7.0", 80, 32, "float16", 8192,
        (_fp16(84, "chsasank"),), (Figure(766, "chsasank"), Figure(810, "dcgm")), 9,
    ),
    "v100-pcie-16gb": Gpu(
        ("Tesla V100-PCIE-16GB",), "7.0", 80, 16, "float16", 8192,
        (_fp16(84, "chsasank"),), (Figure(766, "chsasank"), Figure(810, "dcgm")),
    ),
    "v100-pcie-32gb": Gpu(
        ("Tesla V100-PCIE-32GB",), "7.0", 80, 32, "float16", 8192,
        (_fp16(84, "chsasank"),), (Figure(766, "chsasank"), Figure(810, "dcgm")),
    ),
    "p100-pcie-16gb": Gpu(
        ("Tesla P100-PCIE-16GB",), "6.0", 56, 16, "float32", 4096,
        (Figure(7.81, "zzc164", "float32", 4096), Figure(8.16, "zzc174", "float32", 4096)),
        (Figure(530, "estimate"),),
    ),
    # In float16, which the limit of 72 W slows like bfloat16, the same card reached 53.8 at 8192 and 52.5 at 10240.
    "l4": Gpu(
        ("NVIDIA L4",), "8.9", 58, 24, "bfloat16", 8192,
        (_bf16(59.40, "zzc120", 8192), _bf16(56.90, "zzc120", 10240), _bf16(66, "chsasank")),
        (Figure(235, "chsasank"), Figure(264.6, "dcgm")),
    ),
    # Both measurements of the copy stay, although one is of an A10: it has the same memory.
    "a10g": Gpu(
        ("NVIDIA A10G",), "8.6", 80, 24, "bfloat16", 8192,
        (_bf16(66.59, "zzc126", 8192), _bf16(62.48, "zzc126", 4096)),
        (Figure(469, "chsasank"), Figure(483.6, "dcgm")),
    ),
    "l40s": Gpu(
        ("NVIDIA L40S",), "8.9", 142, 48, "bfloat16", 8192, (_bf16(269.15, "zzc"),), (Figure(700, "dcgm"),),
    ),
    # zzc does not give the form factor of its A100 40GB. The card of 250 W is slower than any module of 400 W.
    "a100-40gb": Gpu(
        ("NVIDIA A100-SXM4-40GB",), "8.0", 108, 40, "bfloat16", 8192,
        (_bf16(246.33, "zzc"),), (Figure(1293, "dcgm"),), 21,
    ),
    "a100-pcie-40gb": Gpu(
        ("NVIDIA A100-PCIE-40GB",), "8.0", 108, 40, "bfloat16", 8192,
        (_bf16(215.26, "zzc108", 8192), _bf16(211.72, "zzc108", 10240)), (Figure(1293, "dcgm"),), 21,
    ),
    "a100-80gb": Gpu(
        ("NVIDIA A100-SXM4-80GB",), "8.0", 108, 80, "bfloat16", 8192,
        (_bf16(264.53, "zzc"), _bf16(271.2, "stas00")), (Figure(1490, "chsasank"), Figure(1564, "dcgm")), 21,
    ),
    "a100-pcie-80gb": Gpu(
        ("NVIDIA A100 80GB PCIe",), "8.0", 108, 80, "bfloat16", 8192,
        (_bf16(237, "chsasank"), _bf16(252.9, "stas00")), (Figure(1490, "chsasank"), Figure(1495, "dcgm")), 21,
    ),
    "h100-pcie": Gpu(
        ("NVIDIA H100 PCIe",), "9.0", 114, 80, "bfloat16", 8192,
        (_bf16(492.84, "zzc95", 8192), _bf16(449, "chsasank")), (Figure(1630, "chsasank"), Figure(1639, "dcgm")),
    ),
    "h100-nvl": Gpu(
        ("NVIDIA H100 NVL",), "9.0", 132, 94, "bfloat16", 8192, (), (Figure(2725, "dcgm"),),
        source="sm, memory and capability: github.com/vllm-project/vllm/pull/53446",
    ),
    "h100-sxm": Gpu(
        ("NVIDIA H100 80GB HBM3",), "9.0", 132, 80, "bfloat16", 8192,
        (_bf16(687.9, "h100", 8192), _bf16(797.51, "zzc79", 8192), _bf16(794.5, "stas00")),
        (Figure(2540, "dcgm"), Figure(3004, "h100")), 48,
    ),
    # The tensor cores of an H20 reach 0.23 of those of an H100, so the theoretical maximum of Hopper does not apply.
    "h20": Gpu(
        ("NVIDIA H20",), "9.0", 78, 96, "bfloat16", 8192,
        (_bf16(138.60, "zzc77", 8192), _bf16(141.86, "zzc")), (Figure(2010, "dcgm"),),
    ),
    "gh200-480gb": Gpu(
        ("NVIDIA GH200 480GB",), "9.0", 132, 96, "bfloat16", 8192, (_bf16(828.6, "stas00"),), (),
        source="sm and capability: known; memory: the HBM alone, known",
    ),
    "h200-sxm": Gpu(
        ("NVIDIA H200",), "9.0", 132, 141, "bfloat16", 8192,
        (_bf16(668.7, "h200", 8192), _bf16(790.29, "zzc")), (Figure(4251, "h200"),), 48,
    ),
    "b200": Gpu(
        ("NVIDIA B200",), "10.0", 148, 180, "bfloat16", 8192,
        (_bf16(1420, "ao2427", 8192), _bf16(1696.03, "zzc"), _bf16(1745, "stas00")), (Figure(5430, "dcgm"),),
    ),
    "b300": Gpu(
        ("NVIDIA B300 SXM6 AC",), "10.3", 148, 288, "bfloat16", 8192,
        (_bf16(1769, "stas00"),), (Figure(6164, "dcgm"),),
        source="name, sm and 275040 MiB: reports of it in public repositories; capability: known",
    ),
    "rtx-pro-6000-se": Gpu(
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition",), "12.0", 188, 96, "bfloat16", 8192,
        (_bf16(417.34, "zzc161", 8192), _bf16(409.42, "zzc")), (Figure(1480, "dcgm"),),
    ),
}  # fmt: skip

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
