"""A fake runner: the archive of a release, whose Runner.Listener runs the code that the test gives it."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import tarfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

from gpu_agent.clock import Clock
from gpu_agent.config import RunnerConfig
from gpu_agent.machine import processes
from gpu_agent.machine.system import RUNNER_USER, System
from gpu_agent.runner.network_isolation import NetworkIsolation
from gpu_agent.runner.session import Running, make_root

from tests.agent.fakes import machine

VERSION = "2.336.0"
SECRET = "planted-credential-of-one-registration"

# The program reads the blob as the runner does (Runner.cs): it writes each file of the blob into the parent folder of
# its own folder. It then removes the variable from its environment and runs `does`, in which `say` writes a line and
# `end` exits.
_LISTENER = """#!{python}
import base64, json, os, signal, subprocess, sys, time
from pathlib import Path
root = Path(__file__).resolve().parent.parent
def say(line):
    print(line, flush=True)
def end(code):
    say("exiting with " + str(code))
    sys.exit(code)
{loads}
if sys.argv[1:] == ["--version"]:
    say("{version}")
    sys.exit(0)
assert sys.argv[1:] == ["run"], sys.argv
blob = os.environ.pop("ACTIONS_RUNNER_INPUT_JITCONFIG", "")
if blob:
    for name, content in json.loads(base64.b64decode(blob)).items():
        (root / name).write_bytes(base64.b64decode(content))
if not (root / ".runner").exists():
    end(1)
settings = json.loads((root / ".runner").read_text())
starts = root / "_diag" / "starts"
starts.write_text((starts.read_text() if starts.exists() else "") + ("with blob\\n" if blob else "without blob\\n"))
say("Listening for Jobs")
{does}
"""


class Entry(NamedTuple):
    """One member of an archive."""

    name: str
    content: str = ""
    mode: int = 0o644
    kind: bytes = tarfile.REGTYPE
    target: str = ""


# On an image without libicu, .NET exits like this for any command (dotnet/runtime, GlobalizationMode.LoadICU). The
# Listener sets its culture before it reads its arguments (actions/runner@258d6c8:src/Runner.Listener/Program.cs).
NO_LIBICU = """
say("Process terminated. Couldn't find a valid ICU package installed on the system. Please install libicu.")
say("   at System.Environment.FailFast(System.String)")
os.abort()
"""


def listener(python: str, does: str = "end(0)", loads: str = "", version: str = VERSION) -> Entry:
    """Return the program of the archive. It runs `loads` before it reads its arguments."""
    text = _LISTENER.format(python=python, does=does, loads=loads, version=version)
    return Entry("./bin/Runner.Listener", text, 0o755)


def archive(*entries: Entry) -> bytes:
    """Return the archive of a release: "." and its files, owned by GitHub's build user as in the real one."""
    made = io.BytesIO()
    folders = [Entry(name, mode=0o775, kind=tarfile.DIRTYPE) for name in ("./", "./bin", "./externals")]
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        for entry in (*folders, Entry("./externals/node", "node"), *entries):
            member = tarfile.TarInfo(entry.name)
            member.size = len(entry.content.encode()) if entry.kind == tarfile.REGTYPE else 0
            member.mode, member.type, member.linkname = entry.mode, entry.kind, entry.target
            member.uid = member.gid = 1001
            tar.addfile(member, io.BytesIO(entry.content.encode()) if member.size else None)
    return made.getvalue()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def jitconfig(**settings: object) -> str:
    """Return a blob in GitHub's form: the files of the runner's root, each in base64, in JSON, in base64."""
    files = {".runner": json.dumps(settings), ".credentials": json.dumps({"token": SECRET})}
    return encoded(json.dumps({name: encoded(text) for name, text in files.items()}))


def encoded(text: str) -> str:
    """Return the text in base64."""
    return base64.b64encode(text.encode()).decode()


