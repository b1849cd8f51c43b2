"""Text that others wrote, such as a job or a proxy, made fit for a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text as one line, with a space for each character that could command a terminal."""
    return "".join(each if each.isprintable() else " " for each in text)
