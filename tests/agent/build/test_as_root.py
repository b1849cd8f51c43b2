"""A build on an emulated machine with real users: the command belongs to the runner's user, and the objects to root."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from gpu_agent.build import command, workspace
from gpu_agent.build.output import Output
from gpu_agent.clock import Clock
from gpu_agent.machine.system import System
from gpu_agent.runner import network_isolation

from tests.agent.build.test_workspace import Bucket, archive, request
from tests.agent.fakes import machine
from tests.agent.fakes.isolated import BLOCKED

COMMAND = """
id -u; pwd; ls -l a.py | cut -d' ' -f3
cat /run/state/artifacts.tar.gz /run/secret 2>/dev/null; echo secret $?
timeout 5 bash -c 'exec 3<>/dev/tcp/169.254.169.254/80' 2>/dev/null; echo metadata $?
echo wheel >out.whl; ln -s /run/secret link.whl
"""


class Objects(Bucket):
    """A bucket that keeps what is written."""

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self.written: list[bytes] = []

    def write(self, name: str, content: bytes, sha256: str, deadline: float) -> None:
        self.written.append(content)

    def read(self, name: str, sink: BinaryIO, deadline: float, limit_bytes: int) -> None:
        sink.write(self.content)


def build() -> dict[str, Any]:
    """Run a build's command with the permissions of a real machine."""
    machine.network()
    Path("/run/secret").write_text("key")
    Path("/run/secret").chmod(0o600)
    clock = Clock()
    system = System(Path("/run/gpu-agent"), Path("/run/state"), Path("/run/baked"), machine.open_python())
    isolation = network_isolation.isolate(BLOCKED, "none", system, clock, clock.now() + 30)
    content = archive("a.py")
    made = request(content, command=["bash", "-c", COMMAND], artifacts=["*.whl"])
    bucket = Objects(content)
    folder = workspace.obtain(made, bucket, isolation.user, system, clock, clock.now() + 30)
    environment = command.environment(made, isolation)
    process = system.start(command.argv(made, folder), isolation.user, environment=environment, folder=folder)
    output = Output(bucket, "p/", clock, 0.05)
    assert process.stdout is not None
    output.start(process.stdout.fileno())
    process.wait(30)
    output.finish(5, clock.now() + 10)
    packed = workspace.pack(made, folder, isolation.user, system)
    return {
        "printed": b"".join(bucket.written).decode().splitlines(),
        "user": str(isolation.user.uid),
        "name": isolation.user.name,
        "files": packed.files,
        "owner": packed.path.parent.stat().st_uid,
        "secret": b"key" in packed.path.read_bytes(),
    }


@pytest.mark.slow
def test_a_command_has_neither_roots_files_nor_the_machines_identity() -> None:
    machine.needs("nft", "ip", "useradd", "setpriv", "prlimit", "choom")
    found = machine.inside(build)
    assert found["printed"] == [
        found["user"],
        "/home/gpu-runner/workspace",
        found["name"],
        "secret 1",
        "metadata 1",
    ], json.dumps(found)
    assert (found["files"], found["owner"], found["secret"]) == (2, 0, False)
