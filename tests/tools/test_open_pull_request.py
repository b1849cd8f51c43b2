"""The script of scheduled workflows that opens a pull request, with a local remote and a fake gh."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT

TOKEN = "planted-token"
# OPEN has the open pull requests of the branch, as `number` or `number of a fork`. gh evaluates --jq itself.
GH = """#!/bin/sh
echo "$@" >> "${0%/*}/gh.log"
[ "$2" = list ] || exit 0
case "$*" in
*"select(.isCrossRepository | not) | .number") echo "$OPEN" | grep -v fork ;;
*) echo "$OPEN" | grep -c . ;;
esac
exit 0
"""


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A clone of a bare repository with one commit, and a gh that records its arguments and lists OPEN."""
    git(tmp_path, "init", "--quiet", "--bare", "remote")
    git(tmp_path, "clone", "--quiet", "remote", "checkout")
    folder = tmp_path / "checkout"
    (folder / "file").write_text("old\n")
    for words in (
        ("add", "file"),
        ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "first"),
        ("push", "--quiet", "origin", "HEAD:main"),
    ):
        git(folder, *words)
    (tmp_path / "gh").write_text(GH)
    (tmp_path / "gh").chmod(0o755)
    (tmp_path / "report.txt").write_text("l4.image is now b\n")
    return folder


def run(checkout: Path, *, opened: str) -> list[str]:
    """Run the script, and return the calls of gh."""
    log = checkout.parent / "gh.log"
    log.unlink(missing_ok=True)
    environment = {"PATH": f"{checkout.parent}:{os.environ['PATH']}", "GH_TOKEN": TOKEN, "OPEN": opened,
                   "HOME": str(checkout.parent), "TMPDIR": str(checkout.parent)}  # fmt: skip
    script = ROOT / "tools" / "open_pull_request.sh"
    report = checkout.parent / "report.txt"
    done = subprocess.run(
        [script, "images", "Promote images", report], cwd=checkout, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert TOKEN not in done.stdout + done.stderr
    return log.read_text().splitlines() if log.exists() else []


def test_without_a_change_nothing_is_pushed(checkout: Path) -> None:
    assert run(checkout, opened="") == []
    assert "images" not in git(checkout.parent / "remote", "branch")


def test_a_change_is_pushed_and_a_pull_request_is_opened_once(checkout: Path) -> None:
    (checkout / "file").write_text("new\n")
    (checkout / "gha-creds.json").write_text("{}")  # the credentials file of google-github-actions/auth
    listed, created = run(checkout, opened="")
    assert listed.startswith("pr list --head images --state open")
    assert created.startswith("pr create --head images --title Promote images --body-file ")
    body = Path(created.rpartition(" ")[2]).read_text()
    assert body == "```\nl4.image is now b\n```\n"
    shown = git(checkout.parent / "remote", "show", "--format=%s", "--name-only", "images")
    assert shown.split("\n") == ["Promote images", "", "file", ""]
    git(checkout, "checkout", "--quiet", "-B", "main", "origin/main")
    git(checkout, "branch", "--quiet", "-D", "images")
    (checkout / "file").write_text("newer\n")
    listed, edited = run(checkout, opened="7 of a fork\n8")
    assert (listed.split()[1], edited.split()[:3]) == ("list", ["pr", "edit", "8"])
    assert git(checkout.parent / "remote", "show", "images:file") == "newer\n"


def test_a_pull_request_of_a_fork_with_that_branch_is_left_alone(checkout: Path) -> None:
    (checkout / "file").write_text("new\n")
    _, created = run(checkout, opened="7 of a fork")
    assert created.startswith("pr create --head images")
