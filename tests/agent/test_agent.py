"""The order of the agent's steps, with small fakes of its dependencies: what follows what, and what is undone."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from gpu_agent.agent import Agent
from gpu_agent.channel import Ending
from gpu_agent.config import Config, GithubConfig, RunnerConfig
from gpu_agent.dependencies import Dependencies
from gpu_agent.host import BlockedAddresses, Notice
from gpu_agent.machine.commands import Machine
from gpu_agent.outcomes import AgentExit
from gpu_agent.report import Verdict

from tests.agent.fakes.boot import config
from tests.agent.fakes.clock import FakeClock

GITHUB = {
    "owner": "example-org",
    "app_id": "7",
    "installation_id": 8,
    "private_key": "projects/example-ci/secrets/github-app-key",
    "labels": ["gpu", "l4"],
}
RUNNER = {"version": "2.336.0", "sha256": {"x64": "00"}, "idle_sec": 100, "register_sec": 300}
JOB = {"repository": "example-org/app", "run_id": "77", "job": "test"}


class Registration(NamedTuple):
    runner_id: int = 5
    jitconfig: str = "blob"


class Life:
    """Fakes of everything around the agent. `did` has the calls in order, and `fail` the calls that fail."""

    state: Path
    late_job_sec = 60.0

    def __init__(self, *, role: str | None = None, registers: bool = True, by_manager: bool = False) -> None:
        self.did: list[str] = []
        self.fail: dict[str, AgentExit] = {}
        self.job: dict[str, str] | None = dict(JOB)
        self.ended: tuple[str, str] | None = None
        self.removed = True
        self.check_takes_sec = 0
        self.verdict = Verdict("pass", 0, "1 x NVIDIA L4 computes")
        self.unfit_before = self.unfit_after = ""
        self.told: Callable[[Notice], None] | None = None
        self.clock = FakeClock()
        own: dict[str, Any] = {"github": GITHUB, "runner": RUNNER} if registers else {}
        if by_manager:
            own = {"registered_by": "manager", "runner": RUNNER}
        self.attributes: dict[str, str | None] = {
            "gpu-agent-config": json.dumps(config(**own)),
            "gpu-smoke-pyz": "zip",
            "gpu-ci-role": role,
        }
        self.cut = BlockedAddresses((), ())

    def does(self, what: str) -> None:
        self.did.append(what)
        if what in self.fail:
            raise self.fail[what]

    # The methods of the host, the channel, GitHub and the runner.
    def name(self) -> str:
        return "l4-x7k2-42"

    def attribute(self, key: str) -> str | None:
        return self.attributes.get(key)

    def awaited_attribute(self, key: str, deadline: float) -> str | None:
        raise AssertionError

    def publish(self, key: str, value: str, within_sec: float = 15, *, is_public_key: bool = False) -> None: ...

    def log(self, severity: str, message: str, within_sec: float, **fields: Any) -> None: ...

    def power_off(self) -> None: ...

    def notice(self, timeout_sec: float) -> Notice | None:
        threading.Event().wait(timeout_sec)
        return None

    def secret(self, name: str, deadline: float, grant_sec: float) -> bytes:
        self.does(f"secret {name}")
        self.grant_sec = grant_sec
        return b"key"

    def rehearse(self, deadline: float) -> None:
        self.does("rehearse")

    def register(self, name: str, runner: RunnerConfig, deadline: float) -> Registration:
        self.does(f"register {name}")
        return Registration()

    def remove(self, runner_id: int, deadline: float) -> bool:
        self.does(f"remove {runner_id}")
        return self.removed

    def wait(self, until: float) -> tuple[str, str] | None:
        self.does("wait")
        return self.ended

    def finish(self, named: Callable[[Mapping[str, str]], None]) -> tuple[str, str]:
        self.does("finish")
        named(self.job or {})
        return "job-done", "it ended with code 0"

    def gpu_problem(self) -> str:
        self.does("look after")
        return self.unfit_after

    def interrupt(self) -> None:
        self.does("interrupt")

    def check(self, config: Config, archive: str | None, machine: Machine, deadline: float) -> Verdict:
        self.does(f"check {archive} for {deadline - self.clock.now():.0f} s")
        self.clock.sleep(self.check_takes_sec)
        return self.verdict

    def start(self, jitconfig: str) -> Life:
        self.does(f"start {jitconfig}")
        return self

    def look(self) -> str:
        self.does("look")
        return self.unfit_before

    def github(self, config: GithubConfig, key: bytes, clock: object) -> Life:
        assert key == b"key"
        return self

    def broker(self, host: object, clock: object) -> Life:
        self.late_job_sec = 300.0
        return self

    def get_driver(self, config: Config, machine: Machine, deadline: float, restarting: object) -> None:
        self.does("driver")

    def obtain(self, runner: RunnerConfig, deadline: float) -> Path:
        self.does("obtain")
        return Path("/opt/runner")

    def close(self) -> None:
        self.does("close")

    def forget(self) -> None:
        self.does("forget")

    def isolate(self, docker: str, deadline: float) -> None:
        self.does(f"isolate {docker}")

    def try_runner(self, folder: Path, runner: RunnerConfig, deadline: float) -> None:
        self.does(f"try {folder}")

    def run(self, *, is_google: bool = True) -> Ending:
        machine = Machine(self.clock, self.did.append, Path("/none"), self.state, is_google)
        parts = Dependencies(
            self, self.clock, machine, self.get_driver, self.check, self.github, self.broker, self.close, self.obtain,
            self.isolate, self.try_runner, self.look, self.start,
        )  # fmt: skip
        self.agent = Agent(parts, Telling(self))  # type: ignore[arg-type]
        return self.agent.run()

    def end(self) -> tuple[str, str]:
        """Return the reason and the detail of the end."""
        try:
            ending = self.run()
        except AgentExit as ended:
            return ended.end.reason, ended.detail
        return ending.reason, ending.detail


class Telling:
    """A channel that records the messages."""

    def __init__(self, life: Life) -> None:
        self.did = life.did

    def step(self, name: str, within_sec: float | None) -> None:
        self.did.append(f"STEP {name} {'for ever' if within_sec is None else f'{within_sec:.0f} s'}")

    def restarting(self, expected: bool) -> None: ...

    def verdict(self, verdict: Verdict) -> None:
        self.did.append(f"VERDICT {verdict.verdict} {verdict.reason}".rstrip())

    def job(self, job: Mapping[str, str]) -> None:
        self.did.append(f"JOB {job['job']}")


@pytest.fixture(autouse=True)
def own_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Return the folder that survives a restart of the machine."""
    monkeypatch.setattr(Life, "state", tmp_path / "state", raising=False)


