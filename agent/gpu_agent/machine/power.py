"""The machine's end where nothing can be started any more that would end it."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

_PRODUCT = Path("/sys/class/dmi/id/product_name")
_POWER_OFF = 0x4321FEDC  # linux/reboot.h, LINUX_REBOOT_CMD_POWER_OFF


def cut() -> None:
    """Switch the machine off at once, by the kernel alone (reboot(2)); nothing unless it is Google's and this is root.

    Asked here once more, as nothing else stands between this and somebody's own computer.
    """
    if os.geteuid() == 0 and _PRODUCT.is_file() and _PRODUCT.read_text().startswith("Google"):
        ctypes.CDLL(None).reboot(_POWER_OFF)
