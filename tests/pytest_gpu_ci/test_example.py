"""The example suite: with real torch on the CPU, and its workflow read as GitHub would."""

from __future__ import annotations

import os
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from gpu_ci.gcp.pool_rules import default_runner_labels
from pytest_gpu_ci import needs, plugin

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "gpu-tests"
PAGE = ROOT / "docs" / "gpu-tests.md"
WORKFLOW: dict[str, Any] = yaml.safe_load((EXAMPLE / ".github/workflows/gpu-tests.yml").read_text())


def example(python: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """The environment of torch has no pytest, and the one of pytest no torch: this has both."""
    packages = Path(pytest.__file__).resolve().parents[1]
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join([str(ROOT / "smoke"), str(packages)]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "CUDA_VISIBLE_DEVICES": "",
        # On a busy machine, threads that wait for each other take longer than one does.
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.run(
        [python, "-m", "pytest", "-p", "no:cacheprovider", *args],
        cwd=EXAMPLE,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=250,
    )


def test_the_example_runs_on_a_cpu_and_skips_what_needs_gpus(torch_python: Path) -> None:
    done = example(torch_python)
    assert done.returncode == 0, done.stdout
    lines = done.stdout.splitlines()
    assert " 9 passed, 17 skipped in " in lines[-1]
    at = lines.index("17 did not run; here: no GPU (CUDA_VISIBLE_DEVICES is '')")
    assert lines[at + 1 : at + 5] == [
        "  13: needs 1 GPU",
        "  2: needs 2 GPUs",
        "  1: needs 1 GPU, 8 GiB",
        "  1: needs 1 GPU, compute capability 8.0 or more",
    ]


def test_the_example_fails_where_its_gpu_job_meets_no_gpu_and_the_page_shows_how(torch_python: Path) -> None:
    done = example(torch_python, "-m", "gpu", "--gpu=require")
    assert done.returncode == 1, done.stdout
    assert "9 deselected, 17 errors in " in done.stdout
    shown = PAGE.read_text().split("```console\n")[1].split("```")[0].splitlines()
    assert shown[0] == "$ pytest -m gpu --gpu=require"
    assert shown[1:] == [line for line in done.stdout.splitlines() if line in shown]
    assert len(shown) == 7


def command(job: str) -> str:
    """The job's one call of pytest."""
    [found] = [step["run"] for step in WORKFLOW["jobs"][job]["steps"] if step.get("run", "").startswith("pytest ")]
    return str(found)


def test_the_workflow_asks_for_the_labels_a_pool_has() -> None:
    # YAML 1.1 reads the key `on` as true.
    [default] = [each["default"] for each in WORKFLOW[True]["workflow_call"]["inputs"].values()]
    assert yaml.safe_load(default) == default_runner_labels("l4")
    assert default in WORKFLOW["jobs"]["gpu"]["runs-on"]


def test_the_workflow_splits_the_suite_in_two_without_a_rest_and_bounds_every_job() -> None:
    assert command("cpu").startswith('pytest -m "not gpu" ')
    assert command("gpu").startswith("pytest -m gpu --gpu=require ")
    assert {name: job["timeout-minutes"] for name, job in WORKFLOW["jobs"].items()} == {
        "cpu": 20,
        "gpu": 45,
        "queue-guard": 35,
        "coverage": 10,
    }
    assert WORKFLOW["jobs"]["gpu"]["if"] == WORKFLOW["jobs"]["queue-guard"]["if"]


def rows(heading: str) -> dict[str, str]:
    """First and second cell of the page's table below a heading."""
    table = PAGE.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    cells = [line.strip("|").split(" | ") for line in table.splitlines() if line.startswith("| `")]
    return {row[0].strip(" `"): row[1].strip() for row in cells}


def test_the_page_has_every_marker_argument_option_and_fixture_in_the_plugins_words() -> None:
    assert rows("Markers") == {
        **{name: text.partition(";")[0] for name, text in plugin.MARKERS.items()},
        **{f"{name}=": meaning for name, (_, _, meaning) in needs.ARGUMENTS.items()},
    }
    assert rows("Options") == {**plugin.OPTIONS, "gpu_leak_mib": plugin.LEAK_INI}
    assert set(rows("Fixtures")) == {name for name in plugin.__all__ if not name.startswith("_")}


def test_pytest_finds_the_plugin_by_itself() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"gpu-ci": "pytest_gpu_ci.plugin"}
