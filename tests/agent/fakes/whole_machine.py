"""A machine of the pool from power-on to power-off, with the real boot script, packed agent, isolation, hooks and
runner.

The test serves Google and GitHub, provides a runner that GitHub's archive could contain, and an nvidia-smi that prints
a file. The network, the users and the mounts belong to the machine (machine.py). A Plan says what happens to the
machine.
"""

from __future__ import annotations

import base64
import functools
import json
import os
import random
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from gpu_ci.payload import pack

from tests.agent.fakes import google, machine, manager, processes, remains, runner
from tests.agent.fakes.boot import BASH, ROOT, SCRIPT, Boot, config, says, shortened
from tests.agent.fakes.github import FakeGithub
from tests.agent.fakes.github import Fault as GithubFault
from tests.agent.fakes.github import serving as serving_github
from tests.agent.fakes.runner import STAGE, job
from tests.agent.fakes.scanner import Scanner
from tests.agent.fakes.systemd import BOOTED, Systemd

SYSTEMD_RUN = Path(__file__).with_name("systemd_run.py")
SECRET = "projects/example-ci/secrets/github-app-key"
AT_WORK = "at work"
"""A step in addition to the agent's own steps: the job has begun, and its hook has named it."""
ANNOUNCED = "told"
"""A step in addition to the agent's own steps: the machine has published the cloud's announcement."""
GPU = "GPU-1a2b3c4d, 3, 0\n"
_SMI = f"""
case $* in
  *query-gpu*) cat {STAGE}/gpu ;;
  *query-compute-apps*) cat {STAGE}/apps ;;
  *) [[ -s {STAGE}/gpu ]] ;;
esac
"""
MEMORY = (TEMPORARY := "/var/tmp", "/dev/shm")  # noqa: S108 - each is a file system of the test's own
_WRITABLE = ("/home", "/run", "/var/lib", *MEMORY, "/etc", "/usr/local/sbin")
_OWN = ("/var/lib", *MEMORY, "/usr/local/sbin")
# The limit from the power-off to the end of the last process. A real machine takes longer.
_OFF_SEC = 0.2


class Github(FakeGithub):
    """Returns a registration that the fake runner can read."""

    def __init__(self, public_key: RSAPublicKey, unix: Callable[[], float]) -> None:
        super().__init__(public_key, unix)
        self.blobs: list[str] = []

    def _register(self, found: dict[str, str], query: dict[str, str], body: Any) -> tuple[int, dict[str, Any]]:
        status, answer = super()._register(found, query, body)
        self.blobs.append(runner.jitconfig(AgentName=body["name"]))
        return status, {**answer, "encoded_jit_config": self.blobs[-1]}


Act = Callable[["RunningMachine"], None]


@dataclass
class Plan:
    """A plan of what happens to one machine. By default it takes one job, and nothing goes wrong."""

    does: str = field(default_factory=job)
    """The program of the runner's Listener."""
    loads: str = ""
    """The code that the Listener runs first, for any command."""
    version: str = runner.VERSION
    """The version that the Listener prints."""
    smoke: str = says("fine")
    role: str = ""
    idle_sec: int = 60
    register_sec: int = 60
    check_sec: int = 60
    config: Mapping[str, Any] = field(default_factory=dict)
    google: list[google.Fault] = field(default_factory=list)
    github: Mapping[str, list[GithubFault]] = field(default_factory=dict)
    prepare: Act | None = None
    """Called before the machine is switched on."""
    at: Sequence[tuple[str | float, Act]] = ()
    """Events, each with a step or a number of seconds after power-on. An event happens when the machine reports the
    step.
    """
    release: Callable[[int, bytes], tuple[int, bytes, int]] = lambda _, archive: (200, archive, len(archive))
    skew_sec: float = 0
    """Seconds by which GitHub's clock is ahead of the machine's."""
    small: Mapping[str, str] = field(default_factory=dict)
    """Folders that get a disk of this size."""
    has_systemd_run: bool = True
    """False for an image on which systemd-run fails. The agent then runs in Google's unit for startup scripts."""
    answer: manager.Answer | None = None
    """The answer of the runner manager if it registers the runner."""
    boots: int = 1
    limit_sec: float = 60


