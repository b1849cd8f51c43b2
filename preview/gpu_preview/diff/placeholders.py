"""What the engine writes in the place of a value that it does not tell, or cannot know yet."""

from __future__ import annotations

from typing import Any

from gpu_common.pulumi_wire import UNKNOWNS

SECRET = "[secret]"  # noqa: S105 - pkg/backend/display/json.go
PLACEHOLDER = "placeholder-of-a-secret"
"""How the value begins that stands for each encrypted one of a stack file (stack_secrets.py)."""
IN_PLAIN = "(a secret, in plain)"
"""What is shown of such a value, and of any secret of the configuration, where the program uses it as plain text."""


def is_unknown(value: Any) -> bool:
    """Whether only an update can tell the value, of whatever type it is."""
    return isinstance(value, str) and value in UNKNOWNS


def is_told(value: Any) -> bool:
    """Whether it is a value, and neither a secret nor unknown."""
    return value is not None and not is_unknown(value) and not (isinstance(value, str) and value == SECRET)


def is_in_plain(value: Any) -> bool:
    """Whether a text holds a value that the stack file encrypts."""
    return isinstance(value, str) and (PLACEHOLDER in value or IN_PLAIN in value)
