"""The findings and the probes of `gpu-smoke diagnose`.

A probe reads one source, such as the kernel log. Its finding is a check as in the receipt, with the name of that
source, and with the command to run next.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from ..checks import BAD, WARN, Check


class Probe(NamedTuple):
    """The source that a check reads, and the command to run after a failure or warning."""

    looks_at: str
    next: str


_NVRM = "sudo dmesg | grep -iE 'nvrm|nvidia|nouveau' | tail -30"
_WHEEL = "gpu-ci check MACHINE --driver-branch BRANCH --torch VERSION    # names a torch and a driver that fit"
# The order is that of dependencies: the first failing probe is the first to fix.
PROBES = {
    "gpu.hardware": Probe("/sys/bus/pci/devices: vendor 10de, class 03", "lspci -nn -d 10de:"),
    "driver.bound": Probe(
        "/proc/modules, and the driver of each GPU in /sys/bus/pci/devices",
        "echo 'blacklist nouveau' | sudo tee /etc/modprobe.d/nouveau.conf; sudo update-initramfs -u; sudo reboot",
    ),
    "driver.loaded": Probe("/proc/driver/nvidia/version", f"sudo modprobe nvidia; {_NVRM}"),
    "secure-boot": Probe("the EFI variable SecureBoot", "mokutil --sb-state; modinfo -F signer nvidia"),
    "gpu.request": Probe("NVIDIA_VISIBLE_DEVICES, and /dev/nvidia0, /dev/nvidia1, ...", "nvidia-smi -L"),
    "devnodes": Probe("/dev/nvidiactl, /dev/nvidia-uvm, /dev/nvidia0, /dev/nvidia1, ...", "ls -l /dev/nvidia*"),
    "env.capabilities": Probe("NVIDIA_DRIVER_CAPABILITIES", "set it to compute,utility where the container starts"),
    "env.visible": Probe("CUDA_VISIBLE_DEVICES", "env -u CUDA_VISIBLE_DEVICES gpu-smoke diagnose"),
    "env.library-path": Probe(
        "LD_LIBRARY_PATH and its folders, LD_PRELOAD", "env -u LD_LIBRARY_PATH -u LD_PRELOAD gpu-smoke diagnose"
    ),
    "env.tools": Probe("variables that make CUDA record or wait", "env | grep -E 'CUDA|PYTORCH'"),
    "torch.installed": Probe("version.py of the torch of this Python", "python3 -m pip show torch; which -a python3"),
    "driver.wheel": Probe("the driver's version, and the CUDA of the installed torch", _WHEEL),
    "shm": Probe("the size of /dev/shm", "df -h /dev/shm"),
    "disk": Probe("free space and inodes of / and /tmp", "df -h / /tmp; df -i / /tmp"),
    "xid": Probe("Xid lines of the kernel log", "sudo dmesg | grep -i xid; nvidia-smi -q | grep -iE 'remap|ecc'"),
    "kernel.log": Probe("the kernel log: /dev/kmsg, or its copy in /var/log", _NVRM),
    "nvml": Probe("libnvidia-ml.so.1: nvmlInit, and every GPU", "nvidia-smi; cat /proc/driver/nvidia/version"),
    "gpu.memory": Probe(
        "NVML: memory and processes of each GPU",
        "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv; sudo fuser -v /dev/nvidia*",
    ),
    "gpu.mig": Probe("NVML: MIG mode and slices of each GPU", "nvidia-smi mig -lgi; sudo nvidia-smi -mig 0"),
    "gpu.persistence": Probe("NVML: persistence mode of each GPU", "sudo systemctl enable --now nvidia-persistenced"),
    "libcuda.real": Probe("libcuda.so.1: its file, and cuInit", "ldconfig -p | grep libcuda; nvidia-smi"),
    "driver.match": Probe("the versions of the kernel's driver and of libcuda", "sudo reboot"),
    "torch.import": Probe("import torch, in a process of its own", "python3 -c 'import torch'"),
    "torch.build": Probe("torch.version.cuda", _WHEEL),
    "torch.arch": Probe("torch's arch list, and each GPU's compute capability", _WHEEL),
    "gpu.count": Probe("the GPUs that CUDA lists to torch", "nvidia-smi -L; echo $CUDA_VISIBLE_DEVICES"),
    "gpu.init": Probe("CUDA's start in torch", "python3 -c 'import torch; torch.cuda.init()'"),
    "child": Probe("the end of the probe's process", "dmesg | grep -iE 'killed process|segfault' | tail"),
    "deadline": Probe("the time until an answer", f"ps -eo pid,stat,wchan:30,cmd | grep ' D'; {_NVRM}"),
}  # fmt: skip


@dataclass(frozen=True)
class Finding:
    """The result of one probe. `next` is empty if the check passed."""

    check: Check
    looked_at: str
    next: str = ""

    def record(self) -> dict[str, Any]:
        """Return the record of the check with the two fields of a diagnosis."""
        return {**self.check.record(), "looked_at": self.looked_at, "next": self.next}


def finding_of(check: Check, next_command: str = "") -> Finding:
    """Add the texts of the check's probe. A given command replaces that of the probe."""
    probe = PROBES[check.id]
    wrong = check.status in (*BAD, WARN)
    return Finding(check, probe.looks_at, (next_command or probe.next) if wrong else "")
