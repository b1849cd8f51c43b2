from __future__ import annotations

import pytest
from gpu_preview import phrases
from gpu_preview.model import Amount, Counts, Finding, Resource, Severity, Status
from gpu_preview.report import markdown

from tests.preview import reports
from tests.preview.reports import stack

FIELD = "at_max_usd_per_hour"


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        (reports.usd(1.2), reports.usd(2.4), "1.20 → 2.40 (+1.20)"),
        (reports.usd(2400), reports.usd(1.2), "2,400.00 → 1.20 (-2,398.80)"),
        (reports.usd(1.2), reports.usd(1.2), "1.20"),
        (None, reports.usd(1.2), "none → 1.20"),
        (reports.usd(1.2), None, "1.20 → none"),
        (None, None, "none"),
        (Amount(), reports.usd(1.2), "? → 1.20"),
        (Amount(), Amount(), "?"),
        (reports.usd(1), Amount(at_max_usd_per_hour=2, at_least=True), "1.00 → ≥ 2.00"),
    ],
)
def test_a_cost_before_and_after(before: Amount | None, after: Amount | None, shown: str) -> None:
    assert phrases.change(before, after, FIELD) == shown


@pytest.mark.parametrize(
    ("status", "counts", "words"),
    [
        (Status.PREVIEWED, Counts(same=66), "nothing changes, 66 unchanged"),
        (Status.PREVIEWED, Counts(), "nothing changes, no resources"),
        (Status.PREVIEWED, Counts(update=2, replace=1, same=1066), "1 replaced, 2 updated, 1,066 unchanged"),
        (Status.PREVIEWED, Counts(same=3, moved=1), "1 moved, 3 unchanged"),
        (Status.PREVIEWED, Counts(create=1, delete=2), "2 deleted, 1 created"),
        (Status.NEW, Counts(create=4), "new, 4 created"),
        (Status.REMOVED, Counts(same=1), "its stack file is removed, and 1 resource stays until it is destroyed"),
        (Status.REMOVED, Counts(same=3), "its stack file is removed, and 3 resources stay until they are destroyed"),
        (Status.FAILED, Counts(), "cannot be previewed, so it is not safe to merge"),
        (Status.BASE_FAILED, Counts(), "not compared, because the base does not deploy"),
    ],
)
def test_the_result_of_a_stack(status: Status, counts: Counts, words: str) -> None:
    assert phrases.outcome(stack(status=status, counts=counts)) == words


@pytest.mark.parametrize(
    ("status", "counts", "words"),
    [
        (Status.PREVIEWED, Counts(same=66), "has not drifted, 66 unchanged"),
        (Status.PREVIEWED, Counts(delete=1, update=2, same=3), "1 deleted, 2 updated, 3 unchanged"),
        (Status.FAILED, Counts(), "cannot be read, so its drift is unknown"),
    ],
)
def test_the_result_of_a_stack_with_and_without_drift(status: Status, counts: Counts, words: str) -> None:
    found = stack(status=status, counts=counts)
    assert phrases.outcome(found, "drift") == words
    drifted = reports.report(found, found).model_copy(update={"how": "drift"})
    shown = markdown.render(drifted)
    assert (
        f"| stack | what differs | concerns | worst month, USD |\n|---|---|---|--:|\n| staging | {words} |" in shown
        or (f"**staging**: {words}" in shown)
    )
    assert "merge" not in shown


def test_the_signs_of_amounts_are_explained_where_they_are_shown() -> None:
    least = "≥: a minimum, without items that are billed by use or have no known price."
    unknown = "?: billed by use, or the price is unknown."
    assert phrases.signs(["1.00", "1.00 → 2.00 (+1.00)", "none"]) == ""
    assert phrases.signs(["1.00", "≥ 2.00"]) == least
    assert phrases.signs(["?", "≥ 2.00"]) == f"{least} {unknown}"
    assert phrases.NOT_IN_COSTS == "These amounts do not include boot disks and network traffic."


def test_causes_stand_before_what_follows_from_them() -> None:
    def named(name: str, *needs: str) -> Resource:
        return reports.resource("a:b:C", name, depends_on=tuple(reports.urn("a:b:C", each) for each in needs))

    def order(*resources: Resource) -> str:
        return "".join(each.name for each in phrases.causes_first(resources))

    assert order(named("b"), named("a"), named("c")) == "bac"
    assert order(named("a", "c"), named("b"), named("c", "elsewhere")) == "bca"
    assert order(named("a", "b"), named("b", "c"), named("c")) == "cba"
    assert order(named("b", "a"), named("a", "b"), named("c")) == "bac"
    assert order(named("a", "a"), named("b")) == "ab"


def test_a_base_without_an_existing_resource_gets_a_hint_about_sandbox_yaml() -> None:
    error = "error: 404: no x\n  hint: if the resource exists in the cloud, list it in sandbox.yaml: exists: {gcp: [x]}"
    failed = stack(status=Status.BASE_FAILED, error=error)
    hint = "List resources that already exist in sandbox.yaml, and commit that to the base first."
    assert phrases.base_hint(failed) == hint
    assert "\n\nList resources that already exist in `sandbox.yaml`" in markdown.render(reports.report(failed))
    other_error = error.replace("list it", "its words are in")
    for other in (stack(status=Status.FAILED, error=error), stack(status=Status.BASE_FAILED, error=other_error)):
        assert phrases.base_hint(other) == ""


@pytest.mark.parametrize(
    ("policies", "status", "expected"),
    [
        ("no policy pack was given", Status.PREVIEWED, ""),
        ("no policy pack was given; not run: x", Status.PREVIEWED, "no policy pack was given; not run: x"),
        ("ran x", Status.PREVIEWED, "ran x"),
        ("ran x", Status.FAILED, ""),
    ],
)
def test_the_line_on_policies_is_left_out_where_none_was_wanted(policies: str, status: Status, expected: str) -> None:
    found = stack("dev", reports.LARGER_DISK, policies=policies, status=status)
    assert phrases.policies(found) == expected
    assert ("Policies: " in markdown.render(reports.report(found))) == bool(expected)


def test_dangers_and_broken_policies_are_counted() -> None:
    found = stack(
        findings=(reports.JOBS_END,) * 2 + (reports.OLD_RUNNER,),
        violations=(reports.PUBLIC, reports.UNLABELLED, reports.UNLABELLED),
    )
    assert phrases.concerns(found) == "2 dangers, 1 mandatory policy violated, 2 advisory policies violated"
    assert phrases.concerns(stack()) == ""


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        (Counts(update=2, may_replace=1, same=3), "2 updated (1 may be a replacement), 3 unchanged"),
        (Counts(update=2, may_replace=2), "2 updated (2 may be replacements)"),
        (Counts(may_replace=2), "no resources"),
    ],
)
def test_updates_that_may_be_replacements_are_counted(counts: Counts, text: str) -> None:
    assert phrases.counted(counts) == text


def test_a_danger_without_a_changed_property_is_not_reported_as_no_change() -> None:
    danger = Finding(rule="gate-removed", severity=Severity.DANGER, text="a")
    result = stack("dev", counts=Counts(same=1), findings=(danger,))
    assert phrases.outcome(result) == "no property changes, 1 unchanged"
    assert phrases.outcome(stack("dev", counts=Counts(same=1))) == "nothing changes, 1 unchanged"