class RunningMachine:
    """One machine while it runs."""

    def __init__(self, folder: Path, plan: Plan, github: Github, cloud: google.FakeGoogle) -> None:
        self.folder, self.plan, self.github, self.google = folder, plan, github, cloud
        self.state = folder / "state"
        self.serial = ""
        self._earlier = 0
        """The length of the text that earlier boots wrote to the serial port."""
        self.boots = 0
        """The number of the current boot."""
        self.hit = ""
        """The step that the machine had reported when an event happened."""

    @property
    def boot_script(self) -> int:
        """Return the process of the boot script: in its own unit, or below Google's script runner."""
        unit = self.systemd.unit("gpu-agent")
        return unit.main if unit else processes.children().get(self.systemd.runner.pid, [0])[0]

    def stop(self) -> None:
        """Begin to switch the machine off, as for instances.stop or a deletion, and return at once."""
        self.systemd.stop(self._apart)

    @property
    def supervisor(self) -> int:
        """Return the process of the supervisor. Raises LookupError if it does not run."""
        return processes.child_of(self.boot_script)

    @property
    def agent(self) -> int:
        """Return the process of the agent. Raises LookupError if it does not run."""
        return processes.child_of(self.supervisor)

    @property
    def runner(self) -> int:
        """Return the process of the runner. Raises LookupError if it does not run."""
        for each in processes.numbers():
            if b"/bin/Runner.Listener\0run" in processes.command(each):
                return each
        raise LookupError("no runner")

    def steps(self) -> list[str]:
        """Return the steps that the current boot has reported, in order."""
        said = re.findall(r"^GPU-AGENT-STEP (\{.*\})$", self.serial[self._earlier :], re.MULTILINE)
        return [json.loads(value)["step"] for value in said]

    def run_machine(self, boot: Boot, number: int = 1) -> bool:
        """Run the boot of this number until it has ended or the machine is off. Return True if that was in time."""
        self.boots, self._earlier = number, len(self.serial)
        if number > 1:
            self._clear_temporary_files()
        self._apart = processes.numbers()
        boot.prepare(self.plan.smoke, gpu_ci_role=self.plan.role)
        self.systemd = Systemd(self.folder / "systemd", boot.environ(), machine.network_down)
        console = os.open(self.systemd.console, os.O_RDONLY | os.O_NONBLOCK)
        self.systemd.start_script([BASH, str(SCRIPT)])
        os.set_blocking(console, True)
        reader = threading.Thread(target=self._read, args=(console,), daemon=True)
        reader.start()
        began, waiting, off = time.monotonic(), list(self.plan.at), 0.0
        ended = False
        while (now := time.monotonic()) - began < self.plan.limit_sec:
            due = [each for each in waiting if self._is_due(each[0], now - began)]
            waiting = [each for each in waiting if each not in due]
            for _, act in due:
                self.hit = (self.steps() or ["start"])[-1]
                act(self)
            self.systemd.look(self._apart)
            ended = not reader.is_alive() or self.systemd.off
            if not off and "SHUTDOWN -h now" in self.serial[self._earlier :]:
                off = now
            if ended or (off and now - off > _OFF_SEC):
                ended = True
                break
            time.sleep(0.01)
        processes.kill_all_but(self._apart)
        reader.join(5)
        self.systemd.close()
        return ended

    def _clear_temporary_files(self) -> None:
        """Remove what an earlier boot had in memory and in temporary files."""
        mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
        for path in (path for path in reversed(mounts) if path.startswith("/run/gpu-agent")):
            subprocess.run(["umount", "--lazy", path], check=True)
        for path in ("/run/gpu-agent", *Path(TEMPORARY).iterdir()):
            shutil.rmtree(path, ignore_errors=True)
        machine.network_up()
        # At least a minute passes between the power-off of a machine and the verdict of its next boot.
        self.google.queries.clear()

    def _is_due(self, when: str | float, age_sec: float) -> bool:
        if when == AT_WORK:
            return Path(f"/proc/{self.boot_script}/root/run/gpu-agent/runner/_diag/at-work").exists()
        if when == ANNOUNCED:
            return "gpu-agent/notice" in self.google.written()
        return when in self.steps() if isinstance(when, str) else age_sec >= when

    def _read(self, console: int) -> None:
        with os.fdopen(console, errors="replace") as lines:
            for line in lines:
                self.serial += line

    def processes(self) -> list[int]:
        """Return the processes of the boot script, with all their descendants."""
        found, children = [self.boot_script], processes.children()
        for each in found:
            found += children.get(each, [])
        return found


def run_machine(folder: Path, key: bytes, public_key: RSAPublicKey, plan: Plan) -> dict[str, Any]:
    """Run one machine inside an emulated machine of the test. Return its output and what remains of it."""
    found: dict[str, Any] = machine.inside(functools.partial(_run_machine, folder, key, public_key, plan))
    return found


