"""The placeholders that the engine writes for secret and unknown values."""

from __future__ import annotations

from typing import Any

from gpu_common.pulumi_wire import UNKNOWNS

SECRET = "[secret]"  # noqa: S105 - pkg/backend/display/json.go
PLACEHOLDER = "placeholder-of-a-secret"
"""The first characters of the placeholder for an encrypted value of a stack file (stack_secrets.py)."""
IN_PLAIN = "(a secret, in plain)"
"""The text that a report has for such a value, and for any configuration secret that the program uses as plain text."""


def is_unknown(value: Any) -> bool:
    """Return True if the value is known only after an update."""
    return isinstance(value, str) and value in UNKNOWNS


def is_plain(value: Any) -> bool:
    """Return True if the value is neither secret nor unknown."""
    return value is not None and not is_unknown(value) and not (isinstance(value, str) and value == SECRET)


def is_in_plain(value: Any) -> bool:
    """Return True if a text contains a value that the stack file encrypts."""
    return isinstance(value, str) and (PLACEHOLDER in value or IN_PLAIN in value)
