from __future__ import annotations

import re

import pytest
from gpu_preview.model import Place, Report, Severity, Status
from gpu_preview.report import annotations
from hypothesis import given

from tests.preview import hostile, reports
from tests.preview.reports import report, stack


def test_dangers_and_mandatory_policies_are_errors_at_their_lines_and_the_rest_are_warnings() -> None:
    found = annotations.render(
        report(
            stack(
                "staging",
                findings=(reports.OLD_RUNNER, reports.JOBS_END),
                violations=(reports.UNLABELLED, reports.PUBLIC),
            )
        )
    )
    assert found == [
        (
            "::error file=Pulumi.staging.yaml,line=47,endLine=47,title=staging%3A no-public-ip"
            "::accessConfigs gives the machines a public address."
        ),
        (
            "::error file=Pulumi.staging.yaml,line=41,endLine=52,title=staging%3A interrupts-jobs"
            "::The machines of pool t4 are replaced while jobs may run: each job has 10 minutes to end."
            "%0ASet max to 0 and wait, or merge when no job runs."
        ),
        "::warning title=staging%3A labels::The label cost-center is missing.",
        "::warning title=staging%3A stale-runner::Runner 2.330.0 gets no jobs after 2026-12-01.",
    ]


def test_workflow_commands_in_a_text_are_escaped() -> None:
    place = Place(file="a,b:c%\u2028", line=3, end_line=4)
    hostile_one = reports.JOBS_END.model_copy(
        update={"rule": "r,x=1::y\n::error::z", "text": "50% a\r\n::stop-commands::b\x1b", "hint": "", "place": place}
    )
    assert annotations.render(report(stack("staging", findings=(hostile_one,)))) == [
        (
            "::error file=a%2Cb%3Ac%25\\u2028,line=3,endLine=4,title=staging%3A r%2Cx=1%3A%3Ay\\n%3A%3Aerror%3A%3Az"
            "::50%25 a%0A::stop-commands::b\\u001b"
        )
    ]


def test_ten_annotations_of_each_level_are_shown_and_the_others_are_counted() -> None:
    nowhere = reports.JOBS_END.model_copy(update={"place": None})
    notes = tuple(reports.OLD_RUNNER.model_copy(update={"severity": Severity.NOTE}) for _ in range(12))
    findings = (nowhere,) * 8 + (reports.JOBS_END,) * 9 + (reports.OLD_RUNNER,) * 11 + notes
    found = annotations.render(report(stack("staging", findings=findings)))
    levels = [line.split(" ", 1)[0] for line in found]
    assert [levels.count(level) for level in ("::error", "::warning", "::notice")] == [10, 10, 10]
    assert [" file=" in line for line in found[:10]] == [True] * 9 + [False]
    assert found[-1] == (
        "::notice title=gpu-ci preview::7 more errors, 1 more warning, 3 more notices in the report on this change"
    )


@given(hostile.reports)
def test_every_annotation_of_any_report_is_one_command_in_one_line(report: Report) -> None:
    for line in annotations.render(report):
        assert len(line.splitlines()) == 1
        command = re.fullmatch(r"::(error|warning|notice) ((?:[a-zA-Z]+=[^:,]*,?)+)::(.*)", line)
        assert command, line
        names = [each.split("=")[0] for each in command[2].split(",")]
        assert names in (["title"], ["file", "line", "endLine", "title"])


@pytest.mark.parametrize("fragment", hostile.FRAGMENTS)
def test_each_hostile_text_makes_no_command_of_its_own(fragment: str) -> None:
    found = annotations.render(hostile.everywhere(fragment))
    assert [line.split(" ", 1)[0] for line in found] == ["::error", "::error"]


def test_an_error_of_a_stack_is_shown_where_it_is() -> None:
    place = Place(file="Pulumi.dev.yaml", line=7, end_line=7)
    failed = stack("dev", status=Status.FAILED, error="no")
    [line] = annotations.render(report(failed.model_copy(update={"place": place})))
    assert line.startswith("::error file=Pulumi.dev.yaml,line=7,endLine=7,title=dev::")
    assert annotations.render(report(failed))[0].startswith("::error file=Pulumi.dev.yaml,line=1,endLine=1,")
