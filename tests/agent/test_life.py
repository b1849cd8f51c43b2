"""A machine of the pool from power-on to power-off, all parts real: boot script, agent, cage, hooks and stand-ins.

Google and GitHub are servers of the test's, the runner is one that GitHub's archive could hold; the network, the users
and the mounts are the machine's own (fakes/machine.py).
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from tests.agent.fakes import github_server, machine, runner
from tests.agent.fakes.boot import Boot, config, says
from tests.agent.fakes.github import FakeGithub
from tests.agent.fakes.google import TOKEN, FakeGoogle
from tests.agent.fakes.google import serving as serving_google

SECRET = "projects/example-ci/secrets/github-app-key"
# What GitHub's runner does around a job, and a job that tries to get at the machine's identity.
JOB = """
def hook(stage):
    known = {"GITHUB_REPOSITORY": "acme/kernels", "GITHUB_RUN_ID": "77", "GITHUB_JOB": "train"}
    return subprocess.run([os.environ["ACTIONS_RUNNER_HOOK_JOB_" + stage]], env={**os.environ, **known}).returncode
say("Running job: train")
if hook("STARTED"):
    end(1)
import socket
try:
    socket.create_connection(("169.254.169.254", 80), 2)
    say("JOB HAS THE IDENTITY")
except OSError as error:
    say("job: " + type(error).__name__)
