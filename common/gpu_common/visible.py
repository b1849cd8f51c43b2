"""Texts of a program made visible: nothing in them hides, reorders or moves what stands around it."""

from __future__ import annotations

import unicodedata

# Characters of categories that draw nothing or act on their neighbours: controls (ANSI's escape among them), format
# characters (all that change the direction of writing), surrogates, private and unassigned ones, and separators.
_UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"}
# Letters and marks that draw nothing either: the rest of Default_Ignorable_Code_Point in Unicode's
# DerivedCoreProperties.txt, and Braille's blank.
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
    """What str.translate asks: each character's own text, found when it is first seen."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        hidden = code in _BLANK or (character != " " and unicodedata.category(character) in _UNSEEN)
        escape = f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
        self[code] = _SHORT.get(character, escape) if hidden else character
        return self[code]


_IN_A_LINE = _Escapes()
_IN_LINES = _Escapes({ord("\n"): "\n", ord("\t"): "\t"})


def visible(text: str, limit: int | None = None) -> str:
    """The text in one line, every character that nobody would see written as `\\u202e`, at most `limit` long."""
    return _clipped(text, limit, _IN_A_LINE)


def visible_lines(text: str, limit: int | None = None) -> str:
    """As `visible`, but with its lines and tabs."""
    return _clipped(text.replace("\r\n", "\n"), limit, _IN_LINES)


def _clipped(text: str, limit: int | None, escapes: _Escapes) -> str:
    if limit is None:
        return text.translate(escapes)
    # Escapes only make a text longer, so nothing of what is shown lies further on.
    shown = text[: limit + 1].translate(escapes)
    return shown if len(shown) <= limit else shown[: max(limit - 1, 0)] + "…"
