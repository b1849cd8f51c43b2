"""`gpu-ci check` of the site and of GitHub: it finds the problems that the program finds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.gpu_ci.cli.conftest import Ask
from tests.gpu_ci.program.stack import config, config_of, load, site

ADMIN = {"id": 17, "installationId": 18, "privateKey": "projects/example-ci/secrets/admin-key"}
GROUP: dict[str, Any] = {"gpu-ci:github": {"runnerGroup": {"repositories": ["kernels"]}}}


def written(folder: Path, values: dict[str, Any]) -> str:
    file = folder / "Pulumi.staging.yaml"
    file.write_text(yaml.safe_dump({"config": values}))
    return str(file)


@pytest.mark.parametrize("file", ["Pulumi.staging.yaml", "Pulumi.prod.yaml"])
def test_the_stack_files_of_this_repository_are_in_order_for_both(ask: Ask, tmp_path: Path, file: str) -> None:
    values = config_of(file)
    [found] = ask("check", written(tmp_path, values), "--json").json
    assert (found["works"], found["problems"]) == (True, [])
    assert load(values).specs


@pytest.mark.parametrize("app", [{}, {"app": ADMIN}])
def test_a_missing_app_is_one_message_a_note_or_a_problem(ask: Ask, tmp_path: Path, app: dict[str, Any]) -> None:
    values = config(**site(github={"owner": "acme", "plan": "team", **app}), **GROUP)
    [found] = ask("check", written(tmp_path, values), "--json").json
    messages = [each["path"] for each in found["problems"]] + [each.partition(": ")[0] for each in found["notes"]]
    assert (found["works"], messages) == (not app, ["gpu-ci:site.github.managerApp"])


def test_a_file_of_another_program_needs_no_site_and_no_project(ask: Ask, tmp_path: Path) -> None:
    values = {"gpu-ci:pools": config()["gpu-ci:pools"]}
    [found] = ask("check", written(tmp_path, values), "--json").json
    assert (found["works"], found["problems"]) == (True, [])


@pytest.mark.parametrize(
    "key", ["gcp:project", "gpu-ci:site", "gpu-ci:github", "gpu-ci:clusters", "gpu-ci:pools", "gpu-ci:quotas"]
)
@pytest.mark.parametrize("deep", [False, True])
def test_a_key_with_a_secret_in_it_is_the_one_problem(ask: Ask, tmp_path: Path, key: str, deep: bool) -> None:
    secret: dict[str, Any] = {"secure": "v1:aaaa"}
    values = config() | {key: {"a": [{"b": secret}]} if deep else secret}
    [found] = ask("check", written(tmp_path, values), "--json").json
    assert [each["path"] for each in found["problems"]] == [key]
    assert "aaaa" not in json.dumps(found)


def test_teams_whose_budget_can_count_nothing_are_noted(ask: Ask, tmp_path: Path) -> None:
    teams = {"vision": {"repositories": ["Kernels", "kernles", "audio"], "usdPerMonth": 5, "onBudget": "stop"}}
    values = config({}, **site(github={"owner": "acme", "plan": "team", "app": ADMIN}), **GROUP)
    [found] = ask("check", written(tmp_path, values | {"gpu-ci:teams": teams}), "--json").json
    notes = [each for each in found["notes"] if each.startswith("gpu-ci:teams")]
    text = "cannot use the runners of this stack; hint:"
    assert notes == [
        f"gpu-ci:teams.vision.repositories: kernles {text} did you mean kernels",
        f"gpu-ci:teams.vision.repositories: audio {text} add it to gpu-ci:github.runnerGroup.repositories",
        "gpu-ci:teams: no pool has machines of the runner manager, which counts the budgets, so they stop nothing",
    ]
    values = config(**site(github={"owner": "acme", "plan": "team", "app": ADMIN}), **GROUP)
    teams["vision"]["repositories"] = ["kernels"]
    [found] = ask("check", written(tmp_path, values | {"gpu-ci:teams": teams}), "--json").json
    assert [each for each in found["notes"] if each.startswith("gpu-ci:teams")] == []