CHECKED = ["STEP config 180 s", "STEP driver 600 s", "driver", "STEP check 600 s", "check zip for 600 s"]
CHECKED_BY_480 = [line.replace("600", "480") for line in CHECKED]
SERVING, SERVED_BY_480 = ([steps[0], "close", *steps[1:]] for steps in (CHECKED, CHECKED_BY_480))
KEY = ["STEP key 180 s", f"secret {GITHUB['private_key']}"]
CHECK_KEY = ["STEP key 480 s", KEY[1]]
READY = ["STEP runner 300 s", "obtain", "isolate none", "try /opt/runner", "look"]
WAITING = ["STEP register 300 s", "register l4-x7k2-42", "start blob", "STEP waiting 160 s", "wait"]


def test_a_machine_of_the_pool_proves_its_gpu_registers_once_and_takes_one_job() -> None:
    life = Life()
    assert life.end() == ("job-done", "it ended with code 0")
    assert life.did == [
        *SERVING,
        "VERDICT pass",
        *KEY,
        *READY,
        *WAITING,
        "JOB test",
        "forget",
        "STEP job for ever",
        "finish",
        "JOB test",
        "STEP after-job 60 s",
        "look after",
    ]


def test_a_check_machine_rehearses_before_its_verdict_and_registers_nothing() -> None:
    life = Life(role="check")
    assert life.end() == ("rehearsed", "1 x NVIDIA L4 computes")
    assert life.did == [*SERVED_BY_480, *CHECK_KEY, *READY, "STEP register 300 s", "rehearse", "VERDICT pass rehearsed"]


@pytest.mark.parametrize(("role", "grant_sec"), [("check", 420), ("pool", 120)])
def test_a_check_machine_waits_for_a_new_grant_as_long_as_google_says_it_may_take(role: str, grant_sec: int) -> None:
    """The first check of a pool begins right after its grant."""
    life = Life(role=role)
    life.run()
    assert life.grant_sec == grant_sec


def test_what_a_check_leaves_of_a_gates_time_is_all_that_the_rehearsal_takes() -> None:
    """The gate does not read a reason that comes after its deadline."""
    life = Life(role="check")
    life.check_takes_sec = 480
    assert life.end()[0] == "rehearsed"
    assert [line for line in life.did if line.startswith("STEP")][-3:] == [
        "STEP key 120 s",
        "STEP runner 120 s",
        "STEP register 120 s",
    ]


