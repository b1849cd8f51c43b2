"""The App itself, its installation and the latest runner at the sandbox's GitHub."""

from __future__ import annotations

import pytest

from tests.sandbox.providers.github.actions.conftest import APP, INSTALLATION, MANAGER, STARTED, Hub, Reply, jwt


def asked(hub: Hub, path: str) -> Reply:
    return hub.ask("GET", path, token=jwt(STARTED))


def test_an_app_reads_itself_and_its_installation(hub: Hub) -> None:
    app = asked(hub, "/app")
    assert (app.status, app.body["id"], app.body["owner"]["login"]) == (200, int(APP), "acme")
    assert app.body["permissions"] == MANAGER
    found = asked(hub, f"/app/installations/{INSTALLATION}")
    assert (found.status, found.body["app_id"], found.body["account"]["login"]) == (200, int(APP), "acme")
    assert (found.body["permissions"], found.body["suspended_at"]) == (MANAGER, None)
    assert found.body["app_slug"] == app.body["slug"]


@pytest.mark.parametrize("path", ["/app", f"/app/installations/{INSTALLATION}"])
def test_the_token_of_an_installation_does_not_read_the_app(hub: Hub, path: str) -> None:
    reply = hub.ask("GET", path)
    assert (reply.status, reply.message) == (401, "A JSON web token could not be decoded")


def test_the_latest_runner_needs_no_token_and_is_that_of_the_catalog(hub: Hub) -> None:
    newest = hub.ask("GET", "/repos/actions/runner/releases/latest", token="none").body
    assert (newest["tag_name"], newest["published_at"]) == ("v2.338.0", "2026-10-07T09:00:00Z")
