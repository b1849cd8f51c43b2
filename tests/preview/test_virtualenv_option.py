"""Which texts name a folder for an environment."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu_preview.virtualenv_option import unfit, virtualenv

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
        ('"a\\x01b"', "has a character that no folder's name has\n  got: a\\u0001b"),
        ('"a\\e[31m"', "has a character that no folder's name has\n  got: a\\u001b[31m"),
        ("x/" + "ü" * 127, ""),
        ("x/" + "ü" * 128, "is longer than a folder's name can be\n  got: x/" + "ü" * 57 + "…"),
        ("x/" * 513, "is longer than a folder's name can be\n  got: " + "x/" * 29 + "x…"),
        (".", "is the folder of the project, or one around it\n  got: ."),
        ("../../..", "is the folder of the project, or one around it\n  got: ../../.."),
    ],
)
def test_what_can_be_no_folder_is_said(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "Pulumi.yaml").write_text(PROJECT.replace(".venv", name))
    assert unfit(tmp_path) == (f"Pulumi.yaml: virtualenv {why}" if why else "")
    assert (virtualenv(tmp_path, tmp_path) == "") == (bool(why) or name.startswith("/"))
