"""The App itself, its installation and the latest runner at the sandbox's GitHub. Each answer fits the OpenAPI file."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pulumi_sandbox.providers.github.organizations import Installation, Release
from pulumi_sandbox.world.store import World

from tests.sandbox.providers.github.actions.conftest import APP, INSTALLATION, MANAGER, STARTED, Hub, Reply, jwt

RELEASE = "/repos/actions/runner/releases/latest"


def asked(hub: Hub, path: str) -> Reply:
    return hub.ask("GET", path, token=jwt(STARTED))


def changed(world: World, **values: Any) -> Hub:
    """A GitHub whose settings of sandbox.yaml have these values."""
    hub = Hub(world)
    hub.api = replace(hub.api, organizations=replace(hub.api.organizations, **values))
    return hub


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


def test_another_installation_is_not_found(hub: Hub) -> None:
    assert asked(hub, "/app/installations/19").status == 404


def test_sandbox_yaml_changes_owner_account_permissions_and_suspension(world: World) -> None:
    listed = {INSTALLATION: Installation("other", suspended=True, permissions={"actions": "read"})}
    hub = changed(world, owners={APP: "somebody"}, installations=listed)
    assert asked(hub, "/app").body["owner"]["login"] == "somebody"
    found = asked(hub, f"/app/installations/{INSTALLATION}").body
    assert (found["account"]["login"], found["permissions"]) == ("other", {"actions": "read"})
    assert found["suspended_at"] == "2026-01-05T09:00:00Z"
    refused = hub.ask("POST", f"/app/installations/{INSTALLATION}/access_tokens", {}, token=jwt(STARTED))
    assert (refused.status, refused.message) == (403, "This installation has been suspended")


def test_the_latest_runner_needs_no_token_and_is_that_of_the_catalog_or_of_sandbox_yaml(world: World) -> None:
    newest = changed(world).ask("GET", RELEASE, token="none").body
    assert (newest["tag_name"], newest["published_at"]) == ("v2.338.0", "2026-10-07T09:00:00Z")
    other = changed(world, runner=Release("2.400.0", "2026-09-01")).ask("GET", RELEASE).body
    assert (other["tag_name"], other["published_at"][:10]) == ("v2.400.0", "2026-09-01")
