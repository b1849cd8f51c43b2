"""Tests of the Markdown of example reports, and of the text that long reports leave out."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from gpu_preview.model import Finding, Operation, Report, Resource, Severity, Stack, Violation
from gpu_preview.report import markdown

from tests.preview import reports
from tests.preview.reports import report, stack


@pytest.mark.parametrize("name", reports.GOLDEN)
def test_the_comment_reads_as_before(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"preview/{name}.md", markdown.render(reports.GOLDEN[name]))


def test_a_comment_that_would_be_too_long_loses_properties_first_and_says_how_many(
    golden: Callable[[str, str], None],
) -> None:
    text = markdown.render(reports.TOO_LONG, 6_000)
    assert "Not in this comment: 900 properties." in text
    assert len(re.findall("@@ updated", text)) == 30
    golden("preview/too-long.md", text)


def many_dangers(count: int) -> Report:
    found = tuple(reports.JOBS_END.model_copy(update={"rule": f"rule-{number:04}"}) for number in range(count))
    return report(stack("staging", *reports.TOO_LONG.stacks[0].resources, findings=found))


def test_no_danger_is_left_out_while_anything_else_can_be() -> None:
    text = markdown.render(many_dangers(310))
    assert len(re.findall(r"`rule-\d{4}`", text)) == 310
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


def test_a_limit_that_nothing_fits_in_is_refused() -> None:
    with pytest.raises(ValueError, match="limit is 999\n  expected: at least 1000"):
        markdown.render(reports.NOTHING, 999)


def test_a_limit_is_kept_to_the_character() -> None:
    whole = markdown.render(reports.NOTHING)
    several = markdown.render(reports.SEVERAL)
    assert markdown.render(reports.SEVERAL, len(several)) == several
    assert len(markdown.render(reports.SEVERAL, len(several) - 1)) < len(several)
    assert len(whole) <= markdown.SHORTEST_LIMIT


@pytest.mark.parametrize(
    "quiet",
    [
        stack("staging", reports.POOL_T4, findings=(reports.OLD_RUNNER,)),
        stack("staging", reports.POOL_T4, violations=(reports.UNLABELLED,)),
        stack("staging", reports.POOL_T4, cost=reports.DEARER),
        stack("staging", reports.POOL_T4, outputs=(reports.changed("pools", "1", "2"),)),
    ],
)
def test_the_comment_is_longer_than_one_line_if_only_something_other_than_resources_changes(quiet: Stack) -> None:
    assert len(markdown.render(report(quiet)).splitlines()) > 5


def test_an_update_that_may_be_a_replacement_is_marked_where_it_stands() -> None:
    unclear = reports.LARGER_DISK.model_copy(update={"may_replace": True})
    shown = markdown.render(report(stack("staging", reports.POOL_T4, unclear, reports.UPDATED_GROUP)))
    assert "\n@@ updated t4-cache (gcp:compute/disk:Disk), may be a replacement @@\n" in shown
    assert f"\n@@ updated t4-group ({reports.GROUP}) @@\n" in shown


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


def test_a_change_that_interrupts_no_job_is_listed_and_is_no_warning() -> None:
    kept = Finding(rule="keeps-jobs", severity=Severity.NOTE, text="Group t4-group: no job is interrupted")
    shown = markdown.render(report(stack("staging", findings=(kept,))))
    assert "\n- Group `t4-group`: no job is interrupted\n" in shown
    assert "<details>" not in shown
