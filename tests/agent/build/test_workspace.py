"""The workspace on the machine: sources with their digest, and artifacts within their limits."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from gpu_agent.build import session, workspace
from gpu_agent.build.output import Output
from gpu_agent.build.workspace import BuildRequest
from gpu_agent.clock import Clock
from gpu_agent.machine.system import System, User
from gpu_agent.outcomes import AgentExit
from gpu_agent.runner import network_isolation

from tests.agent.fakes import machine
from tests.agent.fakes.clock import FakeClock
from tests.agent.fakes.isolated import BLOCKED


class Bucket:
    """A bucket with one object."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def read(self, name: str, sink: BinaryIO, deadline: float, limit_bytes: int) -> None:
        sink.write(self.content)

    def write(self, name: str, content: bytes, sha256: str, deadline: float) -> None:
        raise AssertionError

    def write_file(self, name: str, path: Path, sha256: str, deadline: float) -> None:
        raise AssertionError


def archive(*names: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size = len(name)
            tar.addfile(member, io.BytesIO(name.encode()))
    return buffer.getvalue()


@pytest.fixture
def system(tmp_path: Path) -> System:
    return System(tmp_path / "run", tmp_path / "state", tmp_path / "baked")


@pytest.fixture
def user(tmp_path: Path) -> User:
    (tmp_path / "home").mkdir()
    return User("gpu-runner", os.getuid(), os.getgid(), tmp_path / "home")


def request(content: bytes = b"", **changes: Any) -> BuildRequest:
    given = {"format": 1, "bucket": "b", "prefix": "p/", "source": "sources/s", "source_bytes": len(content)}
    digest = hashlib.sha256(content).hexdigest()
    return BuildRequest(**{**given, "source_sha256": digest, "command": ["x"], "timeout_sec": 60, **changes})


def obtain(made: BuildRequest, content: bytes, user: User, system: System) -> Path:
    clock = FakeClock()
    return workspace.obtain(made, Bucket(content), user, system, clock, clock.now() + 60)


def test_sources_are_unpacked_in_the_home_of_the_user(system: System, user: User) -> None:
    content = archive("a.py", "src/b.py")
    folder = obtain(request(content), content, user, system)
    assert folder == user.home / "workspace"
    assert (folder / "src/b.py").read_text() == "src/b.py"
    assert list(system.state_folder.iterdir()) == []


@pytest.mark.parametrize("change", [b"", b"x"])
def test_sources_with_another_digest_are_not_unpacked(system: System, user: User, change: bytes) -> None:
    content = archive("a.py")
    with pytest.raises(AgentExit) as ended:
        obtain(request(content), content[:-1] + change, user, system)
    assert ended.value.end.reason == "wrong-source"
    assert (list(user.home.iterdir()), list(system.state_folder.iterdir())) == ([], [])


def test_a_full_disk_is_named(system: System, user: User) -> None:
    content = archive("a.py")
    system.state_folder.mkdir()
    (system.state_folder / "source.tar.gz").symlink_to("/dev/full")
    with pytest.raises(AgentExit) as ended:
        obtain(request(content), content, user, system)
    assert ended.value.end.reason == "disk-full"


def pack(user: User, system: System, *patterns: str, **limits: int) -> workspace.Artifacts:
    system.state_folder.mkdir(exist_ok=True)
    return workspace.pack(request(artifacts=list(patterns), **limits), user.home, user, system)


def names(packed: workspace.Artifacts) -> list[str]:
    with tarfile.open(packed.path) as tar:
        return sorted(member.name for member in tar)


def test_artifacts_are_the_files_that_match_with_folders_as_a_whole(system: System, user: User) -> None:
    for name in ("dist/a.whl", "dist/a.txt", "reports/one/x.xml", "reports/y.xml", "data/deep/z"):
        (user.home / name).parent.mkdir(parents=True, exist_ok=True)
        (user.home / name).write_text(name)
    packed = pack(user, system, "dist/*.whl", "reports/**/*.xml", "data", "none/*")
    assert names(packed) == ["data/deep/z", "dist/a.whl", "reports/one/x.xml", "reports/y.xml"]
    assert (packed.files, packed.missing) == (4, ["none/*"])
    assert packed.sha256 == hashlib.sha256(packed.path.read_bytes()).hexdigest()


def test_a_link_to_a_secret_returns_no_content_of_it(system: System, user: User, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("key")
    (user.home / "out").mkdir()
    (user.home / "out/link").symlink_to(tmp_path / "secret")
    (user.home / "folder").symlink_to(tmp_path, target_is_directory=True)
    packed = pack(user, system, "out/*", "folder/*")
    with tarfile.open(packed.path) as tar:
        assert [(member.name, member.issym()) for member in tar] == [("out/link", True)]
    assert packed.missing == ["folder/*"]


@pytest.mark.parametrize(
    ("limits", "detail"),
    [
        ({"artifact_files": 1}, "the artifacts are 2 files, and the limit is 1"),
        ({"artifact_bytes": 5}, "the artifacts have 6 bytes, and the limit is 5"),
    ],
)
def test_artifacts_over_a_limit_are_not_packed(system: System, user: User, limits: dict[str, int], detail: str) -> None:
    for name in ("a", "b"):
        (user.home / name).write_text("123")
    with pytest.raises(AgentExit) as ended:
        pack(user, system, "*", **limits)
    assert (ended.value.end.reason, ended.value.detail) == ("no-artifacts", detail)


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
    environment = session.command_environment(made, isolation)
    process = system.start(session.command_line(made, folder), isolation.user, environment=environment, folder=folder)
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
