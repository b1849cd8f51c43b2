"""The order of the agent's steps, with small fakes of its dependencies: what follows what, and what is undone."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import pytest
from gpu_agent import agent
from gpu_agent.agent import Agent, Dependencies, listen
from gpu_agent.build.workspace import BuildRequest
from gpu_agent.channel import Ending
from gpu_agent.config import Config, GithubConfig, RunnerConfig, parse
from gpu_agent.host import BlockedAddresses, Notice
from gpu_agent.machine.commands import Machine
from gpu_agent.machine.gpu_health import Problem
from gpu_agent.machine.gpu_use import GpuUse
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


class Fakes:
    """Fakes of everything around the agent. `did` has the calls in order, and `fail` the calls that fail."""

    state: Path
    object = b""
    """The object with the request of a build."""
    late_job_sec = 60.0

    def __init__(self, *, role: str | None = None, registers: bool = True, by_manager: bool = False) -> None:
        self.did: list[str] = []
        self.fail: dict[str, AgentExit] = {}
        self.job: dict[str, str] | None = dict(JOB)
        self.ended: tuple[str, str] | None = None
        self.removed = True
        self.check_takes_sec = 0
        self.verdict = Verdict("pass", 0, "1 x NVIDIA L4 computes")
        self.unfit_before: Problem | None = None
        self.unfit_after: Problem | None = None
        self.job_failed = False
        self.verdict_after = self.verdict
        self.recheck_takes_sec = 0
        self.armed_sec = 0.0
        self.announced: Notice | None = None
        self.on_notice: Callable[[Notice], None] | None = None
        self.clock = FakeClock()
        own: dict[str, Any] = {"github": GITHUB, "runner": RUNNER} if registers else {}
        if by_manager:
            own = {"registered_by": "manager", "runner": RUNNER}
        self.attributes: dict[str, str | None] = {
            "gpu-agent-config": json.dumps(config(**own)),
            "gpu-smoke-pyz": "zip",
            "gpu-ci-role": role,
        }
        self.blocked = BlockedAddresses((), ())

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

    def bucket(self, name: str) -> Fakes:
        return self

    def read(self, name: str, sink: BinaryIO, deadline: float, limit_bytes: int) -> None:
        assert name == "request.json"
        sink.write(self.object)

    def notice(self, timeout_sec: float) -> Notice | None:
        if not timeout_sec:
            return self.announced
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

    def gpu_use(self) -> GpuUse | None:
        self.does("measured")
        return GpuUse(0.5, 4, None)

    def gpu_problem(self) -> Problem | None:
        self.does("look after")
        return self.unfit_after

    @property
    def grace_sec(self) -> float:
        return self.armed_sec

    def announce(self, notice: Notice, *, ends: bool) -> None:
        self.does(f"announce {notice.reason}{' the end' if ends else ''}")

    def wait_for_save(self, grace_sec: float) -> None:
        self.does(f"wait {grace_sec:g} s")

    def interrupt(self, most_sec: float) -> None:
        self.does(f"interrupt within {most_sec:g} s")

    def check(self, config: Config, archive: str | None, machine: Machine, deadline: float) -> Verdict:
        self.does(f"check {archive} for {deadline - self.clock.now():.0f} s")
        if "--profile" in config.check_args:
            self.clock.sleep(self.recheck_takes_sec)
            return self.verdict_after
        self.clock.sleep(self.check_takes_sec)
        return self.verdict

    def start(self, registration: Registration) -> Fakes:
        self.does(f"start {registration.jitconfig}")
        return self

    def clean(self, deadline: float) -> None:
        self.does(f"clean within {deadline - self.clock.now():.0f} s")

    def leave(self) -> None:
        self.does("leave")

    def build(self, request: BuildRequest, channel: object, mark: Callable[[], None], cause: object) -> Ending:
        self.does(f"build {' '.join(request.command)}")
        mark()
        return Ending("build-done", "the command ended with exit code 0")

    def look(self) -> Problem | None:
        self.does("look")
        return self.unfit_before

    def github(self, config: GithubConfig, key: bytes, clock: object) -> Fakes:
        assert key == b"key"
        return self

    def broker(self, host: object, clock: object) -> Fakes:
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

    def isolate(self, runner: RunnerConfig, deadline: float) -> None:
        self.does(f"isolate {runner.docker}")

    def try_runner(self, folder: Path, runner: RunnerConfig, deadline: float) -> None:
        self.does(f"try {folder}")

    def run(self, *, is_google: bool = True) -> Ending:
        machine = Machine(self.clock, self.did.append, Path("/none"), self.state, is_google)
        parts = Dependencies(
            self, self.clock, machine, self.get_driver, self.check, self.github, self.broker, self.close, self.obtain,
            self.isolate, self.try_runner, self.look, self.start, self.clean, self.leave, self.build,
        )  # fmt: skip
        self.agent = Agent(parts, RecordingChannel(self))  # type: ignore[arg-type]
        return self.agent.run()

    def end(self) -> tuple[str, str]:
        """Return the reason and the detail of the end."""
        try:
            ending = self.run()
        except AgentExit as ended:
            return ended.end.reason, ended.detail
        return ending.reason, ending.detail


class RecordingChannel:
    """A channel that records the messages."""

    def __init__(self, fakes: Fakes) -> None:
        self.did = fakes.did

    def step(self, name: str, within_sec: float | None) -> None:
        self.did.append(f"STEP {name} {'for ever' if within_sec is None else f'{within_sec:.0f} s'}")

    def restarting(self, expected: bool) -> None: ...

    def verdict(self, verdict: Verdict) -> None:
        self.did.append(f"VERDICT {verdict.verdict} {verdict.reason}".rstrip())

    def job(self, job: Mapping[str, str]) -> None:
        self.did.append(f"JOB {job['job']}")

    def grace(self, grace_sec: float) -> None:
        self.did.append(f"GRACE {grace_sec:g} s")

    def gpu_use(self, use: GpuUse | None) -> None:
        self.did.append(f"USE {use.mem_max_mib if use else None}")


@pytest.fixture(autouse=True)
def state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Return the folder that survives a restart of the machine."""
    monkeypatch.setattr(Fakes, "state", tmp_path / "state", raising=False)


