"""Tests that a comment shows any text of a program literally: without formatting, links or mentions."""

from __future__ import annotations

import pytest
from gpu_common.visible import visible, visible_lines
from gpu_preview.model import Report
from gpu_preview.report import markdown
from gpu_preview.report.markdown_text import block, cell, code, html_code, prose
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.preview import hostile, reports
from tests.preview.as_github import Comment

MARKER = [" gpu-ci-preview "]


@settings(max_examples=60)
@given(hostile.reports, st.sampled_from([markdown.SHORTEST_LIMIT, 3_000, markdown.LIMIT]))
def test_no_text_of_any_report_does_anything_and_the_limit_holds(report: Report, limit: int) -> None:
    text = markdown.render(report, limit)
    assert len(text) <= limit
    comment = Comment(text)
    assert comment.faults == []
    assert comment.comments == MARKER
    assert text.startswith(markdown.MARKER + "\n")


@pytest.mark.parametrize("fragment", hostile.FRAGMENTS)
def test_each_hostile_text_does_nothing_in_any_field(fragment: str) -> None:
    for text in (fragment, f"a {fragment} b", f"{fragment}\n\n{fragment}", fragment * 3):
        comment = Comment(markdown.render(hostile.everywhere(text)))
        assert (comment.faults, comment.comments) == ([], MARKER)


@given(hostile.texts)
def test_every_text_is_shown_to_the_letter(text: str) -> None:
    shown = visible(text)
    assert Comment(f"a {code(text)}").text == f"a {shown or '(empty)'}\n"
    assert Comment(f"a {prose(text)}").text == f"a {visible(' '.join(text.split())) or '(empty)'}\n"
    assert Comment(f"<details><summary>{html_code(text)}</summary></details>").text.strip("\n") == shown
    assert Comment("\n".join(block(text))).text == f"{visible_lines(text)}\n\n"
    # As the parser reads it; markdown_text.py says why one `|` is written as its number.
    row = Comment(f"| a |\n|---|\n| {cell(text)} |").text
    assert (shown.replace("\\|", "\\\\u007c") or "(empty)") in row


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("Set max to 0, or wait.", "Set max to 0, or wait."),
        ("pool t4 (max 8): 0.0.0.0/0 may reach it.", "pool `t4` (max 8): `0.0.0.0/0` may reach it."),
        ("ask @octocat about #1.", "ask `@octocat` about `#1`."),
        ("see (https://example.com), please", "see (`https://example.com`), please"),
        ("costs $5 or 1,200.50 USD, 50%", "costs `$5` or 1,200.50 USD, 50%"),
        ("1. first", "`1`. first"),
        ("- first", "`-` first"),
        ("a - b → c", "a - b → c"),
        ("two\n\nlines\tand \x1b[31m", "two lines and `\\u001b[31m`"),
        ("a `b` c", "a `` `b` `` c"),
        ("", "`(empty)`"),
        ("defaced 1234567", "`defaced` `1234567`"),
    ],
)
def test_a_sentence_stays_one_and_what_is_more_than_words_is_code(text: str, written: str) -> None:
    assert prose(text) == written


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("t4-group", "`t4-group`"),
        ("a`b", "``a`b``"),
        ("`", "`` ` ``"),
        (" a", "`  a `"),
        ("  ", "`  `"),
        ("", "`(empty)`"),
        ("a\nb\u202ec", "`a\\nb\\u202ec`"),
    ],
)
def test_inline_code_can_have_backticks_spaces_and_invisible_characters(text: str, written: str) -> None:
    assert code(text) == written


def test_a_pipe_in_a_table_is_escaped_and_one_after_a_backslash_is_written_as_its_number() -> None:
    assert (cell("a|b"), cell("a\\|b")) == ("`a\\|b`", "`a\\\\u007cb`")


def test_the_end_of_code_within_code_is_escaped() -> None:
    assert block("a\n````\nb\r\nc", language="text") == ["`````text", "a", "````", "b", "c", "`````"]


def test_a_long_text_is_cut_with_a_sign_of_it() -> None:
    assert (code("abcdef", 4), prose("abc def", 6), block("abcdef", 3)[1]) == ("`abc…`", "abc `d…`", "ab…")


@pytest.mark.parametrize("limit", [1_000, 5_000, 20_000, 65_000])
def test_the_limit_holds_for_reports_of_any_size(limit: int) -> None:
    huge = hostile.everywhere("`@x` " * 20_000)
    many = huge.model_copy(update={"stacks": huge.stacks * 300, "walls": huge.walls * 3_000})
    for report in (huge, many, reports.TOO_LONG):
        text = markdown.render(report, limit)
        assert len(text) <= limit
        assert Comment(text).faults == []
