"""Runner groups and rulesets: what they refer to, their names, and their life."""

from __future__ import annotations

from pathlib import Path

import pytest
from pulumi_sandbox.providers.github import types
from pulumi_sandbox.providers.wire import decode

from tests.sandbox.providers.github.conftest import GROUP, RULESET, Hub, Made

API = "https://api.github.com"


def test_a_group_has_the_repositories_it_selects_and_all_of_it_is_updated_in_place(hub: Hub) -> None:
    web, api = hub.number(hub.repository()), hub.number(hub.repository("api"))
    group = hub.make(types.RUNNER_GROUP, "gpu", **GROUP, selectedRepositoryIds=[web])
    assert hub.diff(group, **{**GROUP, "name": "gpu-l4", "visibility": "all", "restrictedToWorkflows": True}) == {
        "name": "UPDATE",
        "visibility": "UPDATE",
        "restrictedToWorkflows": "ADD",
        "selectedRepositoryIds": "DELETE",
    }
    changed = hub.update(group, **GROUP, selectedRepositoryIds=[api, web])
    assert (changed.id, changed.values["selectedRepositoryIds"]) == (group.id, [api, web])
    assert hub.diff(changed, **GROUP, selectedRepositoryIds=[web, api]) == {}


def test_a_group_that_somebody_opened_is_seen_and_closed_again(hub: Hub) -> None:
    group = hub.make(types.RUNNER_GROUP, "gpu", **GROUP, allowsPublicRepositories=False)
    row = hub.world.get(types.RUNNER_GROUP, group.id)
    assert row
    opened = {"visibility": "all", "allowsPublicRepositories": True}
    hub.world.update(row.type, row.id, inputs=row.inputs | opened, outputs=row.outputs | opened)
    seen = hub.read(group)
    drifted = Made(group.token, group.name, group.id, seen.inputs, seen.properties)
    assert {name: decode(seen.properties).values[name] for name in opened} == opened
    assert hub.diff(drifted, **GROUP, allowsPublicRepositories=False) == dict.fromkeys(opened, "UPDATE")


@pytest.mark.parametrize("name", ["Default", "default", "gpu", "GPU"])
def test_a_group_s_name_is_there_once_and_default_is_always_there(hub: Hub, name: str) -> None:
    hub.make(types.RUNNER_GROUP, "gpu", **GROUP)
    assert hub.refused(types.RUNNER_GROUP, **{**GROUP, "name": name}) == (
        f"POST {API}/orgs/acme/actions/runner-groups: 409 Already exists - A runner group with the name {name} already "
        "exists. []"
    )


def test_a_group_refuses_a_repository_that_is_not_there(tmp_path: Path) -> None:
    hub = Hub(tmp_path, settings="exists: {github: [repositories/7]}\n")
    assert hub.refused(types.RUNNER_GROUP, **GROUP, selectedRepositoryIds=[7, 8]) == (
        f"GET {API}/repositories/8: 404 Not Found []\n"
        "  hint: if the resource exists on GitHub, list it in sandbox.yaml: exists: {github: [repositories/8]}"
    )
    hub.make(types.RUNNER_GROUP, "gpu", **GROUP, selectedRepositoryIds=[7])
    hub.world.close()


def test_a_ruleset_is_updated_in_place(hub: Hub) -> None:
    hub.repository()
    made = hub.make(types.RULESET, "main", **RULESET)
    assert hub.diff(made, **{**RULESET, "enforcement": "disabled"}) == {"enforcement": "UPDATE"}
    assert hub.diff(made, **{**RULESET, "repository": "api"}) == {"repository": "UPDATE"}
