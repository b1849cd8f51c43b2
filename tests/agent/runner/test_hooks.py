"""The job's hooks over a real socket, and the real scripts, as another user than the agent's."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import zipapp
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gpu_agent
import pytest
from gpu_agent.github.registration import Run
from gpu_agent.machine.gpu_health import Problem
from gpu_agent.machine.system import System, User
from gpu_agent.runner.hooks import Hooks, Job, client

from tests.agent.fakes.machine import NOBODY, needs, open_python

JOB = Job("owner/repository", "123456789", "2", "train", "CI")
GITHUB = {f"GITHUB_{name.upper()}": value for name, value in JOB._asdict().items()}


def fit() -> None:
    return None


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder like /run/gpu-agent, which belongs to root and is readable for everyone. pytest's folders are
    not.
    """
    made = Path(tempfile.mkdtemp(prefix="gpu-agent-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.fixture
def serve(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Hooks]]:
    """Start hooks for a user, by default the current one."""
    made: list[Hooks] = []
    for name, value in GITHUB.items():
        monkeypatch.setenv(name, value)

    def serve(
        check: Callable[[], Problem | None] = fit,
        uid: int | None = None,
        python: str = sys.executable,
        agent: Path = folder,
        **others: Any,
    ) -> Hooks:
        uid = os.geteuid() if uid is None else uid
        made.append(Hooks(User("user", uid, uid, folder), System(folder, python=python), agent, check, **others))
        return made[-1]

    yield serve
    for each in made:
        each.close()


def ask(folder: Path, stage: str) -> int:
    return client([stage, str(folder / "hooks.sock")])


def test_a_job_on_an_unusable_machine_fails_with_the_reason_in_its_log(
    serve: Callable[..., Hooks], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    served = serve(lambda: Problem("the GPU is not fit"))
    assert ask(folder, "started") == 1
    assert capsys.readouterr().out == "::error::gpu-ci: the GPU is not fit\n"
    assert (served.refused, served.job) == (Problem("the GPU is not fit"), JOB)
    assert served.started.is_set()


@pytest.mark.parametrize(
    ("stage", "code", "said"),
    [
        ("started", 1, "::error::gpu-ci: the machine's agent does not answer (FileNotFoundError)\n"),
        ("completed", 0, "::warning::gpu-ci: the machine's agent does not answer (FileNotFoundError)\n"),
    ],
)
def test_without_an_agent_no_job_starts_and_one_that_ran_may_end(
    folder: Path, capsys: pytest.CaptureFixture[str], stage: str, code: int, said: str
) -> None:
    assert ask(folder, stage) == code
    assert capsys.readouterr().out == said


@pytest.mark.parametrize(
    "answer", [b"", b"no json\n", b"[]\n", b"{}\n", b'{"ok": 1, "words": ""}\n', b'{"ok": true}\n', b"x" * 9000]
)
def test_an_answer_other_than_true_refuses_the_job(
    folder: Path, capsys: pytest.CaptureFixture[str], answer: bytes
) -> None:
    with socket.socket(socket.AF_UNIX) as odd:
        odd.bind(str(folder / "hooks.sock"))
        odd.listen()

        def serve() -> None:
            connection, _ = odd.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        assert ask(folder, "started") == 1
        thread.join()


def test_a_flood_of_connections_takes_few_threads_and_descriptors_of_the_agents(
    serve: Callable[..., Hooks], folder: Path
) -> None:
    serve()
    with contextlib.ExitStack() as stack:
        flood = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(200)]
        before = sockets(), threading.active_count()
        taken = 0
        for connection in flood:
            connection.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                connection.connect(str(folder / "hooks.sock"))
                taken += 1
        # The socket does not accept more connections than those that are served or wait.
        assert taken <= 8 + 9
        assert sockets() - before[0] <= 8
        assert threading.active_count() <= before[1]
    assert wait_until(lambda: ask(folder, "started") == 0)


def sockets() -> int:
    """Return the number of this process's open sockets. A file may be closed while it is counted."""
    found = 0
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found += str(each.readlink()).startswith("socket:")
    return found


def wait_until(done: Callable[[], bool]) -> bool:
    """Return True when the condition is met. The time limit is longer than it ever takes."""
    until = time.monotonic() + 20
    while not done():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def test_only_the_runners_user_gets_an_answer(serve: Callable[..., Hooks], folder: Path) -> None:
    """Root may open every socket. In this test it stands for any other user."""
    needs()
    served = serve(uid=NOBODY)
    assert raw(folder, b'{"stage": "started"}\n') == b""
    assert served.job is None


@pytest.mark.parametrize("words", ["", "GPU-1 has 68 MiB in use"])
def test_the_scripts_work_as_the_runners_user(serve: Callable[..., Hooks], folder: Path, words: str) -> None:
    """The test uses all parts: bash, the script, the archive, the socket, and the exit code that the runner reads."""
    needs()
    agent = pack(folder)
    # The job may add variables to the environment of programs that the runner starts later (GITHUB_ENV).
    (folder / "json.py").write_text("raise SystemExit('of the job')")
    served = serve(lambda: Problem(words) if words else None, uid=NOBODY, python=open_python(), agent=agent)
    script = served.environment["ACTIONS_RUNNER_HOOK_JOB_STARTED"]
    assert script == str(folder / "job-started.sh")
    done = subprocess.run(
        ["bash", "-e", script],
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        env={**GITHUB, "PATH": os.environ["PATH"], "PYTHONPATH": str(folder)},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == ((1, f"::error::gpu-ci: {words}\n") if words else (0, ""))
    assert served.job == JOB


def test_the_runners_user_cannot_change_the_scripts_or_files_next_to_them(
    serve: Callable[..., Hooks], folder: Path
) -> None:
    needs()
    served = serve(uid=NOBODY)
    for path in (*served.environment.values(), str(folder / "new")):
        write = f"open({path!r}, 'a').close()"
        done = subprocess.run(
            [open_python(), "-c", write], user=NOBODY, group=NOBODY, stderr=subprocess.PIPE, check=False
        )
        assert b"PermissionError" in done.stderr


def test_an_answer_is_one_json_line(serve: Callable[..., Hooks], folder: Path) -> None:
    serve(lambda: Problem("no"))
    assert json.loads(raw(folder, b'{"stage": "started"}\n')) == {"ok": False, "words": "no"}


def test_a_second_job_is_refused_and_does_not_take_the_first_ones_name(
    serve: Callable[..., Hooks], folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    served = serve()
    assert ask(folder, "started") == 0
    monkeypatch.setenv("GITHUB_REPOSITORY", "somebody/else")
    assert ask(folder, "started") == 1
    assert capsys.readouterr().out == "::error::gpu-ci: this machine has already run its one job\n"
    assert served.job == JOB
    assert served.refused is None


def test_the_log_of_a_job_has_the_summary_at_its_end(
    serve: Callable[..., Hooks], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    serve(summary=lambda: "GPU use 41%\n::error::x")
    assert ask(folder, "started") == 0
    assert capsys.readouterr().out == ""
    assert ask(folder, "completed") == 0
    assert capsys.readouterr().out == "gpu-ci: GPU use 41% ::error::x\n"


def test_a_fault_during_the_job_is_an_error_in_its_log_and_in_its_summary(
    serve: Callable[..., Hooks], folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = iter(["Xid 79", ""])
    serve(fault=lambda: next(faults))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(folder / "summary"))
    text = "gpu-ci: GPU fault (Xid 79) of this machine, not your change\n"
    assert [ask(folder, "completed"), capsys.readouterr().out] == [0, f"::error::{text}"]
    assert (folder / "summary").read_text() == text
    assert [ask(folder, "completed"), capsys.readouterr().out] == [0, ""]


def pack(folder: Path) -> Path:
    """Pack the part of the agent that the hooks use: their command, and the modules."""
    source = folder / "source"
    shutil.copytree(Path(gpu_agent.__file__).parent, source / "gpu_agent", ignore=shutil.ignore_patterns("__pycache__"))
    (source / "__main__.py").write_text(
        "import sys\n"
        "from gpu_agent.runner import hooks\n"
        "assert sys.argv[1] == 'hook'\n"
        "sys.exit(hooks.client(sys.argv[2:]))\n"
    )
    zipapp.create_archive(source, folder / "agent.pyz")
    return folder / "agent.pyz"


def raw(folder: Path, text: bytes) -> bytes:
    """Send a raw line and return the answer. The answer is empty if the server closes the connection."""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError), socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(20)
        connection.connect(str(folder / "hooks.sock"))
        connection.sendall(text)
        connection.shutdown(socket.SHUT_WR)
        return connection.recv(4096)
    return b""


@pytest.mark.parametrize(
    "change",
    [
        {"repository": "owner/fork"},
        {"run_id": "123456788"},
        {"run_attempt": "3"},
        {"run_attempt": ""},
    ],
)
def test_a_job_of_another_run_gets_no_answer_and_the_gpu_is_not_asked(
    serve: Callable[..., Hooks], folder: Path, change: dict[str, str]
) -> None:
    """With an answer, the runner would go on to the steps with `if: always()`."""
    asked: list[str] = []
    hooks = serve(lambda: asked.append("the GPU"), run=Run(*JOB[:3])._replace(**change))
    hook = threading.Thread(target=ask, args=(folder, "started"), daemon=True)
    hook.start()
    hook.join(2)
    assert (hook.is_alive(), hooks.is_of_another_run, asked) == (True, True, [])


def test_a_job_of_the_run_of_its_registration_runs(serve: Callable[..., Hooks], folder: Path) -> None:
    hooks = serve(run=Run(*JOB[:3]))
    assert ask(folder, "started") == 0
    assert (hooks.is_of_another_run, hooks.refused) == (False, None)
