"""A machine of the pool from power-on to power-off: its output, and what remains of it."""

from __future__ import annotations

import base64
import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from gpu_agent.check import _INSTALLED
from gpu_agent.runner.archive import MARKER

from tests.agent.end_to_end.random_machines import random_machine
from tests.agent.fakes import events, machine, runner, whole_machine
from tests.agent.fakes.boot import BASH
from tests.agent.fakes.manager import Answer
from tests.agent.fakes.runner import NO_LIBICU, WAITS, job
from tests.agent.fakes.whole_machine import AT_WORK, Plan, RunningMachine

RunMachine = Callable[..., dict[str, Any]]


def test_a_machine_takes_one_job_that_cannot_reach_its_identity_and_switches_itself_off(
    run_machine: RunMachine,
) -> None:
    found = run_machine(Plan())
    assert (found["reason"], found["end"]["step"]) == ("job-done", "after-job"), found["serial"]
    assert found["end"]["job"] == {"repository": "acme/kernels", "run": 77, "attempt": 1}
    assert (found["verdict"]["verdict"], found["registered"]) == ("pass", 1)
    assert steps(found["serial"]) == [
        *("config", "driver", "check", "key", "runner", "register", "waiting", "job", "after-job")
    ]
    assert "job: ConnectionRefusedError" in found["serial"]
    # GitHub's runner has the secret in two places. The scanner finds it there, so the scanner works.
    assert found["allowed"] == [["blob", "environ"], ["credential", "file"]]


def test_after_a_failed_job_the_smoke_check_runs_again(run_machine: RunMachine) -> None:
    line = "2026-11-28 10:00:00Z: Job train completed with result: Failed"
    found = run_machine(Plan(answer=Answer(), does=job(f'hook("COMPLETED"); say("{line}"); end(0)')))
    assert (found["reason"], found["end"]["step"]) == ("job-done", "recheck"), found["serial"]
    assert found["detail"].endswith("; the GPU passed its check after the failed job")
    assert steps(found["serial"])[-2:] == ["after-job", "recheck"]


def measure_with(does: str) -> Callable[[RunningMachine], None]:
    """Return what replaces the nvidia-smi that measures by a program in bash."""

    def prepare(running: RunningMachine) -> None:
        path = Path("/usr/local/sbin/nvidia-smi")
        other = path.resolve()
        path.unlink()
        path.write_text(f'#!{BASH}\n[[ $* != *utilization* ]] || {{ {does}; }}\nexec "{other}" "$@"\n')
        path.chmod(0o755)

    return prepare


@pytest.mark.parametrize(
    ("does", "use"),
    [
        ("while true; do echo 'GPU-1a2b3c4d, 41, 9120, [N/A]'; read -rt 0.05 <> <(:); done", (0.41, 9120, None)),
        ("trap '' TERM; kill -STOP $$", None),
        pytest.param("while true; do echo garbage; done", None, marks=pytest.mark.slow),
        pytest.param("exit 9", None, marks=pytest.mark.slow),
    ],
)
def test_whatever_measures_the_gpu_the_job_and_the_end_are_the_same(
    run_machine: RunMachine, does: str, use: tuple[float | None, ...] | None
) -> None:
    found = run_machine(Plan(answer=Answer(), prepare=measure_with(does)))
    assert (found["reason"], found["end"]["step"]) == ("job-done", "after-job"), found["serial"]
    assert found["end"]["gpuUse"] == (dict(zip(("utilAvg", "memMaxMib", "joules"), use, strict=True)) if use else None)
    assert list(found["end"]["phases"]) == steps(found["serial"])


def test_a_machine_that_the_manager_registers_takes_one_job_and_reads_no_key(run_machine: RunMachine) -> None:
    found = run_machine(Plan(answer=Answer()))
    assert (found["reason"], found["end"]["step"]) == ("job-done", "after-job"), found["serial"]
    assert (found["verdict"]["verdict"], found["registered"]) == ("pass", 1)
    assert steps(found["serial"]) == ["config", "driver", "check", "runner", "register", "waiting", "job", "after-job"]
    assert found["allowed"] == [["blob", "environ"], ["credential", "file"]]


@pytest.mark.parametrize("role", ["check", ""])
@pytest.mark.slow
def test_a_runner_that_does_not_start_on_the_image_fails_the_gate_and_registers_nothing(
    run_machine: RunMachine, role: str
) -> None:
    found = run_machine(Plan(role=role, loads=NO_LIBICU))
    assert (found["reason"], found["end"]["step"], found["registered"]) == ("no-tool", "runner", 0), found["serial"]
    words = "GitHub's runner does not start on this image: it was killed by signal 6; its output: Process terminated."
    assert found["detail"].startswith(f"{words} Couldn't find a valid ICU package")