@pytest.mark.parametrize(("check_sec", "rehearsal_sec"), [(1140, 120), (480, 120), (240, 60), (60, 15)])
def test_a_rehearsal_has_two_minutes_or_a_quarter_of_the_time(check_sec: int, rehearsal_sec: int) -> None:
    life = Life(role="check")
    life.attributes["gpu-agent-config"] = json.dumps(config(github=GITHUB, runner=RUNNER, check_sec=check_sec))
    life.check_takes_sec = check_sec - rehearsal_sec
    life.end()
    assert f"check zip for {check_sec - rehearsal_sec} s" in life.did
    assert f"STEP key {rehearsal_sec} s" in life.did


@pytest.mark.parametrize(
    ("reason", "took_sec", "more"),
    [
        ("no-runner", 400, "; smoke.deadlineSec left the check machine less time than runner.registerSec"),
        ("no-runner", 100, ""),
        ("wrong-checksum", 400, ""),
        ("stopped", 400, ""),
    ],
)
def test_a_rehearsal_that_was_short_of_time_says_so(reason: str, took_sec: int, more: str) -> None:
    life = Life(role="check")
    life.check_takes_sec = took_sec
    life.fail["obtain"] = AgentExit(reason, "no answer")
    assert life.end() == (reason, f"no answer{more}")


def test_in_a_sandbox_the_rehearsal_leaves_the_computer_alone() -> None:
    life = Life(role="check")
    life.run(is_google=False)
    assert life.did == [*CHECKED_BY_480, *CHECK_KEY, "STEP register 300 s", "rehearse", "VERDICT pass rehearsed"]


@pytest.mark.parametrize("at", ["obtain", "isolate none", "try /opt/runner", "look"])
def test_a_check_machine_that_could_run_no_runner_fails_its_gate(at: str) -> None:
    life = Life(role="check")
    life.fail[at] = AgentExit("wrong-checksum", "got another archive")
    assert life.end()[0] == "wrong-checksum"
    assert life.did[-1] == at


def test_a_check_machine_that_github_refuses_has_no_passing_verdict() -> None:
    life = Life(role="check")
    life.fail["rehearse"] = AgentExit("refused", "GitHub answered 404")
    assert life.end() == ("refused", "GitHub answered 404")
    assert not any(line.startswith("VERDICT") for line in life.did)


def test_a_check_machine_of_a_pool_that_registers_nothing_is_proven() -> None:
    life = Life(role="check", registers=False)
    assert life.run() == Ending("proven", "1 x NVIDIA L4 computes")
    assert life.did == [*CHECKED, "VERDICT pass proven"]


def test_a_machine_of_a_pool_that_registers_nothing_stays() -> None:
    assert Life(registers=False).run() == Ending("proven", "1 x NVIDIA L4 computes", stays=True)


@pytest.mark.parametrize("role", [None, "check"])
def test_no_key_is_asked_for_before_the_gpu_is_proven(role: str | None) -> None:
    life = Life(role=role)
    life.verdict = Verdict("fail", 1, "GPU 0: wrong numbers", "check-failed")
    assert life.end() == ("check-failed", "GPU 0: wrong numbers")
    assert life.did == [*(SERVED_BY_480 if role else SERVING), "VERDICT fail check-failed"]


def test_a_driver_that_does_not_come_is_the_end() -> None:
    life = Life()
    life.fail["driver"] = AgentExit("no-driver", "nvidia-smi does not answer")
    assert life.end() == ("no-driver", "nvidia-smi does not answer")
    assert life.did == SERVING[:4]


@pytest.mark.parametrize("at", ["obtain", "isolate none", "try /opt/runner", "look"])
def test_github_hears_of_no_runner_before_the_machine_is_ready_for_a_job(at: str) -> None:
    life = Life()
    life.fail[at] = AgentExit("not-isolated", "the socket of Docker is open")
    assert life.end()[0] == "not-isolated"
    assert life.did[-1] == at


def test_a_gpu_that_is_not_fit_takes_no_job() -> None:
    life = Life()
    life.unfit_before = "GPU 0: Xid 79"
    assert life.end() == ("gpu-unhealthy", "GPU 0: Xid 79")
    assert life.did[-1] == "look"


def test_a_gpu_that_a_job_left_unfit_is_the_reason_the_machine_ends_with() -> None:
    life = Life()
    life.unfit_after = "GPU 0: memory is in use"
    assert life.end() == ("gpu-unhealthy", "GPU 0: memory is in use")
    assert "interrupt" not in life.did


