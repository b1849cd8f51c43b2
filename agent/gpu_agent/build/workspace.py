"""The request of a build, and the workspace of its command: unpacks the sources, and packs the artifacts.

Both run as the command's user. The request is an object in the bucket that the metadata names, and no metadata itself:
it may contain secrets, and many users of a project can read metadata.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, BinaryIO, NamedTuple, cast

from .. import config
from ..clock import Clock
from ..host import Host
from ..machine.system import System, User
from ..outcomes import DISK_FULL, AgentExit
from ..storage import GoogleBucket

# The digest of the archive is verified, so its content is the step's. The program runs as the command's user, so that
# even a wrong archive reaches no other file. Debian 12 has Python 3.11.2, without tarfile's filter "data" of 3.11.4.
_UNPACK = """
import sys, tarfile
with tarfile.open(sys.argv[1], "r:gz") as archive:
    archive.extraction_filter = getattr(tarfile, "data_filter", None) or (lambda member, _: member)
    archive.extractall(sys.argv[2])
"""
# Prints {"files": n, "bytes": n, "missing": [patterns]}, or {"problem": text}. A symbolic link is packed as a link.
_PACK = """
import json, os, stat, sys, tarfile
from pathlib import Path
folder, target, options = Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
found, missing = {}, []
def add(path):
    mode = path.lstat().st_mode
    if stat.S_ISDIR(mode):
        for each in sorted(path.iterdir()):
            add(each)
    elif stat.S_ISREG(mode) or stat.S_ISLNK(mode):
        found[str(path.relative_to(folder))] = path
for pattern in options["patterns"]:
    matches = [path for path in sorted(folder.glob(pattern)) if path.parent.resolve().is_relative_to(folder.resolve())]
    for path in matches:
        add(path)
    if not matches:
        missing.append(pattern)
size = sum(path.lstat().st_size for path in found.values())
problem = ""
if len(found) > options["files"]:
    problem = f"the artifacts are {len(found)} files, and the limit is {options['files']}"
elif size > options["bytes"]:
    problem = f"the artifacts have {size} bytes, and the limit is {options['bytes']}"
else:
    with tarfile.open(target, "w:gz", compresslevel=1) as archive:
        for name, path in sorted(found.items()):
            status, member = path.lstat(), tarfile.TarInfo(name)
            member.mode, member.mtime = stat.S_IMODE(status.st_mode), int(status.st_mtime)
            if stat.S_ISREG(status.st_mode):
                member.size = status.st_size
                with path.open("rb") as file:
                    archive.addfile(member, file)
            else:
                member.type, member.linkname = tarfile.SYMTYPE, os.readlink(path)
                archive.addfile(member)
