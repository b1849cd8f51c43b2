"""The emulated machines of the catalog: the speeds of their GPUs and links, and the time that the host takes.

Speeds of products and of copies within a GPU are the lowest published ones (gpu_smoke/data/gpus.py). The sources of the
other numbers:

- PCIe: 54.8 GB/s of generation 5 x16, measured by us (bench/results/2026-11-23-h100-h200.md); others in proportion.
- NVLink between two GPUs: floors of Azure/azurehpc-health-checks@0e0a1ac for A100 and H100; a V100 has 24 GB/s a link
  (half of the 47.9 that Dell's p2pBandwidthLatencyTest gives two); NVLink 5 has twice the rate of NVLink 4.
- Of eight V100s each has two links to two others, one link to two more, and none to three, to which it copies by way of
  the host: nvidia-smi topo -m of a DGX-1 (microsoft/msccl, tests/test_topologies.py).
- GPUs without NVLink copy by way of the host, at half its rate: clouds do not let them reach each other. Our guess.
- NCCL's start: 31 s for 7 communicators (NVIDIA/nccl#534), and 55 s on eight B200 (NVIDIA/nccl#1646).
- torch's import: 40 s from the cold disk of a container (AUTOMATIC1111/stable-diffusion-webui#14308), 3 s afterwards.
- CUDA's start: 2 s a GPU where no process keeps the driver loaded, as NVML's. Our guess, from 1 to 2 s.
- The host: 2.4 GB/s of memory is page-locked (0.22 s of `copies` in tests/smoke/receipts/h100.json), 2 GB/s copied from
  other memory, 0.038 TFLOPS of float64 on one thread (measured here).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import gpu_catalog
from gpu_smoke.judge.subject import Subject

_GEN5_X16 = 54.8


class Model(NamedTuple):
    """One GPU model: its name in CUDA, its link to the host, and the link between two GPUs, in GB/s."""

    name: str
    generation: int
    width: int = 16
    peer: float = 0.0
    gemm: float = 0.0  # where gpu_smoke has no row: 0.7 of the peak of the vendor's data sheet, in TFLOPS
    copy: float = 0.0  # and 0.75 of the peak in GB/s
    nccl_sec: float = 5.0


MODELS = {
    "p4": Model("Tesla P4", 3, gemm=3.8, copy=144),
    "p100": Model("Tesla P100-PCIE-16GB", 3),
    "v100": Model("Tesla V100-SXM2-16GB", 3, peer=24),
    "v100-32gb": Model("Tesla V100-SXM2-32GB", 3, peer=24, gemm=84, copy=675),
    "t4": Model("Tesla T4", 3, width=8),
    "t4g": Model("NVIDIA T4G", 3, width=8, gemm=24, copy=240),
    "a10g": Model("NVIDIA A10G", 4, width=8),
    "l4": Model("NVIDIA L4", 3),
    "l40s": Model("NVIDIA L40S", 4),
    "rtx-pro-4500": Model("NVIDIA RTX PRO 4500 Blackwell Server Edition", 5, gemm=140, copy=600),
    "rtx-pro-6000": Model("NVIDIA RTX PRO 6000 Blackwell Server Edition", 5),
    "a100-40gb": Model("NVIDIA A100-SXM4-40GB", 4, peer=235),
    "a100-80gb": Model("NVIDIA A100-SXM4-80GB", 4, peer=235),
    "h100": Model("NVIDIA H100 80GB HBM3", 5, peer=335),
    "h200": Model("NVIDIA H200", 5, peer=335),
    "b200": Model("NVIDIA B200", 5, peer=670, nccl_sec=55),
    "gb200": Model("NVIDIA GB200", 5, peer=670, gemm=1600, copy=6000, nccl_sec=55),
    "b300": Model("NVIDIA B300 SXM6 AC", 5, peer=670, gemm=1600, copy=6000, nccl_sec=55),
    "gb300": Model("NVIDIA GB300", 5, peer=670, gemm=1600, copy=6000, nccl_sec=55),
}


# The links between eight V100s; S for a pair without a link.
_MESH = ("X1122SSS", "1X21S2SS", "12X2SS1S", "212XSSS1", "2SSSX112", "S2SS1X21", "SS1S12X2", "SSS1212X")


class Machine(NamedTuple):
    """The largest machine of a model that a cloud sells, or one with eight GPUs."""

    gpus: int
    fake: dict[str, Any]
    nvml: list[dict[str, Any]]


def machine(key: str, gpus: int = 0) -> Machine:
    """Return the machine of a model, with another number of GPUs if one is given."""
    model = MODELS[key]
    card = gpu_catalog.gpu(key)
    sold = [each for each in gpu_catalog.machines() if each.gpu.key == key and each.gpu_count >= 1]
    chosen = max(sold, key=lambda each: (each.gpu_count == 8, each.gpu_count, each.vcpus))
    count = gpus or int(chosen.gpu_count)
    known = Subject(0, model.name, card.compute_capability)
    host = _GEN5_X16 * model.width / 16 * 2.0 ** (model.generation - 5)
    threads = max(1, chosen.vcpus // 2 // int(chosen.gpu_count))
    gemm = known.row.gemm.lowest if known.row and known.row.gemm else model.gemm
    fake = {
        "gpus": [
            {
                "name": model.name,
                "cc": card.compute_capability,
                "sm": known.row.sm if known.row else 80,
                "mem": int((known.row.memory_gb if known.row else card.memory_gib) * 1e9),
                "clocks": False,  # the default of the fake is an L4
                "uuid": f"0000-{index}",
            }
            for index in range(count)
        ],
        "arch": [f"sm_{card.compute_capability.replace('.', '')}"],
        "speeds": {
            "gemm": gemm,
            "copy": known.row.copy.lowest if known.row and known.row.copy else model.copy,
            "host": host,
            "peer": model.peer or host / 2,
            "sum": 1.35 * model.peer or host / 2,
            "pin": 2.4,
            "pageable": 2.0,
            "cpu": 0.038 * threads,
        },
        "delays": {"cold": 40.0, "import": 3.0, "cuda": 0.3 * count, "nvml": 2.0 * count, "context": 0.5, "peer": 0.1,
                   "nccl": model.nccl_sec},
    }  # fmt: skip
    pairs = [(one, other) for one in range(count) for other in range(count) if one != other]
    by_host = [] if model.peer else pairs
    if model.peer == 24:
        by_host = [(one, other) for one, other in pairs if "S" in _MESH[one % 8][other % 8]]
        doubled = [(one, other) for one, other in pairs if "2" in _MESH[one % 8][other % 8]]
        fake["pairs"] = {
            **{f"{one}-{other}": host / 2 for one, other in by_host},
            **{f"{one}-{other}": 2 * model.peer for one, other in doubled},
        }
    fake["by_host"] = [f"{one}-{other}" for one, other in by_host]
    link = {"generation": model.generation, "width": model.width, "most": [model.generation, model.width]}
    return Machine(count, fake, [{**link, "name": model.name, "uuid": f"GPU-0000-{index}"} for index in range(count)])
