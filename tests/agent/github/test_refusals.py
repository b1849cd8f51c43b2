"""A refusal by GitHub, or before a request to GitHub, ends the agent at once with a helpful message."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.agent.fakes.github import Fault
from tests.agent.fakes.world import World


def test_another_key_is_refused_after_one_request(world: World, other_key: bytes):
    world.key = other_key
    assert world.ended() == (
        "refused: GitHub answered 401 to a request for a token of the App's installation: A JSON web token could not "
        "be decoded; the App's key does not belong to the App's id, or the key was deleted"
    )
    assert world.github.asked == ["token"]
    assert world.clock.slept == []


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


def test_an_app_without_the_permission_is_refused(world: World):
    del world.github.granted["organization_self_hosted_runners"]
    assert "422 to a request for a token of the App's installation: The permissions requested are not" in world.ended()


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


@pytest.mark.parametrize("count", [0, 101])
def test_labels_that_github_would_refuse_end_the_agent_before_any_request(world: World, count: int):
    assert world.ended(labels=["l"] * count) == f"no-config: github.labels: expected 1 to 100 labels, got {count}"
    assert world.github.asked == []


def test_a_hundred_labels_are_taken(world: World):
    assert world.register(labels=[f"l{number}" for number in range(100)]).runner_id == 101


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


@pytest.mark.parametrize(
    ("route", "status", "value", "words"),
    [
        ("token", 201, {}, "GitHub's answer to a request for a token does not contain a usable token"),
        ("token", 201, {"token": 7}, "GitHub's answer to a request for a token does not contain a usable token"),
        (
            "token",
            201,
            {"token": "a\r\nX-Other: b"},
            "GitHub's answer to a request for a token does not contain a usable token",
        ),
        ("token", 201, {"token": "clé"}, "GitHub's answer to a request for a token does not contain a usable token"),
        ("groups", 200, {"runner_groups": 7}, "acme has no runner group named 'gpu', only none"),
        (
            "groups",
            200,
            {"runner_groups": [{"name": "gpu", "id": None}]},
            "acme has no runner group named 'gpu', only gpu",
        ),
        ("register", 201, {"runner": {"id": 1}}, "GitHub's answer to a runner's registration has no"),
        ("register", 201, {"runner": {"id": 1}, "encoded_jit_config": 7}, "GitHub's answer to a runner's registration"),
        ("register", 201, {"encoded_jit_config": "planted"}, "GitHub's answer to a runner's registration has no"),
    ],
)
def test_an_answer_of_another_form_is_refused(world: World, route: str, status: int, value: Any, words: str):
    world.github.faults[route] = [Fault(status=status, body=json.dumps(value).encode())]
    ended = world.ended()
    assert ended.startswith(f"refused: {words}")
    assert "planted" not in ended


def test_groups_without_an_end_are_given_up_after_a_hundred_pages(world: World):
    page = json.dumps({"runner_groups": [{"name": "other", "id": 1}] * 100}).encode()
    world.github.faults["groups"] = [Fault(status=200, body=page)] * 200
    assert world.ended().startswith("refused: acme has no runner group named 'gpu', only other, other")
    assert world.github.asked.count("groups") == 100
