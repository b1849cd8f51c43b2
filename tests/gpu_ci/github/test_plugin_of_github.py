"""The GitHub components through the plugin, as a program in any other language reaches them."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_ci.github.actions_secrets import ActionsSecrets

from tests.gpu_ci.engine_stub import Plugin, asked, details, output, refused, secret

HUSH = "hush-hush-hush"
SCOPE = {"kind": "repository", "repository": "web"}
A_SECRET = "must be a secret Output, so that neither state nor logs have it in plain text"


def constructed(
    type_: str, inputs: dict[str, Any], child: str, **request: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The outputs of a component, and what it asked of one child."""

    async def ask(running: Plugin) -> Any:
        response = await running.construct(type_, "ci", inputs, **request)
        return dict(response.state), running.monitor.inputs(child)

    found: tuple[dict[str, Any], dict[str, Any]] = asked(ask)
    return found


def test_a_secret_arrives_as_a_secret() -> None:
    inputs = {"scope": SCOPE, "secrets": {"TOKEN": output(HUSH, is_secret=True)}}
    outputs, asked_for = constructed(ActionsSecrets.TYPE, inputs, ":ActionsSecret")
    assert asked_for == {"repository": "web", "secretName": "TOKEN", "value": secret(HUSH)}
    assert outputs == {"place": "repository web"}


@pytest.mark.parametrize("given", [HUSH, output(HUSH)], ids=["plain", "not secret"])
def test_a_value_that_is_not_secret_is_refused_and_not_shown(given: Any) -> None:
    error, running = refused(ActionsSecrets.TYPE, {"scope": SCOPE, "secrets": {"TOKEN": given}}, "ci")
    [(path, reason)] = details(error)
    assert (path, reason.partition(";")[0]) == ("secrets.TOKEN", A_SECRET)
    assert HUSH not in str(error)
    assert [request for request in running.monitor.requests if request.custom] == []
