"""Tests of writing a revision's environment to a path where a commit can have any files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from gpu_preview.environment import virtualenv
from gpu_preview.environment.virtualenv import named_folder, problem_of, toolchain
from gpu_preview.errors import PreviewError

from tests.preview.conftest import MakeVenv


@pytest.fixture
def ours(tmp_path: Path, make_venv: MakeVenv) -> Path:
    return make_venv(tmp_path / "ours")


def runs(environment: Path) -> str:
    line = "import sys; print(sys.prefix, sys.prefix != sys.base_prefix)"
    python = environment / "bin" / "python"
    return subprocess.run([python, "-c", line], capture_output=True, text=True, check=True).stdout.strip()


def pip_of(environment: Path) -> str:
    line = "import pip, os; print(os.path.realpath(os.path.dirname(pip.__file__)))"
    python = environment / "bin" / "python"
    return subprocess.run([python, "-c", line], capture_output=True, text=True, check=True).stdout.strip()


def test_an_environment_without_pip_gets_pip(ours: Path, tmp_path: Path) -> None:
    """uv makes environments without it, and Pulumi's own language host lists the packages with it."""
    import pip

    [packages] = virtualenv.site_packages(ours)
    (tmp_path / "side").mkdir()
    virtualenv.create(ours, tmp_path / "side" / ".venv", [str(packages)])
    assert pip_of(tmp_path / "side" / ".venv") == str(Path(pip.__file__).resolve().parent)
    (packages / "pip").mkdir()
    (packages / "pip" / "__init__.py").touch()
    virtualenv.create(ours, tmp_path / "side" / ".venv", [str(packages)])
    assert pip_of(tmp_path / "side" / ".venv") == str(packages / "pip")


def test_nothing_of_the_environment_that_is_lent_is_started(ours: Path, tmp_path: Path) -> None:
    """The interpreter can be a file of the pull request."""
    (ours / "bin" / "python").unlink()
    (ours / "bin" / "python").write_text(f"#!/bin/sh\ntouch {tmp_path / 'started'}\n")
    (ours / "bin" / "python").chmod(0o755)
    (tmp_path / "side").mkdir()
    virtualenv.create(ours, tmp_path / "side" / ".venv", [])
    assert not (tmp_path / "started").exists()


