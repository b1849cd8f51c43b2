"""Secrets planted in the whole flow, from `init` to `status`, are in no output, file, argument or state.

They are allowed in two places: the sandbox's world.db, which is its Secret Manager, and the memory of the fakes here.
"""

from __future__ import annotations

import base64
import json
import os
import re
import secrets
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from pulumi_sandbox.workspace import Workspace
from pulumi_sandbox.world.store import World

from tests.conftest import ROOT
from tests.gpu_ci.cli.json_server import json_server
from tests.gpu_ci.cli.test_github_app import Browser

pytestmark = [pytest.mark.slow, pytest.mark.engine]

BIN = Path(sys.executable).parent
POLL_SEC = 0.02
OPTIONS = ("--project", "acme-ci", "--pool", "l4=g2-standard-8", "--organization", "acme", "--repository", "kernels")
# The second App of the file is created by `create`, the first one's key comes to `store` on standard input.
STORED, CREATED = (1, 101, 1011), (3, 103, 1013)


def new_key() -> str:
    key = rsa.generate_private_key(65537, 2048)
    form = serialization.PrivateFormat.TraditionalOpenSSL
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()


@dataclass
class Planted:
    """The secrets by name, and where each was found."""

    stored_key: str = field(default_factory=new_key)
    created_key: str = field(default_factory=new_key)
    webhook_secret: str = field(default_factory=lambda: f"whsec{secrets.token_hex(16)}")
    client_secret: str = field(default_factory=lambda: f"clsec{secrets.token_hex(16)}")
    code: str = field(default_factory=lambda: f"code{secrets.token_hex(16)}")
    github_token: str = field(default_factory=lambda: f"ghp_{secrets.token_hex(18)}")
    google_token: str = field(default_factory=lambda: f"ya29.{secrets.token_hex(18)}")
    passphrase: str = field(default_factory=lambda: f"pass{secrets.token_hex(16)}")

    def forms(self) -> dict[bytes, str]:
        """Return what a leak would contain: each text, its base64, and one line of each key."""
        found: dict[bytes, str] = {}
        for name, value in vars(self).items():
            text = value.encode()
            lines = text.splitlines()
            # A line from the middle of a key: JSON escapes the line breaks, so the whole key need not be in a dump.
            plain = lines[len(lines) // 2] if len(lines) > 1 else text
            found |= {plain: name, base64.b64encode(text).rstrip(b"=")[:-2]: f"{name} in base64"}
        return found

    def leaks(self, places: Mapping[str, bytes]) -> list[str]:
        forms = self.forms()
        return [f"{name} in {place}" for place, data in places.items() for form, name in forms.items() if form in data]


@dataclass
class Watcher:
    """Reads the arguments of every process, and the environment of those of the sandbox."""

    planted: Planted
    leaks: set[str] = field(default_factory=set)
    commands: set[str] = field(default_factory=set)

    @contextmanager
    def watching(self, marker: str) -> Iterator[None]:
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(POLL_SEC):
                self.look(marker.encode())

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def look(self, marker: bytes) -> None:
        for process in Path("/proc").iterdir():
            try:
                if not process.name.isdigit() or marker not in (environment := (process / "environ").read_bytes()):
                    continue
                arguments = (process / "cmdline").read_bytes()
            except OSError:
                continue
            program = arguments.split(b"\0")[0].rpartition(b"/")[2].decode()
            words = arguments.replace(b"\0", b" ").decode(errors="replace")
            self.commands.add(program)
            self.leaks |= set(self.planted.leaks({f"arguments of {program}": arguments}))
            # The Pulumi program, its language host and its providers get no token of the user's account.
            if "pulumi-language" in words or "pulumi-resource" in words or "language_host" in words:
                names = {"environment of a plugin": environment.replace(self.planted.passphrase.encode(), b"")}
                self.leaks |= set(self.planted.leaks(names))


@dataclass
class Fakes:
    """GitHub, which answers the conversion of a manifest, and Google's Secret Manager, which gets the keys."""

    planted: Planted
    address: str = ""
    stored: dict[str, bytes] = field(default_factory=dict)
    is_installed: bool = False

    def answer(self, path: str, body: bytes, _: str) -> tuple[int, Any]:
        if path == "/api/v3/orgs/acme/installation" and self.is_installed:
            return 200, {"id": CREATED[2]}
        if path == f"/api/v3/app-manifests/{self.planted.code}/conversions":
            return 201, {
                "id": CREATED[1], "slug": "ci-manager", "owner": {"login": "acme"}, "pem": self.planted.created_key,
                "webhook_secret": self.planted.webhook_secret, "client_secret": self.planted.client_secret,
            }  # fmt: skip
        if path.startswith("/v1/projects/acme-ci/secrets?"):
            return 200, {"name": f"projects/acme-ci/secrets/{parse_qs(urlsplit(path).query)['secretId'][0]}"}
        if path.startswith("/v1/projects/acme-ci/secrets/") and ":addVersion" in path:
            name = path.removeprefix("/v1/").partition(":")[0]
            self.stored[name] = base64.b64decode(json.loads(body)["payload"]["data"])
            return 200, {"name": f"{name}/versions/1"}
        return 404, {"message": "Not Found"}


@pytest.fixture
def planted() -> Planted:
    return Planted()


@pytest.fixture
def fakes(planted: Planted) -> Iterator[Fakes]:
    found = Fakes(planted)
    with json_server(found.answer) as found.address:
        yield found


@dataclass
class Flow:
    """Runs the commands with HOME and TMPDIR in one folder, and keeps what they print."""

    folder: Path
    planted: Planted
    outputs: dict[str, bytes] = field(default_factory=dict)
    environment: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        for name in ("home", "tmp"):
            (self.folder / name).mkdir()
        kept = {key: os.environ[key] for key in ("PATH", "LANG") if key in os.environ}
        self.environment = kept | {
            "HOME": str(self.folder / "home"),
            "TMPDIR": str(self.folder / "tmp"),
            "PULUMI_SANDBOX_ENGINE_DIR": str(ROOT / ".engine"),
            "NO_COLOR": "1",
            "GITHUB_TOKEN": self.planted.github_token,
            "GOOGLE_OAUTH_ACCESS_TOKEN": self.planted.google_token,
            "PULUMI_CONFIG_PASSPHRASE": self.planted.passphrase,
        }

    @property
    def project(self) -> Path:
        return self.folder / "pools"

    def run(self, *words: str, codes: tuple[int, ...] = (0,), data: bytes = b"", **more: str) -> bytes:
        """Run a command, and return its standard output."""
        program, *arguments = words
        cwd = self.project if self.project.exists() else self.folder
        done = subprocess.run(
            [BIN / program, *arguments], cwd=cwd, env=self.environment | more, input=data,
            capture_output=True, timeout=300, check=False,
        )  # fmt: skip
        self.outputs[f"output of {' '.join(words[:3])}"] = done.stdout + done.stderr
        assert done.returncode in codes, (done.stdout + done.stderr).decode()
        return done.stdout

    def files(self) -> dict[str, bytes]:
        """Every file that the flow wrote. A symbolic link is not followed: .venv is the one of this checkout."""
        return {
            str(Path(place, name).relative_to(self.folder)): Path(place, name).read_bytes()
            for place, _, names in os.walk(self.folder)
            for name in names
            if Path(place, name).is_file() and not Path(place, name).is_symlink()
        }


def create_in_the_browser(flow: Flow, fakes: Fakes, more: Mapping[str, str]) -> None:
    """Run `github-app create` for the App of the manager, and do what the user does in the browser."""
    words = ["github-app", "create", "Pulumi.dev.yaml", "--only", "managerApp", "--port", "0"]
    process = subprocess.Popen(
        [BIN / "gpu-ci", *words, "--github-url", fakes.address], cwd=flow.project,
        env=flow.environment | more, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr
    first = process.stderr.readline()
    found = re.search(r"(http://127\.0\.0\.1:\d+)(/\S*)", first)
    if not found:
        process.wait(20)
        raise AssertionError(first + process.stderr.read())
    browser = Browser(*found.groups())
    browser.served.set()
    [(action, manifest)] = browser.forms()
    state = parse_qs(urlsplit(action).query)["state"][0]
    path = f"{urlsplit(manifest['redirect_url']).path}?code={fakes.planted.code}&state={state}"
    status, created = browser.get(path)
    fakes.is_installed = True
    installed = browser.get(f"{urlsplit(manifest['setup_url']).path}?installation_id={CREATED[2]}")[1]
    out, err = process.communicate(timeout=30)
    flow.outputs["output of github-app create"] = (first + out + err + created + installed).encode()
    assert (status, process.returncode) == (200, 0), out + err


def use_the_new_apps(project: Path) -> None:
    """Write the numbers of the Apps: into the stack file for `store`, and into sandbox.yaml for both."""
    stack, settings = project / "Pulumi.dev.yaml", project / "sandbox.yaml"
    old, new, installation = STORED
    text = stack.read_text()
    assert f"{{id: {old}, installationId: 1{old}," in text
    stack.write_text(
        text.replace(f"{{id: {old}, installationId: 1{old},", f"{{id: {new}, installationId: {installation},")
    )
    text = settings.read_text()
    for old, new, installation in (STORED, CREATED):
        text = text.replace(f"apps/{old}/installations/1{old}", f"apps/{new}/installations/{installation}")
        text = text.replace(f"    {old}: {{", f"    {new}: {{").replace(f"Keys.{old}}}", f"Keys.{new}}}")
    settings.write_text(text)


def keep_in_the_sandbox(flow: Flow) -> Path:
    """Store both keys in the Secret Manager of the sandbox. Returns its file, the only one that may contain them."""
    workspace = Workspace(flow.project / ".sandbox", flow.project)
    workspace.prepare()
    world = World(workspace.world)
    for number, key in ((STORED[1], flow.planted.stored_key), (CREATED[1], flow.planted.created_key)):
        assert world.get_or_create(f"rsa-private-key-{number}", lambda key=key: key) == key  # type: ignore[misc]
    world.close()
    return workspace.world


def test_secrets_of_the_whole_flow_are_found_nowhere(tmp_path: Path, planted: Planted, fakes: Fakes) -> None:
    flow, watcher = Flow(tmp_path, planted), Watcher(planted)
    google = {"GOOGLE_SECRET_MANAGER_CUSTOM_ENDPOINT": f"{fakes.address}/v1/", "NO_PROXY": "127.0.0.1"}
    with watcher.watching(str(tmp_path)):
        flow.run("gpu-ci", "init", "pools", *OPTIONS, "--write")
        (flow.project / ".venv").symlink_to(sys.prefix)
        admin = "projects/acme-ci/secrets/github-admin-app-key"
        flow.run("gpu-ci", "github-app", "store", admin, data=planted.stored_key.encode(), **google)
        create_in_the_browser(flow, fakes, google)
        use_the_new_apps(flow.project)
        place = keep_in_the_sandbox(flow)
        flow.run("gpu-ci", "check", "Pulumi.dev.yaml")
        flow.run("pulumi-sandbox", "preview", "--stack", "dev")
        # Without the check of the template, whose VM has no secret: tests/engine/ boots it.
        without = ("--exclude", "**::l4-gate", "--exclude-dependents")
        flow.run("pulumi-sandbox", "up", "--stack", "dev", "--yes", "--skip-preview", *without)
        flow.outputs["stack export"] = flow.run("pulumi-sandbox", "stack", "export", "--stack", "dev")
        doctor = ("--exec", "--", str(BIN / "gpu-ci"), "doctor", "Pulumi.dev.yaml", "--json")
        # It fails, because the sandbox has no APIs that only the doctor calls.
        assert json.loads(flow.run("pulumi-sandbox", "serve", *doctor, codes=(1,)))["works"] is False
        outputs = flow.folder / "outputs.json"
        outputs.write_bytes(flow.run("pulumi-sandbox", "stack", "output", "--json", "--stack", "dev"))
        flow.run("gpu-ci", "status", str(outputs))
    # Each secret was used.
    assert {name: value.decode() for name, value in fakes.stored.items()} == {
        admin: planted.stored_key,
        "projects/acme-ci/secrets/github-manager-app-key": planted.created_key,
    }
    assert "pulumi" in watcher.commands
    files = flow.files()
    kept = {name: files.pop(name) for name in list(files) if (flow.folder / name).name.startswith(place.name)}
    assert any(line in data for data in kept.values() for line in [planted.stored_key.splitlines()[5].encode()])
    assert len(files) > 15
    assert planted.leaks(files | flow.outputs) == []
    assert watcher.leaks == set()
