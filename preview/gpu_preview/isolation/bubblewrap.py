"""Isolates the code of a revision with bubblewrap, if it works here, and describes the isolation for the report."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import PreviewError
from ..model import Wall
from .limits import Limits

_TRY_SEC = 20
_NO_NETWORK = "--unshare-net"
# Folders that can contain private files: tokens in .git/config, keys, caches of tools.
_ALWAYS_HIDDEN = ("/root", "/home", "/tmp", "/var/tmp", "/run", "/mnt", "/media", "/srv")  # noqa: S108
# The size of /dev/shm and of the tmpfs over each hidden folder. Programs do not need to write there: TMPDIR and HOME
# are in a folder of their own. (`--size` requires bubblewrap 0.7.0.)
_IN_MEMORY = ("--size", str(64 * 1024**2), "--tmpfs")
_SAME = "for the same reason"
_SHARED_MEMORY = "/dev/shm"  # noqa: S108
# Often a symbolic link into a hidden folder: on Ubuntu to /run/systemd/resolve/stub-resolv.conf, in WSL to
# /mnt/wsl/resolv.conf. Without the file, the C library queries 127.0.0.1, where no resolver listens.
_RESOLVER = Path("/etc/resolv.conf")
_NOT_ISOLATED = (
    "bubblewrap is not available: {}. Run the preview in a job with a read-only token and no secrets, as in the "
    "workflow of docs/guides/preview-on-github.md"
)


@dataclass(frozen=True)
class Isolation:
    """The command line prefix that isolates a command."""

    prefix: tuple[str, ...]
    reason: str = ""
    """The reason why the prefix is empty."""
    network: bool = False
    """True if the command may use the network."""

    def wrap(self, command: Sequence[str]) -> list[str]:
        """Return the command with the prefix."""
        return [*self.prefix, *command]

    def with_network(self) -> Isolation:
        """Return the same isolation, with network access."""
        return Isolation(tuple(word for word in self.prefix if word != _NO_NETWORK), self.reason, network=True)

    def require(self) -> None:
        """Raise PreviewError if bubblewrap does not isolate files, network and processes."""
        if not self.prefix:
            raise PreviewError(
                f"the head's code cannot be isolated: bubblewrap: {self.reason}\n"
                "  expected: full isolation, because of --require-walls\n  hint: docs/guides/preview-on-github.md"
            )
        if self.network:
            raise PreviewError("--require-walls and --with-network exclude each other\n  expected: one of the two")

    def reading_only(self, *folders: Path) -> Isolation:
        """Return the same isolation, with these folders read-only."""
        if not self.prefix:
            return self
        bound = [word for folder in folders for word in ("--ro-bind", str(folder), str(folder))]
        return Isolation((*self.prefix, *bound), self.reason, self.network)

    def described(self, limits: Limits, installed_with: Sequence[str] = ()) -> tuple[Wall, ...]:
        """Return each kind of isolation for the report, and the installations that had network access."""
        isolated = bool(self.prefix)
        access_text = "it had network access (--with-network)" if self.network else ""
        if installed_with and not access_text:
            access_text = f"it had network access while packages were installed: {'; '.join(installed_with)[:200]}"
        limits_text = (
            f"{limits.timeout_sec:g} s, {limits.memory_gib:g} GiB of memory, {limits.disk_gib:g} GiB of disk "
            f"and {limits.processes} processes for each command, checked five times a second"
        )
        files_text = "it can write only to a separate folder, and cannot read the home folder or .git of the checkout"
        offline = "it has no network access"
        walls = (
            ("environment", True, "it gets ten named variables and a separate home folder"),
            ("limits", True, limits_text),
            ("files", isolated, files_text if isolated else _NOT_ISOLATED.format(self.reason)),
            ("network", isolated and not access_text, access_text or (offline if isolated else _SAME)),
            ("processes", isolated, "it sees only its own processes" if isolated else _SAME),
        )
        return tuple(Wall(name=name, stands=stands, text=text) for name, stands, text in walls)


def build(scratch: Path, checkout: Path, needed: Iterable[Path], *, network: bool = False) -> Isolation:
    """Return the isolation in which a command can write to `scratch` and read `needed`."""
    program = shutil.which("bwrap")
    if not program:
        return Isolation((), "it is not installed (package bubblewrap)", network)
    prefix = (program, *_options(scratch, checkout, list(needed), network))
    try:
        tried = subprocess.run(
            [*prefix, sys.executable, "-I", "-S", "-c", ""],
            capture_output=True, text=True, timeout=_TRY_SEC, check=False,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        return Isolation((), f"it does not run ({type(error).__name__})", network)
    if tried.returncode:
        lines = tried.stderr.strip().splitlines() or ["no output"]
        return Isolation((), f"it does not run ({lines[-1]})", network)
    return Isolation(prefix, "", network)


def _options(scratch: Path, checkout: Path, needed: list[Path], network: bool) -> list[str]:
    hidden = dict.fromkeys([*map(Path, _ALWAYS_HIDDEN), Path.home(), checkout, *_runner_paths()])
    options = ["--die-with-parent", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--cap-drop", "ALL"]
    # A nested user namespace would have all capabilities, which exposes much more of the kernel to attacks.
    # (`--disable-userns` requires bubblewrap 0.8.0.)
    options += ["--unshare-user", "--disable-userns"]
    options += [] if network else [_NO_NETWORK]
    options += ["--ro-bind", "/", "/", "--dev", "/dev", *_IN_MEMORY, _SHARED_MEMORY]
    # bubblewrap relies on missing capabilities to protect /proc/sys. But root owns its files and can write them, and
    # kernel.core_pattern names a program that the kernel runs outside of the namespace (core(5)).
    options += ["--remount-ro", "/dev", "--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"]
    for folder in hidden:
        if folder.is_dir():
            options += [*_IN_MEMORY, str(folder)]
    for path in dict.fromkeys(str(one) for one in needed if one.exists()):
        options += ["--ro-bind", path, path]
    for step in _steps(_RESOLVER):
        if any(step.is_relative_to(folder) for folder in hidden) and _RESOLVER.is_file():
            options += ["--ro-bind", os.path.realpath(_RESOLVER), str(step)]
    # Must follow the needed paths, which can include the checkout: its history and credentials stay hidden.
    for name in (".git", ".sandbox"):
        options += _hide(checkout / name) if any(checkout.is_relative_to(one) for one in needed) else []
    return [*options, "--bind", str(scratch), str(scratch)]


def _steps(path: Path) -> Iterator[Path]:
    """Yield the path and each target of its symbolic links."""
    for _ in range(40):  # the limit of Linux
        path = Path(os.path.realpath(path.parent), path.name)
        yield path
        if not path.is_symlink():
            return
        path = path.parent / path.readlink()


def _hide(path: Path) -> list[str]:
    if path.is_dir():
        return [*_IN_MEMORY, str(path)]
    return ["--ro-bind", os.devnull, str(path)] if path.exists() else []


def _runner_paths() -> list[Path]:
    """Return the folders of a GitHub Actions step with its event and files; in a container, they are below /__w."""
    paths = [os.environ.get(name, "") for name in ("RUNNER_TEMP", "GITHUB_WORKSPACE")]
    paths.append(str(Path(os.environ.get("GITHUB_EVENT_PATH", "")).parent))
    return [Path(os.path.realpath(each)) for each in paths if each.strip("./")]


def own_paths() -> list[Path]:
    """Return the paths that this program needs to run: its interpreter and its import folders.

    An import folder that contains the home folder is left out: `python -m` in the home folder, or PYTHONPATH, names it.
    """
    folders = (Path(one) for one in sys.path if Path(one).exists())
    home = Path(os.path.realpath(Path.home()))
    outside = [each for each in folders if not home.is_relative_to(os.path.realpath(each))]
    return [Path(sys.prefix), Path(sys.base_prefix), *outside]
