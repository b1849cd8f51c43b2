from __future__ import annotations

import pytest
from gpu_preview import phrases
from gpu_preview.model import Amount, Resource

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


def test_dangers_and_broken_policies_are_counted() -> None:
    found = stack(
        findings=(reports.JOBS_END,) * 2 + (reports.OLD_RUNNER,),
        violations=(reports.PUBLIC, reports.UNLABELLED, reports.UNLABELLED),
    )
    assert phrases.concerns(found) == "2 dangers, 1 mandatory policy violated, 2 advisory policies violated"
    assert phrases.concerns(stack()) == ""
