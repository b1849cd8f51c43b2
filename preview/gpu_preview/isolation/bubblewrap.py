"""What the code of a side is kept from, and what it is not: bubblewrap where it works, and always its surroundings."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..model import Wall
from .limits import Limits

_TRY_SEC = 20
_NO_NETWORK = "--unshare-net"
# What a checkout and a home hold that is nobody's business: tokens in .git/config, keys, caches of tools.
_ALWAYS_HIDDEN = ("/root", "/home", "/tmp", "/var/tmp", "/run", "/mnt", "/media", "/srv")  # noqa: S108
# Of each hidden folder, which is a file system in memory, and of /dev/shm. Nothing needs to write there: TMPDIR and
# HOME lie in the folder that is the program's own. (`--size` is in bubblewrap since 0.7.0.)
_IN_MEMORY = ("--size", str(64 * 1024**2), "--tmpfs")
_SAME = "for the same reason"
_SHARED_MEMORY = "/dev/shm"  # noqa: S108
# Often a link into a hidden folder: on Ubuntu to /run/systemd/resolve/stub-resolv.conf, in WSL to /mnt/wsl/resolv.conf.
# Without it the C library asks 127.0.0.1, where no resolver listens.
_RESOLVER = Path("/etc/resolv.conf")
_WITHOUT = (
    "bubblewrap keeps nothing from it here: {}. Run it where nothing is worth stealing, as the workflow of "
    "docs/guides/preview-on-github.md does: a job with a read-only token and no secrets"
)


class IsolationError(Exception):
    """A wall that was asked for does not stand; the text says why."""


@dataclass(frozen=True)
class Isolation:
    """How a command is started so that it reaches less."""

    prefix: tuple[str, ...]
    reason: str = ""
    """Why there is no prefix."""
    network: bool = False
    """Whether it may use the network."""

    def wrap(self, command: Sequence[str]) -> list[str]:
        """The command behind the walls."""
        return [*self.prefix, *command]

    def with_network(self) -> Isolation:
        """The same walls, but for the network."""
        return Isolation(tuple(word for word in self.prefix if word != _NO_NETWORK), self.reason, network=True)

    def require(self) -> None:
        """IsolationError where one of the walls of bubblewrap does not stand."""
        if not self.prefix:
            raise IsolationError(
                f"no wall would stand around the head's code: bubblewrap: {self.reason}\n"
                "  expected: all of them, by --require-walls\n  hint: docs/guides/preview-on-github.md"
            )
        if self.network:
            raise IsolationError("--require-walls and --with-network: the network is one of the walls")

    def reading_only(self, *folders: Path) -> Isolation:
        """The same walls, with these folders as they are."""
        if not self.prefix:
            return self
        bound = [word for folder in folders for word in ("--ro-bind", str(folder), str(folder))]
        return Isolation((*self.prefix, *bound), self.reason, self.network)

    def described(self, limits: Limits, installed_with: Sequence[str] = ()) -> tuple[Wall, ...]:
        """For the report: each wall, and whether it stood; what installed packages had the network."""
        up = bool(self.prefix)
        given = "it was given the network" if self.network else ""
        if installed_with and not given:
            given = f"it had the network while its packages were installed: {'; '.join(installed_with)[:200]}"
        return (
            Wall(name="environment", stands=True, text="it gets ten variables by name, and a home of its own"),
            Wall(
                name="limits",
                stands=True,
                text=f"{limits.timeout_sec:g} s, {limits.memory_gib:g} GiB of memory, {limits.disk_gib:g} GiB of disk "
                f"and {limits.processes} processes for each command, looked at five times a second",
            ),
            Wall(
                name="files",
                stands=up,
                text="it writes to a folder of its own alone, and sees neither the home nor the checkout's .git"
                if up
                else _WITHOUT.format(self.reason),
            ),
            Wall(
                name="network",
                stands=up and not given,
                text=given or ("it has none" if up else _SAME),
            ),
            Wall(name="processes", stands=up, text="it sees its own alone" if up else _SAME),
        )


def build(scratch: Path, checkout: Path, needed: Iterable[Path], *, network: bool = False) -> Isolation:
    """Isolation around everything but `scratch`, which may be written, and `needed`, which may be read."""
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
        lines = tried.stderr.strip().splitlines() or ["it says nothing"]
        return Isolation((), f"it does not run ({lines[-1]})", network)
    return Isolation(prefix, "", network)


def _options(scratch: Path, checkout: Path, needed: list[Path], network: bool) -> list[str]:
    hidden = dict.fromkeys([*map(Path, _ALWAYS_HIDDEN), Path.home(), checkout, *_of_runner()])
    options = ["--die-with-parent", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--cap-drop", "ALL"]
    # A user namespace inside this one would have all capabilities, and with them much more of the kernel to attack.
    # (`--disable-userns` is in bubblewrap since 0.8.0.)
    options += ["--unshare-user", "--disable-userns"]
    options += [] if network else [_NO_NETWORK]
    options += ["--ro-bind", "/", "/", "--dev", "/dev", *_IN_MEMORY, _SHARED_MEMORY]
    # To bubblewrap's own eyes /proc/sys cannot be written; but root owns its files, with or without capabilities, and
    # kernel.core_pattern names a program that the kernel runs outside (core(5)).
    options += ["--remount-ro", "/dev", "--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"]
    for folder in hidden:
        if folder.is_dir():
            options += [*_IN_MEMORY, str(folder)]
    for path in dict.fromkeys(str(one) for one in needed if one.exists()):
        options += ["--ro-bind", path, path]
    for step in _steps(_RESOLVER):
        if any(step.is_relative_to(folder) for folder in hidden) and _RESOLVER.is_file():
            options += ["--ro-bind", os.path.realpath(_RESOLVER), str(step)]
    # After what is needed, which may be the checkout itself: its history and its credentials are not.
    for name in (".git", ".sandbox"):
        options += _hide(checkout / name) if any(checkout.is_relative_to(one) for one in needed) else []
    return [*options, "--bind", str(scratch), str(scratch)]


def _steps(path: Path) -> Iterator[Path]:
    """The path, and each that it leads to as a link."""
    for _ in range(40):  # as many as Linux follows
        path = Path(os.path.realpath(path.parent), path.name)
        yield path
        if not path.is_symlink():
            return
        path = path.parent / path.readlink()


def _hide(path: Path) -> list[str]:
    if path.is_dir():
        return [*_IN_MEMORY, str(path)]
    return ["--ro-bind", os.devnull, str(path)] if path.exists() else []


def _of_runner() -> list[Path]:
    """Folders of a step of GitHub Actions, with its event and its files; in a job's container they lie below /__w."""
    given = [os.environ.get(name, "") for name in ("RUNNER_TEMP", "GITHUB_WORKSPACE")]
    given.append(str(Path(os.environ.get("GITHUB_EVENT_PATH", "")).parent))
    return [Path(os.path.realpath(each)) for each in given if each.strip("./")]


def own_paths() -> list[Path]:
    """What this program itself needs to be read to run: its interpreter, and where it imports from."""
    return [Path(sys.prefix), Path(sys.base_prefix), *(Path(one) for one in sys.path if Path(one).exists())]