CHECKED = ["STEP config 180 s", "STEP driver 600 s", "driver", "STEP check 600 s", "check zip for 600 s"]
CHECKED_BY_480 = [line.replace("600", "480") for line in CHECKED]
SERVING, SERVED_BY_480 = ([steps[0], "close", *steps[1:]] for steps in (CHECKED, CHECKED_BY_480))
KEY = ["STEP key 180 s", f"secret {GITHUB['private_key']}"]
CHECK_KEY = ["STEP key 480 s", KEY[1]]
READY = ["STEP runner 300 s", "obtain", "isolate none", "try /opt/runner", "look"]
WAITING = ["STEP register 300 s", "register l4-x7k2-42", "start blob", "STEP waiting 160 s", "wait"]


def test_a_machine_of_the_pool_proves_its_gpu_registers_once_and_takes_one_job() -> None:
    fakes = Fakes()
    assert fakes.end() == ("job-done", "it ended with code 0")
    assert fakes.did == [
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
        "measured",
        "USE 4",
        "STEP after-job 60 s",
        "look after",
    ]


@pytest.mark.parametrize("problem", ["", "GPU 0 is lost"])
def test_a_warm_machine_waits_longer_for_its_registration_and_looks_at_its_gpu_again(problem: str) -> None:
    fakes = Fakes(by_manager=True)
    fakes.attributes["gpu-agent-config"] = json.dumps(
        config(registered_by="manager", runner={**RUNNER, "warm_sec": 3600})
    )
    looks = iter((None, Problem(problem) if problem else None))

    def look() -> Problem | None:
        fakes.does("look")
        return next(looks)

    fakes.look = look  # type: ignore[method-assign]
    assert fakes.end()[0] == ("gpu-unhealthy" if problem else "job-done")
    rest = ["remove 5"] if problem else ["start blob", "STEP waiting 400 s"]
    begin = ["STEP register 3900 s", "register l4-x7k2-42", "STEP before-job 60 s", "look", *rest]
    assert fakes.did[fakes.did.index(begin[0]) :][: len(begin)] == begin


