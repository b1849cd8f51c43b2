"""Check that a container that requested no GPU has none. Otherwise jobs could compute on the GPUs of other jobs."""

from __future__ import annotations

import re
import socket
import time
from pathlib import Path

from . import checks, faults, options, output, reports

# The name of a GPU's device node in a container (NVIDIA's driver, README, "The /dev/nvidia* device files").
_GPU = re.compile(r"nvidia[0-9]+")
_HINT = (
    "its node gives GPUs to every container with NVIDIA_VISIBLE_DEVICES=all: set "
    "accept-nvidia-visible-devices-envvar-when-unprivileged = false in /etc/nvidia-container-runtime/config.toml"
)
_NOT_CLOSED = (
    "the cluster does not enforce the network policies of this namespace: on EKS set enableNetworkPolicy to true in "
    "the configuration of the add-on vpc-cni"
)
_ATTEMPT_SEC = 3.0
_PAUSE_SEC = 0.5
# The VPC CNI allows all traffic of a pod in its first seconds (aws/aws-network-policy-agent issues 189 and 345).
_CLOSED_AFTER_SEC = 30.0
# The failed attempts in a row that show that the address is blocked. A single one may fail for another reason.
_FAILURES = 2


def run(chosen: options.Options) -> int:
    """Check devices and network, report, and return the exit code."""
    try:
        names = [each.name for each in Path(chosen.no_gpu_in).iterdir()]
    except OSError as error:
        raise output.usage_error(
            "--no-gpu-in", f"cannot be read ({error.strerror})", chosen.no_gpu_in, "a folder of devices"
        ) from None
    found = sorted(name for name in names if _GPU.fullmatch(name))
    prefix = f"{chosen.pool}: " if chosen.pool else ""
    if not found and chosen.closed_to and _answers(chosen.closed_to):
        sentence = (
            f"{prefix}a container reaches {':'.join(map(str, chosen.closed_to))}, which network policies should block"
        )
        return _end(chosen, sentence, _NOT_CLOSED, checks.EXIT_CODES[faults.ENV])
    if not found:
        return _end(chosen, f"{prefix}pass: a container that requested no GPU has none", "", 0)
    sentence = f"{prefix}a container that requested no GPU has {len(found)}: {', '.join(found)}"
    return _end(chosen, sentence, _HINT, checks.EXIT_CODES[faults.ENV])


def _answers(address: tuple[str, int]) -> bool:
    """Return True if connections are accepted even after the time that network policies need."""
    end, failures = time.monotonic() + _CLOSED_AFTER_SEC, 0
    while failures < _FAILURES:
        if time.monotonic() >= end:
            return True
        try:
            socket.create_connection(address, _ATTEMPT_SEC).close()
            failures = 0
        except OSError:
            failures += 1
        time.sleep(_PAUSE_SEC)
    return False


def _end(chosen: options.Options, summary: str, hint: str, code: int) -> int:
    lines = [faults.one_line(summary), *([f"hint: {hint}"] if hint else [])]
    output.say("\n".join([f"gpu-smoke: {lines[0]}", *lines[1:]]))
    if path := chosen.termination_log:
        text = reports.cut("\n".join(lines) + "\n", reports.MESSAGE_BYTES)
        try:
            reports.write(path, text)
        except OSError as error:
            output.say(f"gpu-smoke: --termination-log: {error.strerror}")
    return code
