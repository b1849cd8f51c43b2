"""The tables of rules.py: the drivers that each GPU needs, and the GPUs that each torch build was compiled for.

rules.py defines branch, card, architecture and kernel module. Every row names its source.
"""

from __future__ import annotations

from typing import NamedTuple

# The sources that the rows name, each with its date. A page without a date has the day on which it was read.
_DRIVERS = "docs.nvidia.com/datacenter/tesla/drivers/"
SOURCES = {
    "nv-arch": _DRIVERS + "cuda-toolkit-driver-and-architecture-matrix.html, read 2026-11-21",
    "nv-branches": _DRIVERS + "615/supported-drivers-and-cuda-toolkit-versions.html, 2026-09-09",
    "nv-toolkits": "CUDA 12.8 release notes, table of toolkits and corresponding driver versions: "
    "docs.nvidia.com/cuda/archive/12.8.0/cuda-toolkit-release-notes, read 2026-11-22",
    "llvm": "llvm/llvm-project@026c639 clang/lib/Basic/Cuda.cpp, MinVersionForCudaArch: the first toolkit of 8.6, 8.7",
    "nv-minor": "docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html, read 2026-11",
    "nv-open": "kernel_open.html of driver 580.159.03, quoted in Start9Labs/start-technologies#3465, 2026-07-11",
    "gsp": "NVIDIA/open-gpu-kernel-modules#19: the open module needs a GSP, which begins with Turing, 2022-05-12",
    "gce-installer": "GoogleCloudPlatform/compute-gpu-installation@e4d32d9 cuda_installer/config.py, 2026-08-05",
    "eks-470": "awslabs/amazon-eks-ami#1060: 470 runs CUDA up to 11.4, 2023-02-28",
    "eks-lists": "awslabs/amazon-eks-ami@81fec2e nvidia-open-supported-devices-*.txt, 2026-07-23",
    "550-12.4": "andimarafioti/faster-qwen3-tts#113: 550.163.01 is CUDA 12.4, 2026-06-13",
    "known": "general knowledge, not read in a source",
    "torch-1.10": "the list that 1.10.1 of PyPI printed on an A100, and +cu111 as the cure: andreimargeloiu/WPFS#3, "
    "2023-06-26; that list is CUDA 10.2's in moi90/pytorch_compute_capabilities#1, 2022-11-04",
    "pypi": "what pip index versions lists for Linux on x86_64 and each Python from 3.6 to 3.15, 2026-11-22",
    "torch-1.13": "the list that 1.13.1+cu117 printed on an H100: PKU-YuanGroup/Open-Sora-Plan#39, 2024-03-04; its "
    "CUDA 11.6 and 11.7 from pytorch/pytorch#164471, 2025-10-02",
    "torch-2.0": "the list that 2.0.1 for CUDA 11.8 printed on an RTX 5090: pBFSLab/DeepPrep#233, 2025-06-30; that its "
    "CUDA 11.7, the default, has no sm_90: rcgsheffield/sheffield_hpc#1890, 2023-10-19",
    "torch-2.1": "rcgsheffield/sheffield_hpc#1890, 2023-10-19: PyPI's 2.1 is for CUDA 12.1, and cu118 and cu121 have "
    "sm_90; 2.2 has the same CUDAs: pytorch/pytorch#114758, 2023-11-29",
    "torch-matrix": "a copy of RELEASE.md's matrices in the PyTorch Korea site's list of versions, 2026-03-24",
    "torch-2.3": "pytorch/pytorch@aa6104e RELEASE.md: CUDA 11.8 and 12.1; PyPI's requires the runtime of 12.1",
    "torch-2.7": "mlverse/torch#1348, which quotes build_cuda.sh of 2.7, 2025-07-24",
    "torch-2.8": "pytorch/pytorch#157517, and lists measured in jhj0517/Whisper-WebUI#653, 2026-09-20",
    "torch-2.10": "lists measured in pytorch/pytorch#182250, 2026-05-03; pytorch/pytorch#175253, 2026-02-18",
    "torch-2.12": "pytorch/pytorch#182849, 2026-05-07",
    "torch-2.13": "torch 2.13.0: PYTORCH_RELEASES_CODE_CC and DEVICE_REQUIREMENT in torch/cuda/__init__.py",
    "torch-2.14": "pytorch/pytorch#194367, 2026-08-21, and #197555, 2026-09-18; its default, which #190355 meant to be "
    "cu132, from googlecolab/colabtools#6093, 2026-09-03, and hvoss-tech/AutoForge#59, 2026-09-19",
    "torch-2.15": "torch.cuda.get_arch_list() of torch 2.15.0+cu132; its cu130 from the plan in pytorch/pytorch#190385",
    "torch-arm": "pytorch/pytorch#160162, 2025-08-08, and #168065, 2025-11-18: PyPI's aarch64 wheel is for the CPU",
}


