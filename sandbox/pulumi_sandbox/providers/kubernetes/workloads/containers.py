"""Runs a container whose command is a program the stack brings itself: a zip in a ConfigMap, run by python3.

Any other container needs its image, which the sandbox has not. This one runs on this machine, as a machine's startup
script does (machines/supervisor.py): its mounts are folders of its own, and their paths are put in the place of the
container's, in its command and its environment.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
import re
import shlex
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pulumi_sandbox.providers.kubernetes.rules.pod_rules import inner, items, pairs
from pulumi_sandbox.providers.kubernetes.workloads import dns_names, network
from pulumi_sandbox.providers.kubernetes.workloads.images import Images
from pulumi_sandbox.providers.machines.settings import GuestSettings
from pulumi_sandbox.providers.machines.vm_processes import STOP_SEC, supervised
from pulumi_sandbox.world.store import World

CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
ZIP = b"PK\x03\x04"
DEVICES, TERMINATION_LOG = "/dev", "/dev/termination-log"
# k8s.io/kubernetes v1.36.0, pkg/kubelet/container/runtime.go: MaxContainerTerminationMessageLength, and what is kept of
# a log in its place.
MESSAGE_BYTES, LOG_BYTES, LOG_LINES = 4096, 2048, 80
PREFIX = "startup-script: "
FAILED = re.compile(r'Script "startup-script" failed with error: exit status (-?\d+)')
FINISHED = "Finished running startup scripts."


@dataclass(frozen=True)
class Ended:
    """How a container ended; `killed` when it was stopped from outside."""

    name: str
    exit_code: int = 0
    message: str = ""
    killed: bool = False


@dataclass(frozen=True)
class Pod:
    """What a container may ask of the pod it is in."""

    name: str
    namespace: str
    node: str
    spec: Mapping[str, Any]
    environment: Mapping[str, str] = field(default_factory=dict)
    gpus: Callable[[Mapping[str, Any]], int] = lambda _: 0
    """How many GPUs of the pod's node a container of it has."""
    labels: Mapping[str, str] = field(default_factory=dict)
    names: Path | None = None
    """The file in which the names of the pods stand that it may ask for (names.py)."""


@dataclass
class Containers:
    world: World
    settings: Callable[[], GuestSettings]
    cancelled: threading.Event
    images: Images

    def programs(self, namespace: str, spec: Mapping[str, Any], container: Mapping[str, Any]) -> list[str]:
        """The paths in a container's command at which a zip of a ConfigMap is mounted."""
        command = " ".join(_command(container))
        return [
            path for path, data in self.files(namespace, spec, container).items() if data[:4] == ZIP and path in command
        ]

    def files(self, namespace: str, spec: Mapping[str, Any], container: Mapping[str, Any]) -> dict[str, bytes]:
        """What ConfigMaps put into the container, by path."""
        volumes = {str(one.get("name")): one for _, one in items(spec.get("volumes"))}
        found: dict[str, bytes] = {}
        for _, mount in items(container.get("volumeMounts")):
            wanted = inner(volumes.get(str(mount.get("name"))), "configMap")
            row = self.world.get(CONFIG_MAP, f"{namespace}/{inner(wanted, 'name')}")
            if row is None:
                continue
            keys = {str(one.get("key")): str(one.get("path")) for _, one in items(inner(wanted, "items"))}
            for key, data in contents(row.inputs).items():
                name = keys.get(key) if keys else key
                place = str(mount.get("mountPath")).rstrip("/")
                if name and mount.get("subPath") in (None, "", name):
                    found[place if mount.get("subPath") else f"{place}/{name}"] = data
        return found

    def run(
        self,
        pod: Pod,
        container: Mapping[str, Any],
        limit_sec: float | None,
        say: Callable[[str], None],
        stopped: Callable[[], bool] = lambda: False,
    ) -> Ended:
        enforced = bool(self.images.values().get("networkPolicies", True))
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="pulumi-sandbox-container-"))
            api = stack.enter_context(network.api_server(self.world, pod.namespace, pod.labels, enforced))
            root = Path(folder).resolve()
            moved = self._mount(root, pod, container)
            log = str(container.get("terminationMessagePath") or TERMINATION_LOG)
            moved[log] = str(root / "termination-log")
            environment = {**api, **self._environment(pod, container)}
            command = [_expanded(one, environment) for one in _command(container)]
            # What sandbox.yaml gives names paths of this computer, which may lie below a mount's, such as /tmp.
            there = {
                name: value if name in pod.environment else _moved(value, moved) for name, value in environment.items()
            }
            if pod.names and pod.spec.get("subdomain"):
                there |= dns_names.environment(pod.names, str(pod.spec["subdomain"]), there)
            devices = _devices(root / "dev", pod.gpus(container))
            arguments = [devices if one == DEVICES else _moved(one, moved) for one in command]
            lines, code, killed = self._execute(arguments, there, limit_sec, say, stopped)
            message = _message(root / "termination-log", container, lines, code)
            return Ended(str(container.get("name")), code, message, killed)

    def _mount(self, root: Path, pod: Pod, container: Mapping[str, Any]) -> dict[str, str]:
        """Folders and files for the mounts: where in the container, and where here."""
        moved = {}
        for _, one in items(container.get("volumeMounts")):
            place = str(one.get("mountPath")).rstrip("/")
            here = root / "mounts" / place.strip("/")
            here.mkdir(parents=True, exist_ok=True)
            moved[place] = str(here)
        for path, data in self.files(pod.namespace, pod.spec, container).items():
            here = root / "mounts" / path.strip("/")
            if here.is_dir():
                here.rmdir()  # a single file, mounted by its subPath
            here.write_bytes(data)
        return moved

    def _environment(self, pod: Pod, container: Mapping[str, Any]) -> dict[str, str]:
        fields = {"metadata.name": pod.name, "metadata.namespace": pod.namespace, "spec.nodeName": pod.node}
        fields |= {f"metadata.labels['{name}']": value for name, value in pod.labels.items()}
        found: dict[str, str] = {"LANG": os.environ.get("LANG", "C.UTF-8")}
        for _, one in items(container.get("env")):
            source = inner(one, "valueFrom", "fieldRef", "fieldPath")
            value = fields.get(str(source)) if source else one.get("value")
            if value is not None:
                found[str(one.get("name"))] = _expanded(str(value), found)
        packages = self.images.user_packages(pod.spec, container)
        return {**found, **({"PYTHONPATH": packages} if packages else {}), **pod.environment}

    def _execute(
        self,
        command: list[str],
        environment: dict[str, str],
        limit_sec: float | None,
        say: Callable[[str], None],
        stopped: Callable[[], bool],
    ) -> tuple[list[str], int, bool]:
        process = supervised(f"exec {shlex.join(command)}\n", environment, self.settings().path)
        assert process.stdin is not None  # noqa: S101 -- opened as pipes
        assert process.stdout is not None  # noqa: S101
        lines: list[str] = []
        codes: list[int] = []
        over = threading.Event()
        reader = threading.Thread(target=_read, args=(process.stdout, lines, codes, over, say), daemon=True)
        reader.start()
        until = None if limit_sec is None else time.monotonic() + limit_sec
        while not over.wait(0.1) and not self.cancelled.is_set() and not stopped():
            if until is not None and time.monotonic() >= until:
                break
        killed = not over.is_set()
        process.stdin.close()  # the lifeline: everything the container started ends with it
        try:
            process.wait(STOP_SEC)
        except subprocess.TimeoutExpired:
            process.kill()
        reader.join(timeout=1)
        process.stdout.close()
        # SIGKILL, as a container that is stopped ends.
        return lines, 137 if killed else (codes[0] if codes else 0), killed


