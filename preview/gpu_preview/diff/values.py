"""Formats property values for a report: short, with markers instead of secret and unknown values."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from gpu_common import pulumi_wire
from gpu_common.pulumi_wire import UNKNOWNS

SECRET = "[secret]"  # noqa: S105 - the engine's marker of a secret value (pkg/backend/display/json.go)
PLACEHOLDER = "placeholder-of-a-secret"
"""The first characters of the placeholder for an encrypted value of a stack file (compare/checkout.py)."""
IN_PLAIN = "(a secret, in plain)"
"""The text that a report has for such a value, and for any configuration secret that the program uses as plain text."""
WAS_SECRET = "[was secret, not shown]"  # noqa: S105
ANOTHER_SECRET = "[another secret]"  # noqa: S105
"""The text for a secret after the change that differs from the old secret. Only the engine can compare the two."""
UNKNOWN = "(unknown)"
# A line of a comment stays readable at this length. A longer value is shown by its size and a digest.
_CHARACTERS = 160
_IN_PLAIN = re.compile(rf"{PLACEHOLDER}(?:-[0-9a-f]{{8}})?")


def shown(value: Any) -> str:
    """Return one shortened line of JSON. Unknown and secret parts have a marker, without quotes for a whole value."""
    if is_unknown(value):
        return UNKNOWN
    if value == SECRET:
        return SECRET
    return short(_IN_PLAIN.sub(IN_PLAIN, json.dumps(_readable(value), ensure_ascii=False, sort_keys=True)))


def in_digest_form(value: Any) -> Any:
    """Return a value of the engine's event log in the form of the digest, with markers for secret and unknown parts.

    The log wraps a secret value in an object. A text of the log can also contain SECRET, the marker of the digest. The
    engine writes it instead of a secret of the configuration that the program uses as plain text
    (sdk/go/common/util/logging, filters).
    """
    if isinstance(value, str):
        return value.replace(SECRET, IN_PLAIN)
    if isinstance(value, list):
        return [in_digest_form(one) for one in value]
    if not isinstance(value, Mapping):
        return value
    kind = value.get(pulumi_wire.SIGNATURE)
    if kind == pulumi_wire.SECRET or (kind == pulumi_wire.OUTPUT and value.get("secret") is True):
        return SECRET
    if kind == pulumi_wire.OUTPUT:
        return in_digest_form(value["value"]) if "value" in value else pulumi_wire.UNKNOWN_STRING
    return {key: in_digest_form(one) for key, one in value.items()}


def short(text: str) -> str:
    """Return a short text unchanged, and a longer one as its beginning, its length and some digits of its SHA-256."""
    if len(text) <= _CHARACTERS:
        return text
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]
    return f"{text[: _CHARACTERS // 2]}… ({len(text):,} characters, sha256 {digest})"


def _readable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _readable(one) for key, one in value.items() if key != "__defaults"}
    if isinstance(value, list):
        return [_readable(one) for one in value]
    return UNKNOWN if is_unknown(value) else value


def is_secret(value: Any) -> bool:
    """Return True if the engine keeps the value, or a part of it, secret."""
    if isinstance(value, Mapping):
        return any(is_secret(one) for one in value.values())
    if isinstance(value, list):
        return any(is_secret(one) for one in value)
    return bool(value == SECRET)


def is_unknown(value: Any) -> bool:
    """Return True if the value is known only after an update."""
    return isinstance(value, str) and value in UNKNOWNS


def is_plain(value: Any) -> bool:
    """Return True if the value is neither secret nor unknown."""
    return value is not None and not is_unknown(value) and not (isinstance(value, str) and value == SECRET)


def is_in_plain(value: Any) -> bool:
    """Return True if a text contains a value that the stack file encrypts."""
    return isinstance(value, str) and (PLACEHOLDER in value or IN_PLAIN in value)
