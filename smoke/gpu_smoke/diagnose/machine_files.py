"""Check by files alone: the GPU and the driver of the machine, the GPU of this container, and the kernel log."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from .. import faults, machine
from ..checks import FAIL, PASS, SKIP, WARN, Check, failure
from ..data.health import UNKNOWN_XID, XIDS
from ..faults import Meaning
from ..judge import static
from .finding import Finding, finding_of

_EFI = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
_NOUVEAU = Meaning(faults.ENV, faults.FIX_DRIVER, "nouveau uses the GPU, so NVIDIA's driver cannot load")
# Free bytes of a file system: below the first it is practically full; a wheel of torch needs more than the second.
_FULL, _LITTLE = 100e6, 1e9

_ALLOCATABLE = "NAME:.metadata.name,GPUS:.status.allocatable.nvidia\\.com/gpu"
# The command to run next if a container has no GPU.
_NEXT_COMMANDS = {
    "kubernetes": "kubectl get pod $HOSTNAME -o jsonpath='{.spec.containers[*].resources.limits}'; "
    f"kubectl get nodes -o custom-columns='{_ALLOCATABLE}'; kubectl get pods -A | grep device-plugin",
    "actions": "in the workflow, container: options: --gpus all; on the runner's machine: nvidia-smi -L",
    "container": "on the machine: nvidia-smi -L; then docker run --gpus all",
}
_HINTS = {
    "kubernetes": "request it with limits: nvidia.com/gpu; if the node offers none (GPUS is <none> or 0), the "
    "device plugin does not run there, or found no driver",
    "actions": "the job's container was started without GPUs: a runner passes them on only with --gpus",
    "container": "the container was started without GPUs, or without NVIDIA's container toolkit",
}


class Gpu(NamedTuple):
    """A GPU on PCI, and the kernel driver bound to it."""

    address: str
    driver: str


def place(environment: Mapping[str, str]) -> str:
    """Return the kind of environment: kubernetes, actions (the container of a workflow), container or machine."""
    inside = any(machine.real(path).exists() for path in ("/.dockerenv", "/run/.containerenv"))
    if "KUBERNETES_SERVICE_HOST" in environment:
        return "kubernetes"
    if inside and environment.get("GITHUB_ACTIONS") == "true":
        return "actions"
    return "container" if inside or environment.get("container") else "machine"


def findings(environment: Mapping[str, str]) -> list[Finding]:
    """Return the findings from files, in the order of dependencies."""
    where, gpus = place(environment), _on_pci()
    no_gpu_given = has_no_gpu(where)
    return [
        *_hardware(gpus, no_gpu_given),
        finding_of(_bound(gpus or [])),
        finding_of(_loaded(gpus, no_gpu_given)),
        finding_of(_secure_boot(gpus)),
        _request(where, environment, no_gpu_given),
        finding_of(static.shm(machine.shared_memory())),
        finding_of(_disk()),
    ]


def has_no_gpu(where: str) -> bool:
    """Return True in a container that was given no GPU."""
    return where != "machine" and not _gpu_nodes() and not machine.windows()


def _gpu_nodes() -> list[str]:
    """Return the device nodes of GPUs."""
    return [node for node in machine.nodes() if re.fullmatch(r"/dev/nvidia\d+", node)]


def _on_pci() -> list[Gpu] | None:
    """Return the NVIDIA GPUs on PCI; None if they cannot be listed."""
    try:
        devices = sorted(machine.real("/sys/bus/pci/devices").iterdir())
    except OSError:
        return None
    gpus = []
    for device in devices:
        if machine.text(device / "vendor").strip() != "0x10de":
            continue
        if machine.text(device / "class").startswith("0x03"):
            driver = device / "driver"
            gpus.append(Gpu(device.name, driver.readlink().name if driver.is_symlink() else ""))
    return gpus


def _hardware(gpus: list[Gpu] | None, no_gpu_given: bool) -> Iterator[Finding]:
    if gpus:
        yield finding_of(Check("gpu.hardware", PASS, f"{len(gpus)} on PCI: {', '.join(gpu.address for gpu in gpus)}"))
    elif gpus is None or machine.windows() or no_gpu_given:
        yield finding_of(Check("gpu.hardware", SKIP, "the GPUs of the machine are not visible from here"))
    else:
        means = Meaning(
            faults.ENV, faults.FIX_POOL, "the machine type has none, or the GPU is lost: stop and start the machine"
        )
        yield finding_of(failure("gpu.hardware", "this machine has no NVIDIA GPU on PCI", means))


def _bound(gpus: list[Gpu]) -> Check:
    with_nouveau = [gpu.address for gpu in gpus if gpu.driver == "nouveau"]
    modules = [line.split(" ")[0] for line in machine.text("/proc/modules").splitlines()]
    if with_nouveau:
        return failure("driver.bound", f"nouveau holds {', '.join(with_nouveau)}", _NOUVEAU)
    with_vfio = [gpu.address for gpu in gpus if gpu.driver == "vfio-pci"]
    if with_vfio:
        means = Meaning(faults.ENV, faults.FIX_POOL, "the GPU is reserved for virtual machines: use it there")
        return failure("driver.bound", f"vfio-pci holds {', '.join(with_vfio)}", means)
    if "nouveau" in modules and not machine.driver():
        return failure("driver.bound", "nouveau is loaded, and NVIDIA's driver is not", _NOUVEAU)
    return Check("driver.bound", PASS, "no other driver holds a GPU")


def _loaded(gpus: list[Gpu] | None, no_gpu_given: bool) -> Check:
    version = machine.driver()
    if version:
        return Check("driver.loaded", PASS, version)
    if machine.windows() or no_gpu_given or not gpus:
        return Check("driver.loaded", SKIP, "the driver of the machine is not visible from here")
    hint = "it is not installed, built for another kernel, or refused: see the kernel log"
    means = Meaning(faults.ENV, faults.FIX_DRIVER, hint)
    return failure("driver.loaded", f"{len(gpus)} on PCI, and NVIDIA's driver is not loaded", means)


def _secure_boot(gpus: list[Gpu] | None) -> Check:
    try:
        on = machine.real(_EFI).read_bytes()[4:5] == b"\x01"
    except OSError:
        return Check("secure-boot", SKIP, "this machine does not report Secure Boot")
    if not on or machine.driver() or not gpus:
        return Check(
            "secure-boot", PASS, "on, and the driver is loaded" if on and machine.driver() else "not a problem"
        )
    hint = "with Secure Boot the kernel only loads signed modules: sign it, use a signed one, or turn Secure Boot off"
    means = Meaning(faults.ENV, faults.FIX_DRIVER, hint)
    return failure("secure-boot", "Secure Boot is on, and NVIDIA's driver is not loaded", means)


def _request(where: str, environment: Mapping[str, str], no_gpu_given: bool) -> Finding:
    variable = environment.get("NVIDIA_VISIBLE_DEVICES")
    fact = "NVIDIA_VISIBLE_DEVICES is not set" if variable is None else f"NVIDIA_VISIBLE_DEVICES is {variable!r}"
    if where == "machine":
        return finding_of(Check("gpu.request", SKIP, "this is not a container"))
    if not no_gpu_given:
        return finding_of(Check("gpu.request", PASS, f"this container has {len(_gpu_nodes())}; {fact}"))
    driver = machine.driver()
    seen = f"the machine's driver {driver} runs" if driver else "no driver of the machine is visible from here"
    means = Meaning(faults.ENV, faults.FIX_POOL, _HINTS[where])
    return finding_of(
        failure("gpu.request", f"no GPU was given to this container: {fact}, and {seen}", means), _NEXT_COMMANDS[where]
    )


def _disk() -> Check:
    least: tuple[float, str] | None = None
    for path in ("/", "/tmp"):  # noqa: S108 - it is asked, not written to
        try:
            usage = os.statvfs(machine.real(path))
        except OSError:
            continue
        free = 0.0 if usage.f_files and not usage.f_favail else float(usage.f_bavail * usage.f_frsize)
        least = min(least or (free, path), (free, path))
    if least is None:
        return Check("disk", SKIP, "no file system could be checked")
    free, path = least
    text = f"{free / 1e9:.3g} GB free on {path}"
    if free >= _LITTLE:
        return Check("disk", PASS, text)
    hint = "torch keeps compiled kernels and temporary files there: free space, or set TMPDIR to another file system"
    if free >= _FULL:
        return Check("disk", WARN, text, hint=hint)
    return Check("disk", FAIL, text, severity=faults.ENV, action=faults.FIX_IMAGE, hint=hint)


# Files with a copy of the kernel log, for users who may not read /dev/kmsg.
_COPIES = ("/var/log/kern.log", "/var/log/messages", "/var/log/dmesg")
_RECORDS, _TAIL = 20_000, 2**21  # records of /dev/kmsg, and bytes of a copy
_XID = re.compile(r"NVRM: Xid \(([^)]+)\): (\d+)")
_CATALOG = "see docs.nvidia.com/deploy/xid-errors"


class Sign(NamedTuple):
    """A message of the kernel or of NVRM, NVIDIA's kernel driver, with its meaning."""

    pattern: str
    means: Meaning


