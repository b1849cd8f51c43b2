"""The boot agent's own GitHub against the sandbox's: a rehearsal, a registration, and each way to be refused."""

from __future__ import annotations

import subprocess

import pytest
from gpu_agent.clock import Clock
from gpu_agent.config import GithubConfig, RunnerConfig
from gpu_agent.github.registration import Github
from gpu_agent.outcomes import AgentExit
from pulumi_sandbox.providers import rsa_key

from tests.sandbox.providers.gcp.machine_client import KEY, Client

RUNNER = RunnerConfig("2.336.0", {"x64": "0" * 64})


def github(client: Client, key: str = "", **changes: object) -> Github:
    api = client.services.with_addresses({"url": "${github}"})["url"]
    fields = {"owner": "acme", "app_id": "17", "installation_id": 18, "private_key": KEY, "labels": ["gpu"]}
    config = GithubConfig(**{**fields, "api_url": api, **changes})  # type: ignore[arg-type]
    return Github(config, (key or rsa_key.private_key(client.google.world, "17")).encode(), Clock())


def soon() -> float:
    return Clock().now() + 30


def test_it_rehearses_and_registers_nothing(client: Client) -> None:
    github(client).rehearse(soon())
    assert client.google.world.find("github:rest/runner:Runner") == []


def test_it_registers_one_runner_and_removes_it(client: Client) -> None:
    hub = github(client)
    made = hub.register("vm-1", RUNNER, soon())
    [row] = client.google.world.find("github:rest/runner:Runner")
    assert (row.name, row.outputs["id"]) == ("vm-1", made.runner_id)
    assert row.outputs["labels"] == ["gpu"]
    assert hub.remove(made.runner_id, soon())
    assert client.google.world.find("github:rest/runner:Runner") == []


@pytest.mark.parametrize(
    "changes",
    [{"runner_group": "gone"}, {"installation_id": 99}, {"app_id": "19"}],
    ids=["group", "installation", "app"],
)
def test_what_is_not_there_is_refused(client: Client, changes: dict[str, object]) -> None:
    with pytest.raises(AgentExit) as ended:
        github(client, **changes).rehearse(soon())
    assert ended.value.end.reason == "refused"


def test_a_key_that_is_not_the_apps_is_refused(client: Client) -> None:
    other = subprocess.run(["openssl", "genrsa", "2048"], capture_output=True, text=True, check=True).stdout
    with pytest.raises(AgentExit) as ended:
        github(client, other).rehearse(soon())
    assert ended.value.end.reason == "refused"
