"""`gpu-ci check` of the site and of GitHub: it finds the problems that the program finds."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.gpu_ci.cli.conftest import Ask
from tests.gpu_ci.program.stack import ON_CLUSTER, config, refused, site

ADMIN = {"id": 17, "installationId": 18, "privateKey": "projects/example-ci/secrets/admin-key"}
RUNNERS = {"id": 27, "installationId": 28, "privateKey": "projects/example-ci/secrets/runner-key"}
GROUP: dict[str, Any] = {"gpu-ci:github": {"runnerGroup": {"repositories": ["kernels"]}}}
EKS = {
    "kind": "eks-runners",
    "clusterName": "ci",
    "instanceTypes": ["g5.2xlarge"],
    "market": "spot",
    "max": 2,
    "runner": {"image": f"ghcr.io/acme/runner@sha256:{'1' * 64}"},
}

MISTAKES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "no App for runners": (
        config(**site(github={"owner": "acme", "app": ADMIN}), **GROUP),
        ["gpu-ci:site.github.managerApp"],
    ),
    "no owner": (config(**GROUP), ["gpu-ci:site.github.owner"]),
    "runners on a cluster, and nothing on GitHub": (
        config({"a": EKS}, **{"gpu-ci:clusters": ON_CLUSTER["gpu-ci:clusters"]}),
        ["gpu-ci:site.github.owner", "gpu-ci:site.github.runnerApp", "gpu-ci:github.runnerGroup"],
    ),
    "no subnetwork": (config(**{"gpu-ci:site": {}}), ["gpu-ci:site.subnetworks.us-central1"]),
    "a project number": (config(**{"gcp:project": "123456789012"}), ["gcp:project"]),
    "a site that is no map": (config(**{"gpu-ci:site": ["us-central1"]}), ["gpu-ci:site"]),
    "no project": (
        {key: value for key, value in config().items() if key != "gcp:project"} | {"gcp:proyect": "acme"},
        ["gcp:proyect"],
    ),
    "a key that the program does not read": (config(**{"gpu-ci:sight": {}}), ["gpu-ci:sight"]),
}


def written(folder: Path, values: dict[str, Any]) -> str:
    file = folder / "Pulumi.staging.yaml"
    file.write_text(yaml.safe_dump({"config": values}))
    return str(file)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_command_and_the_program_find_the_same_problem(ask: Ask, tmp_path: Path, mistake: str) -> None:
    values, paths = MISTAKES[mistake]
    answer = ask("check", written(tmp_path, values), "--json")
    found = [{name: value for name, value in each.items() if name != "line"} for each in answer.json[0]["problems"]]
    assert (answer.code, [each["path"] for each in found]) == (1, paths)
    by_program = [{name: text for name, text in asdict(each).items() if text} for each in refused(values).problems]
    assert found == by_program
    assert all({"path", "text", "got", "expected", "hint"} == each.keys() for each in found)


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


@pytest.mark.parametrize("key", ["gcp:project", "gpu-ci:site", "gpu-ci:github", "gpu-ci:pools", "gpu-ci:quotas"])
@pytest.mark.parametrize("deep", [False, True])
def test_a_key_with_a_secret_in_it_is_the_one_problem(ask: Ask, tmp_path: Path, key: str, deep: bool) -> None:
    secret: dict[str, Any] = {"secure": "v1:aaaa"}
    values = config() | {key: {"a": [{"b": secret}]} if deep else secret}
    [found] = ask("check", written(tmp_path, values), "--json").json
    assert [each["path"] for each in found["problems"]] == [key]
    assert "aaaa" not in json.dumps(found)
