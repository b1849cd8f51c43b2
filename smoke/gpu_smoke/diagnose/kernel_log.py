"""Errors of GPUs in the kernel log, if it can be read."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from .. import faults, machine
from ..checks import PASS, SKIP, WARN, Check, failure
from ..data.health import UNKNOWN_XID, XIDS
from ..faults import Meaning
from .finding import Finding, finding_of

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


def findings() -> list[Finding]:
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
