"""A machine of the sandbox whose image has a stand-in for rootless Docker. A container image is a folder with programs.

The agent loads this file instead of the sandbox's own emulation (GPU_AGENT_SYSTEM). `docker run` starts a command with
bubblewrap. It sees /usr of this computer, the image as /image, the folder of the volume, and nothing else. PATH has the
image's programs first. IMAGES names the folder with the images, whose names have underscores for slashes.
"""

from __future__ import annotations

import os
import runpy
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import Popen
from typing import Any

from gpu_agent.machine.system import ENVIRONMENT, Output, User

IMAGES = "GPU_AGENT_TEST_IMAGES"
PROGRAMS = ("docker", "dockerd", "dockerd-rootless.sh", "newgidmap", "newuidmap", "nvidia-ctk", "slirp4netns")
# The options of `docker run` that have a value.
VALUES = ("--pull", "--device", "--volume", "--workdir", "--shm-size", "--user", "--env", "--entrypoint")
# It runs until the machine ends, as the network of Docker does, with its command line.
ENGINE = "import sys, time; time.sleep(3600)"

Base: Any = runpy.run_path(str(Path(__file__).parents[3] / "agent" / "gpu_agent_sandbox" / "system.py"))[
    "EmulatedSystem"
]


class EmulatedSystem(Base):  # type: ignore[misc]
    """The system of one machine. `pulled` has the images that `docker pull` found."""

    def __init__(self, root: Path, *arguments: Any) -> None:
        super().__init__(root, *arguments)
        self.cdi_folders = (root / "etc" / "cdi",)
        self.pulled: list[str] = []

    def have(self, program: str) -> bool:
        return program in PROGRAMS or bool(super().have(program))

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_sec: float,
        text: str = "",
        user: User | None = None,
        environment: Mapping[str, str] = ENVIRONMENT,
    ) -> Output:
        match list(argv):
            case ["usermod", *_]:
                return Output(0, "")
            case ["docker", "info", *_]:
                assert user
                answers = any(command[0] == "slirp4netns" for command in self.commands_of(user))
                return Output(0, "[name=rootless]") if answers else Output(1, "Cannot connect to the Docker daemon")
            case ["nvidia-ctk", "cdi", "generate", output]:
                Path(output.removeprefix("--output=")).write_text("cdiVersion: 0.5.0\n")
                return Output(0, "")
            case ["docker", "--config", _, "pull", "--quiet", image]:
                if not self._image(image).is_dir():
                    return Output(1, f"Error response from daemon: manifest for {image} not found: manifest unknown")
                self.pulled.append(image)
                return Output(0, image)
        done: Output = super().run(argv, timeout_sec=timeout_sec, text=text, user=user, environment=environment)
        return done

    def start(
        self, argv: Sequence[str], user: User, *, environment: Mapping[str, str], folder: Path, may_gain: bool = False
    ) -> Popen[str]:
        command = list(argv)
        if command == ["dockerd-rootless.sh"]:
            command = [
                "bash",
                "-c",
                f"exec -a slirp4netns {shlex.quote(str(self.python))} -c '{ENGINE}' --disable-host-loopback",
            ]
        elif command[:2] == ["docker", "run"]:
            command = self._in_container(command[2:], environment)
        made: Popen[str] = super().start(command, user, environment=environment, folder=folder, may_gain=may_gain)
        return made

    def _in_container(self, arguments: list[str], environment: Mapping[str, str]) -> list[str]:
        options: dict[str, list[str]] = {}
        while arguments[0].startswith("--"):
            option = arguments.pop(0)
            options.setdefault(option, []).append(arguments.pop(0) if option in VALUES else "")
        image, *rest = arguments
        assert image in self.pulled
        assert options["--device"] == ["nvidia.com/gpu=all"]
        source, _, target = options["--volume"][0].rpartition(":")
        given = {name: environment[name] for name in options.get("--env", ())}
        variables = {"PATH": "/image:/usr/bin:/bin", "HOME": "/root", **given}
        return [
            *("bwrap", "--die-with-parent", "--ro-bind", "/usr", "/usr", "--dev", "/dev"),
            *(part for name in ("bin", "lib", "lib64") for part in ("--symlink", f"usr/{name}", f"/{name}")),
            *("--ro-bind", str(self._image(image)), "/image", "--bind", source, target),
            *("--chdir", options["--workdir"][0], "--clearenv"),
            *(part for name, value in variables.items() for part in ("--setenv", name, value)),
            *(options["--entrypoint"][0], *rest),
        ]

    def _image(self, image: str) -> Path:
        return Path(os.environ[IMAGES], image.replace("/", "_"))
