"""Tests of the Mermaid graph of a stack: what it shows, its bounds, and that a name can only be text in it."""

from __future__ import annotations

import itertools
import re

import pytest
from gpu_preview.model import Operation, Stack
from gpu_preview.report import markdown
from gpu_preview.report.graph import graph
from hypothesis import given
from hypothesis import strategies as st

from tests.preview import hostile, reports
from tests.preview.reports import report, resource, stack

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


@pytest.mark.parametrize("text", [*MERMAID, *hostile.FRAGMENTS])
def test_a_hostile_name_is_only_a_text(text: str) -> None:
    lines, _ = graph(named(text))
    assert [line for line in lines if not LINE.fullmatch(line)] == []
    assert len(lines) == 13


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