DOES
hook("COMPLETED")
end(0)
"""
WAITS = "signal.signal(signal.SIGINT, lambda *_: end(0))\nsay('ready')\nwhile True: time.sleep(0.05)"


class Github(FakeGithub):
    """Gives a registration that the stand-in for the runner can read."""

    def _register(self, found: dict[str, str], query: dict[str, str], body: Any) -> tuple[int, dict[str, Any]]:
        status, answer = super()._register(found, query, body)
        return status, {**answer, "encoded_jit_config": runner.jitconfig(AgentName=body["name"])}


def life(
    folder: Path,
    key: bytes,
    public_key: RSAPublicKey,
    does: str,
    *,
    idle_sec: int = 60,
    meanwhile: Callable[[FakeGoogle, Path, subprocess.Popen[str]], None] | None = None,
    plan: Callable[[Github], None] | None = None,
    **attributes: str,
) -> dict[str, Any]:
    """One machine's, inside a machine of the test's own: what it said and what is left of it."""

    def work() -> dict[str, Any]:
        machine.network()
        for path in ("/var/lib", "/usr/local/sbin"):
            subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0755", "own", path], check=True)
        archive = runner.archive(runner.listener(machine.open_python(), does))
        github = Github(public_key, time.time)
        if plan:
            plan(github)
        releases = runner.releases(lambda _: (200, archive, len(archive)))
        with serving_google(FakeGoogle()) as google, github_server.serving(github) as url, releases as (base, _):
            google.secrets[SECRET] = key
            boot = Boot(folder, google)
            boot.tools.add("python3", f'exec "{machine.open_python()}" "$@"')
            smi = boot.tools.add("nvidia-smi", "[[ $* != *query-gpu* ]] || echo 'GPU-1a2b3c4d, 3, 0'")
            Path("/usr/local/sbin/nvidia-smi").symlink_to(smi)
            os.chmod(folder, 0o755)  # noqa: PTH101, S103 - the stand-in is for the runner's user too
            own = {
                "owner": "acme", "app_id": "12345", "installation_id": 77, "private_key": SECRET, "runner_group": "gpu",
                "labels": ["gpu", "l4"],
            }  # fmt: skip
            sha256 = runner.sha256(archive)
            pin: dict[str, Any] = {"version": runner.VERSION, "sha256": {"x64": sha256, "arm64": sha256}}
            pin |= {"idle_sec": idle_sec, "register_sec": 60}
            text = json.dumps(config(github=own, runner=pin))
            environ = boot.environ() | {"GPU_AGENT_GITHUB_URL": url, "GPU_AGENT_RUNNER_URL": base}
            boot.environ = lambda: environ  # type: ignore[method-assign]
            process = boot.start(says("fine"), **{"gpu_ci_role": "", "gpu_agent_config": text, **attributes})
            if meanwhile:
                meanwhile(google, Path("/run/gpu-agent/runner/_diag/starts"), process)
            serial, _ = process.communicate(timeout=120)
            planted = [TOKEN, runner.SECRET, key.decode().splitlines()[5], *github.tokens]
            kept = [Path("/home"), Path("/var/lib"), folder, Path("/run/gpu-agent/agent.pyz").parent]
            on_disk = [file for text in planted for place in kept[:3] for file in runner.files_with(text, place)]
            said = serial + json.dumps(google.published) + json.dumps(google.logged)
            return {
                "serial": serial,
                "verdict": boot.verdict(serial),
                "end": google.last("gpu-agent/end"),
                "ends": google.written().count("gpu-agent/end"),
                "runners": len(github.runners),
                "registered": github.asked.count("register"),
                "leaked": [text[:8] for text in planted if text in said],
                "on disk": on_disk,
                "off": serial.count("SHUTDOWN -h now"),
            }

    found: dict[str, Any] = machine.inside(work)
    return found


@pytest.fixture
def lives(tmp_path: Path, app_key: bytes, public_key: RSAPublicKey) -> Callable[..., dict[str, Any]]:
    machine.needs("nft", "ip")

    def live(does: str, **more: Any) -> dict[str, Any]:
        return life(tmp_path, app_key, public_key, does, **more)

    return live


def steps(serial: str) -> list[str]:
    return [json.loads(line.split(" ", 1)[1])["step"] for line in serial.splitlines() if "GPU-AGENT-STEP " in line]


def job(does: str = "") -> str:
    return JOB.replace("DOES", does)


def well(found: Mapping[str, Any]) -> None:
    """What holds however a life ends: one end, one power-off, nothing leaked."""
    assert (found["ends"], found["off"], found["leaked"], found["on disk"]) == (1, 1, [], []), found["serial"]


def test_a_machine_takes_one_job_that_cannot_reach_its_identity_and_switches_itself_off(
    lives: Callable[..., dict[str, Any]],
) -> None:
    found = lives(job())
    well(found)
    assert (found["end"]["reason"], found["end"]["step"]) == ("job-done", "after-job"), found["serial"]
    assert found["end"]["job"] == {"repository": "acme/kernels", "run_id": "77", "job": "train"}
    assert (found["verdict"]["verdict"], found["registered"]) == ("pass", 1)
    assert steps(found["serial"]) == [
        *("config", "driver", "check", "key", "runner", "register", "waiting", "job", "after-job")
    ]
    assert "job: ConnectionRefusedError" in found["serial"]
    assert "JOB HAS THE IDENTITY" not in found["serial"]


def test_a_machine_without_a_job_leaves_no_runner_at_github(lives: Callable[..., dict[str, Any]]) -> None:
    found = lives(WAITS, idle_sec=1)
    well(found)
    assert (found["end"]["reason"], found["runners"]) == ("idle", 0), found["serial"]


def test_a_machine_that_github_refuses_starts_no_runner(lives: Callable[..., dict[str, Any]]) -> None:
    found = lives(job(), plan=lambda github: github.groups.pop(7))
    well(found)
    assert (found["end"]["reason"], found["end"]["stops_pool"], found["registered"]) == ("refused", True, 0)


def test_a_check_machine_rehearses_and_registers_nothing(lives: Callable[..., dict[str, Any]]) -> None:
    found = lives(job(), gpu_ci_role="check")
    well(found)
    assert found["verdict"] == {"verdict": "pass", "exit_code": 0, "summary": "fine", "reason": "rehearsed"}
    assert (found["end"]["reason"], found["registered"]) == ("rehearsed", 0)


def test_a_check_machine_that_github_would_refuse_fails_its_gate(lives: Callable[..., dict[str, Any]]) -> None:
    found = lives(job(), gpu_ci_role="check", plan=lambda github: github.groups.pop(7))
    well(found)
    assert (found["verdict"]["verdict"], found["verdict"]["reason"]) == ("fail", "refused")


def test_a_preemption_during_a_job_ends_it_and_names_it(lives: Callable[..., dict[str, Any]]) -> None:
    def meanwhile(google: FakeGoogle, starts: Path, process: subprocess.Popen[str]) -> None:
        while not (starts.parent / "at-work").exists() and process.poll() is None:
            time.sleep(0.05)
        google.values["instance/preempted"] = "TRUE"

    found = lives(job(f"(root / '_diag' / 'at-work').touch()\n{WAITS}"), meanwhile=meanwhile)
    well(found)
    assert found["end"]["reason"] == "preempted", found["serial"]
    assert found["end"]["detail"].endswith("; lost: acme/kernels, run 77, job train")
