"""Tests of the place of a finding: in the stack file, in the program, or none."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from gpu_preview.diff.value_pairs import Step
from gpu_preview.engine.states import Change
from gpu_preview.model import Finding, Place, Report, Severity, Status
from gpu_preview.report import annotations, locations
from gpu_preview.report.danger_rule import INTERRUPTS_JOBS
from gpu_preview.report.locations import (
    SourceFiles,
    StackLines,
    is_same,
    of_change,
    of_pool_or_source,
    of_source,
    of_traceback,
)
from hypothesis import given

from tests.preview import hostile, reports
from tests.preview.reports import report, stack

from ..danger_cases import CREATE, DELETE, UPDATE, resource, state

FILE = "stacks/Pulumi.dev.yaml"
BEFORE = """\
config:
  gcp:project: p  # who pays
  gpu-ci:pools:
    # The first.
    l4:
      kind: gce-runners
      machineType: g2-standard-8
      zones: [us-central1-a,
              us-central1-b]
      runner:
        docker: none
        idleSec: 600

    # The second.
    t4: {kind: gce-runners, max: 1}
  gpu-ci:site:
    text: |
      one
      two
encryptionsalt: v1:x
"""


def lines(folder: Path, text: str = BEFORE, name: str = "a.yaml") -> StackLines:
    path = folder / name
    path.write_text(text)
    return StackLines.read(path, FILE)


def place(line: int, end: int | None = None) -> Place:
    return Place(file=FILE, line=line, end_line=end or line)


@pytest.mark.parametrize(
    ("steps", "line", "end"),
    [
        ((), 1, 19),
        (("gcp:project",), 2, 2),
        (("gpu-ci:pools",), 3, 15),
        (("gpu-ci:pools", "l4"), 5, 12),
        (("gpu-ci:pools", "l4", "machineType"), 7, 7),
        (("gpu-ci:pools", "l4", "zones"), 8, 9),
        (("gpu-ci:pools", "l4", "zones", 1), 9, 9),
        (("gpu-ci:pools", "l4", "runner"), 10, 12),
        (("gpu-ci:pools", "l4", "runner", "idleSec"), 12, 12),
        (("gpu-ci:pools", "t4"), 15, 15),
        (("gpu-ci:pools", "t4", "max"), 15, 15),
        (("gpu-ci:site", "text"), 17, 19),
        (("gpu-ci:pools", "gone"), 3, 15),
        (("gpu-ci:pools", "l4", "zones", 7), 8, 9),
        (("nothing", "of", "it"), 1, 19),
    ],
)
def test_a_value_stands_from_its_key_to_its_end(tmp_path: Path, steps: tuple[Step, ...], line: int, end: int) -> None:
    assert lines(tmp_path).at(steps) == place(line, end)


@pytest.mark.parametrize(
    ("old", "new", "line", "end"),
    [
        ("", "", 5, 12),
        ("g2-standard-8", "g2-standard-16", 7, 7),
        ("us-central1-b", "us-central1-c", 8, 9),
        ("idleSec: 600", "idleSec: 60", 12, 12),
        ("docker: none", "docker: rootless\n        user: x", 10, 13),
        ("      machineType: g2-standard-8\n", "      machineType: g2-standard-16\n      market: spot\n", 5, 13),
        ("      machineType: g2-standard-8\n", "", 5, 11),
        ("        idleSec: 600\n", "", 10, 11),
        ("# who pays", "# nobody pays", 5, 12),
    ],
)
def test_a_pool_stands_at_the_one_key_that_changed(tmp_path: Path, old: str, new: str, line: int, end: int) -> None:
    assert old in BEFORE
    after = lines(tmp_path, BEFORE.replace(old, new), "b.yaml")
    assert after.of_pool("l4", lines(tmp_path)) == place(line, end)


def sides(folder: Path, head: str = BEFORE, base: str = BEFORE) -> SourceFiles:
    """Return a program with the same files in base and head, and two stack files."""
    for name, text in (("head", head), ("base", base)):
        (folder / f"{name}.yaml").write_text(text)
    files = folder / "base.yaml", folder / "head.yaml"
    return SourceFiles(FILE, program(folder / "head"), "", *files, program(folder / "base"))


THING = state("my:own:Thing", positions=("project:///infra/pools.py#55", "project:///app/a.py#7"))
UPDATED = Change(resource(THING.type, UPDATE), THING, THING)
IN_SOURCE, FURTHER_OUT = (
    Place(file=file, line=at, end_line=at) for file, at in (("infra/pools.py", 55), ("app/a.py", 7))
)


def about(component: str) -> Finding:
    return INTERRUPTS_JOBS.of("text", component=component, urn=THING.urn)


def test_a_finding_on_a_pool_is_placed_in_the_stack_file_and_others_in_the_program(tmp_path: Path) -> None:
    both = sides(tmp_path)
    assert of_pool_or_source(about("l4"), UPDATED, both) == place(5, 12)
    assert of_pool_or_source(about("l4"), UPDATED, replace(both, before=None, after=None)) == IN_SOURCE
    assert of_pool_or_source(about("runners"), UPDATED, both) == IN_SOURCE
    assert of_pool_or_source(about("l4"), None, both) == place(5, 12)
    assert of_pool_or_source(about("runners"), None, both) is None


def test_a_finding_on_a_removed_pool_is_placed_at_the_map_of_pools(tmp_path: Path) -> None:
    gone, new = Change(resource(THING.type, DELETE), THING, None), Change(resource(THING.type, CREATE), None, THING)
    both = sides(tmp_path, BEFORE.replace("t4", "t5"))
    for find in (of_pool_or_source, of_change):
        assert find(about("t4"), gone, both) == place(3)
        assert find(about("t4"), gone, replace(both, before=None, after=None)) is None
        assert find(about("t4"), new, replace(both, before=None, after=None)) == IN_SOURCE


def test_a_change_of_a_pool_with_the_same_stack_file_is_placed_in_the_program(tmp_path: Path) -> None:
    same = sides(tmp_path, BEFORE.replace("# who pays", "# nobody pays"))
    assert of_change(about("l4"), UPDATED, same) == IN_SOURCE
    assert of_change(about("l4"), None, same) == place(5, 12)
    assert of_change(about("l4"), UPDATED, sides(tmp_path, BEFORE.replace("g2-standard-8", "x"))) == place(7)
    assert not replace(same, before=None).has_same_file
    assert not sides(tmp_path, "a: [", "a: [").has_same_file


def test_a_change_stands_in_the_file_of_the_program_that_differs(tmp_path: Path) -> None:
    for head in (BEFORE, BEFORE.replace("      one", "      two")):
        both = sides(tmp_path, head)
        (both.root / "app/a.py").write_text("another")
        assert of_change(about("runners"), UPDATED, both) == FURTHER_OUT
    assert of_change(about("l4"), UPDATED, replace(both, after=both.before)) == FURTHER_OUT


CONFIG = (
    "config:\n  gcp:project: p\n  gpu-ci:pools:\n    l4:\n      max: 1\n    t4:\n      market: sopt\n      zones: [a]\n"
)


@pytest.mark.parametrize(
    ("error", "lines"),
    [
        ("error: Pulumi.dev.yaml: gpu-ci:pools.t4.market: must be one of 'spot'\n  got: 'sopt'", (7, 7)),
        ("gpu-ci:pools.l4.machineType: is missing\ngpu-ci:pools.t4.market: no", (4, 4)),
        ("nothing:of.it, gpu-ci:pools: a sentence.", (3, 8)),
        ("yaml: line 67: no\npulumi-sandbox: Pulumi.dev.yaml: line 3, column 10: no", (3, 3)),
        ("error: gcp:project.", (2, 2)),
    ],
)
def test_an_error_stands_where_it_says_that_something_is_wrong(
    tmp_path: Path, error: str, lines: tuple[int, int]
) -> None:
    (tmp_path / "Pulumi.dev.yaml").write_text(CONFIG)
    found = locations.of_error(error, tmp_path / "Pulumi.dev.yaml", "infra/Pulumi.dev.yaml")
    assert found == Place(file="infra/Pulumi.dev.yaml", line=lines[0], end_line=lines[1])


def test_an_error_of_the_program_stands_at_the_last_call_in_a_file_of_the_repository(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.dev.yaml").write_text(CONFIG)
    program(tmp_path)
    calls = '  File "app/a.py", line 7, in x\n    y()\n  File "/usr/lib/y.py", line 9, in y\n'
    found = Place(file="app/a.py", line=7, end_line=7)

    def in_file(line: int) -> Place:
        return Place(file="Pulumi.dev.yaml", line=line, end_line=line)

    asked = tmp_path / "Pulumi.dev.yaml", "Pulumi.dev.yaml"
    assert locations.of_error(f"{calls}ValueError: no", *asked, tmp_path) == found
    assert locations.of_error(f"{calls}ValueError: no", *asked) is None
    assert locations.of_error(f"{calls}gpu-ci:pools.t4.market: no", *asked, tmp_path) == found.model_copy(
        update={"file": asked[1]}
    )
    assert locations.of_error(f"{calls}Pulumi.dev.yaml: line 3", *asked, tmp_path) == Place(
        file=asked[1], line=3, end_line=3
    )


def program(root: Path) -> Path:
    for name in ("infra/pools.py", "app/a.py", ".venv/lib/x.py", "lib/site-packages/y.py"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("")
    return root


@pytest.mark.parametrize(
    ("positions", "project", "expected"),
    [
        (["project:///infra/pools.py#55"], "", ("infra/pools.py", 55)),
        (["project:///infra/pools.py#55,12"], "", ("infra/pools.py", 55)),
        (["project:///a.py#3"], "app", ("app/a.py", 3)),
        (["project:///a.py#3"], "", None),
        (["project:///.venv/lib/x.py#1", "project:///lib/site-packages/y.py#2", "project:///infra/pools.py#3"], "",
         ("infra/pools.py", 3)),
        (["project:///../infra/pools.py#3"], "", None),
        (["project:///../infra/pools.py#3"], "app", None),
        (["project:////etc/passwd#3"], "", None),
        (["project:///infra#3"], "", None),
        (["project:///infra/pools.py#0"], "", ("infra/pools.py", 1)),
        (["project:///infra/pools.py#99999999999"], "", None),
        (["project:///a\0b#1", "", "http://x#1", "project:///" + "a" * 5000 + "#1"], "", None),
        ([], "", None),
    ],
)  # fmt: skip
def test_a_position_of_the_engine_is_a_line_of_a_file_of_the_repository(
    tmp_path: Path, positions: list[str], project: str, expected: tuple[str, int] | None
) -> None:
    found = next(of_source(positions, program(tmp_path), project), None)
    assert (found and (found.file, found.line, found.end_line)) == (expected and (*expected, expected[1]))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('Traceback:\n  File "app/a.py", line 3, in x\n  File "infra/pools.py", line 53\nSyntaxError: no',
         ("infra/pools.py", 53)),
        ('  File "app/a.py", line 3, in x\n  File ".venv/lib/x.py", line 4, in y\n', ("app/a.py", 3)),
        ('  File "/usr/lib/a.py", line 3, in x\n', None),
        ('  File "../a.py", line 3, in x\n', None),
        ('  File "<string>", line 3, in x\n', None),
        ('no call: File "app/a.py", line 3', None),
        ("", None),
    ],
)  # fmt: skip
def test_a_traceback_leads_to_its_last_call_in_the_repository(
    tmp_path: Path, text: str, expected: tuple[str, int] | None
) -> None:
    found = of_traceback(text, program(tmp_path))
    assert (found and (found.file, found.line, found.end_line)) == (expected and (*expected, expected[1]))


def test_a_file_is_the_same_where_its_bytes_are_at_both_sides(tmp_path: Path) -> None:
    head, base = program(tmp_path / "head"), program(tmp_path / "base")
    assert is_same("app/a.py", head, base)
    (base / "app/a.py").write_text("a")
    assert not is_same("app/a.py", head, base)
    for other in ("b", "ab"):
        (head / "app/a.py").write_text(other)
        assert not is_same("app/a.py", head, base)
    assert not is_same("none.py", head, base)
    assert not is_same("app", head, base)
    (head / "link.py").symlink_to(base / "infra/pools.py")
    (base / "link.py").write_text("")
    assert not is_same("link.py", head, base)


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


def test_an_error_of_a_stack_is_shown_where_it_is() -> None:
    place = Place(file="Pulumi.dev.yaml", line=7, end_line=7)
    failed = stack("dev", status=Status.FAILED, error="no")
    [line] = annotations.render(report(failed.model_copy(update={"place": place})))
    assert line.startswith("::error file=Pulumi.dev.yaml,line=7,endLine=7,title=dev::")
    assert annotations.render(report(failed))[0].startswith("::error file=Pulumi.dev.yaml,line=1,endLine=1,")
