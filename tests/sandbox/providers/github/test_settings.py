"""Secrets and variables: names, values that cannot be read back, replacements and drift."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pulumi_sandbox.providers.github import types
from pulumi_sandbox.providers.wire import decode

from tests.sandbox.providers.fake_cloud import Aborted
from tests.sandbox.providers.github.conftest import Hub

HUSH = "hush-hush-hush-4711"

SECRET = {"repository": "web", "secretName": "TOKEN", "value": HUSH}
VARIABLE = {"repository": "web", "variableName": "REGION", "value": "us"}
ORGANIZATION = {"secretName": "TOKEN", "value": HUSH, "visibility": "selected"}


def test_a_secret_is_read_back_by_nobody(hub: Hub, tmp_path: Path) -> None:
    hub.repository()
    made = hub.make(types.SECRET, "t", **SECRET)
    assert made.id == "web:TOKEN"
    assert (decode(made.outputs).values["value"], decode(made.outputs).secrets) == (HUSH, frozenset({("value",)}))
    imported = hub.imported(types.SECRET, "web:TOKEN")
    assert imported.id == "web:TOKEN"
    assert HUSH not in str(imported)
    assert "value" not in decode(imported.properties).values
    assert "value" not in decode(imported.inputs).values
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert [file.name for file in files if file.name == "world.db"] == ["world.db"]
    hub.world.close()
    assert [file for file in files if file.exists() and HUSH.encode() in file.read_bytes()] == []


def test_a_new_value_updates_the_secret_and_its_times(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.repository()
    made = hub.make(types.SECRET, "t", **SECRET)
    assert hub.diff(made, **{**SECRET, "value": "another-one"}) == {"value": "UPDATE"}
    monkeypatch.setattr("pulumi_sandbox.providers.github.provider.now", lambda: "2030-01-02T03:04:05.678Z")
    changed = hub.update(made, **{**SECRET, "value": "another-one"})
    assert changed.values["updatedAt"] == changed.values["remoteUpdatedAt"] == "2030-01-02 03:04:05 +0000 UTC"
    assert changed.values["createdAt"] == made.values["createdAt"] != changed.values["updatedAt"]
    assert hub.diff(changed, **{**SECRET, "value": "another-one"}) == {}


@pytest.mark.parametrize(
    ("token", "inputs", "changes", "expected"),
    [
        (types.SECRET, SECRET, {"secretName": "OTHER"}, {"secretName": "UPDATE_REPLACE"}),
        (types.SECRET, SECRET, {"repository": "api"}, {"repository": "UPDATE_REPLACE"}),
        (types.DEPENDABOT_SECRET, SECRET, {"repository": "api"}, {"repository": "UPDATE_REPLACE"}),
        (types.VARIABLE, VARIABLE, {"value": "eu"}, {"value": "UPDATE"}),
        (types.VARIABLE, VARIABLE, {"variableName": "ZONE"}, {"variableName": "UPDATE_REPLACE"}),
        (
            types.ENVIRONMENT_SECRET,
            {**SECRET, "environment": "prod"},
            {"environment": "dev"},
            {"environment": "UPDATE_REPLACE", "first": "yes"},
        ),
        (
            types.ENVIRONMENT_VARIABLE,
            {**VARIABLE, "environment": "prod"},
            {"environment": "dev"},
            {"environment": "UPDATE_REPLACE"},
        ),
        (types.ORGANIZATION_SECRET, ORGANIZATION, {"visibility": "private"}, {"visibility": "UPDATE"}),
    ],
)
def test_what_replaces_is_what_the_real_provider_replaces(
    hub: Hub, token: str, inputs: dict[str, Any], changes: dict[str, Any], expected: dict[str, str]
) -> None:
    hub.repository()
    hub.make(types.ENVIRONMENT, "e", repository="web", environment="prod")
    made = hub.make(token, "one", **inputs)
    assert hub.diff(made, **{**inputs, **changes}) == expected


def test_other_repositories_replace_an_organization_s_secret_and_update_its_variable(hub: Hub) -> None:
    web, api = hub.number(hub.repository()), hub.number(hub.repository("api"))
    secret = hub.make(types.ORGANIZATION_SECRET, "s", **ORGANIZATION, selectedRepositoryIds=[web, api])
    assert hub.diff(secret, **ORGANIZATION, selectedRepositoryIds=[api, web]) == {}
    assert hub.diff(secret, **ORGANIZATION, selectedRepositoryIds=[web]) == {
        "selectedRepositoryIds[1]": "DELETE_REPLACE"
    }
    given = {"variableName": "REGION", "value": "us", "visibility": "selected"}
    variable = hub.make(types.ORGANIZATION_VARIABLE, "v", **given, selectedRepositoryIds=[web, api])
    assert hub.diff(variable, **given, selectedRepositoryIds=[web]) == {"selectedRepositoryIds[1]": "DELETE"}


def test_an_organization_s_secret_that_is_deleted_last_is_gone(hub: Hub) -> None:
    """github.com/pulumi/pulumi-github/issues/250: the new one has the id of the old one."""
    old = hub.make(types.ORGANIZATION_SECRET, "s", **{**ORGANIZATION, "visibility": "all"})
    new = hub.make(types.ORGANIZATION_SECRET, "s", **{**ORGANIZATION, "value": "another-one"})
    hub.delete(old)
    assert hub.read(new).id == ""
    hub.delete(new)
    assert hub.read(hub.make(types.ORGANIZATION_SECRET, "s", **ORGANIZATION)).id == "TOKEN"


def test_a_secret_that_is_there_is_overwritten_and_a_variable_is_not(hub: Hub) -> None:
    hub.repository()
    hub.make(types.SECRET, "a", **SECRET)
    hub.make(types.SECRET, "b", **SECRET)
    assert len(hub.world.find(types.SECRET)) == 1
    hub.make(types.VARIABLE, "a", **VARIABLE)
    assert hub.refused(types.VARIABLE, **VARIABLE).endswith("web:REGION already exists")
    organization = {"variableName": "REGION", "value": "us", "visibility": "all"}
    hub.make(types.ORGANIZATION_VARIABLE, "a", **organization)
    assert hub.refused(types.ORGANIZATION_VARIABLE, **organization).endswith("REGION already exists")


def test_an_error_never_quotes_a_secret(hub: Hub) -> None:
    hub.repository()
    with pytest.raises(Aborted) as caught:
        hub.make(types.SECRET, "t", **{**SECRET, "repository": f"no-{HUSH}"})
    assert HUSH not in caught.value.text
    assert HUSH not in str(hub.messages)
