"""The runner's process, with a stand-in for GitHub's: its one job, its ends, and what of its secrets lies where."""

from __future__ import annotations

import base64
import io
import json
import os
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gpu_agent import processes
from gpu_agent import runner as agent_runner
from gpu_agent.clock import Clock
from gpu_agent.config import RunnerConfig
from gpu_agent.isolation import Cage
from gpu_agent.runner import JIT_VARIABLE, Running, without_updates
from gpu_agent.system import PATH, RUNNER_USER, System
from hypothesis import given
from hypothesis import strategies as st

from tests.agent.fakes import machine, runner
from tests.agent.fakes.runner import SECRET, VERSION

CONFIG = RunnerConfig(VERSION, {})
BLOB = runner.jitconfig(AgentName="gpu-1", Ephemeral=True)
HOOKS = {"ACTIONS_RUNNER_HOOK_JOB_STARTED": "/run/gpu-agent/job-started.sh"}
FOREVER = "while True: time.sleep(0.05)"
RUN = Path("/run/gpu-agent")


def begin(does: str, log: Callable[[str], None] = lambda _: None, docker: str = "none") -> Running:
    """A runner that does that; to be called inside a machine of the test's own."""
    tree = Path("/run/tree")
    with tarfile.open(fileobj=io.BytesIO(runner.archive(runner.listener(machine.open_python(), does)))) as tar:
        tar.extractall(tree)  # noqa: S202 - the test's own
    system = System(run_folder=RUN)
    cage = Cage(system.runner_user(), docker, {"DOCKER_HOST": "unix:///run/docker.sock"})
    return Running(tree, CONFIG, BLOB, cage, HOOKS, system, Clock(), log)


def soon() -> float:
    """Long enough for whatever is expected to happen."""
    return Clock().now() + 60


def left_of_the_user() -> int:
    """How many processes it has: the most of some looks, as one look may miss what forks and exits meanwhile."""
    [line] = [line for line in Path("/etc/passwd").read_text().splitlines() if line.startswith(RUNNER_USER + ":")]
    return max(len(list(processes.of(RUNNER_USER, int(line.split(":")[2])))) for _ in range(20))


def diag(name: str) -> str:
    return (RUN / "runner" / "_diag" / name).read_text()


def test_a_runner_takes_its_one_job_and_ends() -> None:
    def work() -> list[object]:
        lines: list[str] = []
        running = begin('say("2026-11-22: Running job: train"); time.sleep(0.3); end(0)', lines.append)
        before = running.wait(soon(), or_job=True)
        seen = running.job_seen.is_set()
        return [before, seen, running.wait(soon()), lines]

    lines = ["Listening for Jobs", "2026-11-22: Running job: train", "exiting with 0"]
    assert machine.inside(work) == [None, True, ["ended", "it ended as it should"], lines]


@pytest.mark.parametrize(
    ("does", "word", "words"),
    [
        ("end(1)", "runner-failed", "it ended with an error that another start does not mend"),
        ("end(3)", "runner-deprecated", "GitHub had it update itself, and its files are not to be changed here"),
        ("end(5)", "runner-failed", "another runner is online with the same registration"),
        ("end(7)", "runner-deprecated", "GitHub takes this version no longer"),
        ("end(99)", "runner-failed", "it ended with code 99"),
        ('say("exiting with 9"); os.kill(os.getpid(), 9)', "runner-failed", "it was killed by signal 9"),
    ],
)
def test_each_way_to_end_is_told_with_the_last_lines(does: str, word: str, words: str) -> None:
    said, text = machine.inside(lambda: begin(does).wait(soon()))
    assert said == word
    assert text.startswith(f"{words}; it said last: Listening for Jobs / exiting with ")


def test_a_runner_without_a_job_is_waited_for_until_the_deadline_and_then_ends_on_sigint() -> None:
    def work() -> list[object]:
        running = begin(f"signal.signal(signal.SIGINT, lambda *_: end(0)); say('ready')\n{FOREVER}", lines.append)
        while "ready" not in lines:
            time.sleep(0.01)
        waited = running.wait(Clock().now() + 0.2)
        running.interrupt(30)
        return [waited, running.job_seen.is_set(), running.wait(soon()), left_of_the_user()]

    lines: list[str] = []
    assert machine.inside(work) == [None, False, ["ended", "it ended as it should"], 0]


def test_only_the_listener_is_interrupted_so_that_it_tells_its_worker_itself() -> None:
    def work() -> str:
        child = "import signal, time; signal.signal(signal.SIGINT, lambda *_: open('_diag/hit', 'w')); "
        child += "print('ready', flush=True); time.sleep(60)"
        does = f"subprocess.Popen([sys.executable, '-c', {child!r}])\n"
        does += f"signal.signal(signal.SIGINT, lambda *_: end(0))\n{FOREVER}"
        running = begin(does, lines.append)
        while "ready" not in lines:
            time.sleep(0.01)
        running.interrupt(30)
        return ",".join(sorted(path.name for path in (RUN / "runner" / "_diag").iterdir()))

    lines: list[str] = []
    assert machine.inside(work) == "starts"


