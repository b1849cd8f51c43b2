"""Exports base and head of a change into folders, with git only."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .. import project_file
from ..errors import PreviewError
from . import process, tree_export

_STACK_FILE = re.compile(r"Pulumi\.(.+)\.ya?ml", re.DOTALL)
# Stack names that the engine accepts (pulumi/pulumi v3.259.0, sdk/go/common/tokens/stack_name.go).
_STACK_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")


@dataclass(frozen=True)
class Repository:
    """A checkout, and the Pulumi project in it."""

    root: Path
    project: Path
    """The folder of Pulumi.yaml, relative to the root."""
    git_folder: Path
    """The target of the root's `.git`. Every git command gets it, so that git does not search."""

    @classmethod
    def find(cls, start: Path) -> Repository:
        """Return the checkout around a folder, with the nearest project in this folder or above it.

        Only `.git` marks a checkout, because no commit can contain a `.git`. git itself also accepts a folder with the
        files of a repository, and obeys its `config`. A head can contain such a folder.

        Raises:
            PreviewError: no checkout or no project was found.
        """
        start = start.resolve()
        root = next((each for each in (start, *start.parents) if os.path.lexists(each / ".git")), None)
        if root is None:
            raise PreviewError(
                f"not a git repository\n  got: {start}\n  expected: a .git in it or above it\n"
                "  hint: change into a checkout; GIT_DIR is not followed"
            )
        git_folder = _git_folder(root)
        project = project_above(start)
        if project is not None and project.is_relative_to(root):
            return cls(root, project.relative_to(root), git_folder)
        raise PreviewError(
            f"no Pulumi project\n  got: {start}\n  expected: a Pulumi.yaml in it or above it, inside {root}\n"
            "  hint: change into the project's folder"
        )

    def commit(self, ref: str) -> str:
        """Return the commit of a name."""
        try:
            return self._output("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
        except PreviewError:
            hint = "git fetch --depth=1 origin " + ref.removeprefix("origin/")
            raise PreviewError(f"no commit named {ref!r}\n  hint: a shallow clone may lack it: {hint}") from None

    def fork_point(self, base: str, head: str) -> str:
        """Return the newest common commit, as GitHub does for a pull request, or the base if git finds none."""
        try:
            return self._output("merge-base", base, head)
        except PreviewError:
            return base

    def tree(self, commit: str) -> str:
        """Return the tree id of a commit. Two commits with the same files share it."""
        return self._output("rev-parse", f"{commit}^{{tree}}")

    def kind(self, commit: str, path: Path) -> str:
        """Return the kind of object at a path: `blob`, `tree`, `commit` for a submodule, or an empty text."""
        listed = self._output("ls-tree", "-z", "--full-tree", commit, "--", str(path))
        return listed.split(" ", 2)[1] if listed else ""

    def export(self, commit: str, folder: Path, max_gib: float = 10.0) -> None:
        """Write the files of a commit into a new folder. This needs twice their disk space, at most twice `max_gib`.

        The folder has no `.git`, so the program that will run there cannot find the checkout. No filter and no hook
        runs, so no code of the commit runs yet. Pointers of Git LFS stay pointers, and submodules are left out.

        Raises:
            PreviewError: a file cannot be written, or the files exceed a limit.
        """
        folder.mkdir(parents=True)
        try:
            # Read the list while git prints it, because it can be very long.
            arguments = ("ls-tree", "-r", "-t", "-l", "-z", "--full-tree", commit)
            with process.reading(self.root, *arguments, git_folder=self.git_folder) as listed:
                files = tree_export.entries(listed, max_gib)
            with tempfile.TemporaryFile(dir=folder.parent) as ids, tempfile.TemporaryFile(dir=folder.parent) as content:
                ids.writelines(f"{each.id}\n".encode() for each in files)
                ids.seek(0)
                process.run(self.root, "cat-file", "--batch", git_folder=self.git_folder, stdin=ids, stdout=content)
                content.seek(0)
                tree_export.write(files, folder, content)
        except tree_export.UnsafeTreeError as error:
            raise PreviewError(f"{commit[:10]}: {error}") from None

    def is_dirty(self) -> bool:
        """Return True if there are uncommitted changes."""
        return bool(self._output("status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all"))

    def _output(self, *arguments: str) -> str:
        return process.output(self.root, *arguments, git_folder=self.git_folder)


def tracks(root: Path, path: Path) -> bool:
    """Return True if a file at or below a path is tracked. PreviewError if the root has no `.git`."""
    # A path can have characters of a pattern, such as `*`.
    arguments = ("--literal-pathspecs", "ls-files", "--", str(path))
    return bool(process.output(root, *arguments, git_folder=_git_folder(root)))


def project_above(start: Path) -> Path | None:
    """Return the nearest folder with a Pulumi project, from `start` upwards."""
    return next((each for each in (start, *start.parents) if is_project(each)), None)


def is_project(folder: Path) -> bool:
    """Return True if the folder has a project file."""
    return any((folder / name).is_file() for name in project_file.NAMES)


def stack_files(project: Path) -> dict[str, Path]:
    """Return the stack files of a project, by the name of the stack. Links are left out: they can lead anywhere.

    Raises:
        PreviewError: the project file names a folder for the stack files outside of the project.
    """
    return {name: path for name, path in _named_as_stacks(project) if _STACK_NAME.fullmatch(name)}


def invalid_stack_files(project: Path) -> list[str]:
    """Return files named like stack files, whose stack name the engine would refuse."""
    return [path.name for name, path in _named_as_stacks(project) if not _STACK_NAME.fullmatch(name)]


def _named_as_stacks(project: Path) -> Iterator[tuple[str, Path]]:
    folder = project_file.stack_folder(project)
    for path in sorted(folder.glob("Pulumi.?*.y*ml")):
        if (named := _STACK_FILE.fullmatch(path.name)) and path.is_file() and not path.is_symlink():
            yield named[1], path


def _git_folder(root: Path) -> Path:
    """Return the target of `.git` here. PreviewError if it is not a repository, or belongs to another user."""
    expected = Path(process.output(root, "rev-parse", "--resolve-git-dir", str(root / ".git"))).resolve()
    # When git searches for a repository, it also checks the owner (safe.directory). With --git-dir it does not.
    found = Path(process.output(root, "rev-parse", "--absolute-git-dir")).resolve()
    if found != expected:
        raise PreviewError(f"{root}: git finds another repository here\n  got: {found}\n  expected: {expected}")
    variable = os.environ.get("GIT_DIR")
    if variable and Path(variable).resolve() not in (expected, root / ".git"):
        raise PreviewError(
            f"GIT_DIR is not the repository around this folder\n  got: {variable}\n  expected: {expected}\n"
            "  hint: unset GIT_DIR, or change into the checkout that it belongs to"
        )
    return expected
