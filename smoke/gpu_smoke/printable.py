"""Texts from drivers, libraries and files, fit for a terminal and a log."""

from __future__ import annotations

import re

# Letters and marks that draw nothing, though str.isprintable() takes them: the rest of Default_Ignorable_Code_Point in
# Unicode's DerivedCoreProperties.txt, and Braille's blank.
_BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")


def printable(text: str) -> str:
    """The text with a space in the place of each character that draws nothing or acts on its neighbours."""
    if not text.isascii():
        text = _BLANK.sub(" ", text)
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)