PASSED = "it ended with code 0; the GPU passed its check after the failed job"
NO_RESULT = "it ended with code 0; the check of the GPU after the failed job has no result: "


@pytest.mark.parametrize(
    ("code", "takes_sec", "reason", "detail"),
    [
        (0, 0, "job-done", PASSED),
        (1, 0, "gpu-fault", "failed its check after the job: GPU 0: wrong numbers"),
        (4, 0, "gpu-fault", "failed its check after the job: GPU 0: wrong numbers"),
        # The job may have filled the disk, and its files may keep the machine busy.
        (2, 0, "job-done", f"{NO_RESULT}GPU 0: wrong numbers"),
        (4, 60, "job-done", f"{NO_RESULT}GPU 0: wrong numbers"),
    ],
)
def test_after_a_failed_job_the_smoke_check_says_if_the_gpu_is_the_cause(
    code: int, takes_sec: int, reason: str, detail: str
) -> None:
    fakes = Fakes()
    fakes.job_failed, fakes.recheck_takes_sec = True, takes_sec
    if code:
        fakes.verdict_after = Verdict("fail", code, "GPU 0: wrong numbers")
    assert fakes.end() == (reason, detail)
    assert fakes.did[-3:] == ["look after", "STEP recheck 60 s", "check zip for 60 s"]


def test_a_fault_that_the_kernel_names_needs_no_smoke_check() -> None:
    fakes = Fakes()
    fakes.job_failed, fakes.unfit_after = True, Problem("it is gone", "Xid 79")
    assert fakes.end() == ("gpu-fault", "Xid 79: it is gone")
    assert fakes.did[-1] == "look after"


def test_a_check_machine_rehearses_before_its_verdict_and_registers_nothing() -> None:
    fakes = Fakes(role="check")
    assert fakes.end() == ("rehearsed", "1 x NVIDIA L4 computes")
    assert fakes.did == [
        *SERVED_BY_480,
        *CHECK_KEY,
        *READY,
        "STEP register 300 s",
        "rehearse",
        "VERDICT pass rehearsed",
    ]


@pytest.mark.parametrize("role", [None, "check"])
def test_no_key_is_requested_before_the_check_has_passed(role: str | None) -> None:
    fakes = Fakes(role=role)
    fakes.verdict = Verdict("fail", 1, "GPU 0: wrong numbers", "check-failed")
    assert fakes.end() == ("check-failed", "GPU 0: wrong numbers")
    assert fakes.did == [*(SERVED_BY_480 if role else SERVING), "VERDICT fail check-failed"]


@pytest.mark.parametrize("role", [None, "check"])
@pytest.mark.parametrize("at", ["obtain", "isolate none", "try /opt/runner", "look"])
def test_github_hears_of_no_runner_before_the_machine_is_ready_for_a_job(at: str, role: str | None) -> None:
    fakes = Fakes(role=role)
    fakes.fail[at] = AgentExit("not-isolated", "the socket of Docker is open")
    assert fakes.end()[0] == "not-isolated"
    assert fakes.did[-1] == at


def test_a_runner_that_cannot_be_started_is_removed_from_github() -> None:
    fakes = Fakes()
    fakes.fail["start blob"] = AgentExit("runner-failed", "no such file")
    assert fakes.end() == ("runner-failed", "no such file")
    assert fakes.did[-1] == "remove 5"


def test_a_machine_without_a_job_removes_its_runner_and_then_ends() -> None:
    fakes = Fakes()
    fakes.job = None
    assert fakes.end() == ("idle", "no job came within 100 s")
    assert fakes.did[-4:] == ["wait", "remove 5", "interrupt within 18 s", "remove 5"]


