"""A YAML file that cannot be read is reported with its name, its line and a hint."""

from __future__ import annotations

from pathlib import Path

import pytest
from pulumi_sandbox import yaml_file
from pulumi_sandbox.workspace import YamlFileError

FINE = "config:\n  gcp:project: example-ci\n  gpu-ci:pools: {l4: {zones: [a, b]}}\nencryptionsalt: v1:x\n"
MARKS = "  expected: YAML\n  hint: indent with spaces, put a space after each colon, close every bracket and quote"


def error_of(folder: Path, text: str | bytes) -> str:
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


def test_broken_yaml_is_reported_with_its_file_and_line(tmp_path: Path) -> None:
    assert error_of(tmp_path, "config:\n  gcp:project: a\n   bad: x\n") == (
        f"Pulumi.dev.yaml: line 3, column 7: mapping values are not allowed here\n{MARKS}"
    )
    assert error_of(tmp_path, "config:\n  zones: [a, b\n").startswith(
        "Pulumi.dev.yaml: line 3, column 1: expected ',' or"
    )


def test_a_broken_line_is_not_shown_because_it_may_hold_a_secret(tmp_path: Path) -> None:
    assert "hunter22" not in error_of(tmp_path, "config:\n  a:token: hunter22: x\n")


def test_every_duplicate_key_is_reported_with_both_lines(tmp_path: Path) -> None:
    twice = FINE + "config:\n  a: [{b: 1, b: 2}]\n"
    assert error_of(tmp_path, twice) == (
        "Pulumi.dev.yaml: config: is set twice, in lines 1 and 5\n  hint: keep one of the two\n"
        "Pulumi.dev.yaml: a[0].b: is set twice, in lines 6 and 6\n  hint: keep one of the two"
    )


def test_a_file_that_is_no_text_is_reported_without_a_traceback(tmp_path: Path) -> None:
    assert error_of(tmp_path, b"config: \xff\n") == "Pulumi.dev.yaml: is not UTF-8 text at byte 8\n  expected: YAML"


def test_what_an_anchor_names_is_looked_at_once(tmp_path: Path) -> None:
    levels = "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))
    file = tmp_path / "Pulumi.dev.yaml"
    file.write_text(f"a0: &a0 1\n{levels}b: &b [*b]\n")
    yaml_file.check(file)


def test_a_file_that_is_nested_too_deeply_is_reported_without_a_traceback(tmp_path: Path) -> None:
    assert error_of(tmp_path, f"a: {'[' * 5000}{']' * 5000}") == (
        "Pulumi.dev.yaml: is nested too deeply\n  expected: YAML"
    )
