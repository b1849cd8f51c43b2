"""Tests that written reports match the published schema."""

from __future__ import annotations

import json

import pytest
from gpu_preview.model import Report
from hypothesis import given
from jsonschema import Draft202012Validator

from tests.preview import hostile, reports
from tools.docs import preview_report

SCHEMA = json.loads(preview_report.schema())
VALIDATOR = Draft202012Validator(SCHEMA)


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@given(hostile.reports)
def test_every_report_is_as_the_schema_says_and_is_read_back_the_same(report: Report) -> None:
    text = report.model_dump_json(by_alias=True)
    assert [error.message for error in VALIDATOR.iter_errors(json.loads(text))] == []
    assert Report.model_validate_json(text) == report


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 2}, "1 was expected"),
        ({"how": "guess"}, "'guess' is not one of ['base', 'state', 'drift']"),
        ({"extra": 1}, "Additional properties are not allowed ('extra' was unexpected)"),
    ],
)
def test_an_invalid_report_is_refused(change: dict[str, object], words: str) -> None:
    whole = json.loads(reports.REPLACEMENT.model_dump_json(by_alias=True)) | change
    assert [error.message for error in VALIDATOR.iter_errors(whole)] == [words]
