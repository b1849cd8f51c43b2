"""Escapes characters in untrusted text that could hide, reorder or move other text in a terminal or a report."""

from __future__ import annotations

import unicodedata

# The Unicode categories of characters that are invisible or change other characters. They are: controls (including
# ANSI's escape), format characters (some change the direction of text), surrogates, private characters, unassigned
# characters, and separators.
_UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"}
# Invisible letters and marks: the rest of Default_Ignorable_Code_Point in Unicode's DerivedCoreProperties.txt, and the
# blank Braille pattern.
_BLANK = frozenset(
    code
    for first, last in (
        (0x034F, 0x034F),
        (0x115F, 0x1160),
        (0x17B4, 0x17B5),
        (0x180B, 0x180F),
        (0x2800, 0x2800),
        (0x3164, 0x3164),
        (0xFE00, 0xFE0F),
        (0xFFA0, 0xFFA0),
        (0xE0100, 0xE01EF),
    )
    for code in range(first, last + 1)
)
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


class _Escapes(dict[int, str]):
    """A table for str.translate. It computes the text of a character at its first use."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        hidden = code in _BLANK or (character != " " and unicodedata.category(character) in _UNSEEN)
        escape = f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
        self[code] = _SHORT.get(character, escape) if hidden else character
        return self[code]


_IN_A_LINE = _Escapes()
_IN_LINES = _Escapes({ord("\n"): "\n", ord("\t"): "\t"})


def visible(text: str, limit: int | None = None) -> str:
    """Return the text on one line, with invisible characters as escapes such as `\\u202e`, in `limit` characters."""
    return _clipped(text, limit, _IN_A_LINE)


def visible_lines(text: str, limit: int | None = None) -> str:
    """Return the text like `visible`, but keep its line breaks and tabs."""
    return _clipped(text.replace("\r\n", "\n"), limit, _IN_LINES)


def _clipped(text: str, limit: int | None, escapes: _Escapes) -> str:
    if limit is None:
        return text.translate(escapes)
    # Escapes only make a text longer, so the result depends on no character after `limit`.
    shown = text[: limit + 1].translate(escapes)
    return shown if len(shown) <= limit else shown[: max(limit - 1, 0)] + "…"
