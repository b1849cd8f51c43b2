"""Reads the request of a build step: an object in the bucket, which the machine's metadata names.

The request is no metadata itself, because it may contain secrets, and many users of a project can read metadata.
"""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass, field

from .. import config
from ..host import Host
from ..outcomes import AgentExit

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


def read(host: Host, deadline: float) -> BuildRequest:
    """Return the request. Raises AgentExit: no-config with all mistakes, wrong-source, or an error of the bucket."""
    place = config.parse_as(RequestObject, host.attribute(KEY), KEY)
    sink = io.BytesIO()
    host.bucket(place.bucket).read(place.name, sink, deadline, _LIMIT_BYTES)
    got = hashlib.sha256(sink.getvalue()).hexdigest()
    if got != place.sha256:
        raise AgentExit("wrong-source", f"{place.name}: got sha256 {got}, expected {place.sha256}")
    return parse(sink.getvalue().decode(errors="replace"))


def parse(text: str) -> BuildRequest:
    """Return the request. Raises AgentExit("no-config") with all mistakes."""
    found = config.parse_as(BuildRequest, text, KEY)
    if found.format != FORMAT:
        raise AgentExit("no-config", f"{KEY}: format: got {found.format}, expected {FORMAT}")
    if not found.command:
        raise AgentExit("no-config", f"{KEY}: command: is empty")
    return found
