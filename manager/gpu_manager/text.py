"""Escaping of untrusted text, such as that of a job or a proxy, for a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """Return the text as one line, with a space for each character that could control a terminal."""
    return "".join(each if each.isprintable() else " " for each in text)
