"""Tests of the Markdown of example reports, and of the text that long reports leave out."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from gpu_preview.model import Cost, Finding, Operation, Report, Resource, Severity, Stack, Violation, Wall
from gpu_preview.report import markdown
from gpu_preview.report.markdown_stack import Detail, lines

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


def test_a_comment_that_is_still_too_long_loses_the_lists_of_resources() -> None:
    text = markdown.render(reports.TOO_LONG, 2_500)
    assert "<details>" not in text
    assert "Not in this comment: 30 resources." in text
    assert text.count("**interrupts-jobs**") == 3
    assert text.count("`no-public-ip`") == 2


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


def test_a_stack_that_could_not_be_previewed_comes_first() -> None:
    verdicts = re.findall(r"^\*\*(\w+)\*\*:", markdown.render(reports.SEVERAL), re.MULTILINE)
    assert verdicts == ["prod", "staging", "old", "next"]


def test_several_stacks_in_which_nothing_changes_take_one_line() -> None:
    text = markdown.render(report(stack("staging", reports.POOL_T4), stack("dev", reports.POOL_T4)))
    assert text == (
        "<!-- gpu-ci-preview -->\n"
        "**staging**: nothing changes, 1 unchanged · **dev**: nothing changes, 1 unchanged. "
        "Base `main` at `595024d8fa`, head `bigger-t4` at `0a1b2c3d4e`.\n"
    )


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


def test_a_wall_that_does_not_stand_is_reported_also_where_nothing_changes() -> None:
    wall = Wall(name="network", stands=False, text="This machine has no network namespaces.")
    text = markdown.render(report(stack("staging", reports.POOL_T4), walls=(wall,)))
    assert "\n**Not isolated**: `network`. This machine has no network namespaces.\n" in text


def test_an_update_that_may_be_a_replacement_is_marked_where_it_stands() -> None:
    unclear = reports.LARGER_DISK.model_copy(update={"may_replace": True})
    shown = markdown.render(report(stack("staging", reports.POOL_T4, unclear, reports.UPDATED_GROUP)))
    assert "\n@@ updated t4-cache (gcp:compute/disk:Disk), may be a replacement @@\n" in shown
    assert f"\n@@ updated t4-group ({reports.GROUP}) @@\n" in shown


def test_a_stack_without_pools_has_no_table_of_costs() -> None:
    assert "USD" not in markdown.render(reports.ONE_UPDATE)


def test_a_pool_that_comes_and_one_at_an_unknown_price_are_reported_apart() -> None:
    unknown = reports.usd(1).model_copy(update={"at_max_usd_per_hour": None, "at_least": True})
    cost = Cost(before=None, after=unknown)
    text = markdown.render(report(stack("staging", reports.LARGER_DISK, cost=cost)))
    assert (
        "| **all pools** | none → ≥ 0.00 | none → ? | none → ≥ 730.00 |\n\n"
        "`≥`: a minimum, without items that are billed by use or have no known price. "
        "`?`: billed by use, or the price is unknown. These amounts do not include boot disks and network traffic.\n"
    ) in text


def test_the_table_of_several_stacks_explains_its_signs_too() -> None:
    least = reports.usd(1).model_copy(update={"at_least": True})
    known, unknown = (stack(name, cost=Cost(before=each, after=each)) for name, each in (("a", None), ("b", least)))
    legend = "`≥`: a minimum, without items that are billed by use or have no known price.\n"
    changed = stack("c", reports.LARGER_DISK)
    assert legend in markdown.render(report(known, unknown, changed))
    assert legend not in markdown.render(report(known, changed))


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


def test_the_place_of_a_finding_and_what_it_is_about_are_named() -> None:
    found = Finding(**reports.JOBS_END.model_dump() | {"hint": ""})
    text = markdown.render(report(stack("staging", reports.LARGER_DISK, findings=(found,))))
    assert "each job has 10 minutes to end. (`t4-group`) at `Pulumi.staging.yaml:41`\n" in text


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


def test_no_line_is_counted_as_left_out_if_all_are_shown() -> None:
    detail = Detail(properties=1, value_chars=1, resources=0, listed=2, items=2, text_chars=100, stacks=1)
    deleted = [reports.resource("a:b:C", name, Operation.DELETE) for name in "xyz"]
    dangers = (reports.JOBS_END,) * 3
    for count, expected in ((2, []), (3, ["> - and 1 more", "- and 1 more"])):
        shown = lines(stack("dev", *deleted[:count], findings=dangers[:count]), detail, "base")
        assert [line for line in shown if " more" in line] == expected


def test_a_change_that_interrupts_no_job_is_listed_and_is_no_warning() -> None:
    kept = Finding(rule="keeps-jobs", severity=Severity.NOTE, text="Group t4-group: no job is interrupted")
    shown = markdown.render(report(stack("staging", findings=(kept,))))
    assert "\n- Group `t4-group`: no job is interrupted\n" in shown
    assert "<details>" not in shown