def test_a_runner_that_does_not_listen_is_killed_with_all_that_its_job_left() -> None:
    """The job's orphan has a session of its own, and forks as fast as it is killed."""

    def work() -> list[object]:
        orphan = "import os, time\nwhile True:\n    if os.fork(): os._exit(0)\n    time.sleep(0.001)"
        does = "signal.signal(signal.SIGINT, signal.SIG_IGN)\nsay('ready')\n"
        does += f"subprocess.Popen([sys.executable, '-c', {orphan!r}], start_new_session=True)\n{FOREVER}"
        running = begin(does, lines.append)
        while "ready" not in lines or left_of_the_user() < 2:
            time.sleep(0.01)
        running.interrupt(0.2)
        left = left_of_the_user()
        ended = running.wait(soon())
        assert ended is not None
        return [ended.word, left]

    lines: list[str] = []
    assert machine.inside(work) == ["runner-failed", 0]


def test_a_runner_that_asks_for_it_is_started_again_without_the_blob(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_runner, "_PAUSE_SEC", 0.01)

    def work() -> list[object]:
        running = begin("end(0 if len(starts.read_text().splitlines()) == 3 else 2)")
        return [running.wait(soon()), diag("starts").splitlines()]

    starts = ["with blob", "without blob", "without blob"]
    assert machine.inside(work) == [["ended", "it ended as it should"], starts]


def test_a_runner_that_always_fails_is_started_four_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_runner, "_PAUSE_SEC", 0.01)

    def work() -> list[object]:
        ended = begin("end(2)").wait(soon())
        assert ended is not None
        return [ended.word, len(diag("starts").splitlines())]

    assert machine.inside(work) == ["runner-failed", 4]


def test_a_runner_that_had_its_job_is_not_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_runner, "_PAUSE_SEC", 0.01)

    def work() -> list[object]:
        ended = begin('say("Running job: train"); end(2)').wait(soon())
        assert ended is not None
        return [ended.word, len(diag("starts").splitlines())]

    assert machine.inside(work) == ["runner-failed", 1]


def test_the_registration_is_in_no_command_line_and_no_file_on_a_disk() -> None:
    def work() -> dict[str, Any]:
        lines: list[str] = []
        running = begin(f"say('ready')\n{FOREVER}", lines.append)
        while "ready" not in lines:
            time.sleep(0.01)
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
    assert said["log"] == ["Listening for Jobs", "ready"]


def test_the_runner_gets_exactly_this_environment_and_no_way_to_more_rights() -> None:
    """HOME and the like, what it needs for itself, the cage's and the hooks'; nothing of the agent's own."""

    def work() -> list[object]:
        os.environ["AGENT_SECRET"] = SECRET
        does = '(root / "_diag" / "env").write_text(json.dumps(dict(os.environ)))\n'
        does += '(root / "_diag" / "status").write_text(Path("/proc/self/status").read_text()); end(0)'
        begin(does).wait(soon())
        status = dict(line.split(":\t", 1) for line in diag("status").splitlines())
        rights = [status[name].strip() for name in ("NoNewPrivs", "CapInh", "CapPrm", "CapEff", "Groups")]
        return [json.loads(diag("env")), rights, int(status["Uid"].split()[0]) > 0]

    environment, rights, is_somebody = machine.inside(work)
    environment.pop("LC_CTYPE", None)  # the stand-in's own Python puts it there
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
        begin(does).wait(soon())
        kept = Path("/home/gpu-runner/work/checkout").read_text()
        return [diag("said"), kept, oct((RUN / "runner").stat().st_mode & 0o777), oct(RUN.stat().st_mode & 0o777)]

    assert machine.inside(work) == ["[13, 30, 13]", "of the job", "0o700", "0o755"]


def test_the_runner_dies_with_the_agent() -> None:
    def work() -> list[int]:
        reader, writer = os.pipe()
        agent = os.fork()
        if agent == 0:
            lines: list[str] = []
            begin(f"say('ready')\n{FOREVER}", lines.append)
            while "ready" not in lines:
                time.sleep(0.01)
            os.write(writer, str(left_of_the_user()).encode())
            os.kill(os.getpid(), 9)
        alive = int(os.read(reader, 10))
        os.waitpid(agent, 0)
        deadline = time.monotonic() + 20
        while left_of_the_user() and time.monotonic() < deadline:
            time.sleep(0.02)
        return [alive, left_of_the_user()]

    assert machine.inside(work) == [1, 0]


def test_updates_are_switched_off_in_the_blob_and_the_rest_is_as_it_was() -> None:
    files = json.loads(base64.b64decode(without_updates(runner.jitconfig(AgentName="gpu-1", disableUpdate="False"))))
    assert json.loads(base64.b64decode(files[".runner"])) == {"AgentName": "gpu-1", "DisableUpdate": True}
    assert json.loads(base64.b64decode(files[".credentials"])) == {"token": SECRET}


@given(text=st.text() | st.binary().map(lambda content: base64.b64encode(content).decode()))
def test_a_blob_that_cannot_be_read_goes_to_the_runner_as_it_is(text: str) -> None:
    assert without_updates(text) == text


@pytest.mark.parametrize(
    "value", [[], {}, {".runner": 1}, {".runner": "!"}, {".runner": base64.b64encode(b"[]").decode()}]
)
def test_a_blob_of_another_form_goes_to_the_runner_as_it_is(value: object) -> None:
    text = base64.b64encode(json.dumps(value).encode()).decode()
    assert without_updates(text) == text


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""  # it has ended
