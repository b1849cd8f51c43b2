"""The meaning of NVML's numbers, with sources: names, limits, and the action for each."""

from __future__ import annotations

from typing import NamedTuple

from .. import faults

SOURCES = {
    "nvml": "nvidia-ml-py 13.615.71, pynvml.py: names and numbers",
    "nvml-api": "docs.nvidia.com/deploy/nvml-api: what they mean",
    "xid": "docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html, immediate actions, as read by "
    "leptonai/gpud@4a8de33 components/accelerator/nvidia/xid/catalog_generated.go",
    "agent": "aws/eks-node-monitoring-agent@51af549 monitors/nvidia/dcgm/dcgm_policies.go: WellKnownXidCodes",
    "plugin": "NVIDIA/k8s-device-plugin@1b826ac internal/rm/health.go: Xids that an application causes",
    "recovery": "docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/error-recovery-and-response-flags.html",
    "retired": "NVIDIA/DCGM@72fa3fe common/DcgmGPUHardwareLimits.h: DCGM_LIMIT_MAX_RETIRED_PAGES",
    "replays": "NVIDIA/DCGM@72fa3fe nvvs/plugin_src/pcie/Pcie.cpp: max_pcie_replays",
    "links": "NVIDIA/DCGM@72fa3fe nvvs/diag-skus.yaml.in: min_pci_generation and min_pci_width",
    "lanes": "PCI Express Base Specification: 2.5, 5, 8, 16, 32 and 64 GT/s, of which 8b/10b and 128b/130b leave data",
    "throttle": "github.com/Azure/azurehpc/pull/591 warns of it and drains no node; github.com/leptonai/gpud/pull/300 "
    "does not call single events critical",
}

# Error codes of NVML (nvml). The codes in UNSUPPORTED are no fault. Those in LOST report a broken GPU.
UNSUPPORTED = frozenset({3, 4, 13, 22, 25, 26})
OLD_LIBRARY = 13  # an older driver does not have the function, or an older nvidia-ml-py does not
NO_LIBRARY, MISMATCH, NO_DRIVER = 12, 18, 9
LOST = {
    8: (faults.REPLACE, "its power cables are not connected correctly"),
    11: (faults.REBOOT, "its interrupts do not arrive"),
    15: (faults.REPLACE, "it has fallen off the bus"),
    16: (faults.RESET, "it has to be reset before it can be used again"),
}


class Xid(NamedTuple):
    """An Xid and the action it requires. Without an action it only warns."""

    text: str
    action: str = ""


# These Xids fail:
#
# - those for which the catalog requires RESET_GPU, RESTART_BM, RESTART_VM or CHECK_MECHANICALS
# - those of its two workflows, for double bit errors and NVLink
# - a contained memory error, because a check that computes correctly does not cause one
#
# All others warn: those that an application causes, those that the driver has recovered from, and unknown numbers. The
# node agent of AWS also replaces a node after 63 and 142 (agent). For 142 the catalog only says to contact support.
UNKNOWN_XID = Xid("not in our table")
XIDS = {
    13: Xid("graphics engine exception, most often an application's"),
    31: Xid("memory page fault, most often an application's"),
    43: Xid("the GPU stopped a channel, most often for an application's fault"),
    45: Xid("a process was cleaned up after another error"),
    46: Xid("the GPU stopped processing", faults.RESET),
    48: Xid("double bit ECC error", faults.RESET),
    54: Xid("auxiliary power is not connected", faults.REPLACE),
    62: Xid("internal microcontroller halt", faults.RESET),
    63: Xid("memory was remapped, or a page retired"),
    64: Xid("memory could not be remapped, or a page not retired", faults.RESET),
    68: Xid("video processor exception, most often an application's"),
    74: Xid("NVLink error", faults.RESET),
    79: Xid("the GPU has fallen off the bus", faults.REBOOT),
    92: Xid("many single bit ECC errors"),
    94: Xid("contained memory error", faults.RESET),
    95: Xid("uncontained memory error", faults.RESET),
    109: Xid("context switch timeout", faults.RESET),
    110: Xid("security fault", faults.RESET),
    119: Xid("the GPU's system processor (GSP) did not answer", faults.RESET),
    120: Xid("error of the GPU's system processor (GSP)", faults.RESET),
    136: Xid("NVLink training failed", faults.RESET),
    140: Xid("unrecovered ECC error", faults.RESET),
    142: Xid("video encoder error (NVENC3)"),
    143: Xid("the GPU could not be initialized", faults.RESET),
    **{code: Xid("NVLink error", faults.RESET) for code in range(144, 151)},
    151: Xid("key rotation error", faults.REBOOT),
    154: Xid("the driver requires another recovery action"),
    155: Xid("NVLink error defined by software", faults.RESET),
    156: Xid("a part of the chip was retired", faults.RESET),
    158: Xid("fatal timeout of the GPU", faults.RESET),
}