@pytest.mark.slow
def test_a_preemption_during_a_job_ends_it_and_names_it(run_machine: RunMachine) -> None:
    found = run_machine(Plan(does=job(WAITS), at=[(AT_WORK, events.preempt)]))
    assert found["reason"] == "preempted", found["serial"]
    assert found["detail"].endswith("; lost: acme/kernels, run 77, job train")


_SAVES = """
subprocess.run(["gpu-ci-preempt", "--", "sh", "-c", "trap 'sleep 1; echo SAVED; exit 0' TERM; sleep 60 & wait"])
"""


def preempt_armed(*also: Callable[[RunningMachine], None]) -> Callable[[RunningMachine], None]:
    """Return what preempts the machine as soon as its job has armed the notice file."""

    def act(running: RunningMachine) -> None:
        until = time.monotonic() + PATIENCE_SEC
        while not Path("/run/gpu-agent/notice.armed").exists() and time.monotonic() < until:
            time.sleep(0.02)
        time.sleep(0.5)
        for event in (events.preempt, *also):
            event(running)

    return act


@pytest.mark.parametrize("also", [(), pytest.param((events.terminate,), marks=pytest.mark.slow)])
def test_an_armed_job_saves_its_work_before_its_preempted_machine_ends(
    run_machine: RunMachine, also: tuple[Callable[[RunningMachine], None], ...]
) -> None:
    """Google's stop of the machine may reach the agent before the notice."""
    found = run_machine(Plan(does=job(_SAVES), at=[(AT_WORK, preempt_armed(*also))]))
    assert found["reason"] == "preempted", found["serial"]
    assert found["detail"].endswith("; lost: acme/kernels, run 77, job train")
    assert "| SAVED" in found["serial"].splitlines()


def steps(serial: str) -> list[str]:
    return [json.loads(line.split(" ", 1)[1])["step"] for line in serial.splitlines() if "GPU-AGENT-STEP " in line]


PATIENCE_SEC = 30.0


class Twice:
    """A machine that booted twice, and its results."""

    def __init__(self, folder: Path, key: bytes, public_key: RSAPublicKey) -> None:
        self.downloads = folder / "downloads"
        """The file gets a line for each download of the runner. It is a file, because the machine runs in another
        process.
        """
        self._folder, self._key, self._public_key = folder, key, public_key

    def run_machine(self, **plan: Any) -> dict[str, Any]:
        return whole_machine.run_machine(self._folder, self._key, self._public_key, Plan(release=self._release, **plan))

    def _release(self, _: int, archive: bytes) -> tuple[int, bytes, int]:
        with self.downloads.open("a") as file:
            file.write("runner\n")
        return 200, archive, len(archive)


@pytest.fixture
def twice(tmp_path: Path, app_key: bytes, public_key: RSAPublicKey) -> Twice:
    machine.needs("nft", "ip", "curl", "openssl")
    return Twice(tmp_path, app_key, public_key)


def stop_once_it_waits(running: RunningMachine) -> None:
    """Stop the machine after it has published its key, as the manager does if no job needs it."""
    if running.boots > 1:
        return
    until = time.monotonic() + PATIENCE_SEC
    while not running.google.keys() and time.monotonic() < until:
        time.sleep(0.02)
    running.stop()


@pytest.mark.slow
def test_a_machine_that_was_stopped_while_it_waited_boots_again_and_takes_a_job(twice: Twice) -> None:
    found = twice.run_machine(answer=Answer(), boots=2, at=[("register", stop_once_it_waits)])
    assert found["published"] == ["stopped", "job-done"], found["serial"]
    first = ["config", "driver", "check", "runner", "register"]
    assert steps(found["serial"]) == [*first, *first, "waiting", "job", "after-job"]
    assert (found["end"]["step"], found["end"]["stops_pool"]) == ("register", False)
    assert (found["keys"], found["registered"], found["leaked"], found["alive"]) == (2, 1, [], False)
    # The check ran twice and passed. The runner was downloaded once.
    assert (verdicts(found["serial"]), twice.downloads.read_text()) == (["pass", "pass"], "runner\n")


@pytest.mark.slow
def test_a_machine_that_has_had_a_registration_takes_none_at_its_next_boot(twice: Twice) -> None:
    def stop_at_work(running: RunningMachine) -> None:
        if running.boots == 1:
            running.stop()

    def seal_to_the_first(running: RunningMachine) -> None:
        running.google.keys = lambda: ["", *type(running.google).keys(running.google)]  # type: ignore[method-assign]

    found = twice.run_machine(answer=Answer(), boots=2, prepare=seal_to_the_first, at=[("waiting", stop_at_work)])
    assert found["published"] == ["stopped", "used"], found["serial"]
    assert (found["registered"], verdicts(found["serial"]), found["leaked"]) == (1, ["pass"], [])


