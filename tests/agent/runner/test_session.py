"""The runner with its hooks: the reason for which the machine ends, before and after a job."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from ipaddress import ip_network
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from gpu_agent.clock import Clock
from gpu_agent.config import RunnerConfig
from gpu_agent.github.registration import Registration
from gpu_agent.machine.gpu_health import Problem
from gpu_agent.machine.gpu_use import Sampler
from gpu_agent.machine.system import PATH
from gpu_agent.outcomes import OUTCOMES
from gpu_agent.runner import session
from gpu_agent.runner.hooks import Job
from gpu_agent.runner.session import _CODES, JIT_VARIABLE, RunnerSetup, StartedRunner, without_updates
from gpu_ci.kubernetes.gpu_namespace import _NOT_PUBLIC, _within

from tests.agent.fakes import machine, runner
from tests.agent.fakes.isolated import BLOCKED
from tests.agent.fakes.runner import (
    BLOB,
    FOREVER,
    HOOKS,
    RUN,
    SECRET,
    diag,
    long_enough,
    processes_of_the_user,
    start_runner,
    wait_for_line,
)

TRAIN = Job("acme/kernels", "77", "1", "train", "ci")


def started(
    does: str, job: Job | None = None, refused: Problem | None = None, *, other_run: bool = False
) -> StartedRunner:
    """Start the fake runner with this code, and hooks that know this job."""
    nothing = cast(Any, None)
    hooks = cast(Any, SimpleNamespace(job=job, refused=refused, is_of_another_run=other_run, close=lambda: None))
    sampler = Sampler(nothing, (), Clock())
    return StartedRunner(start_runner(does), hooks, nothing, nothing, nothing, Clock(), sampler, nothing, 0)


def nobody_asks(_: Mapping[str, str]) -> None:
    pass


def test_the_log_of_a_job_has_the_price_of_its_machine_and_its_gpu_use(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = cast(Any, None)
    given: list[Any] = []
    monkeypatch.setattr(session, "Hooks", lambda *args, **_: given.extend(args) or SimpleNamespace(environment={}))
    monkeypatch.setattr(session, "Running", lambda *_: None)
    monkeypatch.setattr(session, "NoticeFile", lambda *_: SimpleNamespace(environment={}))
    monkeypatch.setattr(RunnerSetup, "_readable_agent", lambda _: None)
    monkeypatch.setattr(session.gpu_use, "summary", lambda *_: "GPU use 41%")
    setup = RunnerSetup(nothing, cast(Any, SimpleNamespace(up_sec=lambda: 1800.0)), Clock(), print)
    setup._isolation = cast(Any, SimpleNamespace(user=None))
    setup._root, setup._gpus = Path(), cast(Any, SimpleNamespace(memory_mib=()))
    setup.start(Registration(7, "secret", 0.85, "standard"))
    price = "GPU machine: 30 min, about 0.42 USD (0.85 USD per hour, standard); "
    assert given[-2]() == f"{price}GPU use 41%"


@pytest.mark.parametrize("public", [True, False])
def test_jobs_of_a_public_pool_are_isolated_from_every_network_that_a_cloud_may_have(
    public: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ranges are those of a namespace on a cluster, whose pods reach public addresses only."""
    given: list[Any] = []
    monkeypatch.setattr(session.network_isolation, "isolate", lambda *args: given.extend(args))
    setup = RunnerSetup(BLOCKED, cast(Any, None), Clock(), print)
    setup.isolate(RunnerConfig("2.336.0", {}, public=public), 0)
    networks = [ip_network(each) for each in given[0].networks]
    open_ranges = [each for each in _NOT_PUBLIC if not any(_within(each, closed) for closed in networks)]
    assert (open_ranges, given[0]._replace(networks=())) == ([] if public else _NOT_PUBLIC, BLOCKED)


