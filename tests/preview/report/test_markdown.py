"""Tests of the Markdown of example reports, and of the text that long reports leave out."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable

import pytest
from gpu_common.visible import visible, visible_lines
from gpu_preview.model import Operation, Report, Resource, Stack, Violation
from gpu_preview.report import markdown
from gpu_preview.report.graph import graph
from gpu_preview.report.markdown import block, cell, code, html_code, prose
from hypothesis import example, given
from hypothesis import strategies as st

from tests.preview import hostile, reports
from tests.preview.hostile import Comment
from tests.preview.reports import report, resource, stack


@pytest.mark.parametrize("name", reports.GOLDEN)
def test_the_comment_reads_as_before(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"preview/{name}.md", markdown.render(reports.GOLDEN[name]))


def test_a_comment_that_would_be_too_long_loses_properties_first_and_says_how_many(
    golden: Callable[[str, str], None],
) -> None:
    text = markdown.render(reports.TOO_LONG, 6_000)
    assert "Some details are not in this comment." in text
    assert len(re.findall("@@ updated", text)) == 30
    golden("preview/too-long.md", text)


def many_dangers(count: int) -> Report:
    found = tuple(reports.JOBS_END.model_copy(update={"rule": f"rule-{number:04}"}) for number in range(count))
    return report(stack("staging", *reports.TOO_LONG.stacks[0].resources, findings=found))


def test_no_danger_is_left_out_while_anything_else_can_be() -> None:
    text = markdown.render(many_dangers(355))
    assert len(re.findall(r"`rule-\d{4}`", text)) == 355
    assert "<details>" not in text


def test_the_first_dangers_are_shown_and_the_others_are_counted() -> None:
    text = markdown.render(many_dangers(1_037))
    assert re.findall(r"`(rule-\d{4})`", text) == [f"rule-{number:04}" for number in range(250)]
    assert "> - and 787 more\n" in text
    assert "**staging**: 30 updated; **1,037 dangers**\n" in text


def test_content_that_does_not_fit_is_counted_in_one_sentence() -> None:
    stacks = [stack(f"{number}" * 200, findings=(reports.JOBS_END,)) for number in range(40)]
    text = markdown.render(report(*stacks), markdown.SHORTEST_LIMIT)
    assert text == (
        "<!-- gpu-ci-preview -->\n**40 stacks**: 0 cannot be previewed,\n"
        "40 with dangers or policy violations, 0 resources.\n"
        "This is too much for a comment. See the full report.\n"
    )


def test_deleted_resources_are_listed_causes_first_without_deleted_users() -> None:
    def gone(name: str, operation: Operation = Operation.DELETE, *needs: Resource) -> Resource:
        return reports.resource("a:b:C", name, operation, depends_on=tuple(each.urn for each in needs))

    network = gone("network")
    group = gone("group", Operation.DELETE, network)
    stays = gone("stays", Operation.UPDATE, network)
    text = markdown.render(report(stack("dev", group, network, stays)))
    assert "**Deleted**\n\n- `network`, `a:b:C`; used by `stays`\n- `group`, `a:b:C`\n" in text
    text = markdown.render(report(stack("dev", group, network)))
    assert "**Deleted**\n\n- `network`, `a:b:C`\n- `group`, `a:b:C`\n" in text
    assert text.count("`group`") + text.count("deleted group") == 1


def test_the_purpose_and_the_fix_of_a_rule_are_printed_once() -> None:
    def broken(name: str, what: str, policy: str = "labels") -> Violation:
        urn = f"urn:pulumi:dev::p::t::{name}"
        text = f"Title of {policy}.\n{what}\nTo fix it: mend it."
        return Violation(policy=policy, pack="p", level="mandatory", text=text, urn=urn)

    found = [
        broken("a", "It is a."),
        broken("b", "It is b.", "other"),
        broken("c", "It is c."),
        broken("d", "It is c."),
    ]
    text = markdown.render(report(stack(violations=tuple(found))))
    items = [line for line in text.splitlines() if line.startswith("- ")]
    assert items == [
        "- `labels` (mandatory): Title of labels. It is a. To fix it: mend it. (`a`)",
        "- `labels` (mandatory): It is c. (`c`)",
        "- `labels` (mandatory): It is c. (`d`)",
        "- `other` (mandatory): Title of other. It is b. To fix it: mend it. (`b`)",
    ]


MARKER = [" gpu-ci-preview "]


@given(hostile.reports, st.sampled_from([markdown.SHORTEST_LIMIT, 3_000, markdown.LIMIT]))
def test_no_text_of_any_report_does_anything_and_the_limit_holds(report: Report, limit: int) -> None:
    text = markdown.render(report, limit)
    assert len(text) <= limit
    comment = Comment(text)
    assert comment.faults == []
    assert comment.comments == MARKER
    assert text.startswith(markdown.MARKER + "\n")


def test_each_hostile_text_does_nothing_in_any_field() -> None:
    for fragment in hostile.FRAGMENTS:
        for text in (fragment, f"a {fragment} b", f"{fragment}\n\n{fragment}", fragment * 3):
            comment = Comment(markdown.render(hostile.everywhere(text)))
            assert (text, comment.faults, comment.comments) == (text, [], MARKER)


@given(hostile.texts)
@example("a|b")
def test_every_text_is_shown_to_the_letter(text: str) -> None:
    shown = visible(text)
    assert Comment(f"a {code(text)}").text == f"a {shown or '(empty)'}\n"
    assert Comment(f"a {prose(text)}").text == f"a {visible(' '.join(text.split())) or '(empty)'}\n"
    assert Comment(f"<details><summary>{html_code(text)}</summary></details>").text.strip("\n") == shown
    assert Comment("\n".join(block(text))).text == f"{visible_lines(text)}\n\n"
    # As the parser reads it; markdown.py says why one `|` is written as its number.
    row = Comment(f"| a |\n|---|\n| {cell(text)} |").text
    assert (shown.replace("\\|", "\\\\u007c") or "(empty)") in row


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("Set max to 0, or wait.", "Set max to 0, or wait."),
        ("pool t4 (max 8): 0.0.0.0/0 may reach it.", "pool `t4` (max 8): `0.0.0.0/0` may reach it."),
        ("ask @octocat about #1.", "ask `@octocat` about `#1`."),
        ("costs $5 or 1,200.50 USD, 50%", "costs `$5` or 1,200.50 USD, 50%"),
        ("1. first", "`1`. first"),
        ("- first", "`-` first"),
        ("two\n\nlines\tand \x1b[31m", "two lines and `\\u001b[31m`"),
        ("a `b` c", "a `` `b` `` c"),
        ("", "`(empty)`"),
    ],
)
def test_a_sentence_stays_one_and_what_is_more_than_words_is_code(text: str, written: str) -> None:
    assert prose(text) == written


def test_a_long_text_is_cut_with_a_sign_of_it() -> None:
    assert (code("abcdef", 4), prose("abc def", 6), block("abcdef", 3)[1]) == ("`abc…`", "abc `d…`", "ab…")


@pytest.mark.parametrize("limit", [1_000, 5_000, 20_000, 65_000])
def test_the_limit_holds_for_reports_of_any_size(limit: int) -> None:
    huge = hostile.everywhere("`@x` " * 20_000)
    many = huge.model_copy(update={"stacks": huge.stacks * 300, "walls": huge.walls * 3_000})
    for each in (huge, many, reports.TOO_LONG):
        text = markdown.render(each, limit)
        assert len(text) <= limit
        assert Comment(text).faults == []


LABEL = r"(?:\(empty\)|(?!-)(?:[A-Za-z0-9 /�-]|#\d+;)+)"
# Every line that the module writes, with only letters, digits and encoded characters in the place of a name.
LINE = re.compile(
    rf'flowchart LR|direction LR|end|subgraph b\d+\["{LABEL}"\]|n\d+\["{LABEL}(?:<br/>(?:⚠ )?{LABEL})*"\]:::[a-z]+'
    r"|n\d+ --> n\d+|classDef [a-z]+ [a-z0-9:#,-]+|class [nb]\d+(?:,[nb]\d+)* (?:danger|box)"
)
# Texts that Mermaid would act on: the end of a label, links, directives, HTML, Markdown, icons, formulas, entities.
MERMAID = (
    '"]', '"]:::x', '"]\nclick n0 "javascript:alert(1)"', '%%{init: {"securityLevel": "loose"}}%%', "---\nconfig:\n---",
    "<img src=x onerror=alert(1)>", "<script>alert(1)</script>", "`**a**`", "fa:fa-bomb", "$$x$$", "#35;",
    "&#60;b&#62;", "ﬂ°°60¶ßscriptﬂ°°62¶ß", "1. one", "- one", "end", "style n0:#f;", "a\n  n0 --> n1", "__a__", "[a](https://b.c)",
    "%%",
)  # fmt: skip


def named(text: str) -> Stack:
    """Return a stack in which all names are this text, with an arrow and a danger."""
    first = resource("a:b:C", text, Operation.REPLACE, component=text)
    second = resource(f"a:b:{text}", f"{text}-2", Operation.UPDATE, component=text, depends_on=(first.urn,))
    return stack("dev", first, second, findings=(reports.JOBS_END.model_copy(update={"rule": text, "urn": first.urn}),))


def many(count: int, components: int = 1) -> Stack:
    """Return a stack with resources that each depend on the one before."""
    found = [
        resource("a:b:C", f"r{each}", Operation.CREATE, component=f"c{each % components}") for each in range(count)
    ]
    linked = [each.model_copy(update={"depends_on": (before.urn,)}) for before, each in itertools.pairwise(found)]
    return stack("dev", found[0], *linked)


@given(st.one_of(hostile.texts, st.lists(st.sampled_from(MERMAID), max_size=4).map("".join)))
def test_any_name_is_only_a_text(text: str) -> None:
    assert all(LINE.fullmatch(line) for line in graph(named(text))[0])


def test_an_arrow_that_others_imply_is_left_out() -> None:
    lines, is_first = graph(reports.REPLACED)
    assert [line for line in lines if "-->" in line] == ["n0 --> n1", "n1 --> n2"]
    assert is_first


def test_similar_resources_without_arrows_share_a_node() -> None:
    alike = [resource("a:b:C", f"r{each}", Operation.DELETE) for each in range(3)]
    lines, is_first = graph(stack("dev", *alike, reports.LARGER_DISK))
    assert [line for line in lines if line.startswith("n")] == [
        'n0["r0<br/>and 2 more<br/>C<br/>deleted"]:::delete',
        'n1["t4-cache<br/>Disk<br/>updated"]:::update',
    ]
    assert not is_first


def test_many_resources_are_drawn_as_components_and_many_components_not_at_all() -> None:
    assert [line for line in graph(many(40))[0] if "direction" in line or "40 created" in line] == ["direction LR"]
    lines, _ = graph(many(400, components=2))
    assert [line for line in lines if line.startswith("n")] == [
        'n0["c0<br/>200 created"]:::create', 'n1["c1<br/>200 created"]:::create', "n0 --> n1", "n1 --> n0",
    ]  # fmt: skip
    assert graph(many(400, components=41)) == ([], False)
    assert graph(stack("dev", reports.LARGER_DISK)) == ([], False)


def test_a_large_graph_is_folded_and_no_text_is_longer_than_github_accepts() -> None:
    text = markdown.render(report(many(20)))
    assert "<details><summary>Graph of the changes</summary>\n\n```mermaid\nflowchart LR\n" in text
    long = [resource("a:b:C", "\u202e" * 500 + str(each), Operation.CREATE, component="") for each in range(40)]
    linked = [each.model_copy(update={"depends_on": (other.urn,)}) for each, other in itertools.pairwise(long)]
    assert sum(map(len, graph(stack("dev", *linked, long[-1]))[0])) <= 20_000
