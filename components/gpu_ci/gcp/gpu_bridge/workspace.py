"""Packs the workspace of a build into one archive, and unpacks the artifacts that come back."""

from __future__ import annotations

import gzip
import hashlib
import os
import posixpath
import shutil
import stat
import tarfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any

from .failures import BridgeError

IGNORE_FILE = ".gcloudignore"
_INCLUDE = "#!include:"
_MIB = 2**20
# All files have the same time, so that the same content has the same digest: a checkout sets new times. It is not the
# start of 1970, because ZIP files such as wheels have no time before 1980.
_MTIME = 946_684_800
# The fastest level: the upload is in Google's network, so time of the CPU costs more than bytes.
_LEVEL = 1


@dataclass(frozen=True)
class Source:
    """The packed workspace."""

    path: Path
    sha256: str
    files: int

    @property
    def object_name(self) -> str:
        """The name of the object with this content."""
        return f"sources/{self.sha256}.tar.gz"


def ignore_lines(folder: Path) -> list[str]:
    """Return the patterns of the workspace's .gcloudignore, in gitignore's syntax.

    Without this file, gcloud ignores .git and what .gitignore names, if there is a Git repository
    (cloud.google.com/sdk/gcloud/reference/topic/gcloudignore).

    Raises:
        BridgeError: A file cannot be read, or an included file includes others.
    """
    if (folder / IGNORE_FILE).exists():
        return _lines(folder, IGNORE_FILE, may_include=True)
    if not (folder / ".git").exists():
        return []
    own = _lines(folder, ".gitignore", may_include=False) if (folder / ".gitignore").exists() else []
    return [IGNORE_FILE, ".git", ".gitignore", *own]


def _lines(folder: Path, name: str, *, may_include: bool) -> list[str]:
    path = folder / name
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeError) as error:
        raise BridgeError("bad-workspace", f"{path} cannot be read: {error}", "write the file as UTF-8") from None
    found: list[str] = []
    for line in lines:
        if not line.startswith(_INCLUDE):
            found.append(line)
            continue
        included = line.removeprefix(_INCLUDE).strip()
        # gcloud includes only files of the same folder, and refuses an include in an included file.
        if not may_include or PurePosixPath(included).name != included:
            hint = f"include one file of the same folder, such as {_INCLUDE}.gitignore"
            raise BridgeError("bad-workspace", f"{path}: {line!r} cannot be included", hint)
        found += _lines(folder, included, may_include=False)
    return found


def pack(
    folder: Path, target: Path, limit_mib: int, log: Callable[[str], None], stopped: Callable[[], bool] = lambda: False
) -> Source:
    """Pack the workspace into `target`. Only a buffer of it is in memory.

    Files keep their names and modes, and symbolic links stay links. A link to a place outside the workspace is left
    out, because the machine has no such place.

    Raises:
        BridgeError: The workspace is too large, cannot be read, or changed meanwhile; or the disk is full.
    """
    files = size = 0
    try:
        with (
            target.open("wb") as file,
            gzip.GzipFile("", "wb", _LEVEL, file, mtime=0) as stream,
            tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as archive,
        ):
            for path, name in _entries(folder, ignore_lines(folder)):
                if stopped():
                    raise BridgeError("cancelled", "the workspace was being packed")
                added = _add(archive, path, name, log)
                files += added is not None and not added.isdir()
                size += added.size if added else 0
                if size > limit_mib * _MIB:
                    raise BridgeError("bad-workspace", f"it has more than {limit_mib} MiB")
        with target.open("rb") as packed:
            digest = hashlib.file_digest(packed, "sha256").hexdigest()
    except OSError as error:
        detail = f"{error.strerror or error} ({error.filename or target})"
        raise BridgeError("bad-workspace", detail, "free disk space, or correct the permissions") from None
    if not files:
        raise BridgeError("bad-workspace", f"{folder} has no file to send", f"correct {IGNORE_FILE}")
    return Source(target, digest, files)


def _entries(folder: Path, patterns: list[str]) -> Iterator[tuple[Path, str]]:
    """Yield each entry that is not ignored with its name in the archive, in an order that depends on the names only."""
    from pathspec import GitIgnoreSpec

    rules = [rule for rule in GitIgnoreSpec.from_lines(patterns).patterns if rule.include is not None]

    def walk(path: Path, prefix: str) -> Iterator[tuple[Path, str]]:
        with os.scandir(path) as found:
            entries = sorted(found, key=lambda entry: entry.name)
        for entry in entries:
            name = prefix + entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            # As in Git, the last pattern that matches decides, and no file of an ignored folder can be included again.
            if next((rule.include for rule in reversed(rules) if _matches(rule, name, is_folder)), False):
                continue
            yield Path(entry.path), name
            if is_folder:
                yield from walk(Path(entry.path), f"{name}/")

    yield from walk(folder, "")


