"""Provides the runner's files, from the image or downloaded. Verifies them with a checksum, and unpacks them."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import stat
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from .. import http, retry
from ..clock import Clock
from ..config import RunnerConfig
from ..machine.system import System
from ..outcomes import DISK_FULL, AgentExit

MARKER = ".gpu-agent-sha256"
"""The file in the unpacked folder with the SHA-256 of its archive. The creator of an image writes it too."""
CONTENTS = ".gpu-agent-contents"
"""The file in a folder that this machine unpacked, with the SHA-256 of the content. A folder in the image has
no such file."""
RELEASES = "https://github.com/actions/runner/releases/download"
_ARCHITECTURES = {"x86_64": "x64", "aarch64": "arm64"}
_LIMIT_BYTES = 2**30  # the release's archives are about 200 MB


def obtain(
    config: RunnerConfig, system: System, clock: Clock, deadline: float, say: Callable[[str], None] = lambda _: None
) -> Path:
    """Return the folder of the pinned runner. It belongs to root, and other users cannot change it.

    `say` receives the reason why a runner in the image is not used.

    Raises:
        AgentExit: wrong-checksum, disk-full, or no-runner (not available in time, not unpackable, or not pinned).
    """
    architecture = _ARCHITECTURES.get(platform.machine(), platform.machine())
    sha256 = config.sha256.get(architecture, "").lower()
    if not sha256:
        raise AgentExit("no-runner", f"sha256: has {sorted(config.sha256)}, but this machine needs {architecture}")
    unpacked_folder = system.state_folder / "actions-runner" / config.version
    for folder in (system.baked_folder / config.version, unpacked_folder):
        problem = _problem_of(folder, sha256) or (_damage_of(folder) if folder == unpacked_folder else "")
        if not problem:
            return folder
        if folder.exists():
            say(f"gpu-agent: {folder} is not used: {problem}")
    if not config.installs:
        raise AgentExit("no-runner", f"the image has no runner {config.version}, and this machine installs nothing")
    base = os.environ.get("GPU_AGENT_RUNNER_URL", RELEASES).rstrip("/")
    url = f"{base}/v{config.version}/actions-runner-linux-{architecture}-{config.version}.tar.gz"
    with _as_agent_exit(url):
        unpacked_folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=unpacked_folder.parent) as work:
            archive, tree = Path(work, "archive"), Path(work, "tree")
            retry.retry_until(lambda: _download(url, archive, sha256, clock, deadline), deadline=deadline, clock=clock)
            _unpack(archive, tree)
            (tree / CONTENTS).write_text(_contents(tree))
            (tree / MARKER).write_text(sha256 + "\n")
            tree.chmod(0o755)
            shutil.rmtree(unpacked_folder, ignore_errors=True)
            # Renamed when it is complete, so that a machine that restarts meanwhile does not use a partial runner.
            tree.rename(unpacked_folder)
    if _problem_of(unpacked_folder, sha256):
        raise AgentExit("no-runner", f"{url}: the archive has no bin/Runner.Listener")
    return unpacked_folder


def _problem_of(folder: Path, sha256: str) -> str:
    """Return "" if the folder comes from the archive with this checksum, and only root may change it. Otherwise return
    the problem.
    """
    try:
        marked = (folder / MARKER).read_text().strip()
        if marked != sha256:
            return f"{MARKER} says {marked[:64]!r}, and {sha256} is pinned"
        for path in (folder, folder / MARKER, folder / "bin", folder / "bin" / "Runner.Listener"):
            status = path.lstat()
            if status.st_uid != os.geteuid() or status.st_mode & 0o022:
                return f"a user other than root may change {path}"
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    return ""


def _damage_of(folder: Path) -> str:
    """Return "" if the files are the same as when they were unpacked, or else the problem.

    A power loss may damage files that were not synced.
    """
    try:
        is_unchanged = (folder / CONTENTS).read_text() == _contents(folder)
    except (OSError, ValueError) as error:
        return f"its files cannot be compared: {error}"
    return "" if is_unchanged else "its files have changed since they were unpacked"


def _contents(tree: Path) -> str:
    """Return a checksum of the names, modes and contents of all files of the archive."""
    digest = hashlib.sha256()
    for path in sorted(tree.rglob("*")):
        if path.parent == tree and path.name in (MARKER, CONTENTS):
            continue
        mode, content = path.lstat().st_mode, ""
        if stat.S_ISLNK(mode):
            content = str(path.readlink())
        elif stat.S_ISREG(mode):
            with path.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
        digest.update(repr((str(path.relative_to(tree)), mode, content)).encode())
    return digest.hexdigest()


def _download(url: str, archive: Path, sha256: str, clock: Clock, deadline: float) -> None:
    with archive.open("w+b") as file:
        try:
            http.download(url, file, deadline=deadline, clock=clock, limit_bytes=_LIMIT_BYTES)
        except http.Unreachable as error:
            ended = AgentExit("no-runner", str(error))
            if 400 <= error.status < 500 and error.status not in (408, 429):
                raise ended from None  # the release does not exist or is not accessible, so a repetition does not help
            raise retry.RetryableError(ended) from None
        file.seek(0)
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != sha256:
        raise AgentExit("wrong-checksum", f"{url}: got sha256 {found}, expected {sha256}")


def _unpack(archive: Path, tree: Path) -> None:
    """Unpack the archive with our own rules. tarfile's filter "data" needs Python 3.11.4, and Debian 12 has 3.11.2."""
    links: set[PurePosixPath] = set()
    with tarfile.open(archive, "r:gz") as tar:
        tar.extraction_filter = lambda member, _: member  # checked below; without this newer Pythons warn or differ
        for member in tar:
            path = PurePosixPath(member.name)
            inside = _inside(path) and not any(parent in links for parent in path.parents)
            if member.issym():
                inside = inside and _inside(path.parent / member.linkname)
                links.add(path)
            elif member.islnk():
                inside = inside and _inside(PurePosixPath(member.linkname))
            elif not (member.isfile() or member.isdir()):
                inside = False
            if not inside:
                raise AgentExit("no-runner", f"the archive has {member.name!r}, which is outside its folder")
            # The archive contains the id of the user who built it at GitHub. On this machine the same id
            # may belong to any user.
            member.uid, member.gid, member.uname, member.gname = os.geteuid(), os.getegid(), "", ""
            member.mode = (member.mode & 0o755) | (0o755 if member.isdir() else 0o444)
            tar.extract(member, tree)


def _inside(path: PurePosixPath) -> bool:
    depth = 0
    for part in path.parts:
        depth += -1 if part == ".." else 1
        if depth < 0:
            return False
    return not path.is_absolute()


@contextmanager
def _as_agent_exit(url: str) -> Iterator[None]:
    """Convert any error of the disk or the archive to AgentExit."""
    try:
        yield
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise AgentExit("no-runner", f"{url}: cannot be unpacked ({type(error).__name__})") from None
    except OSError as error:
        if error.errno in DISK_FULL:
            raise AgentExit(
                "disk-full", f"no room for the runner: {error.strerror} ({error.filename or 'its archive'})"
            ) from None
        raise AgentExit("no-runner", f"{url}: {error.strerror or error}") from None