def test_a_runner_that_cannot_be_started_is_taken_from_github_again() -> None:
    life = Life()
    life.fail["start blob"] = AgentExit("runner-failed", "no such file")
    assert life.end() == ("runner-failed", "no such file")
    assert life.did[-1] == "remove 5"


def test_a_failure_of_the_agents_own_leaves_no_runner_at_github_either() -> None:
    life = Life()
    life.fail["start blob"] = OSError("no such file")  # type: ignore[assignment]
    with pytest.raises(OSError, match="no such file"):
        life.run()
    assert life.did[-1] == "remove 5"


def test_a_machine_without_a_job_goes_and_github_forgets_it_first() -> None:
    life = Life()
    life.job = None
    assert life.end() == ("idle", "no job came within 100 s")
    assert life.did[-4:] == ["wait", "remove 5", "interrupt", "remove 5"]


def test_a_job_that_comes_at_the_last_moment_is_not_cut_off() -> None:
    """GitHub refuses to remove a runner that has a job. The runner itself learns of the job a little later."""
    life = Life()
    life.job, life.removed = None, False
    wait = life.wait

    def late(until: float) -> tuple[str, str] | None:
        if "remove 5" in life.did:
            life.job = dict(JOB)
        return wait(until)

    life.wait = late  # type: ignore[method-assign]
    assert life.end() == ("job-done", "it ended with code 0")
    assert "interrupt" not in life.did


@pytest.mark.parametrize("reason", ["runner-deprecated", "runner-failed"])
def test_a_runner_that_ends_without_a_job_names_why(reason: str) -> None:
    life = Life()
    life.job, life.ended = None, (reason, "its last words")
    assert life.end() == (reason, "its last words")
    assert life.did[-2:] == ["interrupt", "remove 5"]


def test_a_stop_while_it_waits_interrupts_the_runner_and_takes_it_from_github() -> None:
    life = Life()
    life.job = None
    life.fail["wait"] = AgentExit("stopped", "the machine received a stop signal")
    assert life.end() == ("stopped", "the machine received a stop signal")
    assert life.did[-3:] == ["wait", "interrupt", "remove 5"]


def test_a_preemption_during_a_job_interrupts_it_and_says_which_job_was_lost() -> None:
    life = Life()
    life.fail["finish"] = AgentExit("stopped", "the machine received a stop signal")
    finish = life.finish

    def taken(named: Callable[[Mapping[str, str]], None]) -> tuple[str, str]:
        life.agent._ends_machine(Notice("preempted", "Google takes the machine away"))
        return finish(named)

    life.finish = taken  # type: ignore[method-assign]
    assert life.end() == ("preempted", "Google takes the machine away; lost: example-org/app, run 77, job test")
    assert life.did[-3:] == ["finish", "interrupt", "JOB test"]


def test_maintenance_is_told_early_enough_for_a_job_that_runs_and_ends_a_machine_without_one() -> None:
    life = Life()
    told: list[bool] = []
    finish, wait = life.finish, life.wait
    notice = Notice("maintenance", "the host is to be maintained")

    def waiting(until: float) -> tuple[str, str] | None:
        job, life.job = life.job, None
        told.append(life.agent._ends_machine(notice))
        life.job = job
        return wait(until)

    def at_work(named: Callable[[Mapping[str, str]], None]) -> tuple[str, str]:
        told.append(life.agent._ends_machine(notice))
        told.append(life.agent._ends_machine(Notice("preempted", "Google takes the machine away")))
        return finish(named)

    life.wait, life.finish = waiting, at_work  # type: ignore[method-assign]
    assert life.end()[0] == "job-done"
    assert told == [True, False, True]


def test_a_stop_over_which_pythons_own_code_fails_is_a_stop() -> None:
    life = Life()
    life.job = None

    def stopped_in_between(until: float) -> tuple[str, str] | None:
        try:
            raise AgentExit("stopped", "the machine received a stop signal")
        except AgentExit:
            raise KeyError("limbo")  # noqa: B904 - as threading.Thread.start does

    life.wait = stopped_in_between  # type: ignore[method-assign]
    assert life.end() == ("stopped", "the machine received a stop signal")
    assert life.did[-2:] == ["interrupt", "remove 5"]


def test_an_agent_that_fails_beside_a_runner_leaves_none() -> None:
    life = Life()
    life.job = None
    life.wait = lambda until: [][1]  # type: ignore[method-assign]
    with pytest.raises(IndexError):
        life.run()
    assert life.did[-2:] == ["interrupt", "remove 5"]


