"""Creates and checks names of cloud resources, which have limits on length and characters."""

from __future__ import annotations

import hashlib
import re

# The names of a pool's resources are the pool's name with suffixes, such as -template and Pulumi's -a1b2c3d. Google's
# limit is 63 characters (RFC 1035).
PATTERN = r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?"
FORM = "lower case letters, digits and dashes, a letter first, at most 40 characters"
"""The description of PATTERN in messages."""
_COMPONENT = re.compile(PATTERN)
_LONGEST = 40


def fit(text: str, limit: int) -> str:
    """Convert a text to a name of lower case letters, digits and single dashes, a letter first, at most `limit` long.

    If the name differs from the text, it ends with a hash of the text, so that different texts have different names.
    """
    normalized = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    normalized = normalized if normalized[:1].isalpha() else f"x-{normalized}".rstrip("-")
    if normalized == text and len(normalized) <= limit:
        return normalized
    return f"{normalized[: limit - 7].rstrip('-')}-{_digest(text)}"


def is_fit(name: str, text: str) -> bool:
    """Return True if the name is the text, or if `fit` made it from the text, with any limit."""
    return name == text or name.endswith(f"-{_digest(text)}")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:6]


def label_of(name: str, stack: str) -> str:
    """Return the label of what a component creates beside Pulumi. Stacks may share a project, so it has the stack."""
    return fit(f"{name}-{stack}", 50)


def machine_prefix(pool: str, role: str) -> str:
    """Return the start of the names of a pool's machines with a role. Grants depend on it, so it must not change."""
    return f"{fit(pool, 45)}-{role}-"


def of_part(name: str, role: str) -> str:
    """Return the name of a component that is part of the component `name`. It is as long as `check` allows at most."""
    return fit(f"{name}-{role}", _LONGEST)


def payload_key(manager: str, sha256: str) -> str:
    """Return the key of a download in a mailbox. `pulumi up` writes it, and it never changes."""
    return f"{manager}/payloads/{sha256}"


def check(kind: str, name: str, most: int = 0) -> None:
    """Raise ArgsError for a component name that is too long or invalid as part of its children's names.

    `most` is the maximum length if it is less than 40.
    """
    # Imported here, because it imports pydantic and pulumi. Programs without these packages call only `fit`.
    from .errors import ArgsError, Problem

    if not _COMPONENT.fullmatch(name) or len(name) > (most or _LONGEST):
        form = FORM.replace(str(_LONGEST), str(most or _LONGEST))
        problem = Problem(
            "name", "has a form that is not accepted", repr(name), f"{form}, such as l4", rule="wrong-name"
        )
        raise ArgsError(kind, [problem])
