"""Values of properties as texts that a report may show: short, with secrets and unknowns said and never shown."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from . import json_text
from .placeholders import SECRET, is_unknown

WAS_SECRET = "[was secret, not shown]"  # noqa: S105
UNKNOWN = "(unknown)"
# A line of a comment stays readable at this length; what is longer is told by its size and a digest.
_CHARACTERS = 160


def shown(value: Any) -> str:
    """One line of JSON, shortened. An unknown or secret part says so, without quotes when it is the whole."""
    if is_unknown(value):
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
    return UNKNOWN if is_unknown(value) else value


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
