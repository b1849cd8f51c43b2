"""Run containers whose command is a program of the stack: a zip in a ConfigMap that python3 runs.

Any other container needs its image, which the sandbox does not have. The program runs on this computer, as the startup
script of a VM does (machines/supervisor.py). Each mount becomes a temporary folder. The command and the environment get
the paths of these folders instead of the container's paths.
"""

from __future__ import annotations

import base64
import binascii
import math
import os
import re
import shlex
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pulumi_sandbox.providers.kubernetes.objects import inner, items, pairs
from pulumi_sandbox.providers.kubernetes.quantities import quantity
from pulumi_sandbox.providers.kubernetes.scheduling.nodes import GPU
from pulumi_sandbox.providers.machines.settings import GuestSettings
from pulumi_sandbox.providers.machines.vm_processes import STOP_SEC, start_supervised
from pulumi_sandbox.world.store import World

CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
ZIP = b"PK\x03\x04"
DEVICES, TERMINATION_LOG = "/dev", "/dev/termination-log"
# A closed port: the sandbox has no API server. The smoke check of a closed namespace tries to connect to it.
API_SERVER = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "1"}
# The limits of a termination message, and of the log that replaces a missing one (k8s.io/kubernetes v1.36.0,
# pkg/kubelet/container/runtime.go, MaxContainerTerminationMessageLength).
MESSAGE_BYTES, LOG_BYTES, LOG_LINES = 4096, 2048, 80
PREFIX = "startup-script: "
FAILED = re.compile(r'Script "startup-script" failed with error: exit status (-?\d+)')
FINISHED = "Finished running startup scripts."


@dataclass(frozen=True)
class ContainerResult:
    """The result of a container; `killed` is True if the sandbox stopped the container."""

    name: str
    exit_code: int = 0
    message: str = ""
    killed: bool = False


@dataclass(frozen=True)
class Pod:
    """The fields of a pod that its containers can read."""

    name: str
    namespace: str
    node: str
    spec: Mapping[str, Any]
    environment: Mapping[str, str]


@dataclass
class Containers:
    """Runs the containers of pods as processes of this machine."""

    world: World
    settings: Callable[[], GuestSettings]
    cancelled: threading.Event

    def programs(self, namespace: str, spec: Mapping[str, Any], container: Mapping[str, Any]) -> list[str]:
        """Return the paths in a container's command that are zip files of a ConfigMap."""
        command = " ".join(_command(container))
        mounted = self.files(namespace, spec, container).items()
        return [path for path, data in mounted if data[:4] == ZIP and path in command]

    def files(self, namespace: str, spec: Mapping[str, Any], container: Mapping[str, Any]) -> dict[str, bytes]:
        """Return the files that ConfigMaps mount into the container, by path."""
        volumes = {str(one.get("name")): one for _, one in items(spec.get("volumes"))}
        file_contents: dict[str, bytes] = {}
        for _, mount in items(container.get("volumeMounts")):
            config_map = inner(volumes.get(str(mount.get("name"))), "configMap")
            row = self.world.get(CONFIG_MAP, f"{namespace}/{inner(config_map, 'name')}")
            if row is None:
                continue
            mount_path = str(mount.get("mountPath")).rstrip("/")
            file_contents |= {f"{mount_path}/{key}": data for key, data in contents(row.inputs).items()}
        return file_contents

    def run(
        self,
        pod: Pod,
        container: Mapping[str, Any],
        limit_sec: float | None,
        say: Callable[[str], None],
        stopped: Callable[[], bool],
    ) -> ContainerResult:
        with tempfile.TemporaryDirectory(prefix="pulumi-sandbox-container-") as folder:
            root = Path(folder).resolve()
            local_paths = self._mount(root, pod, container)
            log = str(container.get("terminationMessagePath") or TERMINATION_LOG)
            local_paths[log] = str(root / "termination-log")
            environment = {**API_SERVER, **self._environment(pod, container)}
            command = [_expand(one, environment) for one in _command(container)]
            # Values of sandbox.yaml contain paths of this computer and stay as they are. Such a path may start like a
            # mount path, such as /tmp.
            local_environment = {
                name: value if name in pod.environment else _with_local_paths(value, local_paths)
                for name, value in environment.items()
            }
            devices = root / "dev"
            devices.mkdir()
            for number in range(int(quantity(inner(container, "resources", "limits", GPU)) or 0)):
                (devices / f"nvidia{number}").touch()
            arguments = [str(devices) if one == DEVICES else _with_local_paths(one, local_paths) for one in command]
            lines, code, killed = self._execute(arguments, local_environment, limit_sec, say, stopped)
            message = _message(root / "termination-log", container, lines, code)
            return ContainerResult(str(container.get("name")), code, message, killed)

    def _mount(self, root: Path, pod: Pod, container: Mapping[str, Any]) -> dict[str, str]:
        """Create folders and files for the mounts, and return their local paths by the paths in the container."""
        local_paths = {}
        for _, mount in items(container.get("volumeMounts")):
            mount_path = str(mount.get("mountPath")).rstrip("/")
            local_path = root / "mounts" / mount_path.strip("/")
            local_path.mkdir(parents=True, exist_ok=True)
            local_paths[mount_path] = str(local_path)
        for path, data in self.files(pod.namespace, pod.spec, container).items():
            (root / "mounts" / path.strip("/")).write_bytes(data)
        return local_paths

    def _environment(self, pod: Pod, container: Mapping[str, Any]) -> dict[str, str]:
        fields = {"metadata.name": pod.name, "metadata.namespace": pod.namespace, "spec.nodeName": pod.node}
        variables: dict[str, str] = {"LANG": os.environ.get("LANG", "C.UTF-8")}
        for _, entry in items(container.get("env")):
            source = inner(entry, "valueFrom", "fieldRef", "fieldPath")
            value = fields.get(str(source)) if source else entry.get("value")
            if value is not None:
                variables[str(entry.get("name"))] = _expand(str(value), variables)
        return {**variables, **pod.environment}

    def _execute(
        self,
        command: list[str],
        environment: dict[str, str],
        limit_sec: float | None,
        say: Callable[[str], None],
        stopped: Callable[[], bool],
    ) -> tuple[list[str], int, bool]:
        process = start_supervised(f"exec {shlex.join(command)}\n", environment, self.settings().path)
        assert process.stdin is not None  # noqa: S101 -- opened as pipes
        assert process.stdout is not None  # noqa: S101
        lines: list[str] = []
        exit_codes: list[int] = []
        reader = threading.Thread(target=_read, args=(process.stdout, lines, exit_codes, say), daemon=True)
        reader.start()
        deadline = math.inf if limit_sec is None else time.monotonic() + limit_sec
        while reader.is_alive() and not (self.cancelled.is_set() or stopped() or time.monotonic() >= deadline):
            reader.join(0.1)
        killed = reader.is_alive()
        process.stdin.close()  # closing the pipe ends every process that the container started
        try:
            process.wait(STOP_SEC)
        except subprocess.TimeoutExpired:
            process.kill()
        reader.join(timeout=1)
        process.stdout.close()
        # 137 is the exit code of a container that SIGKILL ended.
        return lines, 137 if killed else (exit_codes[0] if exit_codes else 0), killed


