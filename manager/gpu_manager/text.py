"""Makes untrusted text safe for a terminal, such as text of a job or of a proxy."""

from __future__ import annotations


def printable(text: str) -> str:
    """Return the text as one line, with a space for each character that could control a terminal."""
    return "".join(each if each.isprintable() else " " for each in text)
