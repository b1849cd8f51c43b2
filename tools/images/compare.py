"""Compares two builds of an image, layer by layer: every path whose content, mode, owner or timestamp differs.

If only timestamps differ, each byte of an image follows from its inputs. A builder that also sets the timestamps then
makes the same layers again.
"""

from __future__ import annotations

import datetime
import hashlib
import re
import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

TIMESTAMP = "timestamp"
_CHUNK_BYTES = 1 << 20
_DATED_BYTES = 1 << 20
"""Larger files are not searched for the day of the build."""
_SHADOW = re.compile(r"etc/g?shadow-?")
_EPOCH = datetime.date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Entry:
    """One path of a layer. `content` is a hash, the target of a link, or the number of a device."""

    kind: bytes
    content: str
    mode: int
    owner: tuple[int, int]
    attributes: tuple[tuple[str, str], ...]
    timestamp: float


class Build(NamedTuple):
    """The paths of an image's own layers, the lowest layer first, and its configuration.

    `dated` has each path with the day of the build in its content. Two builds on one day do not differ there, but two
    builds on different days do.
    """

    layers: list[dict[str, Entry]]
    config: dict[str, Any]
    dated: list[tuple[int, str]]


class Difference(NamedTuple):
    """A path of a layer that differs between two builds. Layer 0 is the configuration."""

    layer: int
    path: str
    fields: tuple[str, ...]

    @property
    def is_timestamp(self) -> bool:
        return self.fields == (TIMESTAMP,)

    def __str__(self) -> str:
        where = f"layer {self.layer}: /{self.path}" if self.layer else f"configuration: {self.path}"
        return f"{where} differs: {', '.join(self.fields)}"


def read(layers: Iterable[Path], config: dict[str, Any]) -> Build:
    """Read the layers of one build, the lowest layer first."""
    day = datetime.date.fromisoformat(config["created"][:10])
    found = []
    dated: list[tuple[int, str]] = []
    for number, layer in enumerate(layers, 1):
        entries = {}
        with tarfile.open(layer, "r|*") as archive:
            for member in archive:
                path = member.name.removeprefix("./").removeprefix("/")
                content, start = _content(archive, member)
                attributes = sorted((key, value) for key, value in member.pax_headers.items() if "xattr" in key)
                entries[path] = Entry(
                    member.type, content, member.mode, (member.uid, member.gid), tuple(attributes), member.mtime
                )
                if _has_day(path, start, day):
                    dated.append((number, path))
        found.append(entries)
    return Build(found, config, dated)


def differences(first: Build, second: Build) -> Iterator[Difference]:
    """Yield each path that differs, sorted by layer and path."""
    ours, theirs = _settings(first), _settings(second)
    for key in sorted(ours.keys() | theirs.keys()):
        if ours.get(key) != theirs.get(key):
            yield Difference(0, key, ("content",))
    for number, (one, other) in enumerate(zip(first.layers, second.layers, strict=False), 1):
        for path in sorted(one.keys() | other.keys()):
            if fields := tuple(_fields(one.get(path), other.get(path))):
                yield Difference(number, path, fields)


def problems(first: Build, second: Build) -> Iterator[str]:
    """Yield a line for each path that differs in more than its timestamp, or that would differ on another day."""
    yield from (str(each) for each in differences(first, second) if not each.is_timestamp)
    for layer, path in sorted({*first.dated, *second.dated}):
        yield f"layer {layer}: /{path} has the day of the build"


def summary(first: Build, second: Build) -> str:
    """Return how many paths differ, by what differs."""
    total = sum(map(len, first.layers))
    counts = Counter(each.is_timestamp for each in differences(first, second))
    return f"{total} paths: {counts[True]} differ only in their timestamp, {counts[False]} in more"


def _fields(one: Entry | None, other: Entry | None) -> Iterator[str]:
    if one is None or other is None:
        yield f"only in the {'second' if one is None else 'first'} build"
        return
    if one.kind != other.kind:
        yield "type"
    for name in ("content", "mode", "owner", "attributes", TIMESTAMP):
        if getattr(one, name) != getattr(other, name):
            yield name


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> tuple[str, bytes]:
    """Return what identifies the content of a path, and the bytes to search for a date."""
    if member.isdev():
        return f"{member.devmajor}:{member.devminor}", b""
    file = archive.extractfile(member) if member.isfile() else None
    if file is None:
        return member.linkname, b""
    found = hashlib.sha256()
    start = b""
    while chunk := file.read(_CHUNK_BYTES):
        found.update(chunk)
        if member.size <= _DATED_BYTES:
            start += chunk
    return found.hexdigest(), start


def _has_day(path: str, content: bytes, day: datetime.date) -> bool:
    if _SHADOW.fullmatch(path):
        # The third field is the day of the last change of the password, in days since 1970.
        return f":{(day - _EPOCH).days}:".encode() in content
    return day.isoformat().encode() in content


def _settings(build: Build) -> dict[str, Any]:
    """Return the configuration by key, without times, hashes of layers, and ids of the builder's own images."""
    config = build.config
    rest = {key: value for key, value in config.items() if key not in ("created", "rootfs", "config", "history")}
    settings = {f"config.{key}": value for key, value in config.get("config", {}).items()}
    # buildah writes the id of its image before the command as a comment.
    history = {
        f"history[{number}]": {key: value for key, value in row.items() if key not in ("created", "comment")}
        for number, row in enumerate(config.get("history", []))
    }
    return {**rest, **settings, **history, "number of layers": len(build.layers)}
