"""Make texts from drivers, libraries and files safe for a terminal and a log."""

from __future__ import annotations

import re

# Letters and marks that draw nothing, although str.isprintable() accepts them. They are the rest of
# Default_Ignorable_Code_Point in Unicode's DerivedCoreProperties.txt, and the blank of Braille.
_BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")


def printable(text: str) -> str:
    """Replace each character that draws nothing, or changes its neighbours, with a space."""
    if not text.isascii():
        text = _BLANK.sub(" ", text)
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)
