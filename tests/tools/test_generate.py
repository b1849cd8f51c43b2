"""Tests of the generated reference pages."""

from __future__ import annotations

import re

from tools.docs.components import described
from tools.docs.generate import DOCS, commands_page


def reference() -> dict[str, str]:
    """Return the pages of components as committed. tests/test_docs.py finds what is not generated anew."""
    return {page.name: page.read_text() for page in (DOCS / "reference").glob("*.md")}


def test_a_list_item_is_a_labelled_part_and_no_other_sentence_with_a_colon() -> None:
    assert described("Rules for one branch: no deletion.") == ["Rules for one branch: no deletion."]
    assert described("Creates: a ruleset. Costs: nothing; a plan\nis needed.\nDoes not: change tags.") == [
        "- Creates: a ruleset. Costs: nothing; a plan is needed.",
        "- Does not: change tags.",
    ]


def test_a_type_is_described_once_and_shared_fields_are_in_the_table_that_a_component_refers_to() -> None:
    text = reference()
    pools = text["pools.md"]
    assert "| `ladder` | list of [LadderRung](#ladderrung) |" in pools
    assert sum(page.count("\n## Scratch\n") for page in text.values()) == 1
    [shared] = re.findall(r"As for \[`gke-runners`\]\(pools.md#gke-runners\): (.*)\.", text["gcp-components.md"])
    for field in re.findall(r"`(\w+)`", shared):
        assert f"| `{field}` |" in pools.partition("\n## gke-runners\n")[2].partition("\n## ")[0], field


def test_each_command_has_a_row_with_the_first_sentence_of_its_help() -> None:
    page = commands_page()
    assert "| `gpu-ci train wait` | Wait until a training job ends. |\n" in page
    assert "| `pulumi-sandbox world break` | Plant a fault of a KIND. |\n" in page
    assert " manager |" not in page  # a group has a row for each command


def test_the_field_of_every_component_is_in_no_table() -> None:
    text = reference()
    assert [name for name, page in text.items() if "| `transform` |" in page] == []
    assert (
        "Every component except `NodeGroupLimits` and `SmokeGate` also has the field `transform`"
        in text["aws-components.md"]
    )
