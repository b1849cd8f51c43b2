"""The workflow that users copy, read as GitHub reads it. Steps that need no GPU and no network run here."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from gpu_ci.gcp.pool.rules import default_runner_labels

from . import wheels

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "gpu-tests"
WORKFLOW: dict[str, Any] = yaml.safe_load((EXAMPLE / ".github/workflows/gpu-tests.yml").read_text())
PAGE = (ROOT / "docs/guides/gpu-tests.md").read_text()
JOBS: dict[str, Any] = WORKFLOW["jobs"]


def steps(job: str) -> list[dict[str, Any]]:
    """Return the steps of the job that run commands."""
    return [step for step in JOBS[job]["steps"] if "run" in step]


class Runner:
    """A copy of the example in a fresh environment, with a folder as the package index."""

    def __init__(self, folder: Path, torch_packages: Path) -> None:
        self.repository = folder / "repository"
        shutil.copytree(EXAMPLE, self.repository, ignore=shutil.ignore_patterns("__pycache__"))
        index = folder / "index"
        index.mkdir()
        wheels.fill(index, torch_packages)
        subprocess.run([sys.executable, "-m", "venv", folder / "environment"], check=True, timeout=120)
        self.bin = folder / "environment" / "bin"
        self.environment = {
            "PATH": os.pathsep.join([str(self.bin), "/usr/bin", "/bin"]),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(index),
            "PIP_CACHE_DIR": str(folder / "cache"),
            "CUDA_VISIBLE_DEVICES": "",
            "TORCHINDUCTOR_CACHE_DIR": os.environ["TORCHINDUCTOR_CACHE_DIR"],
            # On a busy machine, threads that wait for each other take longer than one does.
            "OMP_NUM_THREADS": "1",
        }

    def run(
        self, step: dict[str, Any], folder: Path | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a step as GitHub does on Linux: a script in bash -e, with the variables of the workflow and the step."""
        script = self.repository.parent / "step.sh"
        script.write_text(step["run"])
        given = {**self.environment, **WORKFLOW.get("env", {}), **environment, **step.get("env", {})}
        return subprocess.run(
            ["bash", "-e", script],
            cwd=folder or self.repository,
            env=given,
            capture_output=True,
            text=True,
            check=False,
            timeout=250,
        )


@pytest.fixture(scope="module")
def runner(torch_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Runner:
    [torch_packages] = torch_python.parents[1].glob("lib/python*/site-packages")
    return Runner(tmp_path_factory.mktemp("runner"), torch_packages)


@pytest.mark.slow
def test_the_steps_of_the_copied_workflow_run_with_the_plugins_address(runner: Runner) -> None:
    *installs, suite = steps("cpu")
    for step in installs:
        done = runner.run(step, GPU_CI=str(ROOT))
        assert done.returncode == 0, done.stdout + done.stderr
    done = runner.run(suite)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 9 passed, 17 deselected in " in done.stdout
    assert (runner.repository / "junit-cpu.xml").is_file()
    # What the plugin's hints name is there.
    assert (runner.bin / "gpu-smoke").is_file()

    # The other job installs the same, and fails here for no other reason than that no GPU is there.
    *same, suite = steps("gpu")
    assert same == installs
    done = runner.run(suite)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "FAILED: --gpu=require, and no GPU test ran: 17 GPU tests did not run" in done.stdout


@pytest.mark.slow
def test_the_pages_installation_brings_the_plugin(runner: Runner) -> None:
    [block] = re.findall(r"```\n(pip install .*?)```", PAGE, re.DOTALL)
    runner.run({"run": "pip install pytest && pip uninstall --yes gpu-ci"})
    # Without the example's conftest.py, whose torch another test may or may not have installed by now.
    markers = {"run": "pytest --noconftest --markers"}
    assert "@pytest.mark.usefixtures" in runner.run(markers).stdout
    assert "@pytest.mark.gpu:" not in runner.run(markers).stdout
    done = runner.run({"run": block}, folder=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "@pytest.mark.gpu:" in runner.run(markers).stdout


@pytest.mark.slow
def test_a_copy_of_the_workflow_without_the_plugins_address_prints_what_to_write(runner: Runner) -> None:
    done = runner.run(steps("cpu")[1])
    assert done.returncode == 1
    assert done.stderr.strip().endswith(
        "GPU_CI: write under env of this workflow where gpu-ci is, such as git+https://github.com/OWNER/gpu-ci@COMMIT"
    )


def test_pips_cache_has_a_file_to_be_named_after() -> None:
    # Without one of its names the action fails: github.com/actions/setup-python/issues/807
    [with_cache] = [step["with"] for job in JOBS.values() for step in job["steps"] if "cache" in step.get("with", {})]
    assert (EXAMPLE / with_cache["cache-dependency-path"]).is_file()
    assert f"-r {with_cache['cache-dependency-path']}" in steps("cpu")[0]["run"]


def test_the_workflow_requests_the_labels_of_a_pool() -> None:
    # YAML 1.1 reads the key `on` as true.
    [default] = [each["default"] for each in WORKFLOW[True]["workflow_call"]["inputs"].values()]
    assert yaml.safe_load(default) == default_runner_labels("l4")
    assert default in JOBS["gpu"]["runs-on"]


def test_the_workflow_splits_the_suite_by_the_pages_two_commands_and_bounds_every_job() -> None:
    commands = re.findall(r"^(pytest .*?) +#", PAGE, re.MULTILINE)
    assert commands == ['pytest -m "not gpu"', "pytest -m gpu --gpu=require"]
    assert steps("cpu")[-1]["run"].startswith(commands[0] + " ")
    assert steps("gpu")[-1]["run"].startswith(commands[1] + " ")
    assert {name: job["timeout-minutes"] for name, job in JOBS.items()} == {
        "cpu": 20,
        "gpu": 45,
        "queue-guard": 35,
        "coverage": 10,
    }
    assert JOBS["gpu"]["if"] == JOBS["queue-guard"]["if"]