def contents(config_map: Mapping[str, Any]) -> dict[str, bytes]:
    data_of_key = {name: str(value).encode() for name, value in pairs(config_map.get("data"))}
    for name, value in pairs(config_map.get("binaryData")):
        try:
            data_of_key[name] = base64.b64decode(value, validate=True)
        except (binascii.Error, TypeError, ValueError):
            continue  # a secret, stored as a digest
    return data_of_key


def _command(container: Mapping[str, Any]) -> list[str]:
    return [str(one) for key in ("command", "args") for one in container.get(key) or ()]


def _expand(text: str, environment: Mapping[str, str]) -> str:
    """Expand $(NAME) in a command or a variable; `$$` becomes `$`.

    Source: kubernetes.io, "Define Dependent Environment Variables".
    """
    found = re.compile(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")
    return found.sub(lambda at: "$" if at[0] == "$$" else environment.get(at[1], at[0]), text)


def _with_local_paths(text: str, local_paths: Mapping[str, str]) -> str:
    """Replace paths of the container by local paths.

    One pass replaces all paths, because a local path is below /tmp and could match a second time.
    """
    longest = "|".join(re.escape(place) for place in sorted(local_paths, key=len, reverse=True))
    return re.sub(rf"(?<![\w./-])({longest})(?![\w.-])", lambda found: local_paths[found[1]], text)


def _read(stream: Any, lines: list[str], exit_codes: list[int], say: Callable[[str], None]) -> None:
    """Read the output of a container until its end."""
    for raw in stream:
        line = raw.decode(errors="replace").rstrip("\r\n")
        if line.startswith(PREFIX):
            lines.append(line.removeprefix(PREFIX))
            say(lines[-1])
        elif failure := FAILED.fullmatch(line):
            number = int(failure[1])
            exit_codes.append(number if number >= 0 else 128 - number)
        elif line == FINISHED:
            return


def _message(path: Path, container: Mapping[str, Any], lines: list[str], code: int) -> str:
    """Return the termination message that the kubelet would store."""
    message = path.read_bytes()[:MESSAGE_BYTES].decode(errors="replace") if path.is_file() else ""
    if not message and code and container.get("terminationMessagePolicy") == "FallbackToLogsOnError":
        message = "\n".join(lines[-LOG_LINES:]).encode()[-LOG_BYTES:].decode(errors="replace")
    return message
