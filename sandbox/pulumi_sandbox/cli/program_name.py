"""The name of this program in hints that users copy."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

NAME = "pulumi-sandbox"


def program() -> str:
    """Return the program's name if it is on PATH, else its path. A path below the current folder is relative."""
    called = Path(sys.argv[0])
    found = shutil.which(NAME)
    if called.name != NAME or (found and Path(found).resolve() == called.resolve()):
        return NAME
    here, path = Path.cwd(), called.absolute()
    return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))
