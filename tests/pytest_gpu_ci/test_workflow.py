"""The workflow that users copy, read as GitHub reads it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml
from gpu_ci.machines.rules import default_runner_labels

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "gpu-tests"
WORKFLOW: dict[str, Any] = yaml.safe_load((EXAMPLE / ".github/workflows/gpu-tests.yml").read_text())
PAGE = (ROOT / "docs/guides/gpu-tests.md").read_text()
JOBS: dict[str, Any] = WORKFLOW["jobs"]


def steps(job: str) -> list[dict[str, Any]]:
    """Return the steps of the job that run commands."""
    return [step for step in JOBS[job]["steps"] if "run" in step]


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
