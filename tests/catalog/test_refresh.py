"""The comparison of a refresh: its findings, and that it never removes a machine."""

from __future__ import annotations

from datetime import date

import pytest
from gpu_catalog.refresh import GONE, Change, Diff, RefreshError, Row, Rows, diff
from hypothesis import given
from hypothesis import strategies as st

TODAY = date(2026, 11, 21)
OURS: Rows = {
    "aws:g5.xlarge": {"gpu_model": "A10G", "gpu_count": 1, "vcpus": 4, "regions": ("eu-west-1", "us-east-1")},
    "aws:p3.2xlarge": {"gpu_model": "V100", "gpu_count": 1},
    "gcp:g2-standard-4": {"gpu_model": "L4", "gpu_count": 1},
}


def aws(name: str) -> bool:
    return name.startswith("aws:")


def held(upstream: Rows, current: Rows = OURS) -> Diff:
    return diff(current, upstream, source="moto", today=TODAY, covers=aws)


def test_a_source_with_equal_values_changes_nothing() -> None:
    found = held({name: row for name, row in OURS.items() if aws(name)})
    assert found.empty
    assert (found.same, found.outside) == (6, ("gcp:g2-standard-4",))
    assert found.rows == OURS


def test_a_machine_the_source_no_longer_names_stays_and_is_marked() -> None:
    found = held({"aws:g5.xlarge": {"vcpus": 4}})
    assert found.gone == ("aws:p3.2xlarge",)
    assert found.rows["aws:p3.2xlarge"] == {"gpu_model": "V100", "gpu_count": 1, GONE: "2026-11-21"}
    assert "- aws:p3.2xlarge: kept, gone upstream since 2026-11-21" in list(found.lines())


def test_the_day_it_was_first_missed_stays() -> None:
    earlier = {**OURS, "aws:p3.2xlarge": {"gpu_model": "V100", GONE: "2026-03-01"}}
    found = held({"aws:g5.xlarge": {}}, earlier)
    assert (found.gone, found.still_gone, found.empty) == ((), ("aws:p3.2xlarge",), True)
    assert found.rows["aws:p3.2xlarge"][GONE] == "2026-03-01"


def test_a_machine_that_is_back_loses_its_mark() -> None:
    earlier = {**OURS, "aws:p3.2xlarge": {"gpu_model": "V100", GONE: "2026-03-01"}}
    found = held({"aws:g5.xlarge": {}, "aws:p3.2xlarge": {}}, earlier)
    assert found.back == ("aws:p3.2xlarge",)
    assert found.rows["aws:p3.2xlarge"] == {"gpu_model": "V100"}


def test_a_new_machine_comes_with_what_is_known_of_it() -> None:
    found = held({**{name: {} for name in OURS if aws(name)}, "aws:g9.xlarge": {"vcpus": 4, "gpu_model": None}})
    assert found.added == ("aws:g9.xlarge",)
    assert found.rows["aws:g9.xlarge"] == {"vcpus": 4}
    assert "+ aws:g9.xlarge: vcpus 4" in list(found.lines())


def test_changes_come_field_by_field_and_what_the_source_leaves_out_stays() -> None:
    found = held({"aws:g5.xlarge": {"vcpus": 8, "efa_interfaces": 1, "gpu_model": None}, "aws:p3.2xlarge": {}})
    assert found.changed == (
        Change("aws:g5.xlarge", "vcpus", 4, 8),
        Change("aws:g5.xlarge", "efa_interfaces", None, 1),
    )
    assert [str(change) for change in found.changed] == [
        "aws:g5.xlarge: vcpus: 4 -> 8",
        "aws:g5.xlarge: efa_interfaces: unknown -> 1",
    ]
    assert found.rows["aws:g5.xlarge"]["gpu_model"] == "A10G"


def test_of_a_list_only_the_difference_is_listed() -> None:
    found = held({"aws:g5.xlarge": {"regions": ("us-east-1", "us-west-2")}, "aws:p3.2xlarge": {}})
    assert [str(change) for change in found.changed] == ["aws:g5.xlarge: regions: +us-west-2 -eu-west-1"]


def test_the_counts_are_above_the_lists() -> None:
    assert next(held({"aws:g5.xlarge": {"vcpus": 8}, "aws:g9.xlarge": {"vcpus": 4}}).lines()) == (
        "moto: 1 added, 1 fields changed, 1 gone, 0 back, 0 fields the same, 0 gone before, 1 machines not covered"
    )


def test_an_empty_answer_is_refused_and_not_taken_for_an_empty_cloud() -> None:
    with pytest.raises(RefreshError, match="moto: names no machines"):
        held({})


names = st.sampled_from([f"{cloud}:{letter}" for cloud in ("aws", "gcp") for letter in "abcd"])
rows = st.dictionaries(
    st.sampled_from(["vcpus", "gpu_model", "regions"]),
    st.one_of(st.none(), st.integers(0, 3), st.tuples(st.sampled_from(["x", "y"]))),
)
marked = st.builds(lambda row, mark: {**row, **({GONE: "2026-01-01"} if mark else {})}, rows, st.booleans())


@given(st.dictionaries(names, marked), st.dictionaries(names, rows, min_size=1))
def test_no_machine_and_no_known_field_is_ever_lost(current: dict[str, Row], upstream: dict[str, Row]) -> None:
    found = held(upstream, current)
    assert set(found.rows) == set(current) | set(upstream)
    for name, row in current.items():
        assert set(row) - {GONE} <= set(found.rows[name])
    counted = [*found.added, *found.gone, *found.still_gone, *found.outside, *(set(current) & set(upstream))]
    assert sorted(counted) == sorted(found.rows), "a machine is counted twice, or not at all"


@given(st.dictionaries(names, marked), st.dictionaries(names, rows, min_size=1))
def test_a_second_refresh_finds_nothing_more(current: dict[str, Row], upstream: dict[str, Row]) -> None:
    once = held(upstream, current)
    again = diff(once.rows, upstream, source="moto", today=date(2027, 1, 1), covers=aws)
    assert again.empty
    assert again.rows == once.rows