_SIGNED = Meaning(
    faults.ENV, faults.FIX_DRIVER, "Secure Boot refuses the driver's module: sign it, or use a signed one"
)
_OPEN = Meaning(faults.ENV, faults.FIX_DRIVER, "this GPU and this kernel module do not work together: gpu-smoke check "
                "--module open, or proprietary, shows which one does")  # fmt: skip
SIGNS = (
    Sign(r"fallen off the bus|GPU has been lost", Meaning(faults.GPU, faults.REPLACE, "the GPU is gone from PCI")),
    Sign(
        r"NVRM: API mismatch", Meaning(faults.ENV, faults.REBOOT, "the driver was updated, and the old one still runs")
    ),
    Sign(r"nvidia.*(Key was rejected|required key|module verification failed|unsigned module)", _SIGNED),
    Sign(r"Lockdown: modprobe|Loading of unsigned module is rejected", _SIGNED),
    Sign(r"not supported by (the )?open|requires use of the NVIDIA open kernel modules", _OPEN),
    Sign(
        r"RmInitAdapter failed",
        Meaning(faults.GPU, faults.REBOOT, "the driver cannot start the GPU: reboot, then replace the machine"),
    ),
    Sign(
        r"nvidia.*(version magic|disagrees about version|Invalid module format|Unknown symbol)",
        Meaning(faults.ENV, faults.FIX_DRIVER, "the driver was built for another kernel: reinstall it for this one"),
    ),
    Sign(
        r"nvidia-nvswitch.*SXid.*(fatal|non-recoverable)",
        Meaning(faults.GPU, faults.REPLACE, "the switch between the GPUs failed"),
    ),
)