print(json.dumps({"files": len(found), "bytes": size, "missing": missing, "problem": problem}))
"""
PACK_SEC = 600.0


class Artifacts(NamedTuple):
    """The packed artifacts."""

    path: Path
    sha256: str
    files: int
    missing: list[str]
    """The patterns that no file matches."""


def obtain(
    request: BuildRequest, bucket: GoogleBucket, user: User, system: System, clock: Clock, deadline: float
) -> Path:
    """Download the sources, verify their digest, and unpack them. Return the folder, which belongs to the user.

    Raises:
        AgentExit: wrong-source, no-source, storage-unreachable, or disk-full.
    """
    system.state_folder.mkdir(parents=True, exist_ok=True)
    archive = system.state_folder / "source.tar.gz"
    folder = user.home / "workspace"
    try:
        with archive.open("w+b") as file:
            bucket.read(request.source, cast(BinaryIO, file), deadline, request.source_bytes)
        archive.chmod(0o644)
        got = _sha256(archive)
        if got != request.source_sha256:
            raise AgentExit("wrong-source", f"{request.source}: got sha256 {got}, expected {request.source_sha256}")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o755)
        os.chown(folder, user.uid, user.gid)
        left_sec = max(deadline - clock.now(), 1)
        argv = [system.python, "-I", "-S", "-c", _UNPACK, str(archive), str(folder)]
        done = system.run(argv, timeout_sec=left_sec, user=user)
    except OSError as error:
        reason = "disk-full" if error.errno in DISK_FULL else "no-source"
        raise AgentExit(reason, f"the sources: {error.strerror} ({error.filename or archive})") from None
    finally:
        archive.unlink(missing_ok=True)
    if done.code:
        last = (done.text.strip().splitlines() or [done.line])[-1][:300]
        reason = "disk-full" if "No space left" in done.text or "Disk quota" in done.text else "no-source"
        raise AgentExit(reason, f"the sources could not be unpacked: {last}")
    return folder


def pack(request: BuildRequest, folder: Path, user: User, system: System) -> Artifacts:
    """Pack the artifacts that the user can read. Raises AgentExit: no-artifacts or disk-full."""
    target = system.state_folder / "artifacts.tar.gz"
    # The folder belongs to root, so the user can write this file but not replace it.
    target.unlink(missing_ok=True)
    target.touch(mode=0o600)
    os.chown(target, user.uid, user.gid)
    options = {"patterns": request.artifacts, "files": request.artifact_files, "bytes": request.artifact_bytes}
    argv = [system.python, "-I", "-S", "-c", _PACK, str(folder), str(target), json.dumps(options)]
    done = system.run(argv, timeout_sec=PACK_SEC, user=user)
    last = (done.text.strip().splitlines() or [done.line])[-1]
    if done.code:
        reason = "disk-full" if "No space left" in done.text or "Disk quota" in done.text else "no-artifacts"
        raise AgentExit(reason, f"the artifacts could not be packed: {last[:300]}")
    report = json.loads(last)
    if report["problem"]:
        raise AgentExit("no-artifacts", report["problem"])
    return Artifacts(target, _sha256(target), int(report["files"]), list(report["missing"]))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(cast(IO[bytes], file), "sha256").hexdigest()  # type: ignore[arg-type]


KEY = "gpu-ci-build"
FORMAT = 1
_LIMIT_BYTES = 2**20


@dataclass(frozen=True)
class RequestObject:
    """The value of the metadata: where the request is."""

    bucket: str
    name: str
    sha256: str


@dataclass(frozen=True)
class BuildRequest:
    """The request of a build step."""

    format: int
    """The version of this format."""
    bucket: str
    prefix: str
    """The start of the names of all objects that this machine writes, such as builds/<build>/<attempt>/."""
    source: str
    """The name of the object with the sources, a .tar.gz."""
    source_sha256: str
    source_bytes: int
    """The size of the object."""
    command: list[str]
    timeout_sec: int
    """The time limit of the command."""
    fetch_sec: int = 900
    """The time limit for the sources, the isolation and the container image together."""
    image: str = ""
    """The container image in which the command runs; empty for the machine itself."""
    environment: dict[str, str] = field(default_factory=dict)
    artifacts: list[str] = field(default_factory=list)
    """Patterns of the files that return to the step, relative to the workspace."""
    artifact_files: int = 10_000
    """The maximum number of these files."""
    artifact_bytes: int = 2 * 2**30
    """The maximum size of these files together."""


def read_request(host: Host, deadline: float) -> BuildRequest:
    """Return the request. Raises AgentExit: no-config, wrong-source, or an error of the bucket."""
    place = config.parse_as(RequestObject, host.attribute(KEY), KEY)
    sink = io.BytesIO()
    host.bucket(place.bucket).read(place.name, sink, deadline, _LIMIT_BYTES)
    got = hashlib.sha256(sink.getvalue()).hexdigest()
    if got != place.sha256:
        raise AgentExit("wrong-source", f"{place.name}: got sha256 {got}, expected {place.sha256}")
    found = config.parse_as(BuildRequest, sink.getvalue().decode(errors="replace"), KEY)
    if found.format != FORMAT:
        raise AgentExit("no-config", f"{KEY}: format: got {found.format}, expected {FORMAT}")
    if not found.command:
        raise AgentExit("no-config", f"{KEY}: command: is empty")
    return found
