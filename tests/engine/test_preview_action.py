"""Tests both actions with a pull request: a preview by the real engine, then a comment on a fake GitHub."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from gpu_preview.environment.packages import Packages

from tests.actions.composite import Job
from tests.conftest import ROOT
from tests.preview.fake_github import FORK, OURS, FakeGithub, pull, serving
from tests.preview.repository import commit, git

pytestmark = pytest.mark.engine

PROGRAM = """import pulumi_github as github

for name, value in {values}.items():
    github.ActionsVariable(name, repository="kernels", variable_name=name, value=value)
"""


def project(folder: Path) -> Path:
    """Return a clone with a program that does not use gpu-ci. Its head is a pull request into main."""
    origin = folder / "origin"
    origin.mkdir(parents=True)
    (origin / "Pulumi.yaml").write_text(
        "name: kernels\nruntime: {name: python, options: {virtualenv: .venv}}\nmain: program\n"
    )
    (origin / "Pulumi.dev.yaml").write_text("config:\n  github:owner: example-org\n")
    (origin / "sandbox.yaml").write_text("exists: {github: [example-org/kernels]}\n")
    (origin / ".gitignore").write_text(".venv\n")
    (origin / "program").mkdir()
    (origin / "program" / "__main__.py").write_text(PROGRAM.format(values={"GPU": "l4"}))
    git(origin, "init", "-q", "-b", "main")
    commit(origin, "base")
    workspace = folder / "workspace"
    git(folder, "clone", "-q", str(origin), str(workspace))
    (workspace / "program" / "__main__.py").write_text(PROGRAM.format(values={"GPU": "t4", "REGION": "us-central1"}))
    git(workspace, "checkout", "-q", "-b", "more-gpus")
    commit(workspace, "more GPUs")
    Packages(ROOT, ROOT).provide_environment(workspace)
    return workspace


@pytest.mark.slow
def test_a_pull_request_is_previewed_and_the_report_becomes_its_comment(tmp_path: Path) -> None:
    workspace, temp = project(tmp_path), tmp_path / "temp"
    temp.mkdir()
    job = Job(workspace, temp, {"GITHUB_BASE_REF": "main"})
    # This test's interpreter, as tools/install.py makes an environment anew for another one.
    inputs = {"python": sys.executable, "engine": "", "require-walls": "true" if shutil.which("bwrap") else "false"}
    code, printed, outputs = job.run(ROOT / ".github/actions" / "preview", **inputs)
    assert (code, outputs["exit-code"], outputs["changed"]) == (0, "2", "true"), printed
    report = Path(outputs["report"])
    assert sorted(file.name for file in report.iterdir()) == ["report.json", "report.md"]
    assert (temp / "summary").read_text().startswith("<!-- gpu-ci-preview -->\n**dev**: 1 created, 1 updated")

    head = git(workspace, "rev-parse", "HEAD")
    event = tmp_path / "event.json"
    fork = {"full_name": FORK, "owner": {"login": "somebody"}}
    run = {"event": "pull_request", "head_sha": head, "head_branch": "more-gpus", "head_repository": fork}
    event.write_text(
        json.dumps({"repository": {"full_name": OURS, "owner": {"login": "example-org"}}, "workflow_run": run})
    )
    with serving(FakeGithub(pulls=[pull(sha=head)])) as github:
        job.variables |= {"GITHUB_EVENT_PATH": str(event), "GITHUB_API_URL": github.url}
        code, printed, _ = job.run(
            ROOT / ".github/actions" / "preview-comment",
            report=str(report / "report.json"), token="a-token", python=sys.executable,
        )  # fmt: skip
        assert (code, [one[0] for one in github.asked]) == (0, ["GET", "GET", "POST"]), printed
    [made] = github.comments
    assert made["body"].startswith("<!-- gpu-ci-preview -->\n")
    assert "\n**dev**: 1 created, 1 updated" in made["body"]
    assert '-value: "l4"\n+value: "t4"' in made["body"].replace("- value", "-value").replace("+ value", "+value")
