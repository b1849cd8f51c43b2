"""The Python interpreter of programs that name no virtual environment."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path


def ambient_python() -> str:
    """Return the Python interpreter of a program that names no virtual environment.

    The order is PULUMI_PYTHON_CMD, an activated environment with the SDK, and the interpreter of this host, which has
    every SDK of the sandbox. The official host honours PULUMI_PYTHON_CMD too, and otherwise uses `python3` on PATH.
    """
    named = os.environ.get("PULUMI_PYTHON_CMD")
    if named:
        return shutil.which(named) or named
    active = os.environ.get("VIRTUAL_ENV")
    if active and next(Path(active).glob("lib/python3*/site-packages/pulumi/__init__.py"), None):
        return str(Path(active) / "bin" / "python")
    return sys.executable
