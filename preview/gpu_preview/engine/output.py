"""What a command said, fit to be read in a report."""

from __future__ import annotations

import re
import textwrap
from importlib import metadata
from pathlib import Path

from ..isolation.limits import Finished, tail
from .digest import Digest

# Colours and whatever else a terminal would obey; a report is read elsewhere.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])")
_ERROR_CHARACTERS = 4_000
# What `pulumi up` prints: every step, then this heading with what it and the program said, indented, then the sums.
_DIAGNOSTICS = re.compile(r"^Diagnostics:\n((?:[ \t].*(?:\n|\Z)|\n)+)", re.MULTILINE)
# What Python prints when Pulumi's language host ends a program with SIGINT, because one of its resources has failed.
_INTERRUPTED = re.compile(
    r"^([ \t]*)Traceback \(most recent call last\):\n(?:\1[ \t]+\S[^\n]*\n)+\1KeyboardInterrupt(?:\n|\Z)"
    r"(?:\s*During handling of the above exception, another exception occurred:\n\s*?(?=^[ \t]*Traceback))?",
    re.MULTILINE,
)
# What the C library says where there is no network (gai_strerror(3), strerror(3)).
_OFFLINE = ("Temporary failure in name resolution", "Name or service not known", "Network is unreachable")
_NO_PACKAGE = (
    "  hint: the program runs with the packages of the environment that Pulumi.yaml names (virtualenv); where it names "
    "none, with those of gpu-ci"
)
_NO_NETWORK = "  hint: the program has no network here; --with-network gives it one"


def made_by() -> str:
    """This program and its version, as a report names it."""
    return f"gpu-ci {metadata.version('gpu-ci')}"


def failure(finished: Finished, root: Path, found: Digest | None = None, *, isolated: bool = True) -> str:
    """Why a command failed: the limit it broke, the engine's errors, or the end of what it said.

    Paths are those of the repository: that its files lay below `root` meanwhile is of no use to anybody. Of a command
    behind walls (`isolated`) that missed the network, the last line says how to give it one.
    """
    said = "\n\n".join(found.errors) if found else ""
    if not said:
        # An `up` tells its errors among its results; a digest that broke off tells nothing.
        printed = _diagnostics(tail(finished.stdout))
        said = "\n".join(filter(None, ("" if printed.lstrip().startswith("{") else printed, finished.error_tail())))
    told = "\n".join(filter(None, (finished.broke, _INTERRUPTED.sub("", said).strip("\n"))))
    text = clean(told.replace(f"{root}/", ""))
    if isolated and "ModuleNotFoundError: " in told:
        text += f"\n{_NO_PACKAGE}"
    return f"{text}\n{_NO_NETWORK}" if isolated and any(sign in told for sign in _OFFLINE) else text


def _diagnostics(printed: str) -> str:
    """What an `up` says of its errors, without the steps before it; all of it where there is no such part."""
    found = _DIAGNOSTICS.search(printed)
    return textwrap.dedent(found[1]).strip() if found else printed


def clean(text: str) -> str:
    """Without escape codes, and not longer than a reader has patience for: the beginning and the end."""
    plain = "".join(sign for sign in _ESCAPES.sub("", text) if sign in "\n\t" or sign.isprintable()).strip()
    if len(plain) <= _ERROR_CHARACTERS:
        return plain
    half = _ERROR_CHARACTERS // 2
    return f"{plain[:half]}\n[… {len(plain) - 2 * half:,} characters …]\n{plain[-half:]}"
