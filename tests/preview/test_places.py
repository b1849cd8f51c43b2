"""Where a finding stands: in the stack file, in the program, or nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu_preview import places
from gpu_preview.danger_rules.rule import INTERRUPTS_JOBS
from gpu_preview.places import StackLines, of_source, placed
from gpu_preview.report import Place
from gpu_preview.states import Change
from gpu_preview.walk import Step

from .danger_cases import CREATE, DELETE, UPDATE, resource, state

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


def test_a_pool_with_one_key_gone_and_one_changed_stands_whole(tmp_path: Path) -> None:
    text = BEFORE.replace("      machineType: g2-standard-8\n", "").replace("idleSec: 600", "idleSec: 60")
    assert lines(tmp_path, text, "b.yaml").of_pool("l4", lines(tmp_path)) == place(5, 11)


def test_a_pool_that_is_new_or_gone(tmp_path: Path) -> None:
    without = lines(tmp_path, BEFORE.replace("    t4: {kind: gce-runners, max: 1}\n", ""), "b.yaml")
    assert lines(tmp_path).of_pool("t4", without) == place(15)
    assert lines(tmp_path).of_pool("t4") == place(15)
    assert without.of_pool("t4", lines(tmp_path)) == place(3)


def test_a_file_whose_lines_cannot_be_told_stands_at_its_first(tmp_path: Path) -> None:
    for text in ("", "a: [", "[1, 2]", "config: 1"):
        assert lines(tmp_path, text).of_pool("l4") == place(1)
    assert StackLines.read(tmp_path / "none", FILE).at(("a",)) == place(1)


def test_pools_that_are_json_text_or_an_alias_stand_where_they_are_named(tmp_path: Path) -> None:
    text = "config:\n  gpu-ci:pools: '{\"l4\": {}}'\n"
    assert lines(tmp_path, text).of_pool("l4") == place(2)
    text = "config:\n  a: &l4\n    kind: x\n  gpu-ci:pools:\n    l4: *l4\n"
    assert lines(tmp_path, text).of_pool("l4") == place(5)


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
    found = of_source(positions, program(tmp_path), project)
    assert (found and (found.file, found.line, found.end_line)) == (expected and (*expected, expected[1]))


def test_a_link_out_of_the_repository_is_no_place(tmp_path: Path) -> None:
    (tmp_path / "link.py").symlink_to("/etc/passwd")
    assert of_source(["project:///link.py#1"], tmp_path) is None


def test_a_finding_about_a_pool_stands_in_the_stack_file_and_any_other_in_the_program(tmp_path: Path) -> None:
    thing = state("my:own:Thing", positions=("project:///infra/pools.py#55",))
    changed = Change(resource(thing.type, UPDATE), thing, thing)
    finding = INTERRUPTS_JOBS.of("text", component="l4", urn=thing.urn)
    root, stack = program(tmp_path), lines(tmp_path)
    in_source = Place(file="infra/pools.py", line=55, end_line=55)
    assert placed(finding, changed, root, lines=stack).place == place(5, 12)
    assert placed(finding, changed, root).place == in_source
    assert placed(finding.model_copy(update={"component": "runners"}), changed, root, lines=stack).place == in_source
    assert placed(finding.model_copy(update={"place": place(1)}), changed, root, lines=stack).place == place(1)
    assert placed(finding, None, root).place is None


def test_a_finding_about_a_pool_that_is_gone_stands_at_the_map_it_was_in(tmp_path: Path) -> None:
    thing = state("my:own:Thing", positions=("project:///infra/pools.py#55",))
    gone, new = Change(resource(thing.type, DELETE), thing, None), Change(resource(thing.type, CREATE), None, thing)
    finding = INTERRUPTS_JOBS.of("text", component="t4", urn=thing.urn)
    head = lines(tmp_path, BEFORE.replace("t4", "t5"), "b.yaml")
    root = program(tmp_path)
    assert placed(finding, gone, root, "", head, lines(tmp_path)).place == place(3)
    assert placed(finding, gone, root).place is None
    assert placed(finding, new, root).place == Place(file="infra/pools.py", line=55, end_line=55)


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
    found = places.of_error(error, tmp_path / "Pulumi.dev.yaml", "infra/Pulumi.dev.yaml")
    assert found == Place(file="infra/Pulumi.dev.yaml", line=lines[0], end_line=lines[1])


def test_an_error_that_names_nothing_of_the_file_has_no_place(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.dev.yaml").write_text(CONFIG)
    for error in ("", "gcp:compute/disk:Disk disk", "Pulumi.prod.yaml: line 3", "aws:region: no"):
        assert places.of_error(error, tmp_path / "Pulumi.dev.yaml", "Pulumi.dev.yaml") is None
    assert places.of_error("gpu-ci:pools", tmp_path / "none", "Pulumi.dev.yaml") is None
