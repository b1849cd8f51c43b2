"""How this program is called where it runs, for hints that are copied."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

NAME = "pulumi-sandbox"


def program() -> str:
    """The program's name where PATH finds it, else its path, from the current folder where it is below that."""
    called = Path(sys.argv[0])
    found = shutil.which(NAME)
    if called.name != NAME or (found and Path(found).resolve() == called.resolve()):
        return NAME
    here, path = Path.cwd(), called.absolute()
    return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))