@pytest.mark.parametrize("code", [*_CODES, 8, 99])
@pytest.mark.parametrize("job", [None, TRAIN])
def test_no_exit_code_that_a_job_may_choose_stops_the_pool(
    code: int, job: Job | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job is known from the runner's own line or from its hook."""
    monkeypatch.setattr(session, "_PAUSE_SEC", 0.1)  # The pause before a restart, which two of these codes cause.
    says = "" if job else 'say("Running job: train"); '
    reason, words = machine.inside(lambda: started(f"{says}end({code})", job).finish(nobody_asks))
    assert reason == ("runner-failed" if code else "job-done")
    assert not OUTCOMES[reason].stops_pool
    assert "without a job" not in words
    assert words.startswith(_CODES.get(code, ("", f"it ended with code {code}"))[1])


def test_a_runner_that_github_removed_before_any_job_is_reported_as_such() -> None:
    """The runner writes the lines of actions/runner#4726 and exits with 0."""
    gone = "The runner no longer exists on the server. Cleaning up local configuration."
    reason, text = machine.inside(lambda: started(f'say("{gone}"); end(0)').wait(long_enough()))
    assert reason == "runner-failed"
    assert text.startswith("it ended without a job; its last output: ")
    assert gone in text


@pytest.mark.parametrize(("fault", "named"), [("Xid 79", "Xid 79"), ("", "in use")])
def test_a_job_that_the_hook_refused_is_reported_as_a_gpu_fault(fault: str, named: str) -> None:
    """The job has not begun, so nothing of it causes the problem."""
    ended = machine.inside(lambda: started("end(7)", TRAIN, Problem("GPU 0 is lost", fault)).finish(nobody_asks))
    assert ended == ["gpu-fault", f"{named}: the job was refused: GPU 0 is lost"]


@pytest.mark.parametrize(
    ("line", "failed"),
    [
        ("2026-11-28 10:00:00Z: Job train completed with result: Failed", True),
        ("2026-11-28 10:00:00Z: Job train completed with result: Canceled", False),
        ("2026-11-28 10:00:00Z: Job of completed with result: Failed completed with result: Succeeded", False),
        ("train completed with result: Failed", False),
    ],
)
def test_the_runners_own_line_says_if_the_job_failed(line: str, failed: bool) -> None:
    def work() -> bool:
        run = started(f"say({line!r}); end(0)", TRAIN)
        run.finish(nobody_asks)
        return run.job_failed

    assert machine.inside(work) is failed


def test_a_job_of_another_run_is_ended_before_its_first_step() -> None:
    """The runner would run a step with `if: always()` after a hook that failed."""
    began = time.monotonic()
    does = f"signal.signal(signal.SIGINT, lambda *_: end(0)); say('ready')\n{FOREVER}"
    ended = machine.inside(lambda: started(does, TRAIN, other_run=True).finish(nobody_asks))
    assert ended == ["job-refused", "acme/kernels run 77 attempt 1 is not the approved run"]
    assert time.monotonic() - began < 30


def test_a_runner_without_a_job_is_waited_for_until_the_deadline_and_then_ends_on_sigint() -> None:
    def work() -> list[object]:
        running = start_runner(
            f"signal.signal(signal.SIGINT, lambda *_: end(0)); say('ready')\n{FOREVER}", lines.append
        )
        wait_for_line(lines, "| ready")
        waited = running.wait(Clock().now() + 0.2)
        running.interrupt(30)
        return [waited, running.job_seen.is_set(), running.wait(long_enough()), processes_of_the_user()]

    lines: list[str] = []
    assert machine.inside(work) == [None, False, ["ended", "it ended normally"], 0]


def test_only_the_listener_is_interrupted_and_stops_its_worker_itself() -> None:
    def work() -> str:
        child = "import signal, time; signal.signal(signal.SIGINT, lambda *_: open('_diag/hit', 'w')); "
        child += "print('ready', flush=True); time.sleep(60)"
        does = f"subprocess.Popen([sys.executable, '-c', {child!r}])\n"
        does += f"signal.signal(signal.SIGINT, lambda *_: end(0))\n{FOREVER}"
        running = start_runner(does, lines.append)
        wait_for_line(lines, "| ready")
        running.interrupt(30)
        return ",".join(sorted(path.name for path in (RUN / "runner" / "_diag").iterdir()))

    lines: list[str] = []
    assert machine.inside(work) == "starts"


def test_a_runner_that_does_not_listen_is_killed_with_all_that_its_job_left() -> None:
    """The process that the job left has its own session, and forks as fast as it is killed."""

    def work() -> list[object]:
        orphan = "import os, time\nwhile True:\n    if os.fork(): os._exit(0)\n    time.sleep(0.001)"
        does = "signal.signal(signal.SIGINT, signal.SIG_IGN)\nsay('ready')\n"
        does += f"subprocess.Popen([sys.executable, '-c', {orphan!r}], start_new_session=True)\n{FOREVER}"
        running = start_runner(does, lines.append)
        wait_for_line(lines, "| ready")
        while processes_of_the_user() < 2:
            time.sleep(0.01)
        running.interrupt(0.2)
        left = processes_of_the_user()
        ended = running.wait(long_enough())
        assert ended is not None
        return [ended.reason, left]

    lines: list[str] = []
    assert machine.inside(work) == ["runner-failed", 0]


def test_the_runners_output_is_redacted_before_it_is_truncated() -> None:
    """A secret that is cut first would be only half a secret, which no longer looks like one."""

    def work() -> list[object]:
        lines: list[str] = []
        does = "say('x ' * 140 + 'MIIE/wIBAAKC1QEA' * 4); say('x ' * 490 + 'MIIE/wIBAAKC1QEA' * 4)\n"
        does += "say('MIIEowIBAAKCAQEA' * 4); say('kJ8s/w=='); end(1)"
        ended = start_runner(does, lines.append).wait(long_enough())
        assert ended is not None
        return [lines, ended.detail]

    lines, words = machine.inside(work)
    assert lines[1:5] == [
        "| " + "x " * 140 + "[redacted]",
        "| " + "x " * 490 + "[redacted]",
        "| [redacted]",
        "| [redacted]",
    ]
    assert ("MII" in words, "kJ8" in words) == (False, False)


def test_the_runner_dies_with_the_agent() -> None:
    def work() -> list[int]:
        reader, writer = os.pipe()
        agent = os.fork()
        if agent == 0:
            lines: list[str] = []
            start_runner(f"say('ready')\n{FOREVER}", lines.append)
            wait_for_line(lines, "| ready")
            os.write(writer, str(processes_of_the_user()).encode())
            os.kill(os.getpid(), 9)
        alive = int(os.read(reader, 10))
        os.waitpid(agent, 0)
        deadline = time.monotonic() + 20
        while processes_of_the_user() and time.monotonic() < deadline:
            time.sleep(0.02)
        return [alive, processes_of_the_user()]

    assert machine.inside(work) == [1, 0]


def test_no_output_of_a_job_looks_like_a_line_of_the_agent() -> None:
    """A job has the same user as its Listener, and may write to the same output."""
    words = ["GPU-AGENT-END {}", "SMOKE-RESULT e30="]

    def work() -> list[str]:
        lines: list[str] = []
        start_runner("".join(f"say({word!r}); " for word in words) + "end(0)", lines.append).wait(long_enough())
        return lines

    assert machine.inside(work) == [f"| {word}" for word in ("Listening for Jobs", *words, "exiting with 0")]


def test_the_registration_is_in_no_command_line_and_no_file_on_a_disk() -> None:
    def work() -> dict[str, Any]:
        lines: list[str] = []
        running = start_runner(f"say('ready')\n{FOREVER}", lines.append)
        wait_for_line(lines, "| ready")
        secrets = (SECRET, BLOB, without_updates(BLOB))
        found = [
            f"{process.name}/{name}"
            for process in Path("/proc").iterdir()
            if process.name.isdigit()
            for name in ("cmdline", "environ")
            if any(secret.encode() in _read(process / name) for secret in secrets)
        ]
        files = [runner.files_with(secret, Path(folder)) for secret in secrets for folder in ("/home", "/run")]
        mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
        said = {
            "found": found == [f"{running._process.pid}/environ"],
            "files": [name for some in files for name in some],
            "kind": [words[2] for words in mounts if words[1] == "/run/gpu-agent/runner"],
            "log": list(lines),
        }
        running.interrupt(0)
        return said

    said = machine.inside(work)
    assert said["found"]
    assert said["files"] == ["/run/gpu-agent/runner/.credentials"]
    assert said["kind"] == ["tmpfs"]
    assert said["log"] == ["| Listening for Jobs", "| ready"]


def test_the_runner_gets_exactly_this_environment_and_no_way_to_more_rights() -> None:
    """The environment has HOME and similar variables, the registration, and those of the isolation and the hooks. It
    has nothing of the agent's own.
    """

    def work() -> list[object]:
        os.environ["AGENT_SECRET"] = SECRET
        does = '(root / "_diag" / "env").write_text(json.dumps(dict(os.environ)))\n'
        does += '(root / "_diag" / "status").write_text(Path("/proc/self/status").read_text()); end(0)'
        start_runner(does).wait(long_enough())
        status = dict(line.split(":\t", 1) for line in diag("status").splitlines())
        rights = [status[name].strip() for name in ("NoNewPrivs", "CapInh", "CapPrm", "CapEff", "Groups")]
        return [json.loads(diag("env")), rights, int(status["Uid"].split()[0]) > 0]

    environment, rights, is_somebody = machine.inside(work)
    environment.pop("LC_CTYPE", None)  # The Python of the fake runner adds this variable.
    assert environment == {
        "PATH": PATH,
        "LANG": "C.UTF-8",
        "HOME": "/home/gpu-runner",
        "USER": "gpu-runner",
        "LOGNAME": "gpu-runner",
        "SHELL": "/bin/bash",
        "ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE": "1",
        "DOCKER_HOST": "unix:///run/docker.sock",
        **HOOKS,
    }
    assert JIT_VARIABLE not in environment
    assert rights == ["1", "0" * 16, "0" * 16, "0" * 16, ""]
    assert is_somebody


def test_the_programs_cannot_be_changed_and_the_jobs_files_lie_on_the_disk() -> None:
    def work() -> list[object]:
        does = "said = []\n"
        does += "for path in (Path(__file__), root / 'bin' / 'new', root / 'externals' / 'node'):\n"
        does += "    try: path.open('a').close()\n"
        does += "    except OSError as error: said.append(error.errno)\n"
        does += "(root / '_work' / 'checkout').write_text('of the job')\n"
        does += "(root / '_diag' / 'said').write_text(str(said)); end(0)"
        start_runner(does).wait(long_enough())
        kept = Path("/home/gpu-runner/work/checkout").read_text()
        return [diag("said"), kept, oct((RUN / "runner").stat().st_mode & 0o777), oct(RUN.stat().st_mode & 0o777)]

    assert machine.inside(work) == ["[13, 30, 13]", "of the job", "0o700", "0o755"]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""  # The process has ended.
