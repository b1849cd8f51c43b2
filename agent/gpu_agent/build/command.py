"""The command of a build: its process on the machine, or its container in rootless Docker with the machine's GPUs."""

from __future__ import annotations

import base64
import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from ..clock import Clock
from ..machine.system import ENVIRONMENT, System
from ..outcomes import AgentExit
from ..runner.network_isolation import NetworkIsolation
from .request import BuildRequest

CONTAINER_FOLDER = "/workspace"
"""The workspace in a container, as in a step of Cloud Build."""
_CDI_SEC = 60.0
# Registries that accept an access token of Google as the password of this user
# (cloud.google.com/artifact-registry/docs/docker/authentication#token).
_GOOGLE_REGISTRIES, _TOKEN_USER = ("-docker.pkg.dev", "gcr.io"), "oauth2accesstoken"


def environment(request: BuildRequest, isolation: NetworkIsolation) -> dict[str, str]:
    """Return the whole environment of the command on the machine."""
    return {
        **ENVIRONMENT,
        "HOME": str(isolation.user.home),
        "USER": isolation.user.name,
        "LOGNAME": isolation.user.name,
        "SHELL": "/bin/bash",
        **isolation.environment,
        **request.environment,
    }


def argv(request: BuildRequest, folder: Path) -> list[str]:
    """Return the process to start: the command, or Docker with the command."""
    if not request.image:
        return request.command
    program, *arguments = request.command
    # --env without a value takes the value from Docker's own environment, so no value is visible in the process list.
    variables = [part for name in request.environment for part in ("--env", name)]
    return [
        *("docker", "run", "--rm", "--init", "--pull", "never", "--device", "nvidia.com/gpu=all"),
        *("--volume", f"{folder}:{CONTAINER_FOLDER}", "--workdir", CONTAINER_FOLDER, "--shm-size", "8g"),
        # In rootless Docker, root of the container is the user of the workspace. Another user could not write it.
        *("--user", "0:0"),
        *variables,
        *("--entrypoint", program, request.image, *arguments),
    ]


def pull(
    image: str,
    isolation: NetworkIsolation,
    system: System,
    clock: Clock,
    deadline: float,
    token: Callable[[float], str],
) -> None:
    """Describe the GPUs to Docker, and pull the image. Raises AgentExit: no-tool or no-image.

    A private image of Google needs a password. It is in a file for this one command, which runs before the build's
    command. Afterwards the file is deleted.
    """
    if not any(folder.glob("*") for folder in system.cdi_folders if folder.is_dir()):
        if not system.have("nvidia-ctk"):
            raise AgentExit("no-tool", "--image needs nvidia-container-toolkit, which the machine's image lacks")
        target = system.cdi_folders[0] / "nvidia.yaml"
        target.parent.mkdir(parents=True, exist_ok=True)
        system.must("no-tool", ["nvidia-ctk", "cdi", "generate", f"--output={target}"], timeout_sec=_CDI_SEC)
    settings = system.run_folder / "docker-settings"
    settings.mkdir(parents=True, mode=0o700, exist_ok=True)
    try:
        registry = image.partition("/")[0]
        if registry.endswith(_GOOGLE_REGISTRIES):
            _write_login(settings / "config.json", registry, token(deadline))
            os.chown(settings / "config.json", isolation.user.uid, isolation.user.gid)
        os.chown(settings, isolation.user.uid, isolation.user.gid)
        done = system.run(
            ["docker", "--config", str(settings), "pull", "--quiet", image],
            timeout_sec=max(deadline - clock.now(), 1),
            user=isolation.user,
            environment={**ENVIRONMENT, "HOME": str(isolation.user.home), **isolation.environment},
        )
    finally:
        shutil.rmtree(settings, ignore_errors=True)
    if done.code:
        last = (done.text.strip().splitlines() or [done.line])[-1][:300]
        raise AgentExit("no-image", f"{image}: {last}")


def _write_login(path: Path, registry: str, token: str) -> None:
    login = base64.b64encode(f"{_TOKEN_USER}:{token}".encode()).decode()
    settings: Mapping[str, object] = {"auths": {registry: {"auth": login}}}
    number = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(number, "w") as file:
        json.dump(settings, file)