# NVML_GPU_RECOVERY_ACTION_*. A number that is missing here is newer than this table (nvml, recovery).
RECOVERY = {
    1: (faults.RESET, "reset the GPU"),
    2: (faults.REBOOT, "reboot the node"),
    3: (faults.RESET, "drain GPUs that talk to it"),
    4: (faults.RESET, "drain GPUs that talk to it, and reset it"),
    5: (faults.RESET, "recover the IMEX domain"),
    6: (faults.RESET, "reset its PCIe bus"),
    7: (faults.REBOOT, "reboot the system"),
}

# Bits of nvmlDeviceGetCurrentClocksEventReasons (nvml). Those of WRONG_REASONS slow a GPU down because of a fault.
IDLE, POWER_CAP, HW_SLOWDOWN = 0x1, 0x4, 0x8
WRONG_REASONS = {0x40: "HwThermalSlowdown", 0x80: "HwPowerBrakeSlowdown", 0x20: "SwThermalSlowdown"}
ENOUGH = 2  # samples under load before they are judged: clocks, links and reasons take a moment to settle
# A passively cooled card of 70 W reaches its thermal limit for moments if the GPUs next to it are busy. A GPU fails if
# a timed stage was slow and throttled for this share of its samples. All timed stages must have at least this many
# samples. Both numbers are our guess (throttle).
THROTTLED_SHARE, THROTTLED_SAMPLES = 0.25, 10

# Cards whose own power limit holds them in every long product. nvforum-t4 of gpus.py shows it for the T4. The rest is
# our guess: PCIe cards with limits of 70 to 350 W.
CAPPED = frozenset({
    "t4", "l4", "a10g", "l40s", "p100-pcie-16gb", "v100-pcie-16gb", "v100-pcie-32gb", "a100-pcie-40gb",
    "a100-pcie-80gb", "h100-pcie", "h100-nvl", "rtx-pro-6000-se",
})  # fmt: skip
AT_LIMIT = 0.90  # of the power limit: our guess

RETIRED_PAGES = 63
REPLAYS = 80

# The PCIe generation and lanes that DCGM requires at least (links). Clouds connect GPUs with fewer lanes, or to older
# hosts, than the GPU supports. In a VM NVML reports the GPU's own maximum, so a lower value is no fault.
LINKS = {
    "t4": (3, 8), "v100-sxm2-16gb": (3, 16), "v100-sxm2-32gb": (3, 16), "v100-pcie-16gb": (3, 16),
    "v100-pcie-32gb": (3, 16), "p100-pcie-16gb": (3, 16), "l4": (3, 16), "a10g": (3, 8), "l40s": (4, 8),
    "a100-40gb": (3, 16), "a100-pcie-40gb": (3, 16), "a100-80gb": (3, 16), "a100-pcie-80gb": (3, 16),
    "h100-pcie": (3, 16), "h100-nvl": (3, 16), "h100-sxm": (3, 16), "h20": (3, 16), "h200-sxm": (3, 16),
    "b200": (3, 16), "b300": (3, 1), "rtx-pro-6000-se": (3, 16),
}  # fmt: skip
# GB/s of one lane, by generation (lanes).
LANE_GBS: dict[int, float] = {1: 0.25, 2: 0.5, **{each: 2 ** (each - 3) * 128 / 130 for each in range(3, 8)}}
SLOW_COPY = 0.6  # of the bandwidth of its link: our guess. An H100 and an H200 reach 0.87 and 0.88 (our own receipts).
