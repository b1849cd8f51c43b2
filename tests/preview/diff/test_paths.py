"""Tests of property paths in the engine's form."""

from __future__ import annotations

import json

import pytest
from gpu_preview.diff import differences, value_pairs
from gpu_preview.diff.paths import joined, steps_of, written
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
WRITTEN = {
    ("metadata", "serial-port"): 'metadata["serial-port"]',
    ("labels", "a_b9"): "labels.a_b9",
    ("$schema",): '["$schema"]',
    ("gpu-ci:pools", 0, "name"): '["gpu-ci:pools"][0].name',
    ("a", 'b"c'): 'a["b\\"c"]',
    ("a", "é"): 'a["é"]',
    ("a", ""): 'a[""]',
    ("a", "b\\"): 'a["b\\\\"]',
    ("policy", "#", "x-y", "z"): 'policy#["x-y"].z',
}


@pytest.mark.parametrize("steps", WRITTEN, ids=str)
def test_a_path_is_written_as_the_engine_writes_it(steps: tuple[str | int, ...]) -> None:
    assert written(steps) == WRITTEN[steps]


def test_differences_and_dangers_write_the_same_path() -> None:
    before, after = ({"metadata": {"serial-port": each, "m": json.dumps({"x-y": [each]})}} for each in (1, 2))
    compared = [each.path for each in differences.between(before, after)]
    walked = [each.text for each in value_pairs.pairs(before, after) if isinstance(each.after, int)]
    assert sorted(compared) == sorted(walked) == ['metadata.m#["x-y"][0]', 'metadata["serial-port"]']
