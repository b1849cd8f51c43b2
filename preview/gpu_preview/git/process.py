"""Runs git in a checkout. The files of a pull request cannot make git run a program or read another repository."""

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

from ..errors import PreviewError

_TIMEOUT_SEC = 300
_MAX_MESSAGE = 2_000
# This project's limit. git loads whole folders into memory, and whole files if they are stored as a delta of another
# file. Both can be far larger than the pull request.
_MEMORY_BYTES = 4 * 1024**3
# Each of these variables leads git to another repository or to other objects.
_REMOVED_VARIABLES = (
    "GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_GRAFT_FILE", "GIT_SHALLOW_FILE", "GIT_REPLACE_REF_BASE", "GIT_PREFIX",
)  # fmt: skip
# With these variables, git asks no questions, prints English, fetches nothing from a remote, and replaces no object by
# another (refs/replace). GIT_NO_LAZY_FETCH needs git 2.39.5 or newer. GIT_ALLOW_PROTOCOL overrides any configuration.
_SET_VARIABLES = {
    "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C",
    "GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "", "GIT_NO_REPLACE_OBJECTS": "1",
}  # fmt: skip
# No program from a repository's configuration is run, and no folder of the tree is used as a repository.
_SETTINGS = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "safe.bareRepository=explicit")


def output(folder: Path, *arguments: str, git_folder: Path | None = None) -> str:
    """Return the output of git without the last line break. PreviewError if git fails."""
    return os.fsdecode(run(folder, *arguments, git_folder=git_folder).stdout).strip()


def run(
    folder: Path,
    *arguments: str,
    git_folder: Path | None = None,
    stdin: int | IO[bytes] = subprocess.DEVNULL,
    stdout: int | IO[bytes] = subprocess.PIPE,
) -> subprocess.CompletedProcess[bytes]:
    """Run git to its end. Without a given repository, git searches from the folder upwards."""
    try:
        answer = subprocess.run(
            _command(arguments, git_folder), stdin=stdin, stdout=stdout, stderr=subprocess.PIPE,
            timeout=_TIMEOUT_SEC, check=False, **_options(folder),
        )  # fmt: skip
    except FileNotFoundError:
        raise PreviewError("no git on PATH\n  hint: install git") from None
    except subprocess.TimeoutExpired:
        raise _timed_out(arguments[0]) from None
    if answer.returncode:
        raise _failed(arguments[0], answer.returncode, answer.stderr)
    return answer


@contextmanager
def reading(folder: Path, *arguments: str, git_folder: Path) -> Iterator[IO[bytes]]:
    """Yield the output of git while git runs. git is ended if the caller stops reading early."""
    with (
        tempfile.TemporaryFile() as error_file,
        subprocess.Popen(
            _command(arguments, git_folder), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=error_file,
            **_options(folder),
        ) as git,
    ):  # fmt: skip
        timeout = threading.Timer(_TIMEOUT_SEC, git.kill)
        timeout.start()
        try:
            yield cast("IO[bytes]", git.stdout)
            code = git.wait()
            if timeout.finished.is_set():
                raise _timed_out(arguments[0])
        finally:
            timeout.cancel()
            git.kill()
        if code:
            error_file.seek(0)
            raise _failed(arguments[0], code, error_file.read())


def _command(arguments: Sequence[str], git_folder: Path | None) -> list[str]:
    return ["git", *_SETTINGS, *([f"--git-dir={git_folder}"] if git_folder else []), *arguments]


def _options(folder: Path) -> dict[str, Any]:
    kept = {name: value for name, value in os.environ.items() if name not in _REMOVED_VARIABLES}
    return {"cwd": folder, "env": {**kept, **_SET_VARIABLES}, "preexec_fn": _limit_memory}


def _limit_memory() -> None:
    limits = [each for each in resource.getrlimit(resource.RLIMIT_DATA) if each != resource.RLIM_INFINITY]
    lowest = min([_MEMORY_BYTES, *limits])
    resource.setrlimit(resource.RLIMIT_DATA, (lowest, lowest))


def _timed_out(command: str) -> PreviewError:
    return PreviewError(f"git {command} did not end within {_TIMEOUT_SEC} s")


def _failed(command: str, code: int, stderr: bytes) -> PreviewError:
    text = visible_lines(stderr.decode(errors="replace").strip(), _MAX_MESSAGE) or f"exit code {code}"
    hint = "\n  hint: a partial clone lacks files; clone without --filter" if "promisor" in text else ""
    return PreviewError(f"git {command}: {text}{hint}")
