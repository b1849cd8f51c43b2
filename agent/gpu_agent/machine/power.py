"""The last way to end the machine, if no program can be started any more."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

_PRODUCT = Path("/sys/class/dmi/id/product_name")
_POWER_OFF = 0x4321FEDC  # linux/reboot.h, LINUX_REBOOT_CMD_POWER_OFF


def cut() -> None:
    """Switch the machine off at once with the kernel (reboot(2)). Do nothing unless this is root on a Compute Engine
    VM.

    The condition is checked here again, because no other check protects a user's own computer.
    """
    if os.geteuid() == 0 and _PRODUCT.is_file() and _PRODUCT.read_text().startswith("Google"):
        ctypes.CDLL(None).reboot(_POWER_OFF)
