"""Tests of the exit code of `gpu-ci preview` for each kind of report."""

from __future__ import annotations

import pytest
from gpu_preview.model import Counts, Stack, Status

from tests.preview import reports
from tests.preview.reports import report, stack


@pytest.mark.parametrize(
    ("worst", "code"),
    [
        (stack("dev"), 0),
        (stack("dev", counts=Counts(same=3)), 0),
        (stack("dev", status=Status.FAILED), 1),
        (stack("dev", status=Status.BASE_FAILED), 1),
        (stack("dev", counts=Counts(create=1)), 2),
        (stack("dev", counts=Counts(update=1, may_replace=1)), 2),
        (stack("dev", counts=Counts(same=1, moved=1)), 2),
        (stack("dev", outputs=(reports.changed("a", "1", "2"),)), 2),
        (stack("dev", counts=Counts(replace=1)), 3),
        (stack("dev", counts=Counts(delete=1)), 3),
        (stack("dev", status=Status.REMOVED), 3),
        (stack("dev", findings=(reports.JOBS_END,)), 0),
    ],
)
def test_the_worst_of_a_stack_is_the_code(worst: Stack, code: int) -> None:
    assert report(worst).exit_code == code
    assert report(worst, stack("other")).exit_code == code