def test_a_job_that_comes_at_the_last_moment_is_not_interrupted() -> None:
    """GitHub refuses to remove a runner that has a job. The runner itself learns of the job a little later."""
    fakes = Fakes()
    fakes.job, fakes.removed = None, False
    wait = fakes.wait

    def late(until: float) -> tuple[str, str] | None:
        if "remove 5" in fakes.did:
            fakes.job = dict(JOB)
        return wait(until)

    fakes.wait = late  # type: ignore[method-assign]
    assert fakes.end() == ("job-done", "it ended with code 0")
    assert not [each for each in fakes.did if each.startswith("interrupt")]


def test_maintenance_lets_a_running_job_finish_and_ends_a_machine_without_a_job() -> None:
    fakes = Fakes()
    answers: list[bool] = []
    finish, wait = fakes.finish, fakes.wait
    notice = Notice("maintenance", "the host is to be maintained")

    def waiting(until: float) -> tuple[str, str] | None:
        job, fakes.job = fakes.job, None
        answers.append(fakes.agent._ends_machine(notice))
        fakes.job = job
        return wait(until)

    def at_work(named: Callable[[Mapping[str, str]], None]) -> tuple[str, str]:
        answers.append(fakes.agent._ends_machine(notice))
        answers.append(fakes.agent._ends_machine(Notice("preempted", "Google takes the machine away")))
        return finish(named)

    fakes.wait, fakes.finish = waiting, at_work  # type: ignore[method-assign]
    assert fakes.end()[0] == "job-done"
    assert answers == [True, False, True]
    told = [each for each in fakes.did if each.startswith("announce")]
    assert told == ["announce maintenance the end", "announce maintenance", "announce preempted the end"]


STOPPED = AgentExit("stopped", "the machine received a stop signal")
LOST = "lost: example-org/app, run 77, job test"


@pytest.mark.parametrize(
    ("error", "armed_sec", "announced", "did"),
    [
        # A stop without a notice, and a job that armed nothing, end as before.
        (STOPPED, 10, None, ["interrupt within 18 s"]),
        (STOPPED, 0, "preempted", ["interrupt within 18 s"]),
        (AgentExit("crashed", ""), 10, "preempted", ["interrupt within 18 s"]),
        (
            STOPPED,
            12,
            "preempted",
            ["announce preempted the end", "GRACE 12 s", "wait 12 s", "interrupt within 6 s"],
        ),
    ],
)
def test_only_an_armed_job_gets_time_after_a_notice_that_may_come_after_the_stop(
    error: AgentExit, armed_sec: float, announced: str | None, did: list[str]
) -> None:
    fakes = Fakes()
    fakes.armed_sec, fakes.fail["finish"] = armed_sec, error
    fakes.announced = Notice(announced, "Google takes the machine away") if announced else None
    reason, detail = fakes.end()
    assert reason == ("preempted" if "wait 12 s" in did else error.end.reason)
    assert detail.endswith(LOST)
    assert fakes.did[fakes.did.index("finish") + 1 :] == [*did, "JOB test", "measured", "USE 4"]


@pytest.mark.parametrize("at", ["announce preempted the end", "wait 10 s"])
def test_a_failure_of_the_notice_does_not_keep_the_job_running(at: str) -> None:
    fakes = Fakes()
    fakes.armed_sec, fakes.fail = 10, {"finish": STOPPED, at: OSError("no space")}  # type: ignore[dict-item]
    fakes.announced = Notice("preempted", "now")
    assert fakes.end()[0] == "preempted"
    assert "interrupt within 18 s" in fakes.did


@pytest.mark.parametrize("role", [None, "check"])
def test_container_optimized_os_is_refused_for_a_runner_already_by_the_check_machine(role: str | None) -> None:
    fakes = Fakes(role=role)
    fakes.attributes["gpu-agent-config"] = json.dumps(config(github=GITHUB, runner=RUNNER, driver={"source": "cos"}))
    assert fakes.end()[0] == "no-config"
    assert fakes.did == CHECKED[:1]


