"""Tests of property paths in the engine's form."""

from __future__ import annotations

import pytest
from gpu_preview.diff.paths import joined, steps_of
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("a", ["a"]),
        ("versions[0].instanceTemplate", ["versions", 0, "instanceTemplate"]),
        ('labels["a.b/c"].d', ["labels", "a.b/c", "d"]),
        ('x["a\\"b"]', ["x", 'a"b']),
        ("gpu-ci:pools", ["gpu-ci:pools"]),
    ],
)
def test_a_path_of_the_engine_is_its_names_and_numbers(path: str, steps: list[str | int]) -> None:
    assert steps_of(path) == steps


@given(st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=4))
def test_a_path_that_was_joined_is_read_back(names: list[str]) -> None:
    path = ""
    for name in names:
        path = joined(path, name)
    assert steps_of(path) == names


# What PropertyPath.String of the engine makes of them, but for the last two.
