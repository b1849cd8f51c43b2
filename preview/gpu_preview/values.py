"""Values of properties as texts that a report may show: short, with secrets and unknowns said and never shown."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from . import json_text
from .walk import SECRET
from .walk import UNKNOWN as UNKNOWN_TEXT

WAS_SECRET = "[was secret, not shown]"  # noqa: S105
UNKNOWN = "(unknown)"
# What stands for a value that only an update can tell: one for each type (pulumi/pulumi v3.259.0,
# sdk/go/common/resource/plugin/rpc.go, UnknownBoolValue to UnknownObjectValue).
UNKNOWNS = frozenset(
    {
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",
        UNKNOWN_TEXT,
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",
        "030794c1-ac77-496b-92df-f27374a8bd58",
        "e48ece36-62e2-4504-bad9-02848725956a",
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",
    }
)
# A line of a comment stays readable at this length; what is longer is told by its size and a digest.
_CHARACTERS = 160


def shown(value: Any) -> str:
    """One line of JSON, shortened. An unknown or secret part says so, without quotes when it is the whole."""
    if isinstance(value, str) and value in UNKNOWNS:
        return UNKNOWN
    if value == SECRET:
        return SECRET
    return short(json.dumps(_told(value), ensure_ascii=False, sort_keys=True))


def short(text: str) -> str:
    """As it is, or its beginning, its length and the first digits of its SHA-256, by which two are told apart."""
    if len(text) <= _CHARACTERS:
        return text
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]
    return f"{text[: _CHARACTERS // 2]}… ({len(text):,} characters, sha256 {digest})"


def _told(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _told(one) for key, one in value.items() if key != "__defaults"}
    if isinstance(value, list):
        return [_told(one) for one in value]
    return UNKNOWN if isinstance(value, str) and value in UNKNOWNS else value


def is_secret(value: Any) -> bool:
    """Whether the engine keeps it, or a part of it, secret."""
    if isinstance(value, Mapping):
        return any(is_secret(one) for one in value.values())
    if isinstance(value, list):
        return any(is_secret(one) for one in value)
    return bool(value == SECRET)


def as_json(value: Any) -> Any:
    """What a text of JSON says, where it is a map or a list; None for anything else."""
    if not isinstance(value, str) or value[:1] not in ("{", "["):
        return None
    try:
        found = json_text.read(value)
    except ValueError:
        return None
    return found if isinstance(found, dict | list) else None
