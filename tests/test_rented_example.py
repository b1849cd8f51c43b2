"""examples/rented-tests: the order of its workflow, and that its script may run any number of times."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from gpu_ci.cli.commands import gpu_ci

from tests.agent.fakes.machine import needs
from tests.conftest import ROOT

EXAMPLE = ROOT / "examples" / "rented-tests"
FILE = ".github/workflows/rented-tests.yml"
WORKFLOW: dict[str, Any] = yaml.safe_load((EXAMPLE / FILE).read_text())
JOBS: dict[str, Any] = WORKFLOW["jobs"]


def test_the_vm_is_stopped_whatever_happens_and_only_one_run_uses_it() -> None:
    assert {name: (job.get("needs"), job.get("if")) for name, job in JOBS.items()} == {
        "start": (None, None), "test": ("start", None), "queue-guard": ("start", None),
        "stop": (["start", "test"], "always()"),
    }  # fmt: skip
    assert WORKFLOW["concurrency"] == {"group": f"rented-{WORKFLOW['env']['VM']}", "cancel-in-progress": False}
    # The job on the VM, whose disk stays, gets neither the key nor an environment that has it.
    with_key = [name for name, job in JOBS.items() if "secrets." in str(job) or "environment" in job]
    assert with_key == ["start", "stop"]
    assert all(job["timeout-minutes"] <= 45 for job in JOBS.values())


@pytest.mark.parametrize("name", ["start", "stop"])
def test_its_commands_are_those_of_gpu_ci(name: str) -> None:

    words = shlex.split(JOBS[name]["steps"][-1]["run"])[1:]
    assert words[:3] == ["rented", name, "$VM"]
    done = CliRunner().invoke(gpu_ci, [*words, "--help"])
    assert (done.exit_code, words[3] in done.stdout) == (0, True)


@pytest.mark.slow
def test_the_workflow_and_the_script_pass_the_linters(tmp_path: Path) -> None:
    linter, project = tmp_path / "actionlint", tmp_path / "project"
    package = "github.com/rhysd/actionlint/cmd/actionlint"
    subprocess.run(["go", "build", "-o", linter, package], cwd=ROOT / "tools" / "actionlint", check=True)
    shutil.copytree(EXAMPLE, project)
    (project / ".github/actionlint.yaml").write_text("self-hosted-runner: {labels: [gpu, rented]}\n")
    subprocess.run(["git", "init", "--quiet"], cwd=project, check=True)
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for command in (
        [linter],
        ["check-jsonschema", "--quiet", "--builtin-schema", "vendor.github-workflows", FILE],
        ["zizmor", "--offline", "--no-progress", "--quiet", "."],
        ["shellcheck", "start_runner.sh"],
    ):
        done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


HOST = """
set -e
mount --bind "$1/home" /home
mount --bind "$1/etc" /etc
mount --bind "$1/log" /var/log
if [ "$2" ]; then eval "$2"; fi
RUNNER_USER=ci RUNNER_UID=10987 bash "$3"
"""


def start(host: Path, before: str = "") -> subprocess.CompletedProcess[str]:
    """Run the script on a host that has only these folders of its own."""
    script = EXAMPLE / "start_runner.sh"
    command = ["unshare", "--mount", "bash", "-c", HOST, "host", str(host), before, str(script)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def state(folder: Path) -> dict[str, tuple[int, int, int]]:
    found = {str(each.relative_to(folder)): each.lstat() for each in folder.rglob("*")}
    return {name: (each.st_mode, each.st_uid, each.st_gid) for name, each in found.items()}


def until_exists(file: Path) -> None:
    end = time.monotonic() + 60
    while not file.exists():
        assert time.monotonic() < end, f"{file} is missing"
        time.sleep(0.02)


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """Return a host after its first configuration. Its runner notes who it is, and works until `stop` exists."""
    needs("unshare", "mount", "useradd", "setpriv")
    (tmp_path / "etc").mkdir()
    for name in ("passwd", "group", "shadow", "gshadow", "login.defs", "nsswitch.conf"):
        shutil.copy(f"/etc/{name}", tmp_path / "etc" / name)
    runner = tmp_path / "home/ci/actions-runner"
    runner.mkdir(parents=True)
    (tmp_path / "log").mkdir()
    os.chown(runner, 10987, 10987)
    program = runner / "run.sh"
    program.write_text(
        '#!/bin/bash\necho "$(id -u) $HOME ${SECRET:-none}" >>started\nwhile [ ! -e stop ]; do sleep 0.1; done\n'
    )
    program.chmod(0o755)
    (tmp_path / "home/ci/large").mkdir()
    return tmp_path


def test_the_script_gives_the_same_result_each_time_and_starts_one_runner(
    host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "of-root")
    started, seen = host / "home/ci/actions-runner/started", []
    try:
        for number in range(3):
            if number == 2:  # the host was started again: it has only /home
                for name in ("passwd", "group", "shadow", "gshadow"):
                    shutil.copy(f"/etc/{name}", host / "etc" / name)
            done = start(host)
            assert (done.returncode, done.stderr) == (0, "")
            until_exists(started)
            seen.append(state(host / "home"))
    finally:
        (host / "home/ci/actions-runner/stop").touch()
    assert seen[0] == seen[1] == seen[2]
    assert started.read_text().splitlines() == ["10987 /home/ci none"]
    assert seen[0]["ci"][1:] == seen[0]["ci/.local/share"][1:] == (10987, 10987)
    # There is no recursive chown.
    assert seen[0]["ci/large"][1] == 0


@pytest.mark.parametrize(
    ("before", "text"),
    [
        ("useradd --uid 4321 --user-group ci", "ci has uid 4321"),
        ("ln -s /etc /home/ci/.cache", "/home/ci/.cache is a symbolic link"),
        ("rm /home/ci/actions-runner/run.sh", "run.sh is missing"),
    ],
)
def test_a_host_that_is_not_as_expected_gets_no_runner(host: Path, before: str, text: str) -> None:
    done = start(host, before)
    assert done.returncode == 1
    assert text in done.stderr
