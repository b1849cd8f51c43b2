"""Secrets and variables that GitHub refuses for a missing resource."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pulumi_sandbox.providers.github import types

from tests.sandbox.providers.github.conftest import Hub

HUSH = "hush-hush-hush-4711"
HINT = "\n  hint: if the resource exists on GitHub, list it in sandbox.yaml: exists: {{github: [{}]}}"
SECRET = {"repository": "web", "secretName": "TOKEN", "value": HUSH}
VARIABLE = {"repository": "web", "variableName": "REGION", "value": "us"}


NOWHERE: dict[str, tuple[str, dict[str, Any]]] = {
    "a secret": (types.SECRET, SECRET),
    "a secret of Dependabot": (types.DEPENDABOT_SECRET, SECRET),
    "a variable": (types.VARIABLE, VARIABLE),
    "an environment": (types.ENVIRONMENT, {"repository": "web", "environment": "prod/eu"}),
    "an environment's variable": (types.ENVIRONMENT_VARIABLE, {**VARIABLE, "environment": "prod"}),
}


def not_found(path: str) -> str:
    return f"GET https://api.github.com/repos/{path}: 404 Not Found []{HINT.format(path)}"


@pytest.mark.parametrize(("token", "inputs"), NOWHERE.values(), ids=NOWHERE)
def test_a_repository_that_is_nowhere_is_refused(hub: Hub, token: str, inputs: dict[str, Any]) -> None:
    assert hub.refused(token, **inputs) == not_found("acme/web")


@pytest.mark.parametrize(
    ("token", "inputs"), [(types.ENVIRONMENT_SECRET, SECRET), (types.ENVIRONMENT_VARIABLE, VARIABLE)]
)
def test_an_environment_that_is_nowhere_is_refused(hub: Hub, token: str, inputs: dict[str, Any]) -> None:
    hub.repository()
    assert hub.refused(token, **inputs, environment="prod") == not_found("acme/web/environments/prod")
    hub.make(types.ENVIRONMENT, "e", repository="web", environment="PROD")
    assert hub.make(token, "one", **inputs, environment="prod").id.startswith("web:prod:")


def test_a_repository_that_the_settings_list_is_there_and_no_other(tmp_path: Path) -> None:
    hub = Hub(tmp_path, settings="exists:\n  github: ['acme/w*']\n")
    hub.make(types.SECRET, "t", **SECRET)
    hub.invoke("github:index/getRepository:getRepository", name="api")
    assert "404 Not Found" in hub.refused(types.SECRET, **{**SECRET, "repository": "api"})
    hub.world.close()
