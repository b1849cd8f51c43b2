"""The process of a build's command: on the machine, or in rootless Docker with the machine's GPUs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from gpu_agent.build import session
from gpu_agent.build.workspace import BuildRequest
from gpu_agent.machine.system import Output, System, User
from gpu_agent.runner.network_isolation import NetworkIsolation

from tests.agent.fakes.clock import FakeClock

PRIVATE = "us-docker.pkg.dev/acme/images/cuda@sha256:" + "a" * 64
PUBLIC = "nvidia/cuda@sha256:" + "b" * 64
FOLDER = Path("/home/gpu-runner/workspace")


def request(**changes: Any) -> BuildRequest:
    given = {"format": 1, "bucket": "b", "prefix": "p/", "source": "s", "source_sha256": "0", "source_bytes": 1}
    return BuildRequest(**{**given, "command": ["pytest", "-m", "gpu"], "timeout_sec": 60, **changes})


class Docker(System):
    """A machine with Docker. `ran` has the commands, and `logins` the logins in Docker's settings during a pull."""

    def __init__(self, folder: Path, *programs: str) -> None:
        super().__init__(folder / "run", folder / "state", folder / "baked")
        self.programs = programs
        self.cdi_folders = (folder / "cdi",)
        self.ran: list[list[str]] = []
        self.environments: list[Mapping[str, str]] = []
        self.logins: list[dict[str, Any]] = []
        self.pulled = Output(0, "sha256:1\n")

    def have(self, program: str) -> bool:
        return program in self.programs

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_sec: float,
        text: str = "",
        user: User | None = None,
        environment: Mapping[str, str] = {},
    ) -> Output:
        self.ran.append(list(argv))
        if argv[0] == "nvidia-ctk":
            return Output(0, "")
        assert user is not None
        assert user.uid > 0 or user.name == "gpu-runner"
        settings = Path(argv[2]) / "config.json"
        self.logins += [json.loads(settings.read_text())] if settings.exists() else [{}]
        self.environments.append(environment)
        return self.pulled


@pytest.fixture
def isolation(tmp_path: Path) -> NetworkIsolation:
    import os

    user = User("gpu-runner", os.getuid(), os.getgid(), tmp_path / "home")
    return NetworkIsolation(user, "rootless", {"DOCKER_HOST": "unix:///run/gpu-agent/docker/docker.sock"})


@pytest.fixture
def cdi(tmp_path: Path) -> Path:
    return tmp_path / "cdi"


def pull(image: str, system: System, isolation: NetworkIsolation) -> None:
    clock = FakeClock()
    session.pull(image, isolation, system, clock, clock.now() + 600, lambda _: "ya29.token")


def test_a_command_in_an_image_has_the_gpus_and_the_workspace_and_no_visible_value() -> None:
    argv = session.command_line(request(image=PUBLIC, environment={"SECRET": "s3cret"}), FOLDER)
    assert argv[:3] == ["docker", "run", "--rm"]
    assert argv[argv.index("--device") + 1] == "nvidia.com/gpu=all"
    assert argv[argv.index("--volume") + 1] == f"{FOLDER}:/workspace"
    assert argv[argv.index("--user") + 1] == "0:0"
    assert argv[argv.index("--env") + 1] == "SECRET"
    assert argv[-5:] == ["--entrypoint", "pytest", PUBLIC, "-m", "gpu"]
    assert not any("s3cret" in part for part in argv)
    # Nothing gives the container more rights than the user has.
    assert not {"--privileged", "--network", "--pid", "--cap-add"} & {*argv}
    assert argv.count("--volume") == 1


def test_a_private_image_is_pulled_with_a_login_that_is_deleted(tmp_path: Path, isolation: NetworkIsolation) -> None:
    system = Docker(tmp_path, "nvidia-ctk")
    pull(PRIVATE, system, isolation)
    [login] = system.logins
    assert list(login["auths"]) == ["us-docker.pkg.dev"]
    assert system.ran[-1][-2:] == ["--quiet", PRIVATE]
    assert system.environments[0]["DOCKER_HOST"] == isolation.environment["DOCKER_HOST"]
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
