"""The provider's process prints a port, and ends with the process that started it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import grpc
import pytest
from google.protobuf import empty_pb2
from pulumi.runtime.proto import provider_pb2_grpc
from pulumi_sandbox.processes import EngineWatch, accepts_connections

PATIENCE = 30.0


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "PULUMI_SANDBOX_DIR": str(folder / "a sandbox")}


def gone(pid: int) -> bool:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except FileNotFoundError:
            return True
        if stat.rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_answers_on_the_port_it_prints_and_ends_when_asked(tmp_path: Path, number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "pulumi_sandbox.providers", "github", "127.0.0.1:1"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(tmp_path),
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        port = int(process.stdout.readline())
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            info = provider_pb2_grpc.ResourceProviderStub(channel).GetPluginInfo(empty_pb2.Empty())
        process.send_signal(number)
        try:
            process.wait(PATIENCE)
        finally:
            process.kill()
        rest, errors = process.stdout.read(), process.stderr.read()
    assert info.version == version("pulumi-github")
    assert (process.returncode, rest, errors) == (0, "", "")


def test_it_ends_when_the_process_that_started_it_is_killed(tmp_path: Path) -> None:
    parent = (
        "import subprocess, sys, time\n"
        "command = [sys.executable, '-m', 'pulumi_sandbox.providers', 'github']\n"
        "child = subprocess.Popen(command, stdout=subprocess.PIPE)\n"
        "print(child.pid, child.stdout.readline().decode().strip(), flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True, env=environment(tmp_path)
    ) as process:
        assert process.stdout is not None
        child, port = map(int, process.stdout.readline().split())
        assert accepts_connections(f"127.0.0.1:{port}")
        process.kill()
    try:
        assert gone(child)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def test_a_cloud_nobody_serves_is_refused_with_those_there_are(tmp_path: Path) -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "pulumi_sandbox.providers", "gpc"], capture_output=True, text=True, check=False,
        env=environment(tmp_path),
    )  # fmt: skip
    assert answer.returncode == 64
    assert answer.stderr == "usage: python -m pulumi_sandbox.providers {aws|gcp|github|kubernetes} [engine-address]\n"


def test_a_child_of_process_one_asks_the_engine_whether_it_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getppid", lambda: 1)
    with_engine, without = EngineWatch("127.0.0.1:1"), EngineWatch()
    assert with_engine.orphaned() is True
    assert without.orphaned() is False
    monkeypatch.setattr(os, "getppid", lambda: 7)
    assert without.orphaned() is True