def verdicts(serial: str) -> list[str]:
    said = [line.split(" ", 1)[1] for line in serial.splitlines() if line.startswith("SMOKE-RESULT ")]
    return [json.loads(base64.b64decode(each))["verdict"] for each in said]


@pytest.mark.slow
def test_a_stop_of_the_machine_reaches_the_job_and_github_before_the_network_is_down(run_machine: RunMachine) -> None:
    found = run_machine(Plan(does=job(WAITS), at=[(AT_WORK, events.terminate)]))
    assert found["reason"] == "stopped", found["serial"]
    assert (found["end"]["step"], found["end"]["job"]["run"]) == ("job", 77)
    assert found["published"] == ["stopped"]


@pytest.mark.slow
def test_systemd_switches_a_machine_off_whose_boot_script_is_killed(
    tmp_path: Path, app_key: bytes, public_key: RSAPublicKey
) -> None:
    """The script is the main process of the agent's unit, so the agent ends with it and cannot report why."""
    plan = Plan(does=job(WAITS), at=[(AT_WORK, events.kill_boot_script)])
    found = whole_machine.run_machine(tmp_path, app_key, public_key, plan)
    assert (found["alive"], found["off by systemd"], found["end"]) == (False, True, None), found["serial"]


TORCH = "2.13.0"


def host_image(running: RunningMachine, *, installs: bool, has_runner: bool = True, has_torch: bool = True) -> None:
    """Put the runner and torch where provision.sh puts them. The configuration is that of a pool or a check machine."""
    config = json.loads(running.google.attributes["gpu-agent-config"])
    config |= {"installs": installs, "torch": TORCH}
    config["runner"]["installs"] = installs
    running.google.attributes["gpu-agent-config"] = json.dumps(config)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0755", "own", "/opt"], check=True)
    if has_runner:
        home = Path("/opt/actions-runner", runner.VERSION)
        (home / "bin").mkdir(parents=True)
        (home / "externals").mkdir()
        listener = home / "bin" / "Runner.Listener"
        listener.write_text(runner.listener(machine.open_python(), running.plan.does).content)
        listener.chmod(0o755)
        (home / MARKER).write_text(config["runner"]["sha256"]["x64"] + "\n")
    # The python3 of the image has no torch, and pip would write a line.
    torch = running.folder / "torch"
    torch.rename(running.folder / "installed")
    if has_torch:
        folder = running.folder / "state" / "torch"
        (folder / "bin").mkdir(parents=True)
        python = folder / "bin" / "python"
        python.write_text(f'#!/bin/sh\nPYTHONPATH="{running.folder}/installed" exec "{machine.open_python()}" "$@"\n')
        python.chmod(0o755)
        (folder / _INSTALLED).write_text(TORCH)


@pytest.mark.parametrize("role", ["", pytest.param("check", marks=pytest.mark.slow)])
def test_a_boot_from_a_host_image_asks_for_no_download(run_machine: RunMachine, role: str) -> None:
    asked: list[int] = []

    def release(number: int, archive: bytes) -> tuple[int, bytes, int]:
        asked.append(number)
        return 200, archive, len(archive)

    found = run_machine(
        Plan(
            role=role,
            does=job(),
            answer=Answer(),
            release=release,
            prepare=lambda running: host_image(running, installs=False),
        )
    )
    assert found["reason"] == ("rehearsed" if role else "job-done"), found["serial"]
    assert asked == []
    lines = found["serial"].splitlines()
    assert [line for line in lines if "torch" in line] == [
        f"gpu-ci: the image has no torch; torch {TORCH} was installed by an earlier boot"
    ]
    assert not [line for line in lines if "pip" in line or "apt" in line]


SEEDS = [
    2,
    *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, *range(3, 13))),
    *(pytest.param(seed, marks=pytest.mark.many_boots) for seed in range(13, 501)),
]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_machine_that_meets_any_mixture_of_faults_ends_as_it_should(
    tmp_path: Path, app_key: bytes, public_key: RSAPublicKey, seed: int
) -> None:
    machine.needs("nft", "ip", "curl", "openssl")
    met = random_machine(seed)
    found = whole_machine.run_machine(tmp_path, app_key, public_key, met.plan)
    assert met.broken(found) == [], f"{met.faults}\n{found['serial']}"
