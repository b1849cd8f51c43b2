"""Configurations that are not valid."""

from __future__ import annotations

import json

import pytest
from gpu_agent.config import parse
from gpu_agent.outcomes import AgentExit

from tests.agent.fakes.boot import config


def registering(**given: object) -> str:
    return json.dumps(config(**given))


RUNNER = {"version": "2.336.0", "sha256": {"x64": "00"}}
GITHUB = {
    "owner": "example-org",
    "app_id": "7",
    "installation_id": 8,
    "private_key": "projects/example-ci/secrets/github-app-key",
    "labels": ["gpu"],
}


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"registered_by": "manager"}, "registered_by: manager requires runner and excludes github"),
        (
            {"registered_by": "manager", "runner": RUNNER, "github": GITHUB},
            "registered_by: manager requires runner and excludes github",
        ),
        ({"registered_by": "both", "runner": RUNNER}, "registered_by: expected machine or manager, got 'both'"),
        ({"runner": RUNNER}, "github and runner: must be set together"),
    ],
)
def test_the_settings_of_the_registration_must_be_complete(given: dict[str, object], problem: str) -> None:
    with pytest.raises(AgentExit) as ended:
        parse(registering(**given))
    assert ended.value.detail == f"gpu-agent-config: {problem}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "the machine's metadata has no gpu-agent-config"),
        ("", "the machine's metadata has no gpu-agent-config"),
        ("{", "gpu-agent-config is not a configuration: "),
        ("[" * 100_000, "gpu-agent-config is not a configuration: "),
    ],
)
def test_an_invalid_configuration_ends_the_machine_with_its_mistakes(text: str | None, words: str) -> None:
    with pytest.raises(AgentExit) as ended:
        parse(text)
    assert ended.value.end.reason == "no-config"
    assert ended.value.detail.startswith(words)
