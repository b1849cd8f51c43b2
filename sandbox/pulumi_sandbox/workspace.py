"""The files of a project's sandbox, and the environment that points the Pulumi CLI at them."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import secrets
import shutil
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pulumi_sandbox.engine import locate
from pulumi_sandbox.engine.model import write_whole

if TYPE_CHECKING:
    import yaml

PROJECT_FILES = ("Pulumi.yaml", "Pulumi.yml", "Pulumi.json")

# Linux and macOS use higher ports for outgoing connections (from 32768 and from 49152).
PORTS = range(20000, 32000)

# The variable of the Google provider for another Compute Engine endpoint, and its value here.
ENDPOINT = "GOOGLE_COMPUTE_CUSTOM_ENDPOINT"
# The variable with the secret part of the tokens that the servers of a command issue and accept.
TOKEN_VARIABLE = "PULUMI_SANDBOX_TOKEN"  # noqa: S105 - the name of a variable
_ENDPOINT_URL = re.compile(r"http://127\.0\.0\.1:(\d+)/compute/v1/")

# Credentials and endpoints of real clouds. A program in the sandbox must not reach an account, not even by mistake.
HIDDEN_PREFIXES = (
    "AWS_", "GOOGLE_", "GCLOUD_", "CLOUDSDK_", "GCE_METADATA_", "ARM_", "AZURE_", "DIGITALOCEAN_", "CLOUDFLARE_",
    "GITHUB_APP_",
)  # fmt: skip
HIDDEN_NAMES = (
    "GITHUB_TOKEN", "GH_TOKEN", "GITHUB_BASE_URL", "GITHUB_OWNER", "KUBECONFIG", "KUBE_CONFIG_PATH",
    "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "BOTO_CONFIG", "PULUMI_ACCESS_TOKEN",
)  # fmt: skip

# Programs that read a token themselves get a placeholder, if the token is set: the GitHub provider has a set one as an
# input. Other commands get none: `plugin install` would send it to GitHub.
TOKENS, PLACEHOLDER = ("GITHUB_TOKEN", "GH_TOKEN"), "emulated-by-sandbox-token"


class NoProjectError(Exception):
    """No Pulumi project was found, so the sandbox has no folder."""


def find_project(start: Path) -> Path | None:
    """Return the nearest folder with a Pulumi project file, from `start` upwards."""
    for folder in (start, *start.parents):
        if any((folder / name).is_file() for name in PROJECT_FILES):
            return folder
    return None


@dataclass(frozen=True)
class Workspace:
    """One sandbox: the engine's home, its state, and the emulated cloud state of the offline providers."""

    root: Path
    project_folder: Path | None = None

    @classmethod
    def find(cls, start: Path | None = None) -> Workspace:
        """Return the sandbox in `$PULUMI_SANDBOX_DIR`, or next to the nearest Pulumi.yaml from `start` upwards."""
        folder = (start or Path.cwd()).resolve()
        project = find_project(folder)
        configured = os.environ.get("PULUMI_SANDBOX_DIR")
        if configured:
            return cls(Path(configured).resolve(), project)
        if project is None:
            raise NoProjectError(
                f"pulumi-sandbox: no Pulumi project here\n  got: {folder}\n"
                "  expected: a Pulumi.yaml in this folder or in one above it\n"
                "  hint: change into the project's folder, name it with --cwd, or set PULUMI_SANDBOX_DIR to a folder "
                "for the sandbox"
            )
        return cls(project / ".sandbox", project)

    @property
    def project(self) -> Path:
        return self.project_folder or self.root.parent

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def disks(self) -> Path:
        """The folder with the disks of virtual machines, one folder each."""
        return self.root / "disks"

    @property
    def stack_files(self) -> Path:
        """The folder with the engine's copies of stack files (stacks.py)."""
        return self.root / "stacks"

    @property
    def backend(self) -> Path:
        return self.root / "state"

    @property
    def world(self) -> Path:
        return self.root / "world.db"

    @property
    def settings_file(self) -> Path:
        """The file with the user's fixtures and guest settings. It need not exist."""
        return self.project / "sandbox.yaml"

    @property
    def compute_port(self) -> int:
        """The local port of the Compute Engine API for plain `pulumi`."""
        return int(self._server()["compute"])

    def _server(self) -> dict[str, Any]:
        """Return the port and the token for plain `pulumi`. They are chosen once and then stay the same."""
        file = self.root / "ports.json"
        if not file.is_file():
            self.root.mkdir(parents=True, exist_ok=True)
            draft = self.root / f".ports.{os.getpid()}.{secrets.token_hex(4)}"
            write_whole(draft, json.dumps({"compute": free_port(), "token": secrets.token_hex(16)}), 0o600)
            try:
                os.link(draft, file)  # Unlike a rename, a link fails if another process was first.
            except FileExistsError:
                pass
            finally:
                draft.unlink()
        return dict(json.loads(file.read_text()))

    def prepare(self) -> None:
        """Create the folders and files that the environment names."""
        for folder in (self.home, self.backend, self.root / "gcloud"):
            folder.mkdir(parents=True, exist_ok=True)
        # The CLI always logs every property, which is half the work of an `up`
        # (pulumi/pulumi v3.259.0, pkg/logging, StartLogging). A file in place of the log folder makes the CLI skip
        # this.
        if not (logs := self.home / "logs").exists():
            logs.touch()
        write_whole(self.root / ".gitignore", "*\n")
        write_whole(self.root / "kubeconfig", "")

    @property
    def aws_port(self) -> int:
        """The port of the AWS APIs: the one after the port of the Compute Engine API. EC2 and S3 have the next one."""
        return self.endpoint_port + 1

    @property
    def endpoint_port(self) -> int:
        """The port of the Compute Engine API in GOOGLE_COMPUTE_CUSTOM_ENDPOINT, else `compute_port`."""
        match = _ENDPOINT_URL.fullmatch(os.environ.get(ENDPOINT, ""))
        return int(match[1]) if match else self.compute_port

    def environment(self, port: int | None = None) -> dict[str, str]:
        """Return the variables that make plain `pulumi` use this sandbox, with the Compute Engine API at this port."""
        self.prepare()
        # A sandbox of version 0.1.0 has no token in its file.
        token = (None if port else self._server().get("token")) or secrets.token_hex(16)
        port = port or self.compute_port
        endpoint = f"127.0.0.1:{port}"
        settings = {
            "PULUMI_SANDBOX_DIR": str(self.root),
            "PULUMI_SANDBOX_PYTHON": sys.executable,
            TOKEN_VARIABLE: token,
            # Runs programs and dynamic resources whose Pulumi.yaml names no virtual environment.
            "PULUMI_PYTHON_CMD": ambient_python(),
            "PULUMI_HOME": str(self.home),
            # With metadata, the backend writes attributes to a second file, and not atomically. If `pulumi` is killed
            # during this write, the file is empty, and every later command fails with "failed to load checkpoint: EOF".
            # Nothing needs the file.
            "PULUMI_BACKEND_URL": f"file://{self.backend}?metadata=skip",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "PATH": locate.search_path(os.environ.get("PATH", os.defpath)),
            ENDPOINT: f"http://{endpoint}/compute/v1/",
            # The plugin undeploys the models of an endpoint by this address.
            "GOOGLE_VERTEX_AI_CUSTOM_ENDPOINT": f"http://{endpoint}/vertex/v1/",
            # google-auth asks this metadata server for a token when it finds no other credentials.
            "GCE_METADATA_HOST": endpoint,
            "GCE_METADATA_IP": endpoint,
            "CLOUDSDK_CONFIG": str(self.root / "gcloud"),
            "AWS_EC2_METADATA_DISABLED": "true",
            # The AWS SDKs read these. The keys are not valid anywhere, and no profile of the user is read.
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port + 1}",
            "AWS_ENDPOINT_URL_EC2": f"http://127.0.0.1:{port + 2}",
            "AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{port + 2}",
            "AWS_ACCESS_KEY_ID": "sandbox",
            "AWS_SECRET_ACCESS_KEY": "sandbox",
            "AWS_CONFIG_FILE": str(self.root / "aws-config"),
            "AWS_SHARED_CREDENTIALS_FILE": str(self.root / "aws-credentials"),
            "NO_PROXY": without_proxy(os.environ.get("NO_PROXY", "")),
            "KUBECONFIG": str(self.root / "kubeconfig"),
        }
        if not {"PULUMI_CONFIG_PASSPHRASE", "PULUMI_CONFIG_PASSPHRASE_FILE"} & os.environ.keys():
            settings["PULUMI_CONFIG_PASSPHRASE"] = "sandbox"  # noqa: S105 - it guards nothing, and the docs name it
        return settings

    def variables_to_unset(self) -> tuple[str, ...]:
        """Return the variables to unset: credentials of real accounts."""
        own_variables = self.environment()
        return tuple(sorted(name for name in os.environ if name not in own_variables and is_hidden(name)))

    def child_environment(self, environ: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the environment of a child process, with its own port for the Compute Engine API.

        The provider of a killed command runs on for some seconds, to end the VMs that it booted. On a shared port it
        could receive the requests of the next command.
        """
        without_credentials = {name: value for name, value in (environ or os.environ).items() if not is_hidden(name)}
        return without_credentials | self.environment(free_port())


def yaml_error(file: Path, error: yaml.MarkedYAMLError) -> str:
    """Return the place and the reason of a mistake in a YAML file. The line is not shown: it may have a secret."""
    mark, begun = error.problem_mark or error.context_mark, error.context_mark
    place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    context = f" ({error.context}, from line {begun.line + 1})" if error.context and begun else ""
    hint = "indent with spaces, put a space after each colon, close every bracket and quote"
    return f"{file.name}: {place}{error.problem}{context}\n  expected: YAML\n  hint: {hint}"


def is_hidden(name: str) -> bool:
    return name in HIDDEN_NAMES or name.startswith(HIDDEN_PREFIXES)


def without_proxy(hosts: str) -> str:
    """Return NO_PROXY with this machine added, because a proxy cannot reach the sandbox's endpoints."""
    return ",".join(dict.fromkeys([*(host for host in hosts.split(",") if host), "127.0.0.1"]))


def free_port() -> int:
    """Return a free port whose two successors are free too: of Compute Engine, of EC2 and S3, and of other AWS APIs."""
    for _ in range(200):
        port = PORTS.start + secrets.randbelow(len(PORTS) - 2)
        with contextlib.ExitStack() as probes:
            try:
                for each in range(port, port + 3):
                    probes.enter_context(socket.socket()).bind(("127.0.0.1", each))
            except OSError:
                continue
            return port
    raise OSError(f"no free local port between {PORTS.start} and {PORTS.stop - 1}")


def ambient_python() -> str:
    """Return the Python interpreter of a program that names no virtual environment.

    The order is PULUMI_PYTHON_CMD, an activated environment with the SDK, and the interpreter of this host, which has
    every SDK of the sandbox. The official host honours PULUMI_PYTHON_CMD too, and otherwise uses `python3` on PATH.
    """
    named = os.environ.get("PULUMI_PYTHON_CMD")
    if named:
        return shutil.which(named) or named
    active = os.environ.get("VIRTUAL_ENV")
    if active and next(Path(active).glob("lib/python3*/site-packages/pulumi/__init__.py"), None):
        return str(Path(active) / "bin" / "python")
    return sys.executable


SERVE_LOCK = "serve.lock"
"""The lock of the process that serves a sandbox (`pulumi-sandbox serve`)."""


def serving_process(workspace: Workspace) -> str | None:
    """Return the id of the process that serves this sandbox, or None."""
    file = workspace.root / SERVE_LOCK
    if not file.exists():
        return None
    with file.open("r+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return lock.read().strip()
    return None
