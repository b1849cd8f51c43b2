"""The reusable workflow deploy-stack: its permissions, its pins, and its scripts with the real CLI in the sandbox."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from pulumi_sandbox.engine import install

from tests.conftest import ROOT, lay_out, with_fake_torch
from tests.preview.repository import commit, git
from tests.sandbox_runner import cheaper
from tests.test_docs import fences

FILE = ROOT / ".github" / "workflows" / "deploy-stack.yaml"
WORKFLOW: dict[Any, Any] = yaml.safe_load(FILE.read_text())
INPUTS = WORKFLOW[True]["workflow_call"]["inputs"]  # YAML 1.1 reads `on` as a boolean
[CALLER] = [
    yaml.safe_load(text) for language, text in fences(ROOT / "docs/guides/deploy-on-github.md") if language == "yml"
]


SKIPPED = (
    "Check out a commit of the default branch's history",
    "Install the program's packages",
    "Install the Pulumi CLI",
    "Report drift",
    "Delete machines that are left",
)


def steps(job: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = WORKFLOW["jobs"][job]["steps"]
    return found


def test_the_deployment_alone_gets_an_identity_and_nothing_may_write_to_the_repository() -> None:
    assert WORKFLOW["permissions"] == {}
    assert {name: job["permissions"] for name, job in WORKFLOW["jobs"].items()} == {
        "deploy": {"contents": "read", "id-token": "write"},
        "smoke": {},
    }
    assert WORKFLOW["jobs"]["deploy"]["environment"] == "${{ inputs.environment }}"
    assert WORKFLOW["jobs"]["deploy"]["concurrency"] == {
        "group": "pulumi-${{ inputs.working-directory }}-${{ inputs.stack }}-${{ inputs.command }}",
        "queue": "max",
        "cancel-in-progress": False,
    }


def test_only_the_steps_that_run_pulumi_have_the_secrets() -> None:
    assert "secrets." not in json.dumps(WORKFLOW["jobs"]["deploy"]["env"])
    assert [step["name"] for step in steps("deploy") if "secrets." in json.dumps(step.get("env", {}))] == [
        "Report drift",
        "Delete machines that are left",
        "Preview into a plan",
        "Deploy the plan",
        "List the pools that register runners",
    ]


def test_a_commit_is_checked_out_before_anything_of_it_runs(tmp_path: Path) -> None:
    """A commit of the default branch, and no other: an unmerged one, a tag, a branch, or nothing."""
    checkout, step, *_ = steps("deploy")
    assert checkout["uses"].startswith("actions/checkout@")
    assert checkout["with"] == {"fetch-depth": 0, "persist-credentials": False}
    assert step["env"]["REF"] == "${{ inputs.ref || github.sha }}"
    origin = tmp_path / "origin"
    origin.mkdir()
    git(origin, "init", "--quiet", "--initial-branch", "trunk")
    commits = []
    for branch in ("trunk", "trunk", "feature"):
        git(origin, "checkout", "--quiet", "-B", branch)
        commit(origin, branch)
        commits.append(git(origin, "rev-parse", "HEAD"))
    first, second, unmerged = commits
    git(origin, "tag", "v1", first)
    git(tmp_path, "clone", "--quiet", "origin", "clone")
    (tmp_path / "gh").write_text('#!/bin/sh\n[ "$*" = "api repos/acme/ci --jq .default_branch" ] && echo trunk\n')
    (tmp_path / "gh").chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "GITHUB_REPOSITORY": "acme/ci"}
    for ref, code in ((first, 0), (second, 0), (unmerged, 1), ("v1", 1), ("trunk", 1), (second[:12], 1), ("", 1)):
        git(tmp_path / "clone", "checkout", "--quiet", "--detach", unmerged)
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=tmp_path / "clone", env={**environment, "REF": ref}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        here = git(tmp_path / "clone", "rev-parse", "HEAD")
        assert (done.returncode, here) == (code, unmerged if code else ref), done.stdout + done.stderr


def test_every_action_is_pinned_by_a_commit() -> None:
    used = [step["uses"] for job in WORKFLOW["jobs"] for step in steps(job) if "uses" in step]
    assert len(used) == 7
    assert [name for name in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", name)] == []


@pytest.mark.parametrize("locked", [True, False])
def test_a_lock_is_installed_with_hashes_and_nothing_else_of_the_requirements_comes_from_an_index(
    locked: bool, tmp_path: Path
) -> None:
    [step] = [each for each in steps("deploy") if each.get("name") == "Install the program's packages"]
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    for program in ("bin/python3", ".venv/bin/pip"):
        file = tmp_path / program
        file.parent.mkdir(exist_ok=True)
        file.write_text('#!/bin/sh\necho "$@" >> log\n')
        file.chmod(0o755)
    if locked:
        (tmp_path / "requirements.lock").touch()
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    subprocess.run(command, cwd=tmp_path, env={"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}, check=True)
    install = "install --quiet --only-binary :all:"
    from_lock = "install --quiet --no-index --no-build-isolation --check-build-dependencies -r requirements.txt"
    lock = [f"{install} --require-hashes -r requirements.lock", from_lock]
    expected = lock if locked else [f"{install} -r requirements.txt"]
    assert (tmp_path / "log").read_text().splitlines() == ["-m venv .venv", *expected]


def test_the_page_locks_the_build_backend_of_gpu_ci() -> None:
    [backend] = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert f"echo {backend} | uv pip compile " in (ROOT / "docs/guides/deploy-on-github.md").read_text()


def test_the_cli_is_the_one_of_the_sandbox_and_another_archive_is_not_installed(tmp_path: Path) -> None:
    [step] = [each for each in steps("deploy") if each.get("name") == "Install the Pulumi CLI"]
    assert f"{install.ADDRESS}-linux-x64.tar.gz\n" in step["run"]
    assert step["env"]["SHA256"] == install.SHA256["linux-x64"]
    (tmp_path / "made" / "pulumi").mkdir(parents=True)
    made = Path(shutil.make_archive(str(tmp_path / "made"), "gztar", tmp_path / "made"))
    (tmp_path / "curl").write_text(f'#!/bin/sh\n[ "$1 $2" = "-fsSL -o" ] && cp {made} "$3"\n')
    (tmp_path / "curl").chmod(0o755)
    found = tmp_path / "path"
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "RUNNER_TEMP": str(tmp_path), "GITHUB_PATH": str(found)}
    for digest in (step["env"]["SHA256"], hashlib.sha256(made.read_bytes()).hexdigest()):
        assert not found.exists()
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            env={**environment, "ARCHIVE": str(tmp_path / "a.tar.gz"), "SHA256": digest},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (done.returncode == 0) is (digest != step["env"]["SHA256"]), done.stderr
    assert found.read_text() == f"{tmp_path}/pulumi\n"
    assert (tmp_path / "pulumi").is_dir()


def test_no_input_is_part_of_a_script() -> None:
    assert [step["name"] for job in WORKFLOW["jobs"] for step in steps(job) if "${{" in step.get("run", "")] == []


def test_the_workflow_of_the_page_calls_it_with_inputs_that_exist() -> None:
    jobs = CALLER["jobs"].values()
    assert [job["uses"] for job in jobs] == ["OWNER/gpu-ci/.github/workflows/deploy-stack.yaml@COMMIT"] * 2
    required = {name for name, each in INPUTS.items() if each.get("required")}
    for job in jobs:
        assert required <= job["with"].keys() <= INPUTS.keys()
        assert job["permissions"] == {"contents": "read", "id-token": "write"}
    page = (ROOT / "docs/guides/deploy-on-github.md").read_text()
    table = page.partition("| input |")[2].partition("\n\n")[0]
    assert set(re.findall(r"`([a-z-]+)`", " ".join(row.split("|")[1] for row in table.splitlines()[2:]))) == set(INPUTS)


def test_the_workflow_of_the_page_passes_the_linters(tmp_path: Path) -> None:
    folder = tmp_path / ".github" / "workflows"
    folder.mkdir(parents=True)
    [text] = [each for language, each in fences(ROOT / "docs/guides/deploy-on-github.md") if language == "yml"]
    (folder / "deploy.yaml").write_text(text.replace("OWNER", "example-org").replace("COMMIT", "1f" * 20))
    tools = Path(sys.executable).parent
    for command in (
        [tools / "check-jsonschema", "--quiet", "--builtin-schema", "vendor.github-workflows", folder / "deploy.yaml"],
        [tools / "zizmor", "--offline", "--no-progress", "--quiet", tmp_path],
    ):
        checked = subprocess.run(command, capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.slow
@pytest.mark.engine
def test_its_scripts_deploy_a_stack_from_a_plan_and_list_the_pools(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    lay_out(project)
    (project / "sandbox.yaml").write_text(with_fake_torch((ROOT / "sandbox.yaml").read_text()))
    stack = yaml.safe_load((ROOT / "Pulumi.staging.yaml").read_text())
    pools = stack["config"]["gpu-ci:pools"]
    stack["config"]["gpu-ci:pools"] = {name: pools[name] for name in ("l4", "builds", "a10g")}
    del stack["config"]["gpu-ci:clusters"]["gke-ci"]
    (project / "Pulumi.staging.yaml").write_text(yaml.safe_dump(stack, sort_keys=False))
    tools, temp = tmp_path / "bin", tmp_path / "temp"
    tools.mkdir()
    temp.mkdir()
    # The scripts call `pulumi`, which the workflow installs, and gpu-ci, which requirements.txt installs.
    (tools / "pulumi").write_text(f'#!/bin/sh\nexec "{ROOT}/.venv/bin/pulumi-sandbox" "$@"\n')
    (tools / "pulumi").chmod(0o755)
    (project / ".venv" / "bin" / "gpu-ci").unlink(missing_ok=True)
    (project / ".venv" / "bin" / "gpu-ci").symlink_to(ROOT / ".venv" / "bin" / "gpu-ci")
    output = temp / "output"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PULUMI_")} | {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "PULUMI_SANDBOX_DIR": str(tmp_path / "sandbox"),
        "STACK": "staging",
        "RUNNER_TEMP": str(temp),
        "GITHUB_OUTPUT": str(output),
        **cheaper(),
    }
    ran = []
    for step in steps("deploy"):
        if "run" not in step or step["name"] in SKIPPED:
            continue
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{step['name']}: {done.stdout}{done.stderr}"
        ran.append(step["name"])
    assert ran == [
        "Check the stack file",
        "Preview into a plan",
        "Deploy the plan",
        "List the pools that register runners",
        "Write gpu-smoke as one file",
    ]
    name, _, value = output.read_text().partition("=")
    assert name == "pools"
    assert json.loads(value) == [
        {"name": "a10g", "labels": ["a10g"]},
        {"name": "l4", "labels": ["self-hosted", "gpu", "l4"]},
    ]
    [smoke] = [step["run"] for step in steps("smoke") if "run" in step]
    diagnosed = subprocess.run(["bash", "-c", smoke], cwd=temp, capture_output=True, text=True, check=False)
    assert diagnosed.returncode == 2, "this machine has no GPU, and the job says so"
    assert "libcuda.real" in diagnosed.stdout