# The driver branch that was released with a toolkit (nv-toolkits).
TOOLKITS = {
    (8, 0): 367,
    (9, 0): 384,
    (9, 2): 396,
    (10, 0): 410,
    (10, 1): 418,
    (10, 2): 440,
    (11, 0): 450,
    (11, 1): 455,
    (11, 4): 470,
    (11, 8): 520,
    (12, 8): 570,
}


class Arch(NamedTuple):
    """GPUs of one architecture.

    `first_branch` is the driver branch released with the first CUDA toolkit that supports the GPUs (None for a toolkit
    older than TOOLKITS). `modules` are the kernel modules that support the GPUs (sources: gsp, nv-open).
    `source` is the source of the branches.
    """

    name: str
    capabilities: tuple[int, ...]
    first_branch: int | None
    last_branch: int | None
    modules: tuple[str, ...]
    source: str


OPEN, PROPRIETARY = "open", "proprietary"
_BOTH = (OPEN, PROPRIETARY)

ARCHS = (
    Arch("Kepler", (35, 37), None, 470, (PROPRIETARY,), "nv-arch"),
    Arch("Maxwell", (50, 52, 53), None, 580, (PROPRIETARY,), "nv-arch"),
    Arch("Pascal", (60, 61, 62), TOOLKITS[8, 0], 580, (PROPRIETARY,), "nv-arch"),
    Arch("Volta", (70, 72), TOOLKITS[9, 0], 580, (PROPRIETARY,), "nv-arch"),
    Arch("Turing", (75,), TOOLKITS[10, 0], None, _BOTH, "nv-arch"),
    Arch("Ampere", (80,), TOOLKITS[11, 0], None, _BOTH, "nv-arch"),
    Arch("Ampere", (86,), TOOLKITS[11, 1], None, _BOTH, "llvm"),
    Arch("Ampere", (87,), TOOLKITS[11, 4], None, _BOTH, "llvm"),
    Arch("Ada", (89,), TOOLKITS[11, 8], None, _BOTH, "nv-arch"),
    Arch("Hopper", (90,), TOOLKITS[11, 8], None, _BOTH, "nv-arch"),
    Arch("Blackwell", (100,), TOOLKITS[12, 8], None, (OPEN,), "nv-arch"),
    # Its toolkit is 12.9, released with R575. The device list of R575 does not have it yet.
    Arch("Blackwell Ultra", (103,), 580, None, (OPEN,), "eks-lists"),
    Arch("Blackwell", (120,), TOOLKITS[12, 8], None, (OPEN,), "nv-arch"),
)


class Branch(NamedTuple):
    """The newest CUDA version that a driver branch runs without NVIDIA's compatibility package."""

    cuda: tuple[int, int]
    source: str
    end_of_life: str = ""


BRANCHES = {
    470: Branch((11, 4), "eks-470"),
    525: Branch((12, 0), "known"),
    535: Branch((12, 2), "nv-branches", "2026-06"),
    550: Branch((12, 4), "550-12.4"),
    560: Branch((12, 6), "gce-installer"),
    570: Branch((12, 8), "gce-installer"),
    575: Branch((12, 9), "gce-installer"),
    580: Branch((13, 0), "nv-branches", "2028-06"),
    590: Branch((13, 1), "gce-installer"),
    595: Branch((13, 2), "nv-branches", "2027-03"),
    610: Branch((13, 3), "nv-branches", "2026-08"),
}

# The lowest branch that runs code of each CUDA major version, by minor version compatibility (nv-minor). This
# compatibility begins with CUDA 11. Older code needs the driver that was released with its own toolkit.
CUDA_FLOOR = {11: 450, 12: 525, 13: 580}

# Code for one compute capability runs on GPUs of the same major number and the same or a higher minor number. The
# capabilities of EXACT_MATCH_ONLY are exceptions: their code runs only there, and they run no other code. From CUDA
# 13.2 on, the two in LIKE_SERVERS also run code for server GPUs, and 101 is called 110. The source is
# DEVICE_REQUIREMENT and DEVICE_REQUIREMENT_POST_JETSON_SBSA_UNIFICATION of torch 2.15.0 (torch/cuda/__init__.py).
EXACT_MATCH_ONLY = frozenset({53, 62, 72, 87, 110})
LIKE_SERVERS, LIKE_SERVERS_SINCE = frozenset({72, 87}), (13, 2)
RENAMED = {101: 110}


class Release(NamedTuple):
    """One torch release.

    `default` is the build on PyPI: empty for a wheel for the CPU, "?" if it is unknown. `builds` has the compute
    capabilities that each CUDA build was compiled for. `unread` names builds whose list no source gives for this
    release.
    """

    default: str
    builds: dict[str, tuple[int, ...]]
    source: str
    python: tuple[tuple[int, int], tuple[int, int]]
    unread: tuple[str, ...] = ()