def test_a_preemption_before_there_is_a_runner_is_named_too() -> None:
    life = Life()
    life.fail["obtain"] = AgentExit("stopped", "the machine received a stop signal")
    obtain = life.obtain

    def taken(runner: RunnerConfig, deadline: float) -> Path:
        life.agent._ends_machine(Notice("maintenance", "the host is to be maintained"))
        return obtain(runner, deadline)

    life.obtain = taken  # type: ignore[method-assign]
    assert life.end() == ("maintenance", "the host is to be maintained")


@pytest.mark.parametrize("role", [None, "check"])
def test_container_optimized_os_is_refused_for_a_runner_already_by_the_check_machine(role: str | None) -> None:
    life = Life(role=role)
    life.attributes["gpu-agent-config"] = json.dumps(config(github=GITHUB, runner=RUNNER, driver={"source": "cos"}))
    assert life.end()[0] == "no-config"
    assert life.did == CHECKED[:1]


def test_on_a_computer_that_is_no_machine_of_google_no_runner_is_started() -> None:
    life = Life()
    with pytest.raises(AgentExit, match="not-isolated: runners start only on Compute Engine VMs"):
        life.run(is_google=False)
    assert life.did[-1] == "VERDICT pass"


def test_a_machine_that_is_started_again_after_a_runner_takes_no_second_job() -> None:
    assert Life().end()[0] == "job-done"
    again = Life()
    assert again.end() == ("used", "a runner was started on this disk before")
    # Processes of its job may run by now. Their access is blocked before the machine reports its end.
    assert again.did == [*CHECKED[:1], "close"]


def test_a_machine_whose_runner_went_without_a_job_may_be_started_again() -> None:
    idle = Life()
    idle.job = None
    assert idle.end()[0] == "idle"
    assert Life().end()[0] == "job-done"


def test_a_machine_whose_runner_may_still_get_a_job_is_used() -> None:
    left = Life()
    left.job, left.removed, left.ended = None, False, ("runner-failed", "it ended with an error")
    assert left.end()[0] == "runner-failed"
    assert Life().end()[0] == "used"


def test_a_machine_that_never_came_to_a_runner_may_be_started_again() -> None:
    refused = Life()
    refused.fail["register l4-x7k2-42"] = AgentExit("github-unreachable", "no answer")
    assert refused.end()[0] == "github-unreachable"
    assert Life().end()[0] == "job-done"


# Pools whose runners the manager registers.
BROKERED = ["STEP register 300 s", "register l4-x7k2-42", "start blob", "STEP waiting 400 s", "wait"]


def test_where_the_manager_registers_a_machine_reads_no_key() -> None:
    life = Life(by_manager=True)
    assert life.end() == ("job-done", "it ended with code 0")
    assert life.did[: len(SERVING) + 1 + len(READY) + len(BROKERED)] == [*SERVING, "VERDICT pass", *READY, *BROKERED]
    assert not any(line.startswith("secret") for line in life.did)


def test_fetching_the_runner_takes_nothing_of_the_time_for_the_managers_answer() -> None:
    life = Life(by_manager=True)
    life.obtain = lambda runner, deadline: (life.clock.sleep(250), Path("/opt/runner"))[1]  # type: ignore[method-assign]
    life.end()
    assert "STEP register 300 s" in life.did


def test_a_check_machine_shows_that_it_could_be_registered_and_reads_no_key() -> None:
    life = Life(role="check", by_manager=True)
    assert life.end() == ("rehearsed", "1 x NVIDIA L4 computes")
    assert life.did == [*SERVED_BY_480, *READY, "STEP register 300 s", "rehearse", "VERDICT pass rehearsed"]


def test_an_idle_machine_leaves_its_runner_to_the_manager_first_and_takes_no_second_one() -> None:
    """The machine cannot ask GitHub if a job has just been assigned, so it waits longer than the manager does."""
    life = Life(by_manager=True)
    life.job, life.removed = None, False
    assert life.end() == ("idle", "no job came within 100 s")
    assert life.did[-5:] == ["wait", "remove 5", "wait", "interrupt", "remove 5"]
    again = Life(by_manager=True)
    assert again.end()[0] == "used"


def test_a_machine_that_was_registered_before_takes_no_second_registration() -> None:
    """A fault ended its first boot after the registration and before the start of the runner."""
    life = Life(by_manager=True)
    life.attributes["gpu-agent-registration"] = "sealed to a key of the first boot"
    assert life.end() == ("used", "a runner was registered for this machine before")
    assert life.did == SERVING[:2]
