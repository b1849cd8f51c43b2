"""A refusal by GitHub, or before a request to GitHub, ends the agent at once with a helpful message."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.agent.fakes.github import Fault
from tests.agent.fakes.world import World


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"app_id": "1"},
            "GitHub answered 404 to a request for a token of the App's installation: Integration not found",
        ),
        (
            {"installation_id": 1},
            (
                "GitHub answered 404 to a request for a token of the App's installation: Not Found; there is no such "
                "installation, organization or repository for this App; sent as installation 1 "
                "(gpu-ci:site.github.runnerApp.installationId)"
            ),
        ),
        ({"installation_id": 1}, "GitHub answered 404 to a request for a token of the App's installation: Not Found"),
        ({"owner": "other"}, "GitHub answered 404 to a request for the runner groups: Not Found"),
        (
            {"repository": "other"},
            "GitHub answered 422 to a request for a token of the App's installation: There is at",
        ),
        (
            {"runner_group": "GitHub-hosted"},
            "GitHub answered 403 to a request for a runner's registration: Resource not",
        ),
    ],
)
def test_a_request_without_the_apps_permission_is_refused_at_once(world: World, changes: dict[str, Any], words: str):
    assert world.ended(**changes).startswith(f"refused: {words}")
    assert world.clock.slept == []


@pytest.mark.parametrize("more", [{"contents": "read"}, {"organization_self_hosted_runners": "admin"}])
def test_a_token_with_more_permissions_than_requested_is_not_used(world: World, more: dict[str, str]):
    world.github.extra_permissions = more
    [(name, level)] = more.items()
    assert world.ended() == f"refused: GitHub's token has more permissions than requested: {name}: {level}"
    assert world.github.asked == ["token"]


def test_a_token_for_more_repositories_than_requested_is_not_used(world: World):
    body = {"token": "ghs_planted", "permissions": {}, "repositories": [{"name": "kernels"}, {"name": "website"}]}
    world.github.faults["token"] = [Fault(status=201, body=json.dumps(body).encode())]
    assert world.ended(repository="kernels").endswith("has more permissions than requested: repository website")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://api.github.com", "expected https, got http://api.github.com"),
        ("http://10.0.0.1/planted", "expected https, got http://10.0.0.1"),
        ("https://host/api?planted", "expected nothing after the path /api"),
        ("https://host/api#planted", "expected nothing after the path /api"),
        ("https://me:planted@host/", "expected an http or https URL with a host and without credentials"),
        ("api.github.com", "expected an http or https URL with a host and without credentials"),
        ("", "expected an http or https URL with a host and without credentials"),
        ("https://host/\nplanted", "the URL has characters that are not allowed in a URL"),
    ],
)
def test_the_key_is_not_used_for_an_address_that_is_not_plain_https(world: World, url: str, words: str):
    assert world.ended(api_url=url) == f"no-config: github.api_url: {words}"
