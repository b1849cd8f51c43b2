"""A stack file that cannot be read, and a stack that is nowhere: told before the engine says less of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pulumi_sandbox import stacks, yaml_file
from pulumi_sandbox.workspace import Workspace, YamlFileError

FINE = "config:\n  gcp:project: example-ci\n  gpu-ci:pools: {l4: {zones: [a, b]}}\nencryptionsalt: v1:x\n"
MARKS = "  expected: YAML\n  hint: indent with spaces, put a space after each colon, close every bracket and quote"


def told(folder: Path, text: str | bytes) -> str:
    file = folder / "Pulumi.dev.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(YamlFileError) as caught:
        yaml_file.check(file)
    return str(caught.value)


@pytest.mark.parametrize("text", [FINE, "", "{}\n", "config:\n"])
def test_a_file_in_order_is_passed_over(tmp_path: Path, text: str) -> None:
    file = tmp_path / "Pulumi.dev.yaml"
    file.write_text(text)
    yaml_file.check(file)


def test_broken_yaml_is_told_with_its_file_and_line(tmp_path: Path) -> None:
    assert told(tmp_path, "config:\n  gcp:project: a\n   bad: x\n") == (
        f"Pulumi.dev.yaml: line 3, column 7: mapping values are not allowed here\n{MARKS}"
    )
    assert told(tmp_path, "config:\n  zones: [a, b\n").startswith("Pulumi.dev.yaml: line 3, column 1: expected ',' or")


def test_a_broken_line_is_not_shown_because_it_may_hold_a_secret(tmp_path: Path) -> None:
    assert "hunter22" not in told(tmp_path, "config:\n  a:token: hunter22: x\n")


def test_every_key_that_stands_twice_is_told_with_both_lines(tmp_path: Path) -> None:
    twice = FINE + "config:\n  a: [{b: 1, b: 2}]\n"
    assert told(tmp_path, twice) == (
        "Pulumi.dev.yaml: config: stands twice, in lines 1 and 5\n  hint: keep one of the two\n"
        "Pulumi.dev.yaml: config.a[0].b: stands twice, in lines 6 and 6\n  hint: keep one of the two"
    )


def test_what_is_no_text_is_told_without_a_traceback(tmp_path: Path) -> None:
    assert told(tmp_path, b"config: \xff\n") == "Pulumi.dev.yaml: is not UTF-8 text at byte 8\n  expected: YAML"


def test_a_stack_that_is_nowhere_is_answered_with_those_that_have_a_file(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.yaml").write_text("name: ci\nruntime: python\n")
    for name in ("staging", "prod"):
        (tmp_path / f"Pulumi.{name}.yaml").write_text(FINE)
    workspace, said = Workspace(tmp_path / "sandbox", tmp_path), []
    for stack in ("stagin", "org/ci/zzz", "prod"):
        stacks.explain(workspace, stack, said.append)
    begin = "there is no Pulumi.{}.yaml and no such stack\n  expected: prod, staging\n  hint: {}"
    assert said == [
        f"stagin: {begin.format('stagin', 'did you mean staging?')}",
        f"org/ci/zzz: {begin.format('zzz', 'or make it: pulumi-sandbox stack init org/ci/zzz')}",
    ]
    state = workspace.backend / ".pulumi" / "stacks" / "ci" / "stagin.json"
    state.parent.mkdir(parents=True)
    state.write_text("{}")
    stacks.explain(workspace, "stagin", said.append)
    assert len(said) == 2, "one that is in the state needs no file"
