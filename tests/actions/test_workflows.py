"""The workflows of the preview guides pass the linters of `make check`, and keep the promises of the pages."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT
from tests.preview.repository import commit, git
from tests.test_docs import fences

BIN = Path(sys.executable).parent
PAGES = [ROOT / "docs/guides" / name for name in ("preview-on-github.md", "drift.md")]
PAGES += [ROOT / "docs/operate/runner-manager.md"]
SHOWN = [text for page in PAGES for language, text in fences(page) if language == "yml" and "\njobs:\n" in text]
OURS = [(ROOT / ".github" / "workflows" / name).read_text() for name in ("preview.yaml", "preview-comment.yaml")]

BASE = "${{ github.base_ref || github.event.merge_group.base_ref }}"
HEAD = "${{ github.event.pull_request.head.sha || github.event.merge_group.head_sha }}"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with the workflows of the page, once somebody put an owner and a commit into them."""
    folder = tmp_path / ".github" / "workflows"
    folder.mkdir(parents=True)
    for text in SHOWN:
        (folder / f"{yaml.safe_load(text)['name']}.yaml").write_text(
            text.replace("OWNER", "example-org").replace("COMMIT", "1f" * 20)
        )
    return tmp_path


def test_githubs_schema_takes_the_workflows_of_the_page(repository: Path) -> None:
    files = sorted(map(str, repository.rglob("*.yaml")))
    command = [str(BIN / "check-jsonschema"), "--quiet", "--builtin-schema", "vendor.github-workflows", *files]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (checked.stdout, checked.stderr, checked.returncode) == ("", "", 0)


def test_nothing_in_the_workflows_of_the_page_is_known_to_be_dangerous(repository: Path) -> None:
    command = [str(BIN / "zizmor"), "--offline", "--no-progress", "--quiet", str(repository)]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


def triggers(workflow: dict[Any, Any]) -> Any:
    return workflow[True]  # YAML 1.1 reads `on` as a boolean


@pytest.mark.parametrize(("texts", "own_files"), [(SHOWN, 0), (OURS, 1)], ids=["of the page", "ours"])
def test_who_runs_the_pull_request_may_not_write_and_who_writes_runs_nothing_of_it(
    texts: list[str], own_files: int
) -> None:
    preview, comment = (yaml.safe_load(text) for text in texts[:2])
    assert (preview["permissions"], comment["permissions"]) == ({}, {})
    [run], [write] = preview["jobs"].values(), comment["jobs"].values()
    assert triggers(preview) == {
        "pull_request": {"branches": ["main"], "types": ["opened", "synchronize", "reopened", "edited"]},
        "merge_group": None,
    }
    # A skipped job counts as a passed check, so nothing may leave this one out.
    assert "if" not in run
    assert run["permissions"] == {"contents": "read"}
    assert "secrets" not in texts[0]
    assert triggers(comment) == {"workflow_run": {"workflows": [preview["name"]], "types": ["completed"]}}
    assert write["permissions"] == {"actions": "read", "contents": "read", "pull-requests": "write"}
    assert write["if"].replace("\n", " ") == (
        '${{ github.event.workflow_run.event == \'pull_request\' && contains(fromJSON(\'["success", "failure", '
        '"timed_out"]\'), github.event.workflow_run.conclusion) }}'
    )
    assert not any("run" in step for step in write["steps"])
    checkouts = [step["with"] for step in write["steps"] if step["uses"].startswith("actions/checkout@")]
    assert checkouts == [{"persist-credentials": False}] * own_files


@pytest.mark.parametrize("text", [SHOWN[0], OURS[0]], ids=["of the page", "ours"])
def test_the_program_runs_isolated_or_not_at_all_and_with_the_tested_cli(text: str) -> None:
    steps = yaml.safe_load(text)["jobs"]["preview"]["steps"]
    [preview] = [step for step in steps if "actions/preview" in step.get("uses", "")]
    assert preview["with"]["require-walls"] == "true"
    assert "engine" not in preview["with"]
    inputs = yaml.safe_load((ROOT / ".github/actions" / "preview" / "action.yml").read_text())["inputs"]
    assert inputs["engine"]["default"] == "official"
    # The job ends at once where bubblewrap cannot do what the preview asks of it.
    [prepared] = [step["run"] for step in steps if "bubblewrap" in step.get("run", "")]
    assert prepared.splitlines()[-1] == "bwrap --unshare-user --disable-userns --ro-bind / / true"


@pytest.mark.parametrize("text", [SHOWN[0], OURS[0]], ids=["of the page", "ours"])
def test_nothing_of_the_pull_request_is_ever_checked_out(tmp_path: Path, text: str) -> None:
    """A submodule's files would stay there when the base is put into its place."""
    first, second, *rest = yaml.safe_load(text)["jobs"]["preview"]["steps"]
    assert second["env"]["HEAD"] == HEAD
    checkout = {"ref": BASE, "fetch-depth": 0, "persist-credentials": False, "submodules": False}
    assert first["with"] == checkout
    assert not any("git " in step.get("run", "") for step in rest)
    origin, clone = tmp_path / "origin", tmp_path / "clone"
    origin.mkdir()
    git(origin, "init", "-q", "-b", "main")
    commit(origin, "base")
    git(tmp_path, "clone", "-q", f"file://{origin}", "clone")
    (origin / "theirs").touch()
    git(origin, "checkout", "-q", "--detach")
    commit(origin, "head")
    git(origin, "update-ref", "refs/pull/1/head", "HEAD")
    head = git(origin, "rev-parse", "HEAD")
    git(origin, "checkout", "-q", "main")
    environment = {**os.environ, "HEAD": head, "TOKEN": "token"}
    subprocess.run(["bash", "-euc", second["run"]], cwd=clone, env=environment, check=True)
    assert git(clone, "ls-tree", "--name-only", head) == "theirs"
    assert [each.name for each in clone.iterdir()] == [".git"]


def test_both_pairs_use_the_same_versions_of_githubs_actions() -> None:
    def used(texts: list[str]) -> set[str]:
        jobs = [job for text in texts for job in yaml.safe_load(text)["jobs"].values()]
        return {step["uses"] for job in jobs for step in job["steps"] if step.get("uses", "").startswith("actions/")}

    assert used(SHOWN[:2]) == used(OURS)


def test_our_pull_requests_are_held_to_our_policies_in_the_environment_that_they_need() -> None:
    steps = yaml.safe_load(OURS[0])["jobs"]["preview"]["steps"]
    [at] = [number for number, step in enumerate(steps) if step.get("uses") == "./.github/actions/preview"]
    asked = steps[at]["with"]["policy-packs"].splitlines()
    assert asked == ["policies"]
    assert (ROOT / asked[0] / "PulumiPolicy.yaml").is_file()
    assert "make policy" in [step.get("run") for step in steps[:at]]
