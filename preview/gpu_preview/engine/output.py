"""Formats the output of a command for a report."""

from __future__ import annotations

import re
import textwrap
from importlib import metadata
from pathlib import Path

from ..isolation.limits import Finished, tail
from .digest import Digest

# Colours and other terminal control codes.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])")
_ERROR_CHARACTERS = 4_000
# `pulumi up` prints every step, then this heading with indented messages, then the totals.
_DIAGNOSTICS = re.compile(r"^Diagnostics:\n((?:[ \t].*(?:\n|\Z)|\n)+)", re.MULTILINE)
# Python prints this when Pulumi's language host ends a program with SIGINT, because a resource has failed.
_INTERRUPTED = re.compile(
    r"^([ \t]*)Traceback \(most recent call last\):\n(?:\1[ \t]+\S[^\n]*\n)+\1KeyboardInterrupt(?:\n|\Z)"
    r"(?:\s*During handling of the above exception, another exception occurred:\n\s*?(?=^[ \t]*Traceback))?",
    re.MULTILINE,
)
# Errors of the C library without a network (gai_strerror(3), strerror(3)).
_OFFLINE = ("Temporary failure in name resolution", "Name or service not known", "Network is unreachable")
_NO_PACKAGE = (
    "  hint: the program runs with the packages of the environment that Pulumi.yaml names (virtualenv), or with those "
    "of gpu-ci if it names none"
)
_NO_NETWORK = "  hint: the program has no network here; --with-network gives it one"


def made_by() -> str:
    """Return the name and version of this program for reports."""
    return f"gpu-ci {metadata.version('gpu-ci')}"


def failure(finished: Finished, root: Path, found: Digest | None = None, *, isolated: bool = True) -> str:
    """Return why a command failed: the limit it exceeded, the engine's errors, or the end of its output.

    Paths are relative to the repository, not below `root`, its temporary copy. For an isolated command that missed the
    network, the last line says how to allow it.
    """
    errors = "\n\n".join(found.errors) if found else ""
    if not errors:
        # `up` prints its errors among its results. An incomplete digest has none.
        printed = _diagnostics(tail(finished.stdout))
        errors = "\n".join(filter(None, ("" if printed.lstrip().startswith("{") else printed, finished.error_tail())))
    message = "\n".join(filter(None, (finished.exceeded_limit, _INTERRUPTED.sub("", errors).strip("\n"))))
    text = clean(message.replace(f"{root}/", ""))
    if isolated and "ModuleNotFoundError: " in message:
        text += f"\n{_NO_PACKAGE}"
    return f"{text}\n{_NO_NETWORK}" if isolated and any(sign in message for sign in _OFFLINE) else text


def _diagnostics(printed: str) -> str:
    """Return the errors in the output of `up`, without the steps before them, or the whole output without errors."""
    found = _DIAGNOSTICS.search(printed)
    return textwrap.dedent(found[1]).strip() if found else printed


def clean(text: str) -> str:
    """Return the beginning and the end of a text, without escape codes."""
    plain = "".join(sign for sign in _ESCAPES.sub("", text) if sign in "\n\t" or sign.isprintable()).strip()
    if len(plain) <= _ERROR_CHARACTERS:
        return plain
    half = _ERROR_CHARACTERS // 2
    return f"{plain[:half]}\n[… {len(plain) - 2 * half:,} characters …]\n{plain[-half:]}"
