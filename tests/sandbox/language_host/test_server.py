"""The Python language host: asked over its protocol, and under the real engine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import grpc
import pytest
from pulumi.runtime.proto import language_pb2 as lp
from pulumi_sandbox.language_host.server import plugin_arguments

from tests.sandbox.language_host.hosts import Stub, environment_with, info


def test_sdks_are_reported_and_left_out_where_their_plugin_could_only_be_downloaded(
    host: Stub, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = environment_with(program / "venv")
    for name, content in {
        "pulumi_known": {"resource": True, "name": "known", "version": "1.2.3"},
        "pulumi_other": {"resource": True, "name": "other", "version": "4.5.6", "server": "https://example.com"},
        "pulumi_tool": {"resource": False, "name": "tool"},
        "pulumi_gcp": {"resource": True, "name": "gcp", "version": "9.37.1"},
    }.items():
        (packages / name).mkdir()
        (packages / name / "pulumi-plugin.json").write_text(json.dumps(content))
    monkeypatch.setenv("PULUMI_HOME", str(program / "home"))
    (program / "home" / "plugins" / "resource-known-v1.2.3").mkdir(parents=True)
    asked = lp.GetRequiredPackagesRequest(info=info(program, virtualenv="venv"))
    monkeypatch.setenv("PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION", "true")
    # The sandbox emulates any version of an installed SDK, and its provider gets the number of the version.
    assert [(found.name, found.version) for found in host.GetRequiredPackages(asked).packages] == [
        ("gcp", "9.37.1"),
        ("known", "1.2.3"),
    ]
    launcher = program / "home" / "plugins" / "resource-gcp-v9.37.1" / "pulumi-resource-gcp"
    assert launcher.stat().st_mode & 0o777 == 0o755
    assert launcher.read_text().splitlines()[-1].startswith("PULUMI_SANDBOX_SDK_VERSION=9.37.1 exec ")
    monkeypatch.delenv("PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION")
    assert [(found.name, found.server) for found in host.GetRequiredPackages(asked).packages] == [
        ("gcp", ""),
        ("known", ""),
        ("other", "https://example.com"),
    ]


def test_what_only_the_official_host_can_do_says_so(host: Stub) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        host.GeneratePackage(lp.GeneratePackageRequest())
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert "expected: the official Pulumi CLI" in caught.value.details()


PLUGIN = """
import os, subprocess, sys, time
print("port of", sys.argv[1], os.environ["ASKED"], os.getcwd(), flush=True)
print("a warning", file=sys.stderr, flush=True)
if sys.argv[1] == "ends":
    sys.exit(7)
child = subprocess.Popen(["sleep", "600"])
print(os.getpid(), child.pid, flush=True)
time.sleep(600)
"""


def plugin_request(folder: Path, argument: str) -> lp.RunPluginRequest:
    (folder / "__main__.py").write_text(PLUGIN)
    return lp.RunPluginRequest(
        pwd="/", args=[argument], env=["ASKED=a=b"], info=info(folder, virtualenv=sys.prefix), kind="resource"
    )


def test_a_policy_pack_is_run_by_the_sdk_with_the_engine_and_the_pack_as_arguments() -> None:
    request = lp.RunPluginRequest(args=["127.0.0.1:1", "--tracing", "x"], info=info(Path("/pack")), kind="analyzer")
    assert plugin_arguments(request) == ["-m", "pulumi.policy", "127.0.0.1:1", "/pack", "--tracing", "x"]
    request.kind = "resource"
    assert plugin_arguments(request) == ["/pack", "127.0.0.1:1", "--tracing", "x"]


def test_a_missing_environment_is_reported_with_the_file_that_requires_it(host: Stub, program: Path) -> None:
    name = "PulumiPolicy.yaml"
    (program / name).write_text("")
    request = lp.RunPluginRequest(pwd="/", args=["e:1"], info=info(program, virtualenv="nowhere"), kind="analyzer")
    with pytest.raises(grpc.RpcError) as caught:
        list(host.RunPlugin(request))
    assert caught.value.details().startswith(f"{name}: runtime.options.virtualenv: {program}/nowhere does not exist\n")
    assert f"relative to the folder of {name}" in caught.value.details()


def test_a_cancelled_plugin_is_ended_with_all_it_started(host: Stub, program: Path) -> None:
    call = host.RunPlugin(plugin_request(program, "stays"))
    output = b""
    while output.count(b"\n") < 2:
        output += next(call).stdout
    pids = [int(word) for word in output.splitlines()[1].split()]
    assert all(alive(pid) for pid in pids)
    call.cancel()
    assert wait_until_gone(pids) == []


def wait_until_gone(pids: list[int]) -> list[int]:
    """Those that are still there after half a minute."""
    ends = time.monotonic() + 30
    while any(alive(pid) for pid in pids) and time.monotonic() < ends:
        time.sleep(0.05)
    return [pid for pid in pids if alive(pid)]


@pytest.mark.parametrize("killed", ["the host", "the engine"])
def test_a_plugin_does_not_outlive_the_host_or_the_engine(program: Path, killed: str) -> None:
    """A shell replaces the engine."""
    start = f"'{sys.executable}' -P -m pulumi_sandbox.language_host 127.0.0.1:1; true"
    environment = {**os.environ, "PULUMI_SANDBOX_DIR": str(program)}
    with subprocess.Popen(
        ["sh", "-c", start], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=environment, start_new_session=True
    ) as shell:
        assert shell.stdout is not None
        port = int(shell.stdout.readline())
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            call = Stub(channel).RunPlugin(plugin_request(program, "stays"))
            output = b""
            while output.count(b"\n") < 2:
                output += next(call).stdout
            pids = [int(word) for word in output.splitlines()[1].split()]
            [host] = [int(pid) for pid in children(shell.pid) if "pulumi_sandbox.language_host" in command_line(pid)]
            if killed == "the host":
                os.kill(host, signal.SIGKILL)
                # The plugin itself gets SIGTERM, and is responsible for what it started.
                assert wait_until_gone([host, pids[0]]) == []
                os.kill(pids[1], signal.SIGKILL)
            else:
                shell.kill()
                assert wait_until_gone([host, *pids]) == []
        shell.kill()


def children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def command_line(pid: str) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
