"""The other side of the check: a container that asked for no GPU has none, or jobs compute on the GPUs of others."""

from __future__ import annotations

import re
from pathlib import Path

from . import checks, errors, faults, options, output
from .reports import files, message, record

# The kernel's name for a GPU, by which a container has it (NVIDIA's driver, README, "The /dev/nvidia* device files").
_GPU = re.compile(r"nvidia[0-9]+")
_HINT = (
    "its node gives GPUs to whoever says NVIDIA_VISIBLE_DEVICES=all: set "
    "accept-nvidia-visible-devices-envvar-when-unprivileged = false in /etc/nvidia-container-runtime/config.toml"
)


def run(chosen: options.Options) -> int:
    """Look, tell what is there, and return the exit code."""
    try:
        names = [each.name for each in Path(chosen.no_gpu_in).iterdir()]
    except OSError as error:
        raise errors.usage_error(
            "--no-gpu-in", f"cannot be read ({error.strerror})", chosen.no_gpu_in, "a folder of devices"
        ) from None
    found = sorted(name for name in names if _GPU.fullmatch(name))
    begin = f"{chosen.pool}: " if chosen.pool else ""
    if not found:
        return _end(chosen, f"{begin}pass: who asked for no GPU has none", "", 0)
    sentence = f"{begin}a container that asked for no GPU has {len(found)}: {', '.join(found)}"
    return _end(chosen, sentence, _HINT, checks.EXIT_CODES[faults.ENV])


def _end(chosen: options.Options, summary: str, hint: str, code: int) -> int:
    lines = [faults.one_line(summary), *([f"hint: {hint}"] if hint else [])]
    output.say("\n".join([f"gpu-smoke: {lines[0]}", *lines[1:]]))
    if path := chosen.reports.termination_log:
        text = record.cut("\n".join(lines) + "\n", message.MESSAGE_BYTES)
        try:
            files.write(path, text)
        except OSError as error:
            output.say(f"gpu-smoke: --termination-log: {error.strerror}")
    return code
