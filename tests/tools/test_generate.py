"""Tests of the generated reference pages."""

from __future__ import annotations

import re

from tools.docs.components import described, pages
from tools.docs.generate import commands_page


def test_a_list_item_is_a_labelled_part_and_no_other_sentence_with_a_colon() -> None:
    assert described("Rules for one branch: no deletion.") == ["Rules for one branch: no deletion."]
    assert described("Creates: a ruleset. Costs: nothing; a plan\nis needed.\nDoes not: change tags.") == [
        "- Creates: a ruleset. Costs: nothing; a plan is needed.",
        "- Does not: change tags.",
    ]


def test_a_type_is_described_once_and_shared_fields_are_in_the_table_that_a_component_refers_to() -> None:
    text = pages()
    pools = text["reference/pools.md"]
    assert "| `ladder` | list of [LadderRung](#ladderrung) |" in pools
    assert sum(page.count("\n## Scratch\n") for page in text.values()) == 1
    [shared] = re.findall(
        r"As for \[`gke-runners`\]\(pools.md#gke-runners\): (.*)\.", text["reference/gcp-components.md"]
    )
    for field in re.findall(r"`(\w+)`", shared):
        assert f"| `{field}` |" in pools.partition("\n## gke-runners\n")[2].partition("\n## ")[0], field


def test_an_option_of_several_commands_is_described_once() -> None:
    page = commands_page()
    assert page.count("- `--config FILE|gs://BUCKET/OBJECT`: ") == 1
    section = page.partition("\n## gpu-ci manager status\n")[2].partition("\n## ")[0]
    assert section.rstrip().endswith("- as for [gpu-ci explain](#gpu-ci-explain): `--config`, `--state`")


def test_a_block_of_a_help_is_in_one_fence_and_the_text_after_it_in_none() -> None:
    page = commands_page()
    assert "```\nstockout         no capacity" in page
    assert "schema.json\n```\n\nThe schema has the kinds" in page


def test_the_field_of_every_component_is_in_no_table() -> None:
    text = pages()
    assert [name for name, page in text.items() if "| `transform` |" in page] == []
    assert (
        "Every component except `NodeGroupLimits` also has the field `transform`" in text["reference/aws-components.md"]
    )
