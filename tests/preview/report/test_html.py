"""Tests of the HTML file: it is self-contained, and its policy allows only its own script and styles."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from typing import Any

import pytest
from gpu_common.visible import visible
from gpu_preview.model import Report
from gpu_preview.report import html
from hypothesis import given

from tests.preview import hostile, reports
from tests.preview.reports import report, stack


def between(page: str, start: str, end: str) -> str:
    found = page.split(start)
    assert len(found) == 2, f"{len(found) - 1} times {start}"
    return found[1].split(end)[0]


def data(page: str) -> Any:
    text = between(page, '<script type="application/json" id="data">', "</script>")
    assert "<" not in text, "whatever follows it may begin or end something"
    return json.loads(text)


def digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def test_the_policy_allows_exactly_the_styles_and_the_script_that_are_in_the_page() -> None:
    page = html.render(reports.REPLACEMENT)
    style, script = between(page, "<style>", "</style>"), between(page, "<script>", "</script>")
    assert between(page, '"Content-Security-Policy" content="', '"') == (
        f"default-src 'none'; style-src 'sha256-{digest(style)}'; script-src 'sha256-{digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    assert "innerHTML" not in script


def test_the_page_names_no_address_but_those_of_the_namespaces() -> None:
    addresses = re.findall(r"https?://[^\s'\"]+", html.render(reports.REPLACEMENT))
    assert set(addresses) == {"http://www.w3.org/1999/xhtml", "http://www.w3.org/2000/svg"}


@given(hostile.reports)
def test_the_report_is_in_the_page_as_data_that_ends_nowhere_else(found: Report) -> None:
    page = html.render(found)
    names = sorted(visible(each.stack) for each in found.stacks)
    assert sorted(each["stack"] for each in data(page)["report"]["stacks"]) == names
    assert re.findall(r"<(/?[a-z!][a-z-]*)", page.split("</noscript>")[1]) == re.findall(
        r"<(/?[a-z!][a-z-]*)", html.render(report()).split("</noscript>")[1]
    )


@pytest.mark.parametrize("text", ["</script>", "</script x", "<!--<script x", "{{script}}", "\u2028", "&quot;"])
def test_a_text_that_would_end_the_data_or_ask_for_a_part_of_the_page_does_not(text: str) -> None:
    page = html.render(report(stack(text)))
    assert data(page)["report"]["stacks"][0]["stack"] == visible(text)
    assert page.count("class Graph {") == 1


def test_texts_are_cleaned_and_only_errors_and_policy_texts_keep_their_lines() -> None:
    danger = reports.JOBS_END.model_copy(update={"text": "a.\nb.", "hint": "c\nd"})
    given = stack("a\u202eb", error="one\ntwo\x1b", policies="a\nb", findings=(danger,))
    [found] = data(html.render(report(given)))["report"]["stacks"]
    assert (found["stack"], found["error"], found["policies"]) == ("a\\u202eb", "one\ntwo\\u001b", "a\\nb")
    assert [(each["text"], each["hint"]) for each in found["findings"]] == [("a.\nb.", "c\\nd")]


def test_the_repeated_text_of_a_rule_is_left_out_of_the_list() -> None:
    found = data(html.render(report(stack(violations=(reports.UNLABELLED, *reports.TWICE)))))
    assert [(each["policy"], each["text"]) for each in found["words"]["stacks"][0]["violations"]] == [
        ("gate", "A pool has a gate.\nl4 has none.\nTo fix it: give it one."),
        ("gate", "t4 has none."),
        ("labels", "The label cost-center is missing."),
    ]
    assert found["report"]["stacks"][0]["violations"][2]["text"] == reports.TWICE[1].text


def test_a_finding_ends_with_a_full_stop_where_a_hint_follows() -> None:
    given = [("a", "b"), ("a!", "b"), ("a", "")]
    findings = tuple(reports.JOBS_END.model_copy(update={"text": text, "hint": hint}) for text, hint in given)
    [found] = data(html.render(report(stack(findings=findings))))["report"]["stacks"]
    assert [each["text"] for each in found["findings"]] == ["a.", "a!", "a"]


def test_the_line_on_policies_is_that_of_the_comment() -> None:
    stacks = [stack(policies=policies_text) for policies_text in ("no policy pack was given", "asked:\nx")]
    assert [each["policies"] for each in data(html.render(report(*stacks)))["words"]["stacks"]] == ["", "asked:\\nx"]


def test_the_table_of_several_stacks_has_the_worst_month_of_each() -> None:
    words = data(html.render(reports.SEVERAL))["words"]["stacks"]
    assert [each["worstMonth"] for each in words] == ["", "876.00 → 1,314.00 (+438.00)", "", "", ""]


def test_a_browser_without_scripts_shows_the_results() -> None:
    page = html.render(report(reports.REPLACED, stack("<b>&", reports.POOL_T4)))
    assert between(page, "<noscript>", "</noscript>") == (
        "<p>staging: 2 replaced, 1 updated, 2 unchanged, 1 output differs</p>"
        "<p>&lt;b&gt;&amp;: nothing changes, 1 unchanged</p>"
        "<p>The rest of this page is drawn by its own script, which is switched off here.</p>"
    )


def test_a_stack_that_could_not_be_previewed_comes_first() -> None:
    found = data(html.render(reports.SEVERAL))
    assert [each["stack"] for each in found["report"]["stacks"]] == ["prod", "staging", "dev", "old", "next"]
    assert found["words"]["stacks"][0]["outcome"] == "cannot be previewed, so it is not safe to merge"