def _devices(folder: Path, gpus: int) -> str:
    """A folder with the GPUs a container has, for programs that are told where devices are."""
    folder.mkdir()
    for number in range(gpus):
        (folder / f"nvidia{number}").touch()
    return str(folder)


def contents(config_map: Mapping[str, Any]) -> dict[str, bytes]:
    found = {name: str(value).encode() for name, value in pairs(config_map.get("data"))}
    for name, value in pairs(config_map.get("binaryData")):
        try:
            found[name] = base64.b64decode(value, validate=True)
        except (binascii.Error, TypeError, ValueError):
            continue  # a digest, where the stack calls it a secret
    return found


def _command(container: Mapping[str, Any]) -> list[str]:
    return [str(one) for key in ("command", "args") for one in container.get(key) or ()]


def _expanded(text: str, environment: Mapping[str, str]) -> str:
    """$(NAME) of a command or a variable; $$ keeps one (kubernetes.io, "Define Dependent Environment Variables")."""
    found = re.compile(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")
    return found.sub(lambda at: "$" if at[0] == "$$" else environment.get(at[1], at[0]), text)


def _moved(text: str, places: Mapping[str, str]) -> str:
    """The text with what lies here in the place of paths in the container. All at once: these lie below /tmp too."""
    longest = "|".join(re.escape(place) for place in sorted(places, key=len, reverse=True))
    return re.sub(rf"(?<![\w./-])({longest})(?![\w.-])", lambda found: places[found[1]], text)


def _read(stream: Any, lines: list[str], codes: list[int], over: threading.Event, say: Callable[[str], None]) -> None:
    for raw in stream:
        line = raw.decode(errors="replace").rstrip("\r\n")
        if line.startswith(PREFIX):
            lines.append(line.removeprefix(PREFIX))
            say(lines[-1])
        elif found := FAILED.fullmatch(line):
            number = int(found[1])
            codes.append(number if number >= 0 else 128 - number)
        elif line == FINISHED:
            break
    over.set()


def _message(path: Path, container: Mapping[str, Any], lines: list[str], code: int) -> str:
    """What the kubelet keeps of a container's last words."""
    found = path.read_bytes()[:MESSAGE_BYTES].decode(errors="replace") if path.is_file() else ""
    if not found and code and container.get("terminationMessagePolicy") == "FallbackToLogsOnError":
        found = "\n".join(lines[-LOG_LINES:]).encode()[-LOG_BYTES:].decode(errors="replace")
    return found
