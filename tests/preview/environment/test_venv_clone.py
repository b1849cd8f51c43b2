"""Tests of writing a revision's environment to a path where a commit can have any files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from gpu_preview.environment import venv_clone
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

    [packages] = venv_clone.site_packages(ours)
    (tmp_path / "side").mkdir()
    venv_clone.create(ours, tmp_path / "side" / ".venv", [str(packages)])
    assert pip_of(tmp_path / "side" / ".venv") == str(Path(pip.__file__).resolve().parent)
    (packages / "pip").mkdir()
    (packages / "pip" / "__init__.py").touch()
    venv_clone.create(ours, tmp_path / "side" / ".venv", [str(packages)])
    assert pip_of(tmp_path / "side" / ".venv") == str(packages / "pip")


def test_nothing_of_the_environment_that_is_lent_is_started(ours: Path, tmp_path: Path) -> None:
    """The interpreter can be a file of the pull request."""
    (ours / "bin" / "python").unlink()
    (ours / "bin" / "python").write_text(f"#!/bin/sh\ntouch {tmp_path / 'started'}\n")
    (ours / "bin" / "python").chmod(0o755)
    (tmp_path / "side").mkdir()
    venv_clone.create(ours, tmp_path / "side" / ".venv", [])
    assert not (tmp_path / "started").exists()


def test_committed_files_at_its_path_are_removed_and_no_link_is_followed(ours: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    (victim / "lib" / "python3zz" / "site-packages").mkdir(parents=True)
    (victim / "file").write_text("precious")
    side = tmp_path / "side"
    planted = side / ".venv" / "lib" / "python3zz" / "site-packages"
    planted.mkdir(parents=True)
    (planted / "_side.pth").symlink_to(victim / "file")
    venv_clone.create(ours, side / ".venv", ["/somewhere"])
    assert not planted.exists()
    venv_clone.clear(side / ".venv")
    (side / ".venv").symlink_to(victim)
    venv_clone.create(ours, side / ".venv", ["/somewhere"])
    assert not (side / ".venv").is_symlink()
    assert (victim / "file").read_text() == "precious"
    assert list((victim / "lib" / "python3zz" / "site-packages").iterdir()) == []


def test_a_place_behind_a_link_is_refused(ours: Path, tmp_path: Path) -> None:
    (tmp_path / "side").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "side" / "infra").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PreviewError, match=r"^\.venv: its path goes through a symbolic link$"):
        venv_clone.create(ours, tmp_path / "side" / "infra" / ".venv", [])
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_import_folders_are_not_written_through_a_link(ours: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    [packages] = venv_clone.site_packages(ours)
    (packages / "_side.pth").symlink_to(victim)
    venv_clone.add(ours, ["/somewhere"])
    assert (victim.read_text(), (packages / "_side.pth").read_text()) == ("precious", "/somewhere\n")
    (tmp_path / "other").mkdir()
    packages.rename(tmp_path / "moved")
    packages.symlink_to(tmp_path / "other")
    with pytest.raises(PreviewError, match="is below a symbolic link"):
        venv_clone.add(ours, ["/somewhere"])
    assert list((tmp_path / "other").iterdir()) == []


def test_the_python_behind_an_environment_is_one_or_nothing(ours: Path, tmp_path: Path) -> None:
    """An isolated process can read the result, so a link to a user's keys must not count."""
    checkout = tmp_path / "checkout"
    assert venv_clone.installation(ours, checkout) == Path(sys.base_prefix).resolve()
    secret = tmp_path / "home" / ".aws" / "bin"
    secret.mkdir(parents=True)
    (secret / "python").write_text("")
    (ours / "bin" / "python").unlink()
    (ours / "bin" / "python").symlink_to(secret / "python")
    assert venv_clone.installation(ours, checkout) is None
    assert venv_clone.installation(tmp_path / "none", checkout) is None


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
    assert venv_clone.installation(ours, tmp_path / "checkout") is None
    assert venv_clone.readable(ours, tmp_path / "checkout") == [ours]
    assert venv_clone.installation(ours, tmp_path / "another" / "checkout") == (prefix if around else None)


def test_only_an_environment_in_its_own_place_may_be_seen(ours: Path, tmp_path: Path) -> None:
    """A pull request names the folder, so it can be any folder, or a link to a user's keys."""
    assert venv_clone.readable(ours, tmp_path) == [ours, Path(sys.base_prefix).resolve()]
    for checkout in (ours, ours / "a" / "checkout"):
        assert venv_clone.readable(ours, checkout) == []
    (tmp_path / "keys").mkdir()
    (tmp_path / "link").symlink_to(ours)
    (tmp_path / "loop").symlink_to("loop")
    for name in ("keys", "link", "none", "loop", "loop/.venv"):
        assert venv_clone.readable(tmp_path / name, tmp_path) == []


def test_a_place_behind_a_link_to_itself_is_refused(ours: Path, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(PreviewError, match=r"^\.venv: its path goes through a symbolic link$"):
        venv_clone.create(ours, tmp_path / "loop" / ".venv", [])


def test_folders_in_folders_without_an_end_are_removed_too(ours: Path, tmp_path: Path) -> None:
    deep = tmp_path / "side" / ".venv" / "/".join(["a"] * 1500)
    subprocess.run(["mkdir", "-p", deep], check=True)  # Path.mkdir calls itself for each
    venv_clone.create(ours, tmp_path / "side" / ".venv", [])
    assert not (tmp_path / "side" / ".venv" / "a").exists()
