from __future__ import annotations

from gpu_common.visible import visible
from gpu_smoke.output import printable


def test_characters_that_the_preview_escapes_are_spaces_here() -> None:
    """The check runs without the preview's package, so it has a table of its own."""
    for code in (*range(0x10000), *range(0xE0000, 0xE0200)):  # and nothing between is invisible but unassigned
        assert printable(chr(code)) == (chr(code) if visible(chr(code)) == chr(code) else " "), hex(code)
