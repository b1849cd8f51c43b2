"""The offline github provider: names, ids, addresses and replacements as GitHub and pulumi-github form them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pulumi_sandbox.providers.github.provider import ID_FORMS, REPLACES, Github

from tests.sandbox.providers.clouds import Bench

REPOSITORY = "github:index/repository:Repository"
SECRET = "github:index/actionsSecret:ActionsSecret"
RUNNER_GROUP = "github:index/actionsRunnerGroup:ActionsRunnerGroup"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(Github(), tmp_path, {"owner": "acme"})


def test_a_repository_has_the_addresses_of_its_owner(bench: Bench) -> None:
    made = bench.made(REPOSITORY, "s", {"name": "service", "visibility": "private"})
    assert made.id == "service"
    assert {
        name: made.outputs[name] for name in ("fullName", "htmlUrl", "sshCloneUrl", "private", "defaultBranch")
    } == {
        "fullName": "acme/service",
        "htmlUrl": "https://github.com/acme/service",
        "sshCloneUrl": "git@github.com:acme/service.git",
        "private": True,
        "defaultBranch": "main",
    }
    assert re.fullmatch(r"R_kgDO\w{6}", made.outputs["nodeId"])
    again = bench.cloud.computed(made)
    assert (again["nodeId"], again["repoId"]) == (made.outputs["nodeId"], made.outputs["repoId"])


def test_a_secret_is_known_by_repository_and_name_and_has_the_repositorys_number(bench: Bench) -> None:
    repository = bench.made(REPOSITORY, "s", {"name": "service"})
    secret = bench.made(SECRET, "t", {"repository": "service", "secretName": "TOKEN", "plaintextValue": "x"})
    assert secret.id == "service:TOKEN"
    assert secret.outputs["repositoryId"] == repository.outputs["repoId"]
    assert list(bench.cloud.refusals(bench.resource(SECRET, "u", {"repository": "other"}))) != []


def test_a_runner_group_is_known_by_a_number(bench: Bench) -> None:
    group = bench.made(RUNNER_GROUP, "gpu", {"name": "gpu", "visibility": "all"})
    assert group.id.isdigit()
    assert group.outputs["runnersUrl"] == f"https://api.github.com/orgs/acme/actions/runner-groups/{group.id}/runners"
    assert group.outputs["default"] is False


def test_the_tables_name_only_what_the_sdk_has(bench: Bench) -> None:
    shapes = bench.cloud.shapes
    assert [t for t in (*ID_FORMS, *REPLACES) if t not in shapes.tokens] == []
    for token, form in ID_FORMS.items():
        used = set(re.findall(r"\{(\w+)\}", form)) - {"number"}
        assert used <= shapes.shape(token).inputs.properties.keys(), token
    for token, paths in REPLACES.items():
        assert set(paths) <= shapes.shape(token).inputs.properties.keys(), token
