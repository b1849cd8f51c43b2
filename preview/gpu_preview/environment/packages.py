"""The Python environment of a side: that of the checkout where both want the same packages, else one of its own.

Packages a checkout has installed as editable (its own) are those of the side, not of the checkout: a preview of another
commit with this one's modules would be of neither.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpu_common.visible import visible

from ..git import repository
from ..isolation import safe_open
from . import requirements, venv_clone
from .venv_clone import VenvError, site_packages
from .virtualenv_option import problem_of, toolchain, virtualenv

_LOCKS = ("requirements*.lock", "requirements*.txt", "uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock")
_INSTALLED = ("requirements.lock", "requirements.txt")
_MOST_BYTES = 4 * 1024**2
_LARGEST_PTH_BYTES = 64 * 1024  # An installer writes one line for each folder.
# The command that creates the environment of the checkout, by toolchain.
_INSTALLS = {
    "pip": "install them first, as for `pulumi preview`",
    "uv": "uv sync",
    "poetry": "poetry config virtualenvs.in-project true --local; poetry install (after poetry env remove --all, where "
    "there is one elsewhere)",
}
_SHELL = ("|", "||", "&&", "&", ";", ">", ">>", "<")


class PackagesError(Exception):
    """A revision has no environment to run in."""


@dataclass(frozen=True)
class Packages:
    """The path of a checkout's environment, from its Pulumi.yaml."""

    root: Path
    project: Path
    """Root and project of the checkout. A policy pack is a project too."""

    @property
    def folder(self) -> str:
        """The option `virtualenv`, relative to the project. Empty if the program runs in no environment."""
        return virtualenv(self.project, self.root)

    def locks(self, root: Path) -> dict[str, bytes]:
        """The SHA-256 of each file that decides which packages are installed, by path."""
        return {
            str(path.relative_to(root)): _digest(path)
            for folder in dict.fromkeys((root, root / self.project.relative_to(self.root)))
            for pattern in _LOCKS
            for path in sorted(folder.glob(pattern))
            if path.is_file() and not path.is_symlink()
        }

    def wants_others(self, revision: Path) -> str:
        """Why a side needs other packages than the checkout has; nothing where it does not.

        With the same lock it does where that is not what was installed: somebody has the change checked out, whose
        lock names a package more.
        """
        if self.locks(revision) != self.locks(self.root):
            return "its lock is another than the checkout's"
        ours, lock = self.project / self.folder, self._wanted(revision)
        if lock is None or not self.folder or not site_packages(ours):
            return ""
        self._refuse_theirs(ours)
        folders = [*map(str, site_packages(ours)), *self.imported(ours, self.root)]
        lacks = venv_clone.lacking(folders, requirements.named(_text(lock)))
        return f"the checkout's environment lacks {', '.join(lacks)[:200]}" if lacks else ""

    def refuse_names(self, revision: Path) -> None:
        """Raise PackagesError if the checkout or a revision names an impossible environment."""
        for project in (self.project, revision / self.project.relative_to(self.root)):
            if why := problem_of(project):
                raise PackagesError(f"{why}\n  expected: a folder in the repository, such as .venv")

    def lend(self, revision: Path) -> None:
        """Give the side the checkout's packages, with the editable ones as they are there; nothing where one of the
        two names no environment."""
        if not self.folder or not self.creation(revision):
            return
        ours = self.project / self.folder
        if not (ours / "bin" / "python").is_file():
            raise PackagesError(
                f"{ours}: no virtual environment\n  expected: the program's dependencies, where Pulumi.yaml or a lock "
                f"has them\n  hint: {_installs(self.project)}"
            )
        self._refuse_theirs(ours)
        try:
            venv_clone.create(
                ours, self.place(revision), [*self.imported(ours, revision), *map(str, site_packages(ours))]
            )
        except VenvError as error:
            raise PackagesError(str(error)) from None
        except OSError as error:
            raise PackagesError(f"{self.place(revision).name}: cannot be written: {error.strerror}") from None

    def readable(self) -> list[Path]:
        """Return the paths of the checkout's environment that an isolated process can read."""
        if not self.folder:
            return []
        ours = self.project / self.folder
        try:
            self._refuse_theirs(ours)
        except PackagesError:
            return []
        return venv_clone.readable(ours, self.root)

    def _refuse_theirs(self, ours: Path) -> None:
        """Raise PackagesError for an environment in the repository: the checkout may be a pull request's."""
        ours = Path(os.path.normpath(ours))
        real = venv_clone.resolved(ours)
        if real is None or venv_clone.resolved(ours.parent) != ours.parent:
            raise PackagesError(f"{ours.name}: lies behind a link")
        try:
            inside = [each for each in (ours, real) if each.is_relative_to(self.root)]
            theirs = any(repository.tracks(self.root, each) or _in_submodule(each, self.root) for each in inside)
        except repository.GitError as error:
            raise PackagesError(
                f"{ours.name}: cannot check whether this environment is part of the repository: {error}"
            ) from None
        if theirs or venv_clone.brings_python(ours, self.root):
            raise PackagesError(
                f"{ours.name}: is part of the repository, so its code is not trusted\n"
                "  got: files that git tracks, or a Python in the repository\n"
                "  expected: a folder that git ignores, with the program's dependencies installed\n"
                "  hint: add the folder to .gitignore, and run git rm -r --cached FOLDER"
            )

    def place(self, revision: Path) -> Path:
        """Return the path of a revision's environment from its Pulumi.yaml, or the project itself if it names none."""
        project = revision / self.project.relative_to(self.root)
        return Path(os.path.normpath(project / virtualenv(project, revision)))

    def imported(self, environment: Path, revision: Path) -> Iterator[str]:
        """The folders an environment imports from beside its own: those of the checkout as they are in the side."""
        for packages in site_packages(environment):
            for file in sorted(packages.glob("*.pth")):
                for line in _small(file):
                    folder = Path(line.strip())
                    if folder.is_absolute():
                        inside = folder.is_relative_to(self.root) and ".venv" not in folder.parts
                        yield str(revision / folder.relative_to(self.root)) if inside else str(folder)

    def installation(self, revision: Path, base: Path, folder: Path) -> list[str]:
        """The command that installs a side's own packages, to be run in `folder`. PackagesError where nothing says
        which.

        What is installed is written there, an empty folder of ours: nothing beside it is imported or obeyed. The
        side's lock may hold nothing that runs code, and no address that the lock has not in the files of the base.
        """
        lock = self._wanted(revision)
        if lock is None or not self.creation(revision):
            raise PackagesError(
                f"{self.project.name}: its lock differs from the checkout's, and nothing says how to install it\n"
                f"  expected: one of {', '.join(_INSTALLED)}, and a virtualenv in Pulumi.yaml\n"
                "  hint: name the command with --install"
            )
        known = base / lock.relative_to(revision)
        text, trusted = _text(lock), _text(known) if known.is_file() else ""
        _refuse(lock.relative_to(revision), requirements.refused(text, trusted))
        ours = folder / "requirements.txt"
        ours.write_text(requirements.written(text, trusted), encoding="utf-8")
        pip = [
            str(self.place(revision) / "bin" / "python"),
            "-I",
            "-m",
            "pip",
            "--quiet",
            "--disable-pip-version-check",
        ]
        # Wheels only: installing a source distribution runs its code.
        return [*pip, "install", "--no-cache-dir", "--only-binary", ":all:", "-r", str(ours)]

    def creation(self, revision: Path) -> list[str]:
        """Return the command that creates a revision's environment with pip, or nothing if Pulumi.yaml names none."""
        place = self.place(revision)
        named = place != revision / self.project.relative_to(self.root)
        return [sys.executable, "-I", "-m", "venv", str(place)] if named else []

    def chosen(self, command: str) -> list[str]:
        """Return the arguments of the user's command. PackagesError for a command that needs a shell."""
        try:
            command_words = shlex.split(command)
        except ValueError as error:
            raise PackagesError(f"--install: {str(error).lower()}\n  got: {command}") from None
        if not command_words or any(word in _SHELL for word in command_words):
            raise PackagesError(
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

    def _wanted(self, root: Path) -> Path | None:
        """Return the lock of a revision. A link does not count, because it can lead anywhere."""
        places = [folder / name for folder in (root / self.project.relative_to(self.root), root) for name in _INSTALLED]
        return next((path for path in places if path.is_file() and not path.is_symlink()), None)

    def clear(self, revision: Path) -> None:
        """Remove the commit's files at the path of the environment: none of them may be started."""
        if self.creation(revision):
            try:
                venv_clone.clear(self.place(revision))
            except VenvError as error:
                raise PackagesError(str(error)) from None

    def finish(self, revision: Path) -> None:
        """Add the revision's own packages to the installed ones."""
        ours, theirs = self.project / self.folder, self.place(revision)
        if self.folder and ours.is_dir() and self.creation(revision):
            self._refuse_theirs(ours)
            try:
                venv_clone.add(theirs, list(self.imported(ours, revision)))
            except VenvError as error:
                raise PackagesError(str(error)) from None


def _installs(project: Path) -> str:
    if (project / "PulumiPolicy.yaml").is_file():
        return "make policy for the policies of gpu-ci; else pulumi install in the folder of the policies"
    return _INSTALLS.get(toolchain(project), _INSTALLS["pip"])


def _digest(file: Path) -> bytes:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").digest()


def _text(file: Path) -> str:
    if file.stat().st_size > _MOST_BYTES:
        raise PackagesError(f"{file.name}: has more than {_MOST_BYTES // 1024**2} MiB\n  expected: a list of packages")
    return file.read_text(encoding="utf-8", errors="replace")


def _refuse(file: Path, lines: Sequence[str]) -> None:
    if lines:
        listed = "\n".join(f"  got: {visible(line, 200)}" for line in lines[:10])
        raise PackagesError(
            f"{file}: has lines that are not installed, because their installation may run code with network access\n"
            f"{listed}\n  expected: names with versions, markers and hashes; and indexes that the base has too\n"
            "  hint: on a machine without secrets, name the command with --install"
        )


def _in_submodule(environment: Path, root: Path) -> bool:
    """Return True if the file belongs to another repository, which the checkout's repository does not track."""
    around = (environment, *environment.parents)
    return any((each / ".git").exists() for each in around if each != root and each.is_relative_to(root))


def _small(file: Path) -> list[str]:
    """Return the lines of an installer's file; none if it is not a plain file, or larger than any real one."""
    with contextlib.suppress(OSError), safe_open.open_regular(file) as opened:
        text = opened.read(_LARGEST_PTH_BYTES + 1)
        return text.decode(errors="replace").splitlines() if len(text) <= _LARGEST_PTH_BYTES else []
    return []
