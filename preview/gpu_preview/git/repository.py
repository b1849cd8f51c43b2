"""Exports base and head of a change into folders, with git only."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .. import project_file
from . import process, tree_export
from .process import GitError as GitError

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
        """The checkout around a folder, and the nearest project upwards from there. GitError where one is missing.

        By `.git` alone, which no commit can hold. git itself also takes a folder for a repository that has the files of
        one, and does as its `config` says: a head may hold all of them.
        """
        start = start.resolve()
        root = next((each for each in (start, *start.parents) if os.path.lexists(each / ".git")), None)
        if root is None:
            raise GitError(
                f"not a git repository\n  got: {start}\n  expected: a .git in it or above it\n"
                "  hint: change into a checkout; GIT_DIR is not followed"
            )
        git_folder = _git_folder(root)
        project = project_above(start)
        if project is not None and project.is_relative_to(root):
            return cls(root, project.relative_to(root), git_folder)
        raise GitError(
            f"no Pulumi project\n  got: {start}\n  expected: a Pulumi.yaml in it or above it, inside {root}\n"
            "  hint: change into the project's folder"
        )

    def commit(self, ref: str) -> str:
        """Return the commit of a name."""
        try:
            return self._output("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
        except GitError:
            hint = "git fetch --depth=1 origin " + ref.removeprefix("origin/")
            raise GitError(f"no commit named {ref!r}\n  hint: a shallow clone may lack it: {hint}") from None

    def fork_point(self, base: str, head: str) -> str:
        """Return the newest common commit, as GitHub does for a pull request, or the base if none is known."""
        try:
            return self._output("merge-base", base, head)
        except GitError:
            return base

    def tree(self, commit: str) -> str:
        """Return the tree id of a commit. Two commits with the same files share it."""
        return self._output("rev-parse", f"{commit}^{{tree}}")

    def kind(self, commit: str, path: Path) -> str:
        """Return the kind of object at a path: `blob`, `tree`, `commit` for a submodule, or an empty text."""
        listed = self._output("ls-tree", "-z", "--full-tree", commit, "--", str(path))
        return listed.split(" ", 2)[1] if listed else ""

    def export(self, commit: str, folder: Path, most_gib: float = 10.0) -> None:
        """The files of a commit, in an empty folder. GitError where they are none that can be written, or too much.

        Without a `.git`, so that the program that will run there finds no way back to the checkout; and without a
        filter or a hook of anybody's, so nothing of the commit's runs yet. Pointers of LFS stay pointers, and of a
        submodule there is nothing. Meanwhile the files take their room on the disk, at most `most_gib`, twice.
        """
        folder.mkdir(parents=True)
        try:
            # Read the list while git prints it, because it can be very long.
            arguments = ("ls-tree", "-r", "-t", "-l", "-z", "--full-tree", commit)
            with process.reading(self.root, *arguments, git_folder=self.git_folder) as listed:
                files = tree_export.entries(listed, most_gib)
            with tempfile.TemporaryFile(dir=folder.parent) as ids, tempfile.TemporaryFile(dir=folder.parent) as content:
                ids.writelines(f"{each.id}\n".encode() for each in files)
                ids.seek(0)
                process.run(self.root, "cat-file", "--batch", git_folder=self.git_folder, stdin=ids, stdout=content)
                content.seek(0)
                tree_export.write(files, folder, content)
        except tree_export.UnsafeTreeError as error:
            raise GitError(f"{commit[:10]}: {error}") from None

    def is_dirty(self) -> bool:
        """Return True if there are uncommitted changes."""
        return bool(self._output("status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all"))

    def _output(self, *arguments: str) -> str:
        return process.said(self.root, *arguments, git_folder=self.git_folder)


def tracks(root: Path, path: Path) -> bool:
    """Return True if a file at or below a path is tracked. GitError if the root has no `.git`."""
    # Options of git's own stand before its command; a name may hold the signs of a pattern.
    arguments = ("--literal-pathspecs", "ls-files", "--", str(path))
    return bool(process.said(root, *arguments, git_folder=_git_folder(root)))


def project_above(start: Path) -> Path | None:
    """Return the nearest folder with a Pulumi project, from `start` upwards."""
    return next((each for each in (start, *start.parents) if is_project(each)), None)


def is_project(folder: Path) -> bool:
    """Return True if the folder has a project file."""
    return any((folder / name).is_file() for name in project_file.NAMES)


def stack_files(project: Path) -> dict[str, Path]:
    """The stacks of a project's folder, by name. A link is none: it may lead anywhere.

    GitError where the project says that they are outside of it.
    """
    return {name: path for name, path in _named_as_stacks(project) if _STACK_NAME.fullmatch(name)}


def misnamed(project: Path) -> list[str]:
    """Return files named like stack files, whose stack name the engine would refuse."""
    return [path.name for name, path in _named_as_stacks(project) if not _STACK_NAME.fullmatch(name)]


def _named_as_stacks(project: Path) -> Iterator[tuple[str, Path]]:
    try:
        folder = project_file.stack_folder(project)
    except project_file.OutsideError as error:
        raise GitError(str(error)) from None
    for path in sorted(folder.glob("Pulumi.?*.y*ml")):
        if (named := _STACK_FILE.fullmatch(path.name)) and path.is_file() and not path.is_symlink():
            yield named[1], path


def _git_folder(root: Path) -> Path:
    """Return the target of `.git` in this folder. GitError if it is not a repository, or of another user."""
    meant = Path(process.said(root, "rev-parse", "--resolve-git-dir", str(root / ".git"))).resolve()
    # git's own search also looks at whose it is (safe.directory), which it does not where it is told the folder.
    found = Path(process.said(root, "rev-parse", "--absolute-git-dir")).resolve()
    if found != meant:
        raise GitError(f"{root}: git takes another repository for its own\n  got: {found}\n  expected: {meant}")
    asked = os.environ.get("GIT_DIR")
    if asked and Path(asked).resolve() not in (meant, root / ".git"):
        raise GitError(
            f"GIT_DIR is not the repository around this folder\n  got: {asked}\n  expected: {meant}\n"
            "  hint: unset it, or change into the checkout that it belongs to"
        )
    return meant