def test_a_machine_that_is_started_again_after_a_runner_takes_no_second_job() -> None:
    assert Fakes().end()[0] == "job-done"
    again = Fakes()
    assert again.end() == ("used", "a runner was started on this disk before")
    # Processes of its job may run by now. Their access is blocked before the machine reports its end.
    assert again.did == [*CHECKED[:1], "close"]


def test_a_host_that_is_reused_is_cleaned_before_the_check_of_its_next_machine() -> None:
    def of_reuse() -> Fakes:
        fakes = Fakes(by_manager=True)
        fakes.attributes["gpu-agent-config"] = json.dumps(config(registered_by="manager", runner=RUNNER, reuse=True))
        return fakes

    first, second, third, fails = of_reuse(), of_reuse(), of_reuse(), of_reuse()
    assert first.end()[0] == "job-done"
    assert ("leave" in first.did, [each for each in first.did if "clean" in each]) == (True, [])
    # A fault starts the machine again after its job has begun.
    second.attributes["gpu-agent-registration"] = "sealed"
    assert second.end() == ("used", "a runner was registered for this machine before")
    fails.fail["clean within 300 s"] = AgentExit("not-clean", "find failed")
    assert fails.end() == ("not-clean", "find failed")
    assert third.end()[0] == "job-done"
    assert third.did[:5] == [*CHECKED[:1], "close", "STEP clean 300 s", "clean within 300 s", "STEP driver 600 s"]
    other = Fakes(by_manager=True)
    assert other.end() == ("used", "a runner was started on this disk before")


def test_a_check_machine_shows_that_it_could_be_registered_and_reads_no_key() -> None:
    fakes = Fakes(role="check", by_manager=True)
    assert fakes.end() == ("rehearsed", "1 x NVIDIA L4 computes")
    assert fakes.did == [*SERVED_BY_480, *READY, "STEP register 300 s", "rehearse", "VERDICT pass rehearsed"]


def test_an_idle_machine_leaves_its_runner_to_the_manager_first_and_takes_no_second_one() -> None:
    """The machine cannot ask GitHub if a job has just been assigned, so it waits longer than the manager does."""
    fakes = Fakes(by_manager=True)
    fakes.job, fakes.removed = None, False
    assert fakes.end() == ("idle", "no job came within 100 s")
    assert fakes.did[-5:] == ["wait", "remove 5", "wait", "interrupt within 18 s", "remove 5"]
    again = Fakes(by_manager=True)
    assert again.end()[0] == "used"


def test_a_machine_that_was_registered_before_takes_no_second_registration() -> None:
    """A fault ended its first boot after the registration and before the start of the runner."""
    fakes = Fakes(by_manager=True)
    fakes.attributes["gpu-agent-registration"] = "sealed to a key of the first boot"
    assert fakes.end() == ("used", "a runner was registered for this machine before")
    assert fakes.did == SERVING[:2]


BUILD = {
    "format": 1,
    "bucket": "b",
    "prefix": "builds/1/a-1/",
    "source": "sources/s.tar.gz",
    "source_sha256": "00",
    "source_bytes": 1,
    "command": ["pytest", "-m", "gpu"],
    "timeout_sec": 60,
}


def build_machine(request: dict[str, Any] | None = None) -> Fakes:
    """Return a machine of a build step. Its pool registers no runner."""
    fakes = Fakes(role="build", registers=False)
    fakes.object = json.dumps(BUILD if request is None else request).encode()
    place = {"bucket": "b", "name": "request.json", "sha256": hashlib.sha256(fakes.object).hexdigest()}
    fakes.attributes["gpu-ci-build"] = json.dumps(place)
    return fakes


def test_a_build_machine_closes_its_identity_before_the_check_and_runs_the_command_after_it() -> None:
    fakes = build_machine()
    assert fakes.end() == ("build-done", "the command ended with exit code 0")
    did = [each for each in fakes.did if not each.startswith("STEP")]
    assert did.index("close") < did.index("driver") < did.index("VERDICT pass") < did.index("build pytest -m gpu"), did


