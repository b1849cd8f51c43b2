"""Physical names and labels stay within what the vendors take."""

from __future__ import annotations

import re

import pytest
from gpu_ci import naming
from gpu_ci.errors import ArgsError
from gpu_ci.labels import AllLabels, Labels, merge
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError


@given(st.text(), st.integers(min_value=10, max_value=63))
def test_a_fitted_name_is_one_google_takes(text: str, limit: int) -> None:
    assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", naming.fit(text, limit))
    assert len(naming.fit(text, limit)) <= limit


@given(st.text(alphabet="ab-", max_size=40), st.text(alphabet="ab-", max_size=40))
def test_two_names_stay_two_names(one: str, other: str) -> None:
    assert (naming.fit(one, 20) == naming.fit(other, 20)) == (one == other)


def test_a_long_name_is_shortened_and_stays_unique() -> None:
    assert naming.fit("gpu-a-very-long-pool-name-staging", 30) == "gpu-a-very-long-pool-na-ce80a0"


@pytest.mark.parametrize("name", ["l4", "a", "a" * 40, "t4-spot"])
def test_a_component_name_its_children_can_carry_is_taken(name: str) -> None:
    naming.check("RunnerPool", name)


@pytest.mark.parametrize("name", ["", "4l", "L4", "l4-", "-l4", "l_4", "a" * 41, "é"])
def test_a_component_name_its_children_cannot_carry_is_refused(name: str) -> None:
    with pytest.raises(ArgsError, match="RunnerPool: name: has a form that is not accepted"):
        naming.check("RunnerPool", name)


LABELS = TypeAdapter(Labels)
ALL_LABELS = TypeAdapter[dict[str, str]](AllLabels)


@pytest.mark.parametrize("labels", [{"team": "ml"}, {"a-b_c1": ""}, {"k" * 63: "v" * 63}])
def test_labels_google_takes_are_taken(labels: dict[str, str]) -> None:
    assert LABELS.validate_python(labels) == labels


@pytest.mark.parametrize(
    "labels", [{"Team": "ml"}, {"1a": "b"}, {"a": "B"}, {"a": "v" * 64}, {"k" * 64: ""}, {"": "a"}]
)
def test_labels_google_refuses_are_refused(labels: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="is not a valid label"):
        LABELS.validate_python(labels)


def test_each_wrong_label_is_reported_with_its_key() -> None:
    with pytest.raises(ValidationError) as caught:
        LABELS.validate_python({"Team": "ml", "ok": "ok", "cost": "A B"})
    assert [line["loc"] for line in caught.value.errors()] == [("Team", "[key]"), ("cost",)]


def test_labels_of_ours_are_not_for_others() -> None:
    with pytest.raises(ValidationError, match="keys that start with gpu-ci- are reserved for") as caught:
        LABELS.validate_python({"gpu-ci-pool": "other", "gpu-cine": "film"})
    assert [line["loc"] for line in caught.value.errors()] == [("gpu-ci-pool", "[key]")]


def test_labels_leave_room_for_those_a_component_adds() -> None:
    with pytest.raises(ValidationError, match="more than 60 labels"):
        LABELS.validate_python({f"k{number}": "" for number in range(61)})


def test_labels_with_those_of_components_leave_room_for_one_more() -> None:
    labels = {f"k{number}": "" for number in range(63)}
    assert ALL_LABELS.validate_python(labels) == labels
    with pytest.raises(ValidationError, match="more than 63 labels"):
        ALL_LABELS.validate_python({**labels, "last": ""})


def test_the_later_label_wins_and_the_order_is_fixed() -> None:
    assert list(merge({"b": "1", "a": "1"}, {"b": "2"}).items()) == [("a", "1"), ("b", "2")]
