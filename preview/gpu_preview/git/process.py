"""Runs git where a pull request's files lie: none of them makes it run a program, or read another repository."""

from __future__ import annotations

import os
import resource
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from gpu_common.visible import visible_lines

_TIMEOUT_SEC = 300
_MAX_MESSAGE = 2_000
# A figure of ours. git holds a whole folder at once, and a file that is stored as its difference to another; either may
# be far more than what a pull request brought.
_MEMORY_BYTES = 4 * 1024**3
# Each leads git to another repository than the one that was found, or to other objects than its own.
_OF_ANOTHER = (
    "GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_GRAFT_FILE", "GIT_SHALLOW_FILE", "GIT_REPLACE_REF_BASE", "GIT_PREFIX",
)  # fmt: skip
# No question, no other language, nothing from a remote, and no object in another's place (refs/replace). An older git
# does not know GIT_NO_LAZY_FETCH (2.39.5 does); GIT_ALLOW_PROTOCOL outdoes what any configuration allows.
_ALWAYS = {
    "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C",
    "GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "", "GIT_NO_REPLACE_OBJECTS": "1",
}  # fmt: skip
# No program that a repository's configuration names; and a folder of the tree is no repository, whatever it looks like.
_SETTINGS = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "safe.bareRepository=explicit")


class GitError(Exception):
    """git has no answer; the text says what was asked, and what git said."""


def said(folder: Path, *arguments: str, git_folder: Path | None = None) -> str:
    """What git prints, without the end of its last line. GitError where it fails."""
    return os.fsdecode(run(folder, *arguments, git_folder=git_folder).stdout).strip()


def run(
    folder: Path,
    *arguments: str,
    git_folder: Path | None = None,
    stdin: int | IO[bytes] = subprocess.DEVNULL,
    stdout: int | IO[bytes] = subprocess.PIPE,
) -> subprocess.CompletedProcess[bytes]:
    """git to its end. It looks for a repository from the folder upwards where it is told none."""
    try:
        answer = subprocess.run(
            _command(arguments, git_folder), stdin=stdin, stdout=stdout, stderr=subprocess.PIPE,
            timeout=_TIMEOUT_SEC, check=False, **_options(folder),
        )  # fmt: skip
    except FileNotFoundError:
        raise GitError("there is no git on PATH\n  hint: install it") from None
    except subprocess.TimeoutExpired:
        raise _too_late(arguments[0]) from None
    if answer.returncode:
        raise _failed(arguments[0], answer.returncode, answer.stderr)
    return answer


@contextmanager
def reading(folder: Path, *arguments: str, git_folder: Path) -> Iterator[IO[bytes]]:
    """What git prints, while it prints it, to be read to its end. git is ended where somebody stops before."""
    with (
        tempfile.TemporaryFile() as error_file,
        subprocess.Popen(
            _command(arguments, git_folder), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=error_file,
            **_options(folder),
        ) as git,
    ):  # fmt: skip
        late = threading.Timer(_TIMEOUT_SEC, git.kill)
        late.start()
        try:
            yield cast("IO[bytes]", git.stdout)
            code = git.wait()
            if late.finished.is_set():
                raise _too_late(arguments[0])
        finally:
            late.cancel()
            git.kill()
        if code:
            error_file.seek(0)
            raise _failed(arguments[0], code, error_file.read())


def _command(arguments: Sequence[str], git_folder: Path | None) -> list[str]:
    return ["git", *_SETTINGS, *([f"--git-dir={git_folder}"] if git_folder else []), *arguments]


def _options(folder: Path) -> dict[str, Any]:
    kept = {name: value for name, value in os.environ.items() if name not in _OF_ANOTHER}
    return {"cwd": folder, "env": {**kept, **_ALWAYS}, "preexec_fn": _within_memory}


def _within_memory() -> None:
    allowed = [each for each in resource.getrlimit(resource.RLIMIT_DATA) if each != resource.RLIM_INFINITY]
    least = min([_MEMORY_BYTES, *allowed])
    resource.setrlimit(resource.RLIMIT_DATA, (least, least))


def _too_late(what: str) -> GitError:
    return GitError(f"git {what} did not end within {_TIMEOUT_SEC} s")


def _failed(what: str, code: int, stderr: bytes) -> GitError:
    text = visible_lines(stderr.decode(errors="replace").strip(), _MAX_MESSAGE) or f"it ended with {code}"
    hint = "\n  hint: a partial clone lacks files; clone without --filter" if "promisor" in text else ""
    return GitError(f"git {what}: {text}{hint}")
