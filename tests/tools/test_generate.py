"""Tests of the generated reference pages."""

from __future__ import annotations

from tools.docs.generate import described


def test_a_list_item_is_a_labelled_part_and_no_other_sentence_with_a_colon() -> None:
    assert described("Rules for one branch: no deletion.") == ["Rules for one branch: no deletion."]
    assert described("Creates: a ruleset. Costs: nothing; a plan\nis needed.\nDoes not: change tags.") == [
        "- Creates: a ruleset. Costs: nothing; a plan is needed.",
        "- Does not: change tags.",
    ]
