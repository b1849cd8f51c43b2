"""The boot document of a machine with a mailbox, which the boot script has fetched and verified."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ..machine import processes

VARIABLE = "GPU_AGENT_BOOT"
"""The environment variable with another path, for a sandbox and for tests. A machine never reads it."""


class Request(NamedTuple):
    """A signed request of one object."""

    url: str
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Document:
    """The boot document. Its URLs are secrets."""

    machine: str
    """The machine's name followed by its id."""
    host: str
    """How the machine reads notices: `ec2`, or `rented` if it cannot."""
    role: str
    """agent.ROLE of the machine, or ""."""
    config: Mapping[str, Any]
    payloads: Mapping[str, Mapping[str, str]] = field(repr=False)
    """The URL and the SHA-256 of each download."""
    mailbox: Mapping[str, Request] = field(repr=False)
    """The requests for the machine's objects: key, verdict, end, notice, registration."""


def document(environ: Mapping[str, str]) -> Document | None:
    """Return the boot document of this machine, or None on a computer without one.

    Only root can create the file, so it shows that the computer is a machine.

    Raises:
        OSError: The file cannot be read, or it is not root's own.
        ValueError: The file is not a boot document.
    """
    if processes.BOOT_DOCUMENT.exists():
        return _parsed(_owned(processes.BOOT_DOCUMENT))
    other = environ.get(VARIABLE)
    return _parsed(Path(other).read_text()) if other else None


def _owned(path: Path) -> str:
    """Return the content of a file that only root can read and write."""
    number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    with open(number, encoding="utf-8") as file:  # noqa: PTH123 - a file that is open already
        found = os.fstat(number)
        if found.st_uid != 0 or stat.S_IMODE(found.st_mode) != 0o600:
            raise OSError(f"{path}: its owner is not root, or its mode is not 0600")
        return file.read()


def _parsed(text: str) -> Document:
    try:
        value = json.loads(text)
        mailbox = {name: Request(each["url"], each["headers"]) for name, each in value["mailbox"].items()}
        payloads = {name: {"url": each["url"], "sha256": each["sha256"]} for name, each in value["payloads"].items()}
        host, role = value["host"], value["role"]
        made = Document(str(value["machine"]), str(host), str(role), dict(value["config"]), payloads, mailbox)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError("the boot document is not one of this version") from None
    return made
