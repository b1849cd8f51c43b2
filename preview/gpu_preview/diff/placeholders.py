"""What the engine writes in the place of a value that it does not tell, or cannot know yet."""

from __future__ import annotations

from typing import Any

SECRET = "[secret]"  # noqa: S105 - pkg/backend/display/json.go
PLACEHOLDER = "placeholder-of-a-secret"
"""How the value begins that stands for each encrypted one of a stack file (stack_secrets.py)."""
IN_PLAIN = "(a secret, in plain)"
"""What is shown of such a value, and of any secret of the configuration, where the program uses it as plain text."""
# One for each type of value that only an update can tell (pulumi/pulumi v3.259.0, sdk/go/common/resource/plugin/rpc.go,
# UnknownBoolValue to UnknownObjectValue).
UNKNOWN_VALUE = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
"""A text, or what is of no known type."""
UNKNOWNS = frozenset(
    {
        UNKNOWN_VALUE,
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",
        "030794c1-ac77-496b-92df-f27374a8bd58",
        "e48ece36-62e2-4504-bad9-02848725956a",
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",
    }
)

# How its log and its states mark what is more than JSON, and which of that is a secret
# (sdk/go/common/resource/sig/sig.go).
SIGNATURE, SECRET_SIGNATURE = "4dabf18193072939515e22adb298388d", "1b47061264138c4ac30d75fd1eb44270"


def is_unknown(value: Any) -> bool:
    """Whether only an update can tell the value, of whatever type it is."""
    return isinstance(value, str) and value in UNKNOWNS


def is_told(value: Any) -> bool:
    """Whether it is a value, and neither a secret nor unknown."""
    return value is not None and not is_unknown(value) and not (isinstance(value, str) and value == SECRET)


def is_in_plain(value: Any) -> bool:
    """Whether a text holds a value that the stack file encrypts."""
    return isinstance(value, str) and (PLACEHOLDER in value or IN_PLAIN in value)
