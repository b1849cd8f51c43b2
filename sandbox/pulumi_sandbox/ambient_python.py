"""Which Python runs a program that says nothing about it."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path


def ambient_python() -> str:
    """The Python of a program that names no virtual environment.

    The official host takes `python3` on PATH; here PULUMI_PYTHON_CMD (which it honours too), then an activated
    environment that has the SDK, then the interpreter that runs this host and has every SDK the sandbox knows.
    """
    named = os.environ.get("PULUMI_PYTHON_CMD")
    if named:
        return shutil.which(named) or named
    active = os.environ.get("VIRTUAL_ENV")
    if active and next(Path(active).glob("lib/python3*/site-packages/pulumi/__init__.py"), None):
        return str(Path(active) / "bin" / "python")
    return sys.executable