@contextmanager
def releases(answer: Callable[[int], tuple[int, bytes, int]]) -> Iterator[tuple[str, list[str]]]:
    """Serve releases. Return the URL, and the paths of the requests.

    `answer` receives the number of earlier requests. It returns the status, the body, and the value of Content-Length.
    """
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body, length = answer(len(asked))
            asked.append(self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(length))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its base class names it so
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()


def files_with(text: str, folder: Path) -> list[str]:
    """Return every file below the folder that contains the text."""
    return [str(path) for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


CONFIG = RunnerConfig(VERSION, {})
BLOB = jitconfig(AgentName="gpu-1", Ephemeral=True)
HOOKS = {"ACTIONS_RUNNER_HOOK_JOB_STARTED": "/run/gpu-agent/job-started.sh"}
FOREVER = "while True: time.sleep(0.05)"
RUN = Path("/run/gpu-agent")


def start_runner(
    does: str,
    log: Callable[[str], None] = lambda _: None,
    docker: str = "none",
    blob: str = BLOB,
    environment: Mapping[str, str] = HOOKS,
) -> Running:
    """Start a runner that runs this code. Call it on an emulated machine."""
    tree = Path("/run/tree")
    with tarfile.open(fileobj=io.BytesIO(archive(listener(machine.open_python(), does)))) as tar:
        tar.extractall(tree)  # noqa: S202 - the test's own
    system = System(run_folder=RUN)
    isolation = NetworkIsolation(system.runner_user(), docker, {"DOCKER_HOST": "unix:///run/docker.sock"})
    root = make_root(tree, CONFIG, isolation, system)
    return Running(root, blob, isolation, environment, system, Clock(), log)


def long_enough() -> float:
    """Wait long enough for any expected event."""
    return Clock().now() + 60


def wait_for_line(lines: list[str], line: str) -> None:
    """Return when the runner has written the line. If it never does, raise AssertionError with what it has written."""
    until = long_enough()
    while line not in lines:
        assert Clock().now() < until, lines
        time.sleep(0.01)


def processes_of_the_user() -> int:
    """Return the number of processes of the user: the most of several scans, because one scan may miss processes that
    fork.
    """
    [line] = [line for line in Path("/etc/passwd").read_text().splitlines() if line.startswith(RUNNER_USER + ":")]
    return max(len(list(processes.of(RUNNER_USER, int(line.split(":")[2])))) for _ in range(20))


def diag(name: str) -> str:
    return (RUN / "runner" / "_diag" / name).read_text()


STAGE = Path("/run/test")
"""The folder with `gpu` and `apps`, which nvidia-smi prints, and with `go`, for which a job or a runner may wait."""
WAITS_FOR_GO = f"while not Path('{STAGE}/go').exists(): time.sleep(0.02)"
# What a runner does around a job, and a job that tries to reach the machine's identity.
_JOB = """
def hook(stage):
    known = {"GITHUB_REPOSITORY": "acme/kernels", "GITHUB_RUN_ID": "77", "GITHUB_RUN_ATTEMPT": "1"}
    known["GITHUB_JOB"] = "train"
    return subprocess.run([os.environ["ACTIONS_RUNNER_HOOK_JOB_" + stage]], env={**os.environ, **known}).returncode
BEFORE
say("Running job: train")
if hook("STARTED"):
    end(1)
import socket
try:
    socket.create_connection(("169.254.169.254", 80), 2)
    say("JOB HAS THE IDENTITY")
except OSError as error:
    say("job: " + type(error).__name__)
time.sleep(0.3)
(root / "_diag" / "at-work").touch()
DOES
hook("COMPLETED")
end(0)
"""
WAITS = "signal.signal(signal.SIGINT, lambda *_: end(0))\nsay('ready')\nwhile True: time.sleep(0.05)"


def job(does: str = "", before: str = "") -> str:
    """Return a Listener that takes one job and does this."""
    return _JOB.replace("DOES", does).replace("BEFORE", before)
