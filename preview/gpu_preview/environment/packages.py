"""Chooses the Python environment that runs the program of a revision (base or head).

A revision uses the packages installed in the checkout, if its lock file is the same. Otherwise it gets an environment
of its own. Editable packages are modules in the repository. They are always imported from the files of the revision,
because a preview of one commit must not run the modules of another.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpu_common.visible import visible

from ..errors import PreviewError
from ..git import repository
from ..isolation import files
from . import virtualenv
from .virtualenv import named_folder, problem_of, site_packages

_LOCKS = ("requirements*.lock", "requirements*.txt", "uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock")
_INSTALLED = ("requirements.lock", "requirements.txt")
_MAX_BYTES = 4 * 1024**2
_LARGEST_PTH_BYTES = 64 * 1024  # An installer writes one line for each folder.
_SHELL = ("|", "||", "&&", "&", ";", ">", ">>", "<")


@dataclass(frozen=True)
class Packages:
    """The path of a checkout's environment, from its Pulumi.yaml."""

    root: Path
    project: Path
    """Root and project of the checkout. A policy pack is a project too."""

    @property
    def folder(self) -> str:
        """The option `virtualenv`, relative to the project. Empty if the program runs in no environment."""
        return named_folder(self.project, self.root)

    def locks(self, root: Path) -> dict[str, bytes]:
        """Return the SHA-256 of each lock file, by path."""
        return {
            str(path.relative_to(root)): _digest(path)
            for folder in dict.fromkeys((root, root / self.project.relative_to(self.root)))
            for pattern in _LOCKS
            for path in sorted(folder.glob(pattern))
            if path.is_file() and not path.is_symlink()
        }

    def why_own_packages(self, revision: Path) -> str:
        """Return why a revision cannot use the packages of the checkout, or "" if it can."""
        return "its lock differs from the checkout's" if self.locks(revision) != self.locks(self.root) else ""

    def check_environment_names(self, revision: Path) -> None:
        """Raise PreviewError if the checkout or a revision names an impossible environment."""
        for project in (self.project, revision / self.project.relative_to(self.root)):
            if why := problem_of(project):
                raise PreviewError(f"{why}\n  expected: a folder in the repository, such as .venv")

    def provide_environment(self, revision: Path) -> None:
        """Give a revision an environment with the packages of the checkout, and its own editable packages.

        Do nothing if the checkout or the revision names no environment.
        """
        if not self.folder or not self.creation(revision):
            return
        checkout_env = self.project / self.folder
        if not (checkout_env / "bin" / "python").is_file():
            raise PreviewError(
                f"{checkout_env}: no virtual environment\n"
                "  expected: an environment with the program's dependencies, as Pulumi.yaml or a lock names it\n"
                "  hint: install the packages first, as for `pulumi preview`"
            )
        self._refuse_committed(checkout_env)
        imports = [*self.import_folders(checkout_env, revision), *map(str, site_packages(checkout_env))]
        try:
            virtualenv.create(checkout_env, self.place(revision), imports)
        except OSError as error:
            raise PreviewError(f"{self.place(revision).name}: cannot be written: {error.strerror}") from None

    def readable(self) -> list[Path]:
        """Return the paths of the checkout's environment that an isolated process can read."""
        if not self.folder:
            return []
        checkout_env = self.project / self.folder
        try:
            self._refuse_committed(checkout_env)
        except PreviewError:
            return []
        return virtualenv.readable(checkout_env, self.root)

    def _refuse_committed(self, environment: Path) -> None:
        """Raise PreviewError for an environment with files of a commit: the checkout may be a pull request's."""
        environment = Path(os.path.normpath(environment))
        target = virtualenv.resolved(environment)
        if target is None or virtualenv.resolved(environment.parent) != environment.parent:
            raise PreviewError(f"{environment.name}: its path goes through a symbolic link")
        try:
            inside = [each for each in (environment, target) if each.is_relative_to(self.root)]
            committed = any(repository.tracks(self.root, each) or _in_submodule(each, self.root) for each in inside)
        except PreviewError as error:
            raise PreviewError(
                f"{environment.name}: cannot check whether this environment is part of the repository: {error}"
            ) from None
        if committed or virtualenv.has_python_of_checkout(environment, self.root):
            raise PreviewError(
                f"{environment.name}: is part of the repository, so its code is not trusted\n"
                "  got: files that git tracks, or a Python in the repository\n"
                "  expected: a folder that git ignores, with the program's dependencies installed\n"
                "  hint: add the folder to .gitignore, and run git rm -r --cached FOLDER"
            )

    def place(self, revision: Path) -> Path:
        """Return the path of a revision's environment from its Pulumi.yaml, or the project itself if it names none."""
        project = revision / self.project.relative_to(self.root)
        return Path(os.path.normpath(project / named_folder(project, revision)))

    def import_folders(self, environment: Path, revision: Path) -> Iterator[str]:
        """Yield the folders in an environment's .pth files. A folder of the checkout becomes that of the revision."""
        for packages in site_packages(environment):
            for file in sorted(packages.glob("*.pth")):
                for line in _small(file):
                    folder = Path(line.strip())
                    if folder.is_absolute():
                        inside = folder.is_relative_to(self.root) and ".venv" not in folder.parts
                        yield str(revision / folder.relative_to(self.root)) if inside else str(folder)

    def installation(self, revision: Path, base: Path, folder: Path) -> list[str]:
        """Return the command that installs the packages of a revision's lock. It must run in `folder`.

        `folder` is an empty folder of this program, which gets the checked text of the lock. No file of the revision is
        in it, so pip reads no settings and imports no module of the revision. The lock may have only packages that are
        installed without running their code, and only package sources that the base's lock has too.

        Raises:
            PreviewError: no lock can be installed, or the lock has other lines.
        """
        lock = self._lock_to_install(revision)
        if lock is None or not self.creation(revision):
            raise PreviewError(
                f"{self.project.name}: its lock differs from the checkout's, and nothing says how to install it\n"
                f"  expected: one of {', '.join(_INSTALLED)}, and a virtualenv in Pulumi.yaml\n"
                "  hint: name the command with --install"
            )
        base_lock = base / lock.relative_to(revision)
        text, trusted = _text(lock), _text(base_lock) if base_lock.is_file() else ""
        if rejected := rejected_lines(text, trusted):
            listed = "\n".join(f"  got: {visible(line, 200)}" for line in rejected[:10])
            raise PreviewError(
                f"{lock.relative_to(revision)}: has lines that are not installed, because their installation may run "
                f"code with network access\n{listed}\n  expected: names with versions, markers and hashes; and indexes "
                "that the base has too\n  hint: on a machine without secrets, name the command with --install"
            )
        checked = folder / "requirements.txt"
        checked.write_text(text, encoding="utf-8")
        pip = (
            str(self.place(revision) / "bin" / "python"),
            "-I",
            "-m",
            "pip",
            "--quiet",
            "--disable-pip-version-check",
        )
        # Wheels only: installing a source distribution runs its code.
        return [*pip, "install", "--no-cache-dir", "--only-binary", ":all:", "-r", str(checked)]

    def creation(self, revision: Path) -> list[str]:
        """Return the command that creates a revision's environment with pip, or nothing if Pulumi.yaml names none."""
        place = self.place(revision)
        names_environment = place != revision / self.project.relative_to(self.root)
        return [sys.executable, "-I", "-m", "venv", str(place)] if names_environment else []

    def split_command(self, command: str) -> list[str]:
        """Return the arguments of the user's command. PreviewError for a command that needs a shell."""
        try:
            command_words = shlex.split(command)
        except ValueError as error:
            raise PreviewError(f"--install: {str(error).lower()}\n  got: {command}") from None
        if not command_words or any(word in _SHELL for word in command_words):
            raise PreviewError(
                f"--install: is not a command\n  got: {command}\n  expected: one command without shell syntax\n"
                "  hint: --install \"sh -c 'first && second'\""
            )
        return command_words

    def variables(self, revision: Path, given: Mapping[str, str]) -> dict[str, str]:
        """Return the environment variables of an installer, with the revision's virtual environment active."""
        # pip and poetry, which uses requests, ignore SSL_CERT_FILE.
        authorities = given.get("SSL_CERT_FILE")
        own = dict.fromkeys(("PIP_CERT", "REQUESTS_CA_BUNDLE"), authorities) if authorities else {}
        if self.creation(revision):
            place = self.place(revision)
            own["VIRTUAL_ENV"] = own["UV_PROJECT_ENVIRONMENT"] = str(place)
            own["PATH"] = os.pathsep.join(filter(None, (str(place / "bin"), given.get("PATH", ""))))
        return {**given, **own}

    def _lock_to_install(self, root: Path) -> Path | None:
        """Return the lock of a revision that pip can install. A link does not count, because it can lead anywhere."""
        paths = [folder / name for folder in (root / self.project.relative_to(self.root), root) for name in _INSTALLED]
        return next((path for path in paths if path.is_file() and not path.is_symlink()), None)

    def clear(self, revision: Path) -> None:
        """Remove the commit's files at the path of the environment, so that none of them is run."""
        if self.creation(revision):
            virtualenv.clear(self.place(revision))

    def finish(self, revision: Path) -> None:
        """Add the revision's own packages to the installed ones."""
        checkout_env = self.project / self.folder
        if self.folder and checkout_env.is_dir() and self.creation(revision):
            self._refuse_committed(checkout_env)
            virtualenv.add(self.place(revision), list(self.import_folders(checkout_env, revision)))


