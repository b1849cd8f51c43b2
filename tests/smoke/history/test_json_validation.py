"""The reader of JSON, compared with the library jsonschema."""

from __future__ import annotations

import copy
from typing import Any

from gpu_smoke import json_validation
from gpu_smoke.history import measurements, receipts
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

ROW = {
    "device": "NVIDIA L4", "sm": 58, "check": "gemm.speed", "dtype": "bfloat16", "size": 8192, "unit": "TFLOPS",
    "median": 68.25, "lowest": 66.5, "highest": 70.0, "spread": 0.0513, "samples": 2, "driver": "580.159.03",
    "torch": "2.15.0", "date": "2026-11-21", "throttle": "none", "receipts": ["0123456789abcdef"],
}  # fmt: skip
FILE: dict[str, Any] = {"schema": measurements.SCHEMA, "rows": [ROW, ROW]}
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 2), st.floats(-2, 2), st.text(max_size=3), st.just([]), st.just({})
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    for key, each in value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else []):
        found += places(each, (*path, key))
    return found


@given(st.sampled_from(places(FILE)), st.one_of(st.just("remove"), st.just("add"), VALUES))
def test_it_refuses_what_the_library_refuses_and_nothing_else(place: tuple[Any, ...], change: Any) -> None:
    value = copy.deepcopy(FILE)
    inside: Any = value
    for key in place[:-1]:
        inside = inside[key]
    if change == "remove":
        del inside[place[-1]]
    elif change == "add" and isinstance(inside, dict):
        inside["more"] = 1
    else:
        inside[place[-1]] = change
    right = Draft202012Validator(measurements.FILE).is_valid(value)
    assert (not [*json_validation.problems(value, measurements.FILE)]) is right


def test_the_schemas_are_schemas() -> None:
    for schema in (measurements.FILE, receipts._RECEIPT):
        Draft202012Validator.check_schema(schema)


def test_a_long_value_is_truncated_in_the_error() -> None:
    [found] = json_validation.problems({"schema": "x" * 100, "rows": []}, measurements.FILE)
    assert (found.subject, len(found.got), found.got[-1]) == ("schema", 80, "…")
