"""Tests of environments in the checkout that can contain files of a pull request."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from gpu_preview.environment.packages import Packages
from gpu_preview.errors import PreviewError

from .test_packages import checkout, side  # noqa: F401 - a fixture

OURS = r"^\.venv: is part of the repository, so its code is not trusted"


def test_an_environment_in_a_submodule_is_the_submodules(checkout: Path) -> None:  # noqa: F811
    """The outer repository does not track the files of a submodule."""
    (checkout / ".venv" / ".git").write_text("gitdir: ../.git/modules/sub\n")
    with pytest.raises(PreviewError, match=OURS):
        Packages(checkout, checkout).provide_environment(side(checkout))


def test_a_pth_file_that_is_large_or_not_regular_names_no_folder(checkout: Path) -> None:  # noqa: F811
    [packages] = (checkout / ".venv").glob("lib/python3*/site-packages")
    (packages / "folder.pth").mkdir()
    (packages / "endless.pth").symlink_to("/dev/zero")
    os.mkfifo(packages / "pipe.pth")
    (packages / "large.pth").write_text("/large\n" * 10_000)
    found = list(Packages(checkout, checkout).import_folders(checkout / ".venv", side(checkout)))
    assert [Path(each).name for each in found] == ["src", "elsewhere"]
