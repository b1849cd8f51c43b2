"""The texts to copy in docs/guides/runner-manager-setup.md, and the description of each reason in the docs."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

import yaml
from gpu_ci.cli.commands import gpu_ci
from gpu_ci.gcp import manager_permissions
from gpu_common import google_permissions
from gpu_manager.view import NEXT_STEPS

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "guides/runner-manager-setup.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, re.DOTALL)


def block(first_line: str) -> str:
    return next(text for _, text in BLOCKS if text.startswith(first_line))


def test_the_role_has_the_permissions_of_the_managers_calls_and_no_other() -> None:
    wanted = google_permissions.of_calls(manager_permissions.MACHINES)
    assert yaml.safe_load(block("# role.yaml"))["includedPermissions"] == wanted


def test_the_unit_runs_a_command_that_exists_with_the_key_as_a_credential() -> None:
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(block("# /etc/systemd/system/gpu-ci-manager.service"))
    program, *words = unit["Service"]["ExecStart"].split()
    assert program == "/opt/gpu-ci/bin/gpu-ci"
    context = gpu_ci.make_context("gpu-ci", words[:1], resilient_parsing=True)
    group = gpu_ci.get_command(context, words[0])
    assert group is not None
    run = group.get_command(context, words[1])  # type: ignore[attr-defined]
    options = {option for parameter in run.params for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= options
    name = unit["Service"]["LoadCredential"].partition(":")[0]
    assert f"${{CREDENTIALS_DIRECTORY}}/{name}" in words


def test_the_stack_file_names_the_managers_app_and_none_for_machines() -> None:
    github = yaml.safe_load(block("config:"))["config"]["gpu-ci:site"]["github"]
    assert set(github) == {"owner", "managerApp"}


def test_each_reason_has_a_row() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \|", (DOCS / "operate/a-job-waits.md").read_text(), re.MULTILINE)
    assert sorted(set(rows) & NEXT_STEPS.keys()) == sorted(NEXT_STEPS)