def log_findings() -> list[Finding]:
    """Return a finding for each sign in the log, with its last line."""
    text = _read()
    if text is None:
        return [
            finding_of(Check("kernel.log", SKIP, "the kernel log cannot be read from here; on the machine: sudo dmesg"))
        ]
    lines = text.splitlines()
    signs = []
    for sign in SIGNS:
        hits = [line for line in lines if re.search(sign.pattern, line, re.IGNORECASE)]
        # The kernel also logs "module verification failed" for a driver that it loads, so the sign needs a missing
        # driver.
        if hits and not (sign.means is _SIGNED and machine.driver()):
            signs.append(finding_of(failure("kernel.log", _message(hits[-1]), sign.means)))
    return [
        *_xids(lines),
        *(signs or [finding_of(Check("kernel.log", PASS, f"{len(lines)} lines, no known error"))]),
    ]


def _xids(lines: list[str]) -> list[Finding]:
    last = {(match[1], int(match[2])): line for line in lines if (match := _XID.search(line))}
    if not last:
        return [finding_of(Check("xid", PASS, "none"))]
    found = []
    for (address, number), line in last.items():
        xid = XIDS.get(number, UNKNOWN_XID)
        text = f"Xid {number} of {address}: {xid.text}; the log says {_message(line)}"
        if xid.action:
            found.append(finding_of(failure("xid", text, Meaning(faults.GPU, xid.action, _CATALOG))))
        else:
            found.append(finding_of(Check("xid", WARN, text, hint=_CATALOG)))
    return found


def _message(line: str) -> str:
    return faults.one_line(line.partition(";")[2] or line, 200)


def _read() -> str | None:
    for path in ("/dev/kmsg", *_COPIES):
        try:
            descriptor = os.open(machine.real(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            return _records(descriptor) if path == "/dev/kmsg" else _tail(descriptor)
        except OSError:
            continue
        finally:
            os.close(descriptor)
    return None


def _records(descriptor: int) -> str:
    """Read /dev/kmsg without blocking. It returns one record per read and has no end."""
    records = []
    for _ in range(_RECORDS):
        try:
            data = os.read(descriptor, 8192)
        except BrokenPipeError:  # the record was overwritten during the read; the next read returns the next one
            continue
        except BlockingIOError:
            break
        if not data:
            break
        records.append(data)
    return b"".join(records).decode("utf-8", "replace")


def _tail(descriptor: int) -> str:
    size = os.fstat(descriptor).st_size
    return os.pread(descriptor, _TAIL, max(0, size - _TAIL)).decode("utf-8", "replace")
