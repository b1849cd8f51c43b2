"""Emulate a container whose loader does not find the driver's libraries.

The computer that runs the container's program may have a driver. So variables of the program hide it from CUDA, and
from Python programs that open libcuda.so.1 (no_driver/).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

FOLDER = Path(__file__).parent / "no_driver"


def hidden(others: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that hide the driver. `others` are the program's other variables."""
    paths = os.pathsep.join(filter(None, (str(FOLDER), others.get("PYTHONPATH"))))
    return {"PYTHONPATH": paths, "CUDA_VISIBLE_DEVICES": ""}
