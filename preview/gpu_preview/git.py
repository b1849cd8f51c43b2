"""The two sides of a change as folders, from git alone."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from . import git_files, project_file

_TIMEOUT_SEC = 300
_STACK_FILE = re.compile(r"Pulumi\.(.+)\.ya?ml", re.DOTALL)
# What the engine takes for the name of a stack (pulumi/pulumi v3.259.0, sdk/go/common/tokens/stack_name.go).
_STACK_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")


class GitError(Exception):
    """git has no answer; the text says what was asked, and what git said."""


@dataclass(frozen=True)
class Repository:
    """A checkout, and the Pulumi project in it."""

    root: Path
    project: Path
    """The folder of Pulumi.yaml, relative to the root."""

    @classmethod
    def find(cls, start: Path) -> Repository:
        """The checkout around a folder, and the nearest project upwards from there. GitError where one is missing."""
        start = start.resolve()
        root = Path(_git(start, "rev-parse", "--show-toplevel")).resolve()
        project = project_above(start)
        if project is not None and project.is_relative_to(root):
            return cls(root, project.relative_to(root))
        raise GitError(
            f"no Pulumi project\n  got: {start}\n  expected: a Pulumi.yaml in it or above it, inside {root}\n"
            "  hint: change into the project's folder"
        )

    def commit(self, ref: str) -> str:
        """The commit a name means."""
        try:
            return _git(self.root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
        except GitError:
            hint = "git fetch --depth=1 origin " + ref.removeprefix("origin/")
            raise GitError(f"no commit named {ref!r}\n  hint: a shallow clone may lack it: {hint}") from None

    def fork_point(self, base: str, head: str) -> str:
        """The newest commit both have, as GitHub compares a pull request; the base itself where none is known."""
        try:
            return _git(self.root, "merge-base", base, head)
        except GitError:
            return base

    def tree(self, commit: str) -> str:
        """The id of all files of a commit, which two commits with the same files share."""
        return _git(self.root, "rev-parse", f"{commit}^{{tree}}")

    def export(self, commit: str, folder: Path) -> None:
        """The files of a commit, in an empty folder. GitError where they are none that can be written.

        Without a `.git`, so that the program that will run there finds no way back to the checkout; and without a
        filter or a hook of anybody's, so nothing of the commit's runs yet. Pointers of LFS stay pointers.
        """
        folder.mkdir(parents=True)
        try:
            files = git_files.entries(_run(self.root, "ls-tree", "-r", "-z", "--full-tree", commit).stdout)
            with tempfile.TemporaryFile(dir=folder.parent) as ids, tempfile.TemporaryFile(dir=folder.parent) as content:
                ids.writelines(f"{each.id}\n".encode() for each in files)
                ids.seek(0)
                _run(self.root, "cat-file", "--batch", stdin=ids, stdout=content)
                content.seek(0)
                git_files.write(files, folder, content)
        except git_files.UnfitTreeError as error:
            raise GitError(f"{commit[:10]}: {error}") from None

    def differs(self, one: str, other: str) -> bool:
        """Whether any file differs between two commits."""
        return bool(_git(self.root, "diff", "--name-only", "--no-ext-diff", one, other))

    def is_dirty(self) -> bool:
        """Whether there are changes that no commit has."""
        return bool(_git(self.root, "status", "--porcelain", "--untracked-files=no"))


def project_above(start: Path) -> Path | None:
    """The nearest folder from `start` upwards with a Pulumi project in it."""
    return next((each for each in (start, *start.parents) if is_project(each)), None)


def is_project(folder: Path) -> bool:
    """Whether it has a project's file."""
    return any((folder / name).is_file() for name in project_file.NAMES)


def stack_files(project: Path) -> dict[str, Path]:
    """The stacks of a project's folder, by name. A link is none: it may lead anywhere.

    GitError where the project says that they are outside of it.
    """
    return {name: path for name, path in _named_as_stacks(project) if _STACK_NAME.fullmatch(name)}


def misnamed(project: Path) -> list[str]:
    """The files that are named as those of stacks are, but for the name of the stack, which the engine would refuse."""
    return [path.name for name, path in _named_as_stacks(project) if not _STACK_NAME.fullmatch(name)]


def _named_as_stacks(project: Path) -> Iterator[tuple[str, Path]]:
    try:
        folder = project_file.stack_folder(project)
    except project_file.OutsideError as error:
        raise GitError(str(error)) from None
    for path in sorted(folder.glob("Pulumi.?*.y*ml")):
        if (named := _STACK_FILE.fullmatch(path.name)) and path.is_file() and not path.is_symlink():
            yield named[1], path


def _git(folder: Path, *words: str) -> str:
    return _run(folder, *words).stdout.decode(errors="replace").strip()


def _run(
    folder: Path, *words: str, stdin: int | IO[bytes] = subprocess.DEVNULL, stdout: int | IO[bytes] = subprocess.PIPE
) -> subprocess.CompletedProcess[bytes]:
    # Neither a pager nor a question, and no configuration of a repository that would run a program.
    settings = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
    try:
        answer = subprocess.run(
            ["git", *settings, *words],
            cwd=folder, env={**os.environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"},
            stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, timeout=_TIMEOUT_SEC, check=False,
        )  # fmt: skip
    except FileNotFoundError:
        raise GitError("there is no git on PATH\n  hint: install it") from None
    except subprocess.TimeoutExpired:
        raise GitError(f"git {words[0]} did not end within {_TIMEOUT_SEC} s") from None
    if answer.returncode:
        said = answer.stderr.decode(errors="replace").strip() or f"it ended with {answer.returncode}"
        raise GitError(f"git {words[0]}: {said}")
    return answer
