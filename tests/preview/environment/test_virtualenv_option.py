"""Tests of the option `virtualenv`."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu_preview.environment.virtualenv_option import problem_of, toolchain, virtualenv

PROJECT = "name: small\nruntime:\n  name: python\n  options: {virtualenv: .venv}\n"


@pytest.mark.parametrize(
    ("text", "folder"),
    [
        (PROJECT, ".venv"),
        (PROJECT.replace(".venv", "../.venv"), "../.venv"),
        ("runtime: python\n", ""),
        ("runtime: {name: python}\n", ""),
        ("runtime: {options: {virtualenv: /usr}}\n", ""),
        ("runtime: {options: {virtualenv: ../../x}}\n", ""),
        ("runtime: {options: {virtualenv: [a]}}\n", ""),
        ("a: [", ""),
        ("[]", ""),
        ("runtime: {options: {virtualenv: .}}\n", ""),
        ("runtime: {options: {virtualenv: ..}}\n", ""),
        ("runtime: {options: {virtualenv: ../infra/.}}\n", ""),
    ],
)
def test_the_environment_is_one_inside_the_repository(tmp_path: Path, text: str, folder: str) -> None:
    project = tmp_path / "infra"
    project.mkdir()
    (project / "Pulumi.yaml").write_text(text)
    assert virtualenv(project, tmp_path) == folder


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (".venv", ""),
        ("a/../b c/ü", ""),
        ("/opt/environments/infra", ""),
        ('"a\\x01b"', "has a control character\n  got: a\\u0001b"),
        ('"a\\e[31m"', "has a control character\n  got: a\\u001b[31m"),
        ("x/" + "ü" * 127, ""),
        ("x/" + "ü" * 128, "is longer than a folder's name can be\n  got: x/" + "ü" * 57 + "…"),
        ("x/" * 513, "is longer than a folder's name can be\n  got: " + "x/" * 29 + "x…"),
        (".", "is the folder of the project, or a parent of it\n  got: ."),
        ("../../..", "is the folder of the project, or a parent of it\n  got: ../../.."),
    ],
)
def test_a_name_that_can_be_no_folder_is_an_error(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "Pulumi.yaml").write_text(PROJECT.replace(".venv", name))
    assert problem_of(tmp_path) == (f"Pulumi.yaml: virtualenv {why}" if why else "")
    assert (virtualenv(tmp_path, tmp_path) == "") == (bool(why) or name.startswith("/"))


@pytest.mark.parametrize(
    ("options", "files", "tool", "folder"),
    [
        ("", [], "pip", ""),
        ("", ["uv.lock"], "uv", "../.venv"),
        ("", ["uv.lock", "infra/code/uv.lock"], "uv", "code/.venv"),
        ("", ["poetry.lock"], "poetry", "../.venv"),
        ("", ["uv.lock", "poetry.lock"], "uv", "../.venv"),
        ("toolchain: pip", ["uv.lock"], "pip", ""),
        ("toolchain: uv", [], "uv", ".venv"),
        ("toolchain: uv", ["pyproject.toml"], "uv", "../.venv"),
        ("toolchain: uv, virtualenv: mine", ["uv.lock"], "uv", "mine"),
        ("toolchain: poetry, virtualenv: mine", ["poetry.lock"], "poetry", "../.venv"),
        ("toolchain: conda", ["uv.lock"], "conda", ""),
        ("toolchain: 3", [], "pip", ""),
    ],
)
def test_the_environment_of_uv_and_poetry_is_next_to_their_lock(
    tmp_path: Path, options: str, files: list[str], tool: str, folder: str
) -> None:
    project = tmp_path / "infra"
    (project / "code").mkdir(parents=True)
    (project / "Pulumi.yaml").write_text(
        f"name: small\nmain: code/\nruntime: {{name: python, options: {{{options}}}}}\n"
    )
    for file in files:
        (tmp_path / file).touch()
    assert (toolchain(project), virtualenv(project, tmp_path)) == (tool, folder)


def test_a_lock_above_the_repository_names_no_environment_of_it(tmp_path: Path) -> None:
    project = tmp_path / "repository"
    project.mkdir()
    (project / "Pulumi.yaml").write_text("name: small\nruntime: python\n")
    (tmp_path / "uv.lock").touch()
    assert virtualenv(project, project) == ""


@pytest.mark.parametrize("main", ["a" * 5000, "x/" * 3000, '"a\\0b"', "/", "../..", "[1]"])
def test_a_folder_of_the_program_that_can_be_none_is_no_reason_to_stop(tmp_path: Path, main: str) -> None:
    (tmp_path / "Pulumi.yaml").write_text(f"name: small\nruntime: python\nmain: {main}\n")
    assert (toolchain(tmp_path), virtualenv(tmp_path, tmp_path)) == ("pip", "")
