"""GitHub's REST API for the machines of an App: accepted requests, and refusals with GitHub's messages."""

from __future__ import annotations

import base64
import json
import subprocess
from typing import Any

import pytest
from pulumi_sandbox.world.faults import Fault
from pulumi_sandbox.world.store import Record

from tests.sandbox.providers.gcp.machine_client import Client, encoded

GROUP = "github:index/actionsRunnerGroup:ActionsRunnerGroup"
JWT_REFUSED = "A JSON web token could not be decoded"


def test_an_app_gets_a_token_for_its_installation_with_what_it_asks_and_no_more(client: Client) -> None:
    asked = {"permissions": {"organization_self_hosted_runners": "write"}}
    status, answer = client.ask("github", "POST", "/app/installations/18/access_tokens", client.jwt(), asked)
    assert (status, answer["permissions"]) == (201, asked["permissions"])
    assert answer["token"].startswith("ghs_")
    more = {"permissions": {"contents": "write"}}
    status, answer = client.ask("github", "POST", "/app/installations/18/access_tokens", client.jwt(), more)
    assert (status, answer["message"]) == (
        422,
        "The permissions requested are not granted to this installation.",
    )


def test_a_key_that_is_not_the_apps_is_refused(client: Client) -> None:
    other = subprocess.run(["openssl", "genrsa", "2048"], capture_output=True, text=True, check=True).stdout
    token = client.jwt(other)
    status, answer = client.ask("github", "POST", "/app/installations/18/access_tokens", token, {})
    assert (status, answer["message"]) == (401, JWT_REFUSED)


def test_claims_that_were_changed_after_signing_are_refused(client: Client) -> None:
    head, claims, signature = client.jwt().split(".")
    payload = json.loads(base64.urlsafe_b64decode(claims + "=="))
    changed = encoded(json.dumps({**payload, "exp": payload["exp"] + 1}).encode())
    token = f"{head}.{changed}.{signature}"
    assert client.ask("github", "POST", "/app/installations/18/access_tokens", token, {})[0] == 401


@pytest.mark.parametrize(
    ("claims", "status", "message"),
    [
        ({"iss": "19"}, 404, "Integration not found"),
        ({"exp": 1}, 401, "'Expiration time' claim ('exp') must be a numeric value representing the future time"),
        ({"exp": 2**40}, 401, "'Expiration time' claim ('exp') is too far in the future"),
        ({"iat": 2**40}, 401, "'Issued at' claim ('iat') must be an Integer representing the time"),
    ],
)
def test_an_app_that_is_not_there_or_whose_clock_is_wrong_is_refused(
    client: Client, claims: Any, status: int, message: str
) -> None:
    found, answer = client.token(**claims)
    assert (found, answer["message"][: len(message)]) == (status, message)


def test_the_groups_of_an_organization_are_default_and_those_of_the_world(client: Client) -> None:
    rows = (("42", "gpu", "acme"), ("43", "theirs", "other"))
    for number, name, owner in rows:
        address = f"https://api.github.com/orgs/{owner}/actions/runner-groups/{number}/runners"
        found = {"name": name, "visibility": "selected", "runnersUrl": address}
        client.google.world.insert(Record(GROUP, number, name, "", {}, found))
    status, answer = client.ask("github", "GET", "/orgs/acme/actions/runner-groups?per_page=100", client.installed())
    assert (status, answer["total_count"]) == (200, 2)
    assert [(one["id"], one["name"]) for one in answer["runner_groups"]] == [(1, "Default"), (42, "gpu")]
    _, second = client.ask("github", "GET", "/orgs/acme/actions/runner-groups?per_page=1&page=2", client.installed())
    assert [one["name"] for one in second["runner_groups"]] == ["gpu"]


def test_a_runner_is_registered_once_and_removed_once(client: Client) -> None:
    token = client.installed({"permissions": {"organization_self_hosted_runners": "write"}})
    path, asked = "/orgs/acme/actions/runners", {"name": "vm-1", "runner_group_id": 1, "labels": ["gpu"]}
    status, made = client.ask("github", "POST", f"{path}/generate-jitconfig", token, asked)
    assert (status, made["runner"]["name"], made["runner"]["id"]) == (201, "vm-1", 1)
    assert base64.b64decode(made["encoded_jit_config"])
    status, again = client.ask("github", "POST", f"{path}/generate-jitconfig", token, asked)
    assert (status, again["message"]) == (409, "Already exists - A runner with the name vm-1 already exists.")
    assert client.ask("github", "GET", f"{path}?name=vm-1", token)[1]["total_count"] == 1
    assert client.ask("github", "DELETE", f"{path}/1", token) == (204, None)
    assert client.ask("github", "DELETE", f"{path}/1", token)[0] == 404


@pytest.mark.parametrize(
    ("change", "status"),
    [({"runner_group_id": 7}, 404), ({"labels": []}, 422), ({"name": ""}, 422)],
)
def test_a_runner_github_would_not_take_is_refused(client: Client, change: Any, status: int) -> None:
    asked = {"name": "vm-1", "runner_group_id": 1, "labels": ["gpu"], **change}
    path = "/orgs/acme/actions/runners/generate-jitconfig"
    assert client.ask("github", "POST", path, client.installed(), asked)[0] == status


def test_a_token_does_only_what_it_was_given_for(client: Client) -> None:
    path = "/orgs/acme/actions/runner-groups"
    narrow = client.installed({"permissions": {"administration": "write"}})
    status, answer = client.ask("github", "GET", path, narrow)
    assert (status, answer["message"]) == (403, "Resource not accessible by integration")
    assert client.ask("github", "GET", path, "ghs_made-up")[1]["message"] == "Bad credentials"
    reader = client.installed({"permissions": {"organization_self_hosted_runners": "read"}})
    assert client.ask("github", "GET", path, reader)[0] == 200
    assert client.ask("github", "POST", "/orgs/acme/actions/runners/generate-jitconfig", reader, {})[0] == 403


def test_github_refuses_where_a_fault_says_so(client: Client) -> None:
    client.google.world.add_fault(Fault("refuse", on="github:rest/token"))
    assert client.token()[0] == 403
    assert client.token()[0] == 201