def _run_machine(folder: Path, key: bytes, public_key: RSAPublicKey, plan: Plan) -> dict[str, Any]:
    machine.network()
    for path in _OWN:
        _tmpfs(path)
    STAGE.mkdir()
    if plan.has_systemd_run:
        BOOTED.mkdir(parents=True)
    Path("/etc/systemd/system").mkdir(parents=True, exist_ok=True)
    (STAGE / "gpu").write_text(GPU)
    (STAGE / "apps").touch()
    folder.chmod(0o755)
    with _servers(folder, key, public_key, plan) as (running, boot):
        for path, size in plan.small.items():
            _tmpfs(path, size)
        if plan.prepare:
            plan.prepare(running)
        scanner, began = Scanner([*map(Path, _WRITABLE), folder], apart=[os.getpid()]), time.monotonic()
        with scanner.looking():
            in_time = all(running.run_machine(boot, number) for number in range(1, plan.boots + 1))
        took_sec = time.monotonic() - began
        return {**remains.found(running, key, scanner), "alive": not in_time, "sec": round(took_sec, 2)}


@contextmanager
def _servers(folder: Path, key: bytes, public_key: RSAPublicKey, plan: Plan) -> Iterator[tuple[RunningMachine, Boot]]:
    # The bytes do not compress, so that they fill a small disk.
    padding = runner.Entry("./externals/padding", random.Random(1).randbytes(300_000).hex())
    archive = runner.archive(runner.listener(machine.open_python(), plan.does, plan.loads, plan.version), padding)
    github = Github(public_key, lambda: time.time() + plan.skew_sec)
    github.faults = {route: list(faults) for route, faults in plan.github.items()}
    releases = runner.releases(lambda asked: plan.release(asked, archive))
    with google.serving(google.FakeGoogle()) as cloud, serving_github(github) as url, releases as (base, _):
        cloud.secrets[SECRET], cloud.faults = key, list(plan.google)
        boot = Boot(folder, cloud)
        sources = shortened(ROOT / "agent" / "gpu_agent", folder / "shortened" / "gpu_agent")
        cloud.attributes["gpu-agent-pyz"] = base64.b64encode(pack(sources)).decode()
        shutil.rmtree(sources.parent)
        boot.tools.add("python3", f'exec "{machine.open_python()}" "$@"')
        boot.tools.add("curl", f'exec {shutil.which("curl")} "$@" --max-time 1 --retry-max-time 1')
        # These are waits of the boot script. Only the wait for an agent without its supervisor matters.
        boot.tools.add("sleep", "[[ $1 != 40 ]] || read -rt 6 <> <(:) || true")
        if plan.has_systemd_run:
            boot.tools.add("systemd-run", f'exec "{sys.executable}" "{SYSTEMD_RUN}" "{folder}/systemd" "$@"')
            Path("/usr/local/sbin/systemctl").symlink_to(boot.tools.folder / "systemctl")
        Path("/usr/local/sbin/nvidia-smi").symlink_to(boot.tools.add("nvidia-smi", _SMI))
        own = {
            "owner": "acme", "app_id": "12345", "installation_id": 77, "private_key": SECRET, "runner_group": "gpu",
            "labels": ["gpu", "l4"],
        }  # fmt: skip
        sha256 = runner.sha256(archive)
        pin: dict[str, Any] = {"version": runner.VERSION, "sha256": {"x64": sha256, "arm64": sha256}}
        pin |= {"idle_sec": plan.idle_sec, "register_sec": plan.register_sec}
        registers = {"registered_by": "manager"} if plan.answer else {"github": own}
        settings = config(**registers, runner=pin, check_sec=plan.check_sec, **plan.config)
        cloud.attributes["gpu-agent-config"] = json.dumps(settings)
        own_places = {"GPU_AGENT_GITHUB_URL": url, "GPU_AGENT_RUNNER_URL": base, "TMPDIR": TEMPORARY}
        environ = boot.environ() | own_places
        boot.environ = lambda: environ  # type: ignore[method-assign]
        if plan.answer and plan.role != "check":
            # The manager does not know the machine of a check.
            threading.Thread(target=manager.serve, args=(cloud, github, plan.answer, plan.boots), daemon=True).start()
        yield RunningMachine(folder, plan, github, cloud), boot


def _tmpfs(path: str, size: str = "50%") -> None:
    Path(path).mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"mode=0755,size={size}", "own", path], check=True)
