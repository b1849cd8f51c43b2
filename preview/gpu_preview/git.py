"""The two sides of a change as folders, from git alone."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import yaml

from . import project_file

PROJECT_FILES = ("Pulumi.yaml", "Pulumi.yml")
_TIMEOUT_SEC = 300


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
        """The files of a commit, in an empty folder.

        By an index of its own and without a `.git`: no hook runs, nothing is registered in the checkout, and the
        program that will run there finds no way back to it.
        """
        folder.mkdir(parents=True)
        index = folder.parent / f".{folder.name}.index"
        environment = {"GIT_INDEX_FILE": str(index), "GIT_LFS_SKIP_SMUDGE": "1"}
        try:
            _git(self.root, "read-tree", commit, **environment)
            _git(self.root, f"--work-tree={folder}", "checkout-index", "--all", "--force", **environment)
        finally:
            index.unlink(missing_ok=True)

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
    return any((folder / name).is_file() for name in PROJECT_FILES)


def project_name(folder: Path) -> str:
    """The name in the project's file; empty where it has none that can be read."""
    for name in PROJECT_FILES:
        try:
            settings = yaml.safe_load((folder / name).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError, yaml.YAMLError):
            continue
        return str(settings.get("name", "")) if isinstance(settings, dict) else ""
    return ""


def stack_files(project: Path) -> dict[str, Path]:
    """The stacks of a project's folder, by name. A link is none: it may lead anywhere.

    GitError where the project says that they are outside of it.
    """
    try:
        folder = project_file.stack_folder(project)
    except project_file.OutsideError as error:
        raise GitError(str(error)) from None
    found = sorted(path for path in folder.glob("Pulumi.?*.y*ml") if path.suffix in (".yaml", ".yml"))
    return {path.stem.removeprefix("Pulumi."): path for path in found if path.is_file() and not path.is_symlink()}


def _git(folder: Path, *words: str, **environment: str) -> str:
    # Neither a pager nor a question, and no configuration of a repository that would run a program.
    settings = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
    try:
        answer = subprocess.run(
            ["git", *settings, *words],
            cwd=folder, env={**os.environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", **environment},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_SEC,
            check=False,
        )  # fmt: skip
    except FileNotFoundError:
        raise GitError("there is no git on PATH\n  hint: install it") from None
    except subprocess.TimeoutExpired:
        raise GitError(f"git {words[0]} did not end within {_TIMEOUT_SEC} s") from None
    if answer.returncode:
        said = answer.stderr.strip() or f"it ended with {answer.returncode}"
        raise GitError(f"git {words[0]}: {said}")
    return answer.stdout.strip()
