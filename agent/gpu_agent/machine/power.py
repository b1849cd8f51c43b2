"""Switches the machine off without a new process, for a machine that cannot start any program."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

_PRODUCT = Path("/sys/class/dmi/id/product_name")
_POWER_OFF = 0x4321FEDC  # linux/reboot.h, LINUX_REBOOT_CMD_POWER_OFF


def cut() -> None:
    """Switch the machine off at once with the kernel (reboot(2)). Do nothing except as root on a Compute Engine VM.

    This function checks that itself, because a mistake elsewhere must not switch a user's computer off.
    """
    if os.geteuid() == 0 and _PRODUCT.is_file() and _PRODUCT.read_text().startswith("Google"):
        ctypes.CDLL(None).reboot(_POWER_OFF)
