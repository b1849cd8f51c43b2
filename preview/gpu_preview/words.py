"""What a command said, fit to be read in a report."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

from .digest import Digest
from .limits import Finished, tail

# Colours and whatever else a terminal would obey; a report is read elsewhere.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])")
_ERROR_CHARACTERS = 4_000


def made_by() -> str:
    """This program and its version, as a report names it."""
    return f"gpu-ci {metadata.version('gpu-ci')}"


def failure(finished: Finished, root: Path, found: Digest | None = None) -> str:
    """Why a command failed: the limit it broke, the engine's errors, or the end of what it said.

    Paths are those of the repository: that its files lay below `root` meanwhile is of no use to anybody.
    """
    said = "\n\n".join(found.errors) if found else ""
    if not said:
        # An `up` tells its errors among its results; a digest that broke off tells nothing.
        printed = tail(finished.stdout)
        said = "\n".join(filter(None, ("" if printed.lstrip().startswith("{") else printed, finished.error_tail())))
    told = "\n".join(filter(None, (finished.broke, said)))
    return clean(told.replace(f"{root}/", ""))


def clean(text: str) -> str:
    """Without escape codes, and not longer than a reader has patience for: the beginning and the end."""
    plain = "".join(sign for sign in _ESCAPES.sub("", text) if sign in "\n\t" or sign.isprintable()).strip()
    if len(plain) <= _ERROR_CHARACTERS:
        return plain
    half = _ERROR_CHARACTERS // 2
    return f"{plain[:half]}\n[… {len(plain) - 2 * half:,} characters …]\n{plain[-half:]}"
