"""Tests of `gpu-ci preview-comment`, called as in a job of `workflow_run`."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gpu_ci.cli.main import run
from gpu_preview.report.comment import Head

from ..fake_github import COMMIT, FORK, OTHER_COMMIT, OURS, WORKFLOW, FakeGithub, serving
from ..report.test_comment import document, stack

EVENT: dict[str, Any] = {
    "action": "completed",
    "repository": {"full_name": OURS, "owner": {"login": "example-org"}},
    "workflow_run": {
        "event": "pull_request",
        "head_sha": COMMIT,
        "head_branch": "more-gpus",
        "head_repository": {"full_name": FORK, "owner": {"login": "somebody"}},
        "html_url": f"https://github.com/{OURS}/actions/runs/1",
        "pull_requests": [],
        "path": WORKFLOW,
    },
}


@pytest.fixture
def github(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGithub]:
    with serving(FakeGithub()) as served:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr("time.sleep", lambda seconds: None)
        # A program of another test may have given the root a handler, whose stream ended with that test.
        monkeypatch.setattr(logging.getLogger("github"), "propagate", False)
        monkeypatch.setenv("GITHUB_TOKEN", "a-token")
        monkeypatch.setenv("GITHUB_API_URL", served.url)
        monkeypatch.setenv("GITHUB_EVENT_PATH", str(tmp_path / "event.json"))
        event(EVENT)
        Path("report.json").write_text(json.dumps(document(stacks=[stack(counts={"same": 3})])))
        yield served


def event(content: Any) -> None:
    Path("event.json").write_text(json.dumps(content))


def test_the_comment_is_the_markdown_that_is_made_here(github: FakeGithub, capsys: pytest.CaptureFixture[str]) -> None:
    Path("report.md").write_text("# Merge it")
    assert run(["preview-comment", "report.json"]) == 0
    [made] = github.comments
    assert made["body"].startswith("<!-- gpu-ci-preview -->\n**prod**: nothing changes")
    assert made["body"].endswith("The code of the pull request could have changed it.</sub>\n")
    assert capsys.readouterr().err == (f"gpu-ci preview-comment: created: https://github.com/{OURS}/pull/7#made\n")


def test_the_files_of_the_runs_workflow_are_those_of_this_repository(github: FakeGithub) -> None:
    called = [
        {"path": f"{OURS}/.github/workflows/called.yaml@refs/heads/main", "sha": COMMIT},
        {"path": "another/library/.github/workflows/x.yaml@v1", "sha": COMMIT},
    ]
    event({**EVENT, "workflow_run": {**EVENT["workflow_run"], "referenced_workflows": called}})
    assert Head.read(Path("event.json")).workflows == (WORKFLOW, ".github/workflows/called.yaml")


def test_a_fork_that_is_deleted_is_no_failure(github: FakeGithub, capsys: pytest.CaptureFixture[str]) -> None:
    event({**EVENT, "workflow_run": {**EVENT["workflow_run"], "head_repository": None, "head_branch": None}})
    assert run(["preview-comment", "report.json"]) == 0
    assert capsys.readouterr().err == "gpu-ci preview-comment: left: the fork that the run was for is deleted\n"
    assert [method for method, _ in github.asked if method != "GET"] == []


@pytest.mark.parametrize("key", ["a b", "-->", "a--b", "x" * 65])
def test_a_key_that_could_end_the_line_is_refused(
    github: FakeGithub, capsys: pytest.CaptureFixture[str], key: str
) -> None:
    assert run(["preview-comment", f"--key={key}", "report.json"]) == 2
    assert "is not a valid key" in capsys.readouterr().err
    assert github.asked == []


def test_a_forged_report_fails_the_job_and_asks_github_nothing(
    github: FakeGithub, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("report.json").write_text(json.dumps(document(head={"ref": "main", "commit": OTHER_COMMIT})))
    assert run(["preview-comment", "report.json"]) == 1
    assert "head.commit: the report and the run have different commits" in capsys.readouterr().err
    assert github.asked == []


def test_a_refusal_of_githubs_fails_the_job(github: FakeGithub, capsys: pytest.CaptureFixture[str]) -> None:
    github.refusals = [("POST", 403, {}, {"message": "Resource not accessible by integration\n::error::x"})]
    assert run(["preview-comment", "report.json"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "gpu-ci preview-comment: GitHub answered 403: Resource not accessible by integration\\n::error::x",
        "  hint: the job's token needs permissions: pull-requests: write",
    ]


@pytest.mark.parametrize("name", ["GITHUB_TOKEN", "GITHUB_EVENT_PATH"])
def test_outside_of_such_a_job_it_says_what_is_missing(
    github: FakeGithub, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.delenv(name)
    assert run(["preview-comment", "report.json"]) == 2
    assert capsys.readouterr().err.startswith(f"gpu-ci preview-comment: {name} not set\n")


@pytest.mark.parametrize("content", [{"pull_request": {"number": 7}}, [], {**EVENT, "workflow_run": {"event": None}}])
def test_another_event_is_refused(github: FakeGithub, capsys: pytest.CaptureFixture[str], content: Any) -> None:
    event(content)
    assert run(["preview-comment", "report.json"]) == 2
    error = capsys.readouterr().err
    assert "event.json: is not the event of a workflow_run" in error
    assert "hint: this belongs in a workflow that begins with on: workflow_run" in error
    assert github.asked == []
