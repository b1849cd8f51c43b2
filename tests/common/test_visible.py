from __future__ import annotations

import unicodedata

import pytest
from gpu_common.visible import visible, visible_lines
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("t4-group é 名前 😀", "t4-group é 名前 😀"),
        ("a\nb\r\nc\td", "a\\nb\\r\\nc\\td"),
        ("\x1b[31mred", "\\u001b[31mred"),
        ("\u202egpj.exe", "\\u202egpj.exe"),
        ("a\u200bb\u00a0c", "a\\u200bb\\u00a0c"),
        ("a\ufe0f\u3164\u2800", "a\\ufe0f\\u3164\\u2800"),
        ("\U000e0041", "\\U000e0041"),
    ],
)
def test_what_nobody_would_see_is_written_as_its_number(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_lines_and_tabs_stay_where_lines_matter() -> None:
    assert visible_lines("a\r\nb\n\tc\rd\x1b") == "a\nb\n\tc\\rd\\u001b"


@pytest.mark.parametrize(("limit", "shown"), [(5, "abcde"), (4, "abc…"), (1, "…"), (None, "abcde")])
def test_a_text_is_cut_at_its_limit(limit: int | None, shown: str) -> None:
    assert visible("abcde", limit) == shown


@given(st.text(), st.integers(1, 20))
def test_no_text_holds_a_hidden_character_or_is_too_long(text: str, limit: int) -> None:
    shown = visible(text, limit)
    assert len(shown) <= limit
    assert [each for each in shown if each != " " and unicodedata.category(each)[0] in "CZ"] == []