def test_a_build_machine_that_starts_again_runs_no_second_command() -> None:
    fakes = build_machine()
    fakes.end()
    assert fakes.end() == ("used", "a runner was started on this disk before")


def test_a_build_machine_refuses_an_altered_request() -> None:
    fakes = build_machine()
    fakes.object += b" "
    assert fakes.end()[0] == "wrong-source"


MAINTENANCE, PREEMPTED = Notice("maintenance", "in an hour"), Notice("preempted", "now")


class AnnouncingHost:
    """A cloud that returns these notices one after the other, and then none."""

    def __init__(self, *answers: Notice | Exception | None, publishes: Exception | None = None) -> None:
        self.answers, self.publishes = list(answers), publishes
        self.published: list[tuple[str, Any]] = []

    def notice(self, _: float) -> Notice | None:
        if not self.answers:
            threading.Event().wait()
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def publish(self, key: str, value: str) -> None:
        self.published.append((key, json.loads(value)))
        if self.publishes:
            raise self.publishes


def notices_until_end(host: AnnouncingHost, monkeypatch: pytest.MonkeyPatch) -> list[Notice]:
    """Return the notices until the machine had to end. The signal that ends it is not sent."""
    received: list[Notice] = []

    def tell(notice: Notice) -> bool:
        received.append(notice)
        return notice is PREEMPTED

    monkeypatch.setattr(agent, "_PAUSE_SEC", 0)
    monkeypatch.setattr(agent.signal, "pthread_kill", lambda *_: None)
    listener = listen(cast(Any, host), tell)
    listener.join(20)
    assert not listener.is_alive()
    return received


def test_a_repeated_notice_is_reported_once_and_the_next_one_too(monkeypatch: pytest.MonkeyPatch) -> None:
    host = AnnouncingHost(MAINTENANCE, MAINTENANCE, None, PREEMPTED)
    assert notices_until_end(host, monkeypatch) == [MAINTENANCE, PREEMPTED]
    assert [value["reason"] for _, value in host.published] == ["maintenance", "preempted"]


@pytest.mark.parametrize("failure", [OSError(), RuntimeError("can't start new thread")])
def test_a_notice_that_cannot_be_published_still_reaches_the_agent(
    failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = AnnouncingHost(MAINTENANCE, PREEMPTED, publishes=failure)
    assert notices_until_end(host, monkeypatch) == [MAINTENANCE, PREEMPTED]


def registering(**given: object) -> str:
    return json.dumps(config(**given))


RUNNER_SETTINGS = {"version": "2.336.0", "sha256": {"x64": "00"}}
GITHUB_SETTINGS = {
    "owner": "example-org",
    "app_id": "7",
    "installation_id": 8,
    "private_key": "projects/example-ci/secrets/github-app-key",
    "labels": ["gpu"],
}


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"registered_by": "manager"}, "registered_by: manager requires runner and excludes github"),
        (
            {"registered_by": "manager", "runner": RUNNER_SETTINGS, "github": GITHUB_SETTINGS},
            "registered_by: manager requires runner and excludes github",
        ),
        (
            {"registered_by": "both", "runner": RUNNER_SETTINGS},
            "registered_by: expected machine or manager, got 'both'",
        ),
        ({"runner": RUNNER_SETTINGS}, "github and runner: must be set together"),
    ],
)
def test_the_settings_of_the_registration_must_be_complete(given: dict[str, object], problem: str) -> None:
    with pytest.raises(AgentExit) as ended:
        parse(registering(**given))
    assert ended.value.detail == f"gpu-agent-config: {problem}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "the machine's metadata has no gpu-agent-config"),
        ("", "the machine's metadata has no gpu-agent-config"),
        ("{", "gpu-agent-config is not a configuration: "),
        ("[" * 100_000, "gpu-agent-config is not a configuration: "),
    ],
)
def test_an_invalid_configuration_ends_the_machine_with_its_mistakes(text: str | None, words: str) -> None:
    with pytest.raises(AgentExit) as ended:
        parse(text)
    assert ended.value.end.reason == "no-config"
    assert ended.value.detail.startswith(words)