def test_committed_files_at_its_path_are_removed_and_no_link_is_followed(ours: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    (victim / "lib" / "python3zz" / "site-packages").mkdir(parents=True)
    (victim / "file").write_text("precious")
    side = tmp_path / "side"
    planted = side / ".venv" / "lib" / "python3zz" / "site-packages"
    planted.mkdir(parents=True)
    (planted / "_side.pth").symlink_to(victim / "file")
    virtualenv.create(ours, side / ".venv", ["/somewhere"])
    assert not planted.exists()
    virtualenv.clear(side / ".venv")
    (side / ".venv").symlink_to(victim)
    virtualenv.create(ours, side / ".venv", ["/somewhere"])
    assert not (side / ".venv").is_symlink()
    assert (victim / "file").read_text() == "precious"
    assert list((victim / "lib" / "python3zz" / "site-packages").iterdir()) == []


def test_a_place_behind_a_link_is_refused(ours: Path, tmp_path: Path) -> None:
    (tmp_path / "side").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "side" / "infra").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PreviewError, match=r"^\.venv: its path goes through a symbolic link$"):
        virtualenv.create(ours, tmp_path / "side" / "infra" / ".venv", [])
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_import_folders_are_not_written_through_a_link(ours: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    [packages] = virtualenv.site_packages(ours)
    (packages / "_side.pth").symlink_to(victim)
    virtualenv.add(ours, ["/somewhere"])
    assert (victim.read_text(), (packages / "_side.pth").read_text()) == ("precious", "/somewhere\n")
    (tmp_path / "other").mkdir()
    packages.rename(tmp_path / "moved")
    packages.symlink_to(tmp_path / "other")
    with pytest.raises(PreviewError, match="is below a symbolic link"):
        virtualenv.add(ours, ["/somewhere"])
    assert list((tmp_path / "other").iterdir()) == []


def test_the_python_behind_an_environment_is_one_or_nothing(ours: Path, tmp_path: Path) -> None:
    """An isolated process can read the result, so a link to a user's keys must not count."""
    checkout = tmp_path / "checkout"
    assert virtualenv.installation(ours, checkout) == Path(sys.base_prefix).resolve()
    secret = tmp_path / "home" / ".aws" / "bin"
    secret.mkdir(parents=True)
    (secret / "python").write_text("")
    (ours / "bin" / "python").unlink()
    (ours / "bin" / "python").symlink_to(secret / "python")
    assert virtualenv.installation(ours, checkout) is None
    assert virtualenv.installation(tmp_path / "none", checkout) is None


@pytest.mark.parametrize("around", ["", "checkout", "checkout/inner"])
def test_a_checkout_is_no_python_and_neither_is_a_part_of_it_or_what_is_around_it(
    ours: Path, tmp_path: Path, around: str
) -> None:
    """A pull request can add the files of an installation, and all untracked files next to them would be readable."""
    prefix = tmp_path / around
    (prefix / "bin").mkdir(parents=True)
    (prefix / "lib" / "python3.11").mkdir(parents=True)
    for file in (prefix / "bin" / "python", prefix / "lib" / "python3.11" / "os.py"):
        file.write_text("")
    (ours / "bin" / "python").unlink()
    (ours / "bin" / "python").symlink_to(prefix / "bin" / "python")
    assert virtualenv.installation(ours, tmp_path / "checkout") is None
    assert virtualenv.readable(ours, tmp_path / "checkout") == [ours]
    assert virtualenv.installation(ours, tmp_path / "another" / "checkout") == (prefix if around else None)


def test_only_an_environment_in_its_own_place_may_be_seen(ours: Path, tmp_path: Path) -> None:
    """A pull request names the folder, so it can be any folder, or a link to a user's keys."""
    assert virtualenv.readable(ours, tmp_path) == [ours, Path(sys.base_prefix).resolve()]
    for checkout in (ours, ours / "a" / "checkout"):
        assert virtualenv.readable(ours, checkout) == []
    (tmp_path / "keys").mkdir()
    (tmp_path / "link").symlink_to(ours)
    (tmp_path / "loop").symlink_to("loop")
    for name in ("keys", "link", "none", "loop", "loop/.venv"):
        assert virtualenv.readable(tmp_path / name, tmp_path) == []


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
    assert named_folder(project, tmp_path) == folder


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (".venv", ""),
        ("a/../b c/ü", ""),
        ("/opt/environments/infra", ""),
        ('"a\\x01b"', "is no name of a folder\n  got: a\\u0001b"),
        ('"a\\e[31m"', "is no name of a folder\n  got: a\\u001b[31m"),
        ("x/" + "ü" * 127, ""),
        ("x/" + "ü" * 128, "is no name of a folder\n  got: x/" + "ü" * 57 + "…"),
        ("x/" * 513, "is no name of a folder\n  got: " + "x/" * 29 + "x…"),
        (".", "is the folder of the project, or a parent of it\n  got: ."),
        ("../../..", "is the folder of the project, or a parent of it\n  got: ../../.."),
    ],
)
def test_a_name_that_can_be_no_folder_is_an_error(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "Pulumi.yaml").write_text(PROJECT.replace(".venv", name))
    assert problem_of(tmp_path) == (f"Pulumi.yaml: virtualenv {why}" if why else "")
    assert (named_folder(tmp_path, tmp_path) == "") == (bool(why) or name.startswith("/"))


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
    assert (toolchain(project), named_folder(project, tmp_path)) == (tool, folder)


@pytest.mark.parametrize("main", ["a" * 5000, "x/" * 3000, '"a\\0b"', "/", "../..", "[1]"])
def test_a_folder_of_the_program_that_can_be_none_is_no_reason_to_stop(tmp_path: Path, main: str) -> None:
    (tmp_path / "Pulumi.yaml").write_text(f"name: small\nruntime: python\nmain: {main}\n")
    assert (toolchain(tmp_path), named_folder(tmp_path, tmp_path)) == ("pip", "")