def _digest(file: Path) -> bytes:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").digest()


def _text(file: Path) -> str:
    if file.stat().st_size > _MAX_BYTES:
        raise PreviewError(f"{file.name}: has more than {_MAX_BYTES // 1024**2} MiB\n  expected: a list of packages")
    return file.read_text(encoding="utf-8", errors="replace")


def _in_submodule(environment: Path, root: Path) -> bool:
    """Return True if the file belongs to another repository, which the checkout's repository does not track."""
    around = (environment, *environment.parents)
    return any((each / ".git").exists() for each in around if each != root and each.is_relative_to(root))


def _small(file: Path) -> list[str]:
    """Return the lines of a .pth file, or none if it is not a regular file, or larger than any real one."""
    with contextlib.suppress(OSError), files.open_regular(file) as opened:
        text = opened.read(_LARGEST_PTH_BYTES + 1)
        return text.decode(errors="replace").splitlines() if len(text) <= _LARGEST_PTH_BYTES else []
    return []


# A name with extras and versions, a marker, and hashes, or only hashes. `===` accepts any text as a version.
_NAMED = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*(?:\[[A-Za-z0-9._, -]*\])?[ ]?\(?(?:(?!===)[=<>!~]{1,2}[ ]?[A-Za-z0-9._*+-]+[, ]*)*\)?"
    r"(?:[ ]?;(?:(?! -)[A-Za-z0-9_.'\"<>=!~(), -])+)?(?:[ ]+--hash=sha(?:256|384|512):[0-9a-fA-F]+)*(?:[ ]*\\)?"
)
_HASHES = re.compile(r"(?:[ ]*--hash=sha(?:256|384|512):[0-9a-fA-F]+)+(?:[ ]*\\)?")
_COMMENT = re.compile(r"(?:^|\s)#.*(?<!\\)$")
# An installer treats a name with such an ending as a file (pip 25, _internal/utils/filetypes.py, ARCHIVE_EXTENSIONS).
_ARCHIVE = re.compile(r"\.(?:whl|zip|gz|tgz|tar|bz2|tbz|xz|txz|tlz|lz|lzma)(?![A-Za-z0-9])", re.IGNORECASE)
# Options for package sources. They must be the same in the base, and must not be folders.
_SOURCE = re.compile(r"(?:--index-url|--extra-index-url|--find-links|-i|-f)[ =][ ]*https?://\S+|--pre|--prefer-binary")
# The limits of a line in characters, and of the lines. A lock has some tens of hashes for each of its packages.
_MAX_LINE = 2_000
_MAX_LINES = 100_000


def rejected_lines(text: str, trusted: str) -> list[str]:
    """Return the lines of a lock that must not be installed. `trusted` is the text of the base's lock."""
    lines, sources = text.splitlines(), {line.strip() for line in trusted.splitlines()}
    if len(lines) > _MAX_LINES:
        return [f"{len(lines)} lines, more than {_MAX_LINES}"]
    return [line for line in lines if not _is_safe(line, sources)]


def _is_safe(line: str, sources: set[str]) -> bool:
    if len(line) > _MAX_LINE:
        return False
    code = _COMMENT.sub("", line).strip()
    if not code or _HASHES.fullmatch(code):
        return True
    if _SOURCE.fullmatch(code):
        return code in sources
    return _NAMED.fullmatch(code) is not None and _ARCHIVE.search(code) is None