def _matches(rule: Any, name: str, is_folder: bool) -> bool:
    """Return True if the pattern matches the entry itself. pathspec also matches all files of a matched folder.

    The group ps_d of pathspec's regular expressions is the slash after a matched folder.
    """
    found = rule.regex.search(name)
    if found and not found.groupdict().get("ps_d"):
        return True
    slashes = rule.regex.finditer(f"{name}/") if is_folder else ()
    return any(each.groupdict().get("ps_d") and each.end("ps_d") == len(name) + 1 for each in slashes)


def _add(archive: tarfile.TarFile, path: Path, name: str, log: Callable[[str], None]) -> tarfile.TarInfo | None:
    """Add one entry, and return it; or None if it is left out."""
    status = path.lstat()
    member = tarfile.TarInfo(name)
    member.mtime = _MTIME
    member.mode = 0o755 if status.st_mode & 0o100 else 0o644
    if stat.S_ISREG(status.st_mode):
        member.size = status.st_size
        with path.open("rb") as file:
            archive.addfile(member, file)
        return member
    if stat.S_ISDIR(status.st_mode):
        member.type, member.mode = tarfile.DIRTYPE, 0o755
    elif stat.S_ISLNK(status.st_mode):
        member.type, member.linkname = tarfile.SYMTYPE, str(path.readlink())
        target = PurePosixPath(posixpath.normpath(PurePosixPath(name).parent / member.linkname))
        if target.is_absolute() or target.parts[:1] == ("..",):
            log(f"{name} is left out: it is a link to {member.linkname}, outside the workspace")
            return None
    else:
        log(f"{name} is left out: it is no file, folder or link")
        return None
    archive.addfile(member)
    return member


def unpack_artifacts(archive: Path, folder: Path, patterns: Sequence[str], limit_files: int, limit_bytes: int) -> int:
    """Unpack the artifacts into the workspace, and return the number of files.

    The command of the build wrote the archive. So only what --artifact selects is unpacked, within the limits, and by
    rules of this module: tarfile's filter "data" does not exist in Python 3.11.2, and archives can leave the folder
    despite the filter before Python 3.13.4 (CVE-2025-4517).

    Raises:
        BridgeError: The archive exceeds a limit, has an entry that is not an artifact, or cannot be unpacked.
    """
    count = size = 0
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for member in tar:
                count, size = count + 1, size + member.size
                if count > limit_files or size > limit_bytes:
                    text = f"more than {limit_files} files or {limit_bytes // _MIB} MiB"
                    raise BridgeError("no-artifacts", text, "name fewer files with --artifact")
                path = PurePosixPath(member.name)
                selected = any(_selects(PurePosixPath(pattern).parts, path.parts) for pattern in patterns)
                if not selected or not path.name or path.is_absolute() or ".." in path.parts:
                    raise BridgeError(
                        "no-artifacts", f"the archive has {member.name!r}, which --artifact does not name"
                    )
                _extract(tar, member, folder, path)
    except (tarfile.TarError, zlib.error, OSError, EOFError, ValueError) as error:
        raise BridgeError("no-artifacts", f"they cannot be unpacked: {error}") from None
    return count


def _selects(pattern: Sequence[str], name: Sequence[str]) -> bool:
    """Return True if the pattern matches the name or one of its folders, as Path.glob does on the machine."""
    if not pattern:
        return True
    if pattern[0] == "**":
        return _selects(pattern[1:], name) or (bool(name) and _selects(pattern, name[1:]))
    return bool(name) and fnmatchcase(name[0], pattern[0]) and _selects(pattern[1:], name[1:])


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path, path: PurePosixPath) -> None:
    """Write one artifact. No folder on its way may be a link, and a link leads down from its own folder only."""
    parent = folder
    for part in path.parent.parts:
        parent /= part
        parent.mkdir(exist_ok=True)
        if parent.is_symlink():
            raise BridgeError("no-artifacts", f"{member.name!r}: {parent} is a link")
    target, link = parent / path.name, PurePosixPath(member.linkname)
    if not (member.isreg() or (member.issym() and not link.is_absolute() and ".." not in link.parts)):
        raise BridgeError("no-artifacts", f"{member.name!r} is no file, or a link to {member.linkname!r}")
    target.unlink(missing_ok=True)
    if member.issym():
        target.symlink_to(member.linkname)
        return
    content = tar.extractfile(member)
    assert content is not None  # noqa: S101 - a regular file has content
    with content, target.open("xb") as file:
        shutil.copyfileobj(content, file)
    target.chmod(0o755 if member.mode & 0o100 else 0o644)
