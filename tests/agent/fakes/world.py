"""An agent, a fake GitHub, and the clock of both."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from gpu_agent.config import GithubConfig, RunnerConfig
from gpu_agent.github.registration import Github, Registration
from gpu_agent.outcomes import AgentExit

from .clock import FakeClock
from .github import FakeGithub, ask_of

CONFIG = GithubConfig(
    owner="acme",
    app_id="12345",
    installation_id=77,
    private_key="projects/p/secrets/s",
    labels=["self-hosted", "gpu", "l4"],
    runner_group="gpu",
)
RUNNER = RunnerConfig(version="2.330.0", sha256={})


class World:
    """The agent and GitHub on one fake clock."""

    def __init__(self, key: bytes, public_key: RSAPublicKey) -> None:
        self.key = key
        self.clock = FakeClock()
        self.github = FakeGithub(public_key, self.clock.true_unix)

    def agent(self, **changes: Any) -> Github:
        config = dataclasses.replace(CONFIG, **changes)
        return Github(config, self.key, self.clock, ask_of(self.github, self.clock))

    def register(self, name: str = "runner-a", **changes: Any) -> Registration:
        return self.agent(**changes).register(name, RUNNER, self.clock.now() + 300)

    def ended(self, **changes: Any) -> str:
        with pytest.raises(AgentExit) as ended:
            self.register(**changes)
        return str(ended.value)
