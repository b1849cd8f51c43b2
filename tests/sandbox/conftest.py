"""A small Pulumi project for the tests of the sandbox, and the sandbox in which it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
from pulumi_sandbox.engine import locate
from pulumi_sandbox.language_host.server import LanguageHost, serve

from tests.sandbox.language_host.hosts import Stub
from tests.sandbox.providers.fake_cloud import Bench
from tests.sandbox_runner import SandboxRunner

# For what Pulumi's own language host does otherwise. CI builds a CLI; a user's machine may have an official one alone.
needs_our_host = pytest.mark.skipif(
    locate.recorded_engine(("build",)) is None,
    reason="no Pulumi CLI was built here: PULUMI_SANDBOX_ENGINE=build make engine",
)
OUR_HOST = {"PULUMI_SANDBOX_ENGINE": "build"}

Project = Callable[..., SandboxRunner]


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """project(program, options) writes a Python project into a folder with a space in its name."""
    runners: list[SandboxRunner] = []

    def make(program: str, options: str = "") -> SandboxRunner:
        folder = tmp_path / "a project"
        (folder / "code").mkdir(parents=True)
        runtime = f"runtime:\n  name: python\n  options:\n{options}" if options else "runtime: python\n"
        (folder / "Pulumi.yaml").write_text(f"name: small\n{runtime}main: code/\n")
        (folder / "Pulumi.dev.yaml").write_text("config:\n  small:who: world\n")
        (folder / "code" / "__main__.py").write_text(program)
        runners.append(SandboxRunner(folder, tmp_path / "the sandbox"))
        return runners[-1]

    yield make
    for runner in runners:
        runner.close()


@pytest.fixture
def host() -> Iterator[Stub]:
    servicer = LanguageHost("127.0.0.1:1")
    server, port = serve(servicer)
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield Stub(channel)
    servicer.close(patience=5)
    server.stop(None).wait()


@pytest.fixture
def program(tmp_path: Path) -> Path:
    folder = tmp_path / "a program"
    folder.mkdir()
    (folder / "Pulumi.yaml").write_text("name: p\nruntime: python\n")
    return folder


@pytest.fixture
def own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty engine folder, an empty home, and a PATH with nothing but the system's tools."""
    monkeypatch.setenv("PULUMI_SANDBOX_ENGINE_DIR", str(tmp_path / "engine"))
    monkeypatch.delenv("PULUMI_SANDBOX_ENGINE", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "bin").mkdir()
    return tmp_path / "engine"


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A provider of toys that is called as the engine calls one."""
    made = Bench(tmp_path)
    yield made
    made.world.close()
