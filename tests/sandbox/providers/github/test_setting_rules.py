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


NOWHERE: dict[str, tuple[str, dict[str, Any], str]] = {
    "a secret": (types.SECRET, SECRET, "GET https://api.github.com/repos/acme/web"),
    "a secret of Dependabot": (types.DEPENDABOT_SECRET, SECRET, "GET https://api.github.com/repos/acme/web"),
    "a variable": (types.VARIABLE, VARIABLE, "POST https://api.github.com/repos/acme/web/actions/variables"),
    "an environment": (
        types.ENVIRONMENT,
        {"repository": "web", "environment": "prod/eu"},
        "PUT https://api.github.com/repos/acme/web/environments/prod%2Feu",
    ),
    "an environment's variable": (
        types.ENVIRONMENT_VARIABLE,
        {**VARIABLE, "environment": "prod"},
        "POST https://api.github.com/repos/acme/web/environments/prod/variables",
    ),
}


@pytest.mark.parametrize(("token", "inputs", "call"), NOWHERE.values(), ids=NOWHERE)
def test_a_repository_that_is_nowhere_is_refused_in_github_s_words(
    hub: Hub, token: str, inputs: dict[str, Any], call: str
) -> None:
    assert hub.refused(token, **inputs) == f"{call}: 404 Not Found []{HINT.format('acme/web')}"


@pytest.mark.parametrize(
    ("token", "inputs", "call"),
    [
        (
            types.ENVIRONMENT_SECRET,
            SECRET,
            "GET https://api.github.com/repos/acme/web/environments/prod/secrets/public-key",
        ),
        (
            types.ENVIRONMENT_VARIABLE,
            VARIABLE,
            "POST https://api.github.com/repos/acme/web/environments/prod/variables",
        ),
    ],
)
def test_an_environment_that_is_nowhere_is_refused(hub: Hub, token: str, inputs: dict[str, Any], call: str) -> None:
    hub.repository()
    path = "acme/web/environments/prod"
    assert hub.refused(token, **inputs, environment="prod") == f"{call}: 404 Not Found []{HINT.format(path)}"
    hub.make(types.ENVIRONMENT, "e", repository="web", environment="PROD")
    assert hub.make(token, "one", **inputs, environment="prod").id.startswith("web:prod:")


def test_a_repository_that_the_settings_list_is_there_and_no_other(tmp_path: Path) -> None:
    hub = Hub(tmp_path, settings="exists:\n  github: ['acme/w*']\n")
    hub.make(types.SECRET, "t", **SECRET)
    hub.invoke("github:index/getRepository:getRepository", name="api")
    assert "404 Not Found" in hub.refused(types.SECRET, **{**SECRET, "repository": "api"})
    hub.world.close()
