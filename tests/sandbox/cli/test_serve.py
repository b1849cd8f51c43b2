"""`pulumi-sandbox serve`: Compute Engine, AWS and GitHub without a `pulumi` command, and the VMs that run there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pulumi_sandbox.providers.gcp.compute.vm_store import INSTANCE
from pulumi_sandbox.providers.gcp.types import REGION_TEMPLATE
from pulumi_sandbox.providers.machines.vm_processes import start_time
from pulumi_sandbox.workspace import Workspace
from pulumi_sandbox.world.store import Record, World

from tests.sandbox.providers.gcp.api import OPENER, script
from tests.sandbox.providers.gcp.conftest import TEMPLATE

COMMAND = str(Path(sys.executable).parent / "pulumi-sandbox")
PATH = "projects/ci-project/regions/us-central1/instanceTemplates/l4"
VM = "projects/ci-project/zones/us-central1-a/instances/one"
WAIT_SEC = 60.0


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose world has one instance template."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "Pulumi.yaml").write_text("name: p\nruntime: python\n")
    (folder / "sandbox.yaml").write_text("guest: {}\n")
    world = World(Workspace(folder / ".sandbox", folder).world)
    inputs = {**TEMPLATE, "name": "l4", **script("echo $$; exec sleep 300")}
    world.insert(Record(REGION_TEMPLATE, PATH, "l4", "", inputs, inputs, "stack"))
    world.close()
    return folder


def start(project: Path, *words: str) -> subprocess.Popen[str]:
    hidden = ("PULUMI_", "GOOGLE_", "GCE_")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    return subprocess.Popen(
        [COMMAND, "serve", *words],
        cwd=project,
        env={**environ, "TMPDIR": str(project.parent)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextmanager
def serving(project: Path) -> Iterator[tuple[subprocess.Popen[str], dict[str, str]]]:
    """A server that is ready, and the environment that it prints."""
    with start(project) as server:
        assert server.stdout
        assert server.stderr
        try:
            assert server.stderr.readline().startswith("pulumi-sandbox: serving http://127.0.0.1:")
            lines = (project / ".sandbox" / "serve.env").read_text().splitlines()
            assert [server.stdout.readline().rstrip() for _ in lines] == lines
            yield server, dict(line.removeprefix("export ").split("=", 1) for line in lines)
        finally:
            server.kill()


def ask(environment: dict[str, str], method: str, path: str, body: Any = None) -> tuple[int, Any]:
    url = f"{environment['GOOGLE_COMPUTE_CUSTOM_ENDPOINT']}projects/ci-project/{path}"
    return call(method, url, body, f"ya29.{environment['PULUMI_SANDBOX_TOKEN']}")


def call(method: str, url: str, body: Any = None, token: str = "") -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Authorization": f"Bearer {token}"}, method=method)  # noqa: S310 - our own server
    try:
        with OPENER.open(request, timeout=WAIT_SEC) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def insert(environment: dict[str, str]) -> None:
    where = "zones/us-central1-a/instances?sourceInstanceTemplate=regions/us-central1/instanceTemplates/l4"
    status, operation = ask(environment, "POST", where, {"name": "one"})
    assert (status, "error" in operation) == (200, False), operation


def process_of(project: Path) -> int:
    """The process that runs the machine."""
    world = World(project / ".sandbox" / "world.db")
    [machine] = world.find(INSTANCE)
    world.close()
    return int(machine.outputs["sandboxGuest"]["pid"])


def test_a_machine_inserted_at_the_server_runs_until_the_server_is_ended(project: Path) -> None:
    with serving(project) as (server, environment):
        insert(environment)
        pid = process_of(project)
        assert ask(environment, "GET", "zones/us-central1-a/instances/one")[1]["status"] == "RUNNING"
        with OPENER.open(f"http://{environment['GCE_METADATA_HOST']}/", timeout=WAIT_SEC) as answer:
            assert answer.read() == b"computeMetadata/\n"
        assert call("POST", f"{environment['GITHUB_API_URL']}/app/installations/1/access_tokens")[0] == 401
        assert (environment["AWS_ACCESS_KEY_ID"], environment["AWS_SECRET_ACCESS_KEY"]) == ("sandbox", "sandbox")
        status, unsigned = call("GET", f"{environment['AWS_ENDPOINT_URL']}/clusters/ci")
        assert (status, unsigned["message"]) == (403, "Missing Authentication Token")
        server.send_signal(signal.SIGTERM)
        assert server.wait(WAIT_SEC) == 0
        assert not start_time(pid)
        assert not (project / ".sandbox" / "serve.env").exists()


def test_a_second_server_of_one_sandbox_is_refused_until_the_first_is_gone_however_it_ended(project: Path) -> None:
    with serving(project) as (server, environment):
        insert(environment)
        pid = process_of(project)
        with start(project) as second:
            _, words = second.communicate(timeout=WAIT_SEC)
        assert (second.returncode, f"process {server.pid} holds" in words, "serve.env" in words) == (1, True, True)
        server.kill()
        server.wait()
    until = time.monotonic() + WAIT_SEC
    while start_time(pid) and time.monotonic() < until:
        time.sleep(0.05)
    with serving(project) as (_, environment):
        assert ask(environment, "GET", "zones/us-central1-a/instances/one")[1]["status"] == "TERMINATED"


def test_a_command_runs_with_the_environment_of_clients_and_decides_the_exit_code(project: Path) -> None:
    with start(project, "--exec", "--", "sh", "-c", "echo $GOOGLE_COMPUTE_CUSTOM_ENDPOINT; exit 7") as server:
        output, _ = server.communicate(timeout=WAIT_SEC)
    assert (server.returncode, output.startswith("http://127.0.0.1:")) == (7, True)


@pytest.mark.slow
def test_a_port_that_another_server_has_is_refused(project: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "Pulumi.yaml").write_text("name: other\nruntime: python\n")
    with serving(project) as (_, environment), serving(other) as (_, elsewhere):
        assert environment["GOOGLE_COMPUTE_CUSTOM_ENDPOINT"] != elsewhere["GOOGLE_COMPUTE_CUSTOM_ENDPOINT"]
        third = tmp_path / "third"
        third.mkdir()
        (third / "Pulumi.yaml").write_text("name: third\nruntime: python\n")
        port = environment["GCE_METADATA_HOST"].partition(":")[2]
        with start(third, "--port", port) as refused:
            _, words = refused.communicate(timeout=WAIT_SEC)
        assert (refused.returncode, f"cannot listen on 127.0.0.1:{port}" in words) == (1, True)