_102 = (37, 50, 60, 70)
_117 = (37, 50, 60, 70, 75, 80, 86)
_OLD = (50, 60, 70, 75, 80, 86, 90)
_37 = (37, *_OLD)
_NEW = (75, 80, 86, 90, 100, 120)
_VOLTA = (70, *_NEW)
_110 = {"cu102": _102, "cu111": _117, "cu113": _117}
_21 = {"cu118": _37, "cu121": _OLD}
_24 = {"cu118": _37, "cu121": _OLD, "cu124": _OLD}
_26 = {"cu118": _37, "cu124": _OLD, "cu126": _OLD}
_29 = {"cu126": _OLD, "cu128": _VOLTA, "cu129": _VOLTA, "cu130": _NEW}
_211 = {"cu126": _OLD, "cu128": _NEW, "cu129": _NEW, "cu130": _NEW}
_212 = {"cu126": _OLD, "cu129": _NEW, "cu130": _NEW, "cu132": _NEW}
# The Python versions that PyPI has wheels for on x86_64 (pypi). RELEASE.md also lists 3.15 for 2.13 and 2.14, but PyPI
# has no such wheel. For arm64 they are those of RELEASE.md up to 2.12, and assumed to be the same from there.
_PY38, _PY39, _PY310 = ((3, 8), (3, 12)), ((3, 9), (3, 13)), ((3, 10), (3, 14))
# RELEASE.md does not list cu129 after 2.8, yet there are wheels of it ("somewhat limited", pytorch/test-infra#7652,
# 2026-01-15; 2.11.0 in replicate/cog#3016, 2026-06-18; 2.14.0 in rapidsai/rmm#2541, 2026-09-10).
_129 = ("cu129",)

X86 = {
    "1.10": Release("cu102", _110, "torch-1.10", ((3, 6), (3, 9)), ("cu111", "cu113")),
    "1.13": Release("cu117", {"cu116": _117, "cu117": _117}, "torch-1.13", ((3, 7), (3, 11)), ("cu116",)),
    "2.0": Release("cu117", {"cu117": _117, "cu118": _37}, "torch-2.0", ((3, 8), (3, 11))),
    # The lists of 2.1 to 2.6 are those of 2.7 for the same CUDA. Only their sm_90 was read.
    "2.1": Release("cu121", _21, "torch-2.1", ((3, 8), (3, 11)), (*_21,)),
    "2.2": Release("cu121", _21, "torch-2.1", _PY38, (*_21,)),
    "2.3": Release("cu121", _21, "torch-2.3", _PY38, (*_21,)),
    "2.4": Release("cu121", _24, "torch-matrix", _PY38, (*_24,)),
    "2.5": Release("cu124", _24, "torch-matrix", _PY39, (*_24,)),
    "2.6": Release("cu124", _26, "torch-matrix", _PY39, (*_26,)),
    "2.7": Release("cu126", {"cu118": _37, "cu126": _OLD, "cu128": _NEW}, "torch-2.7", _PY39),
    "2.8": Release("cu128", {"cu126": _OLD, "cu128": _VOLTA, "cu129": _VOLTA}, "torch-2.8", _PY39),
    "2.9": Release("cu128", _29, "torch-2.10", _PY310, _129),
    "2.10": Release("cu128", _29, "torch-2.10", _PY310, _129),
    "2.11": Release("cu130", _211, "torch-2.10", _PY310, _129),
    "2.12": Release("cu130", _212, "torch-2.12", _PY310, _129),
    "2.13": Release("cu130", _212, "torch-2.13", _PY310, _129),
    "2.14": Release("cu130", _212, "torch-2.14", _PY310, _129),
    "2.15": Release("cu132", {"cu130": _NEW, "cu132": _NEW}, "torch-2.15", ((3, 11), (3, 15)), ("cu130",)),
}

_SERVER = (80, 90)
_ARM12 = (80, 90, 100, 120)
_ARM13 = (80, 90, 100, 110, 120)
_ARM29 = {"cu126": _SERVER, "cu128": _ARM12, "cu130": _ARM13}
_ARM212 = {"cu126": _SERVER, "cu130": _ARM13, "cu132": _ARM13}

AARCH64 = {
    # The lists of 2.9 and 2.10 are those of 2.11.
    "2.9": Release("", _ARM29, "torch-arm", _PY310, (*_ARM29,)),
    "2.10": Release("", _ARM29, "torch-arm", _PY310, (*_ARM29,)),
    "2.11": Release("?", _ARM29, "torch-matrix", _PY310),
    "2.12": Release("?", _ARM212, "torch-2.12", _PY310),
    "2.13": Release("?", _ARM212, "torch-2.13", _PY310),
    "2.14": Release("?", _ARM212, "torch-2.14", _PY310),
}

RELEASES = {"x86_64": X86, "arm64": AARCH64}

# The newest patch release of each release that has one (pypi).
PATCHES = {"1.10": 2, "1.13": 1, "2.0": 1, "2.1": 2, "2.2": 2, "2.3": 1, "2.4": 1, "2.5": 1, "2.7": 1, "2.9": 1}
PATCHES |= {"2.12": 1, "2.14": 1}
