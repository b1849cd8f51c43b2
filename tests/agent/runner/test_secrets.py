"""The runner's registration: where it is stored, what its process may do, and how the blob is changed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from gpu_agent.machine.system import PATH
from gpu_agent.runner.process import JIT_VARIABLE, without_updates

from tests.agent.fakes import machine, runner
from tests.agent.fakes.runner import SECRET
from tests.agent.fakes.started_runner import BLOB, FOREVER, HOOKS, RUN, diag, long_enough, start_runner, wait_for_line


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
