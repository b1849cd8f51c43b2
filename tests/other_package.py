"""Runs commands with a package beside gpu-ci, as if it were installed: its entry points are found."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]


def run(package: Path, *command: str) -> str:
    """Run Python with the folder of a package and its dist-info on the path, and return what it prints."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(package), str(_ROOT)])}
    found = subprocess.run(
        [sys.executable, *command], cwd=_ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout
