"""Exports base and head of a change into folders, with git only."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

from gpu_common.visible import visible_lines

from .. import pulumi_files
from ..errors import PreviewError

# Stack names that the engine accepts (pulumi/pulumi v3.259.0, sdk/go/common/tokens/stack_name.go).
_STACK_FILE = re.compile(r"Pulumi\.([A-Za-z0-9._-]{1,100})\.ya?ml")


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
            with tempfile.TemporaryFile(dir=folder.parent) as listed:
                arguments = ("ls-tree", "-r", "-t", "-l", "-z", "--full-tree", commit)
                run(self.root, *arguments, git_folder=self.git_folder, stdout=listed, max_file_bytes=_MAX_LIST_BYTES)
                listed.seek(0)
                files = entries(listed, max_gib)
            with tempfile.TemporaryFile(dir=folder.parent) as ids, tempfile.TemporaryFile(dir=folder.parent) as content:
                ids.writelines(f"{each.id}\n".encode() for each in files)
                ids.seek(0)
                run(self.root, "cat-file", "--batch", git_folder=self.git_folder, stdin=ids, stdout=content)
                content.seek(0)
                write(files, folder, content)
        except UnsafeTreeError as error:
            raise PreviewError(f"{commit[:10]}: {error}") from None

    def is_dirty(self) -> bool:
        """Return True if there are uncommitted changes."""
        return bool(self._output("status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all"))

    def _output(self, *arguments: str) -> str:
        return output(self.root, *arguments, git_folder=self.git_folder)


def tracks(root: Path, path: Path) -> bool:
    """Return True if a file at or below a path is tracked. PreviewError if the root has no `.git`."""
    # A path can have characters of a pattern, such as `*`.
    arguments = ("--literal-pathspecs", "ls-files", "--", str(path))
    return bool(output(root, *arguments, git_folder=_git_folder(root)))


def project_above(start: Path) -> Path | None:
    """Return the nearest folder with a Pulumi project, from `start` upwards."""
    return next((each for each in (start, *start.parents) if is_project(each)), None)


def is_project(folder: Path) -> bool:
    """Return True if the folder has a project file."""
    return any((folder / name).is_file() for name in pulumi_files.NAMES)


def stack_files(project: Path) -> dict[str, Path]:
    """Return the stack files of a project, by the name of the stack. Links are left out: they can lead anywhere.

    Raises:
        PreviewError: the project file names a folder for the stack files outside of the project.
    """
    folder, found = pulumi_files.stack_folder(project), {}
    for path in sorted(folder.glob("Pulumi.?*.y*ml")):
        if (named := _STACK_FILE.fullmatch(path.name)) and path.is_file() and not path.is_symlink():
            found[named[1]] = path
    return found


def _git_folder(root: Path) -> Path:
    """Return the target of `.git` here. PreviewError if it is not a repository, or belongs to another user."""
    expected = Path(output(root, "rev-parse", "--resolve-git-dir", str(root / ".git"))).resolve()
    # When git searches for a repository, it also checks the owner (safe.directory). With --git-dir it does not.
    found = Path(output(root, "rev-parse", "--absolute-git-dir")).resolve()
    if found != expected:
        raise PreviewError(f"{root}: git finds another repository here\n  got: {found}\n  expected: {expected}")
    return expected


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
    max_file_bytes: int | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run git to its end. Without a given repository, git searches from the folder upwards.

    `max_file_bytes` is the limit of the output if `stdout` is a file.
    """

    def limit() -> None:
        _lower(resource.RLIMIT_DATA, _MEMORY_BYTES)
        if max_file_bytes is not None:
            _lower(resource.RLIMIT_FSIZE, max_file_bytes)

    environment = {name: value for name, value in os.environ.items() if name not in _REMOVED_VARIABLES} | _SET_VARIABLES
    repository = [f"--git-dir={git_folder}"] if git_folder else []
    try:
        answer = subprocess.run(
            ["git", *_SETTINGS, *repository, *arguments], stdin=stdin, stdout=stdout, stderr=subprocess.PIPE,
            timeout=_TIMEOUT_SEC, check=False, cwd=folder, env=environment, preexec_fn=limit,
        )  # fmt: skip
    except FileNotFoundError:
        raise PreviewError("no git on PATH\n  hint: install git") from None
    except subprocess.TimeoutExpired:
        raise PreviewError(f"git {arguments[0]} did not end within {_TIMEOUT_SEC} s") from None
    if max_file_bytes is not None and answer.returncode == -signal.SIGXFSZ:
        raise PreviewError(f"git {arguments[0]}: it has more than {max_file_bytes // 1024**2} MiB of output")
    if answer.returncode:
        stderr = answer.stderr.decode(errors="replace").strip()
        text = visible_lines(stderr, _MAX_MESSAGE) or f"exit code {answer.returncode}"
        hint = "\n  hint: a partial clone lacks files; clone without --filter" if "promisor" in text else ""
        raise PreviewError(f"git {arguments[0]}: {text}{hint}")
    return answer


def _lower(kind: int, limit: int) -> None:
    lowest = min([limit, *(each for each in resource.getrlimit(kind) if each != resource.RLIM_INFINITY)])
    resource.setrlimit(kind, (lowest, lowest))


_LINK, _SUBMODULE, _FOLDER = "120000", "160000", "040000"
_MODES = {"100644": 0o644, "100664": 0o644, "100755": 0o755}
# The names that git refuses to check out (git, read-cache.c, verify_path).
_FORBIDDEN_NAMES = ("", ".", "..", ".git")
_CHUNK_BYTES = 1024**2

# The limits of a commit. They are needed because one object can be at many paths, so a dozen objects can be any number
# of files. The bytes of a path and of a link are limits of Linux (symlink(2), and PATH_MAX in limits.h, which counts a
# byte that ends the path). This project chose the others.
_MAX_ENTRIES = 200_000
_MAX_LIST_BYTES = 64 * 1024**2
_MAX_DEPTH = 200
_MAX_PATH_BYTES = 4_095
_MAX_LINK_BYTES = 4_095
_MAX_SHOWN = 100


class UnsafeTreeError(Exception):
    """A commit has files that cannot be written. The message names the first of these files and the reason."""


class Entry(NamedTuple):
    """One file or link of a commit."""

    mode: str
    id: str
    path: bytes

    @property
    def is_link(self) -> bool:
        return self.mode == _LINK


def entries(listed: IO[bytes], max_gib: float) -> list[Entry]:
    """Return the files and links in the output of `git ls-tree -r -t -l -z`, links last. Submodules are left out.

    Raises:
        UnsafeTreeError: a path leads out of the folder, a file has an unknown mode, git lacks the content of a file, or
            a limit is exceeded. `max_gib` is the limit of all files together.
    """
    found, number, remaining_bytes = [], 0, max_gib * 1024**3
    # `git ls-tree` ends each line with a NUL byte.
    for line in listed.read().split(b"\0")[:-1]:
        number += 1
        if number > _MAX_ENTRIES:
            raise UnsafeTreeError(f"it has more than {_MAX_ENTRIES:,} files and folders")
        fields, _, path = line.partition(b"\t")
        mode, _, name, size = fields.decode().split()
        _check(path)
        if mode in (_SUBMODULE, _FOLDER):
            continue
        if mode != _LINK and mode not in _MODES:
            raise UnsafeTreeError(f"{_shown(path)}: has the mode {mode}, which git does not know")
        if not size.isdecimal():
            raise UnsafeTreeError(f"{_shown(path)}: git does not have its content, {name}")
        if mode == _LINK and int(size) > _MAX_LINK_BYTES:
            raise UnsafeTreeError(f"{_shown(path)}: is a link to a path of more than {_MAX_LINK_BYTES:,} bytes")
        remaining_bytes -= int(size)
        if remaining_bytes < 0:
            raise UnsafeTreeError(f"its files have more than {max_gib:g} GiB")
        found.append(Entry(mode, name, path))
    # Links come last, so that nothing is written through a link of the same tree.
    return sorted(found, key=lambda each: each.is_link)


def _check(path: bytes) -> None:
    if len(path) > _MAX_PATH_BYTES:
        raise UnsafeTreeError(f"{_shown(path)}: is a path of more than {_MAX_PATH_BYTES:,} bytes")
    names = os.fsdecode(path).split("/")
    if len(names) > _MAX_DEPTH:
        raise UnsafeTreeError(f"{_shown(path)}: has more than {_MAX_DEPTH} parts")
    if any(part.lower() in _FORBIDDEN_NAMES for part in names):
        raise UnsafeTreeError(f"{_shown(path)}: is no path that git would check out")


def _shown(path: bytes) -> str:
    """Return the beginning of a path in one line, for a message."""
    text = os.fsdecode(path)
    return f"{text[:_MAX_SHOWN]!a}" + ("..." if len(text) > _MAX_SHOWN else "")


def write(files: list[Entry], folder: Path, objects: IO[bytes]) -> None:
    """Write the files below a folder. `objects` is the output of `git cat-file --batch` for their ids, in this order.

    Raises:
        UnsafeTreeError: two files have the same path, git lacks one, or a path cannot be written.
    """
    for each in files:
        path = folder / os.fsdecode(each.path)
        head = objects.readline().split()
        if len(head) != 3 or head[1] != b"blob":
            raise UnsafeTreeError(f"{_shown(each.path)}: git does not have its content, {each.id}")
        content = _chunks(objects, int(head[2]))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if each.is_link:
                path.symlink_to(os.fsdecode(b"".join(content)))
            else:
                _write(path, _MODES[each.mode], content)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "its path is invalid"
            raise UnsafeTreeError(f"{_shown(each.path)}: cannot be written: {reason}") from None
        objects.read(1)  # the end of a line


def _write(path: Path, mode: int, content: Iterator[bytes]) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode), "wb") as file:
        for chunk in content:
            file.write(chunk)


def _chunks(source: IO[bytes], size: int) -> Iterator[bytes]:
    while size > 0 and (chunk := source.read(min(size, _CHUNK_BYTES))):
        size -= len(chunk)
        yield chunk
