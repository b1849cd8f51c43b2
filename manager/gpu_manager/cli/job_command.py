"""`gpu-ci job`: runs one job in the sandbox from the queue to its end, and prints each step.

The sandbox serves Compute Engine, EC2, Jarvis Labs and GitHub on this computer. Everything else is real: `gpu-ci
manager run`, the boot agent on the machine, the smoke check (on the CPU), and the job's own commands. This is the only
module of gpu-ci that imports the sandbox.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, NamedTuple

import click
from gpu_ci.cli.output import InputError
from pulumi_sandbox.engine.model import write_whole
from pulumi_sandbox.providers.gcp.compute.vm_store import SERIAL
from pulumi_sandbox.providers.gcp.types import REGION_TEMPLATE
from pulumi_sandbox.providers.github.actions import documents
from pulumi_sandbox.providers.github.actions.state import CANCELLED, COMPLETED, JOB, WRITER, Actions
from pulumi_sandbox.providers.github.repositories import Repositories
from pulumi_sandbox.providers.rsa_key import private_key
from pulumi_sandbox.workspace import ENDPOINT, NoProjectError, Workspace, serving_process
from pulumi_sandbox.world.store import Record, World

from ..github.approvals import COMMAND
from ..model import RUN_LABEL
from .options import last_view

BIN = Path(sys.executable).parent
"""The folder of `gpu-ci` and `pulumi-sandbox`."""
SCRIPT = 'echo "hello from $(hostname)"; python3 -c "import torch; print(torch.__version__, torch.ones(2, 2).sum())"'


class Example(NamedTuple):
    """A job that shows one behavior of the runner manager, for `make job JOB=NAME`."""

    shows: str
    scripts: tuple[str, ...] = ()
    """The steps of the job; by default those of a job without an example."""
    is_of_forks: bool = False
    """True for two pull requests of forks, one approved."""
    pool: str = ""
    """The pool, if none is given."""
    events: tuple[str, ...] = ("push",)
    """The event of the job, after those of older jobs, which wait until it has ended and are then cancelled."""
    is_warm: bool = False
    """True for a job that is queued while a machine waits for it, and then the same job without such a machine."""


# The sandbox's emulation of a machine reads this file as the kernel's log (gpu_agent_sandbox/system.py).
_BREAKS = """\
sleep 2
if [ "$GITHUB_RUN_ATTEMPT" = 1 ]; then
  echo "NVRM: Xid (PCI:0000:00:04): 79, GPU has fallen off the bus." >> "$GPU_AGENT_SANDBOX_MACHINE/kernel.log"
  echo "RuntimeError: CUDA error: unspecified launch failure"
  exit 1
fi
echo "passed on $(hostname)"
"""
EXAMPLES = {
    "broken-gpu": Example("the GPU fails during the job, which runs again on another machine", (_BREAKS,)),
    "public-fork": Example("only the approved one of two pull requests of forks gets a machine", is_of_forks=True),
    "priority": Example(
        "a job of the merge queue runs before an older scheduled job",
        ('echo "$GITHUB_EVENT_NAME on $(hostname)"',), pool="t4", events=("schedule", "merge_group"),
    ),
    "warm": Example(
        "a job gets a machine that waits for it; then the same job without",
        ('echo "hello from $(hostname)"; sleep 2',), is_warm=True,
    ),
}  # fmt: skip
# The names of a machine's steps for users (agent/gpu_agent/agent.py).
STEPS = {
    "config": "the agent reads its configuration",
    "driver": "the driver is ready",
    "check": "torch checks the GPU",
    "key": "the agent reads the key of its GitHub App",
    "runner": "GitHub's runner is fetched",
    "register": "the runner registers",
    "before-job": "the agent checks the GPU again",
    "waiting": "the runner is started",
    "job": "the runner waits for its job",
    "after-job": "the job has ended, and the agent checks the GPU again",
    "recheck": "the job failed, and torch checks the GPU again",
}
_STEP = re.compile(r"GPU-AGENT-STEP (\{.*\})")
_RESULT = re.compile(r"SMOKE-RESULT ([A-Za-z0-9+/=]+)")
_INSTANCE = "*/instance:Instance"
"""The machines of all clouds in the world."""
# Where the manager's files are, in the folder of the sandbox. `gpu-ci manager status` names them too.
_FOLDER, _CONFIGURATION, _STATE = "manager", "manager.json", "state.sqlite"
_LIMIT_SEC = 600
# A time that ends when it begins ends on the next day.
_DAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
_ALWAYS = {"days": _DAYS, "start": "00:00", "end": "00:00", "timeZone": "UTC"}
_WARM = {"size": 1, "schedule": _ALWAYS, "mostWaitSec": 600}
_SHOWN = (
    "job-waits",
    "insert-failed",
    "gpu-fault",
    "check-run",
    "rerun",
    "unavailable",
    "refused",
    "remove-runner",
    "cancel",
)
"""The other events of the manager that are printed as they are."""
# The manager is ended after this time without a machine. It looks for jobs each second, so another queued job gets its
# machine before.
_IDLE_SEC = 5
_NO_KUBERNETES = (
    "on Kubernetes, the Actions Runner Controller starts runners, and the sandbox runs no jobs there "
    "(docs/how-it-works/sandbox-kubernetes.md#helm-releases)"
)


class Terminal:
    """Prints lines with the seconds since the start, an event, and one sentence."""

    def __init__(self, *, as_json: bool = False) -> None:
        self._began, self._as_json = time.monotonic(), as_json

    def line(self, event: str, text: str) -> None:
        seconds = time.monotonic() - self._began
        if self._as_json:
            text = json.dumps({"seconds": round(seconds, 1), "event": event, "text": text})
        else:
            text = f"{seconds:6.1f} s  {event:10} {text}"
        click.echo(text)

    def more(self, text: str) -> None:
        """Print a line that belongs to the last one."""
        if self._as_json:
            self.line("more", text)
        else:
            click.echo(f"{'':20} {text}")


@click.command("job")
@click.option("--stack", default="dev", show_default=True, help="A stack that is up in the sandbox.")
@click.option(
    "--pool",
    default="",
    help="The pool whose labels the job has, or the end of its name, such as rented. By default: the first one, on "
    "Compute Engine if there is one.",
)
@click.option("--repository", default="", help="The repository of the job. By default: one that can use the pool.")
@click.option("--run", "scripts", multiple=True, metavar="SCRIPT",
              help="A step of the job; may be given again. By default: two commands, one of torch.")  # fmt: skip
@click.option("--example", default="", metavar="NAME",
              help="What the job shows: " + "; ".join(f"{name}: {each.shows}" for name, each in EXAMPLES.items())
              + ".")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print each line as JSON.")
def command(stack: str, pool: str, repository: str, scripts: tuple[str, ...], example: str, as_json: bool) -> int:
    """Run one job in the sandbox, on a pool on Compute Engine, EC2 or rented hosts, and print each step.

    The runner manager starts a machine for the job. The machine runs the smoke check and the job on this computer, as
    your user, and is deleted. Deploy the stack first: pulumi-sandbox up. The exit code is 0 if the job succeeded.

    \b
    Examples:
      gpu-ci job
      gpu-ci job --stack staging --pool t4 --run 'nvidia-smi || true'
      gpu-ci job --stack staging --example broken-gpu
    """
    shows = example_of(example, scripts)
    pool = pool or shows.pool
    if ENDPOINT not in os.environ:
        try:
            process = serving_process(Workspace.find())
        except NoProjectError as error:
            raise InputError(str(error)) from None
        if process is not None:
            raise already_served(process)
        # The servers need packages that a stack without a manager does not have.
        first = configuration(stack, pool)["pools"][0]
        # Run this program again with the servers of the sandbox and their environment.
        again = [str(BIN / "gpu-ci"), "job", "--stack", stack, "--pool", pool, "--repository", repository]
        again += [word for script in scripts for word in ("--run", script)] + ["--json"] * as_json
        again += ["--example", example]
        others = ["--jarvislabs", first["account"]] if first.get("supplier") == "jarvislabs" else []
        servers = subprocess.Popen([BIN / "pulumi-sandbox", "serve", *others, "--exec", "--", *again])
        while True:
            try:
                return servers.wait()
            except KeyboardInterrupt:
                continue  # the terminal also sends Ctrl-C to the job's process, which ends everything
    return run_job(stack, pool, repository, shows, Terminal(as_json=as_json))


def example_of(name: str, scripts: tuple[str, ...]) -> Example:
    """Return the example of this name, or one with the given steps."""
    if name and name not in EXAMPLES:
        raise InputError("--example: unknown example", got=name, expected=f"one of {', '.join(EXAMPLES)}")
    found = EXAMPLES[name] if name else Example("")
    if found.scripts and scripts:
        raise InputError("--example: has its own steps", got=name, expected="--example or --run")
    return found._replace(scripts=found.scripts or scripts or (SCRIPT,))


def already_served(process: str) -> InputError:
    """Return the error of a second job. The manager of the first one takes any job."""
    another = f"{shown('pulumi-sandbox')} job queue --repository REPOSITORY --labels A,B --run ls"
    return InputError(
        "gpu-ci job: another process serves this sandbox",
        got=f"process {process}",
        expected="one `gpu-ci job` at a time",
        hint=f"queue another job for the manager of the running one: {another}",
    )


def shown(program: str) -> str:
    """Return the command that starts a program of this environment, as short as the user can write it."""
    path = BIN / program
    if shutil.which(program) == str(path):
        return program
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def repositories_of(world: World, owner: str, group_name: str) -> list[str]:
    """Return the repositories that can use a runner group; empty if all can."""
    actions = Actions(world, Repositories(world))
    group = next((each for each in actions.groups(owner) if each.outputs["name"] == group_name), None)
    if group is None or group.outputs.get("visibility") != "selected":
        return []
    return [each.name for each in actions.repositories_of_group(owner, int(group.id))]


def chosen_repository(repository: str, allowed: list[str], group_name: str) -> str:
    """Return the repository of the job: the given one, or the first that can use the group."""
    if not repository and not allowed:
        raise InputError("--repository: is missing", expected=f"a repository that can use the group {group_name}")
    if repository and allowed and repository.rpartition("/")[2] not in allowed:
        raise InputError(
            f"the repository may not use the runner group {group_name}, so its job would wait forever",
            got=repository,
            expected=f"one of {', '.join(allowed)}",
            hint="gpu-ci:github.runnerGroup.repositories names them",
        )
    return repository or allowed[0]


def command_for_job(name: str, url: str, folder: Path) -> str:
    """Return the command of gpu-ci with this name for a job, such as explain or repro."""
    near = folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder
    return f"{shown('gpu-ci')} {name} {url} --config {near}/{_CONFIGURATION} --state {near}/{_STATE}"


@dataclass
class Forks:
    """Two pull requests of forks in a public repository. A person with write access approves a commit of one."""

    actions: Actions
    terminal: Terminal
    approved: dict[str, Any] = field(default_factory=dict)
    other: dict[str, Any] = field(default_factory=dict)

    def queue(self, owner: str, group_name: str, labels: Sequence[str], scripts: Sequence[str]) -> dict[str, Any]:
        """Queue a job of each pull request. Return the job that is approved later, in the form of the REST API."""
        groups = [each for each in self.actions.groups(owner) if each.outputs["name"] == group_name]
        repositories = self.actions.repositories_of_group(owner, int(groups[0].id)) if groups else []
        public = next((each for each in repositories if not each.private), None)
        if public is None:
            hint = "make up STACK=public, and make job STACK=public JOB=public-fork"
            raise InputError("public-fork: no public repository may use the runner group", got=group_name, hint=hint)
        steps = [{"name": f"Run {script.splitlines()[0]}", "run": script} for script in scripts]
        job = {"name": "test", "labels": list(labels), "steps": steps}
        (self.other, _), (self.approved, jobs) = (
            self.actions.queue(public, [job], fork=fork) for fork in ("a-stranger", "a-contributor")
        )
        for run in (self.other, self.approved):
            self.terminal.line("fork", f"{run['fork']}: run {run['id']} of commit {run['sha'][:12]}")
        return documents.job(jobs[0], self.approved) | {"repository": public.name}

    def approve(self) -> None:
        """Approve the commit of one of the pull requests."""
        run, command = self.approved, f"{COMMAND} {self.approved['sha']}"
        self.actions.comment(run["id"], WRITER, command)
        self.terminal.line("approved", f"run {run['id']}: {WRITER} comments {command}")

    def was_refused(self) -> bool:
        """Return True if the run without an approval was cancelled. Print how it ended."""
        run = self.actions.run(self.other["id"]) or {}
        self.terminal.line("result", f"run {run['id']}, which nobody has approved: {run['conclusion']}")
        return bool(run["conclusion"] == CANCELLED)


def run_job(stack: str, pool: str, repository: str, example: Example, terminal: Terminal) -> int:
    """Queue a job, run a manager until the job and its machine have ended, and print each step."""
    config = configuration(stack, pool)
    pool_config = config["pools"][0]
    workspace = Workspace.find()
    folder = workspace.root / _FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    world = World(workspace.world)
    app = str(config["github"]["appId"])
    write_whole(folder / "app-key.pem", private_key(world, app), 0o600)
    write_whole(folder / _CONFIGURATION, json.dumps(config, indent=2), 0o600)
    owner, group = str(config["github"]["owner"]), str(pool_config["runnerGroup"])
    forks = Forks(Actions(world, Repositories(world)), terminal) if example.is_of_forks else None
    labels = [*pool_config["labels"], *([RUN_LABEL] if "priorities" in pool_config else [])]
    machines = Machines(world, terminal, config["pools"])
    queued: list[dict[str, Any]] = []
    as_expected = True

    def queue(event: str, name: str = "test") -> int:
        """Queue a job for the pool, print it, and return its number."""
        if forks:
            job = forks.queue(owner, group, labels, example.scripts)
        else:
            steps = [argument for script in example.scripts for argument in ("--run", script)]
            of_job = ["--repository", repository, "--labels", ",".join(labels), *steps, "--json"]
            job = sandbox("job", "queue", "--event", event, "--name", name, *of_job)
        queued.append(job)
        kind = "" if name == "test" else f", {name}"
        where = f"{owner}/{job['repository'] if forks else repository}"
        terminal.line("queued", f"job {job['id']} in {where}{kind}, runs-on: [{', '.join(job['labels'])}]")
        return int(job["id"])

    try:
        if not forks:
            repository = chosen_repository(repository, repositories_of(world, owner, group), group)
        if len(example.events) > 1 and "priorities" not in pool_config:
            name = pool_config["name"]
            raise InputError("priority: the pool has no priorities", got=name, hint="make job JOB=priority")
        if example.is_warm:
            first = run_warm(folder, config, terminal, machines, lambda: queue("push"))
            as_expected = print_result(world, terminal, first)
            terminal.line("warm", "the same job again, without a machine that waits for it")
        names = example.events if len(example.events) > 1 else ("test",)
        *older, number = [queue(event, name) for event, name in zip(example.events, names, strict=True)]
        terminal.more(f"cancel it from another terminal: {shown('pulumi-sandbox')} job cancel {number}")
        url = queued[-1]["html_url"]
        machines.watch(number, command_for_job("explain", url, folder), forks.approve if forks else lambda: None)
        run_manager(folder, world, terminal, machines, number, older)
        as_expected &= forks is None or forks.was_refused()
        succeeded = print_result(world, terminal, number)
        if newest_attempt(world, number)["id"] != number:
            terminal.more(f"the first machine: {command_for_job('repro', url, folder)}")
    except KeyboardInterrupt:
        for job in queued[-1:]:
            with contextlib.suppress(InputError):  # the job may have ended already
                sandbox("job", "cancel", str(job["id"]), json_out=False)
            terminal.line("stopped", f"job {job['id']} is cancelled; its machine ends with the servers of the sandbox")
        return 130
    finally:
        world.close()
    return 0 if succeeded and as_expected else 1


def run_warm(
    folder: Path, config: dict[str, Any], terminal: Terminal, machines: Machines, queue_job: Callable[[], int]
) -> int:
    """Run a manager whose first pool has a warm machine, queue a job when that waits, and return the job's number.

    The manager ends with the job, so that it starts no other machine.
    """
    (pool, *others), world = config["pools"], machines.world
    if pool.get("supplier") or pool.get("public"):
        raise InputError("--example warm: the pool cannot have warm machines", got=pool["name"],
                         expected="a pool on Compute Engine without public repositories")  # fmt: skip
    # The stack's pool has no `warm`, so its machines would not wait for it.
    made = world.get(REGION_TEMPLATE, pool["template"].partition("/v1/")[2])
    assert made  # noqa: S101 - the stack is up
    agent = json.loads(made.inputs["metadata"]["gpu-agent-config"])
    agent["runner"]["warm_sec"] = _WARM["mostWaitSec"]
    metadata = made.inputs["metadata"] | {"gpu-agent-config": json.dumps(agent)}
    inputs = made.inputs | {"metadata": metadata}
    template = replace(made, id=f"{made.id}-warm", urn="", origin="api", created="", inputs=inputs)
    own = pool | {"warm": _WARM, "max": 1, "standby": 0, "template": f"{pool['template']}-warm"}
    write_whole(folder / _CONFIGURATION, json.dumps(config | {"pools": [own, *others]}, indent=2), 0o600)
    world.delete(template.type, template.id)  # left by a process that was killed
    world.insert(template)
    terminal.line("warm", f"the pool {pool['name']} gets one machine that is on and waits for a job")
    try:
        return run_manager(folder, world, terminal, machines, None, queue_job=queue_job)
    finally:
        world.delete(template.type, template.id)
        write_whole(folder / _CONFIGURATION, json.dumps(config, indent=2), 0o600)


def print_result(world: World, terminal: Terminal, job: int) -> bool:
    """Print the log, the conclusion and the wait of a job's newest attempt. Return True if it succeeded."""
    attempt = newest_attempt(world, job)
    ended = sandbox("job", "show", str(attempt["id"]), "--json")
    for line in str(ended.get("log") or "").splitlines():
        terminal.more(f"| {line}")
    failed = [step["name"] for step in ended["steps"] if step["conclusion"] == "failure"]
    where = f" in the step {failed[0]!r}" if failed else ""
    began = attempt.get("startedAt")
    waited = f"; it waited {began - attempt['createdAt']:.0f} s" if began else ""
    terminal.line("result", f"job {attempt['id']}: {ended['conclusion'] or ended['status']}{where}{waited}")
    return bool(ended["conclusion"] == "success")


def run_manager(
    folder: Path, world: World, terminal: Terminal, machines: Machines, job: int | None, older: Sequence[int] = (),
    queue_job: Callable[[], int] | None = None,
) -> int:  # fmt: skip
    """Run the manager until it is idle, or until the job has ended and no machine is left. Return the job's number.

    The jobs in `older` are cancelled when the job has ended. `queue_job` queues the job as soon as a warm machine waits
    for one. The manager then ends with the job.
    """
    command: list[str | Path] = [
        BIN / "gpu-ci", "manager", "run", "--json", "--until-idle", "--interval-sec", "1",
        "--config", folder / _CONFIGURATION, "--state", folder / _STATE, "--app-key", folder / "app-key.pem",
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    lines: queue.Queue[str] = queue.Queue()
    assert process.stdout is not None  # noqa: S101 - it was opened as a pipe
    reader = threading.Thread(target=read_lines, args=(process.stdout, lines), daemon=True)
    reader.start()
    last_busy = time.monotonic()
    deadline = last_busy + _LIMIT_SEC
    try:
        while process.poll() is None or not lines.empty():
            for event in events(lines):
                machines.handle(event)
                if event["event"] == "gpu-fault":  # the job runs again soon
                    last_busy = time.monotonic()
            machines.read_serial_ports()
            if job is None and queue_job and (waiting := warm_machine(folder, machines)):
                terminal.line("warm", f"machine {waiting} has passed its check, and waits for a job")
                job = queue_job()
            ended = job is not None and newest_attempt(world, job)["status"] == COMPLETED
            if ended and queue_job:
                break
            for other in older if ended else ():
                sandbox("job", "cancel", str(other), json_out=False)
                terminal.line("cancelled", f"job {other}, which would run next")
            older = () if ended else older
            if not ended or machines.any_left():
                last_busy = time.monotonic()
            if time.monotonic() > last_busy + _IDLE_SEC:
                break
            if time.monotonic() > deadline:
                if ended:
                    terminal.line("stopped", f"the manager, which has machines for other jobs after {_LIMIT_SEC} s")
                    break
                what = "the warm machine does not wait" if job is None else f"job {job} has not ended"
                raise InputError(f"{what} within {_LIMIT_SEC} s; gpu-ci explain says why")
            time.sleep(0.2)
    finally:
        process.terminate()
        code = process.wait()
        reader.join(_IDLE_SEC)
    for event in events(lines):
        machines.handle(event)
    if code not in (0, -15):
        raise InputError(f"gpu-ci manager run ended with code {code}")
    if job is None:
        raise InputError("gpu-ci manager run ended before a machine waited")
    if not queue_job:
        machines.print_cost()
    return job


def warm_machine(folder: Path, machines: Machines) -> str:
    """Return the name of one of the machines that waits for a job; empty without one."""
    with contextlib.suppress(InputError):  # no pass has ended yet
        view = last_view(str(folder / _CONFIGURATION), str(folder / _STATE))
        found = (each["name"] for each in view["machines"] or () if each["status"] == "warm")
        return next(filter(machines.has, found), "")
    return ""


def newest_attempt(world: World, job: int) -> dict[str, Any]:
    """Return the newest attempt of a job. An attempt after a preemption has another id."""
    jobs = [record.outputs for record in world.find(JOB)]
    places = {each["id"]: (each["runId"], each["position"]) for each in jobs}
    return max((each for each in jobs if places[each["id"]] == places.get(job)), key=lambda each: each["id"])


class Machines:
    """Prints the lifecycle of the job's machines, from the manager's log and from their serial ports."""

    def __init__(self, world: World, terminal: Terminal, pools: list[dict[str, Any]]) -> None:
        self.world, self._line, self._more = world, terminal.line, terminal.more
        self._job: int | None = None
        self._explain = ""
        self._on_wait: Callable[[], None] = lambda: None
        self._prices = {
            f"{rung['machineType']} {rung['market']} in {rung['zone']}": rung["usdPerHour"]
            for pool in pools
            for rung in pool["rungs"]
        }
        self._places: dict[str, str] = {}
        self._since: dict[str, float] = {}
        self._seconds: dict[str, float] = {}
        self._printed: dict[str, int] = {}
        """The number of characters of a machine's serial port that are printed already."""

    def watch(self, job: int, explain: str, on_wait: Callable[[], None]) -> None:
        """Print `explain`, the command that explains why the job waits, and call `on_wait`, if it waits without a
        machine.

        A job that waits for an approval may wait forever, so the manager would never be idle.
        """
        self._job, self._explain, self._on_wait = job, explain, on_wait

    def handle(self, event: dict[str, str]) -> None:
        """Print one line of the manager's log."""
        kind, subject, detail = event["event"], event["subject"], event["detail"]
        if kind in ("insert", "start-machine"):
            # The lines of the earlier boot on the serial port are printed already.
            instances = self._rows(subject) if kind == "start-machine" else ()
            self._printed[subject] = sum(len(str(record.outputs.get(SERIAL, ""))) for record in instances)
            self._since[subject], self._places[subject] = time.monotonic(), detail
            noun = "machine" if kind == "insert" else "the machine on standby"
            self._line("requested", f"{detail}: {noun} {subject}")
        elif kind == "stop-machine":
            if (since := self._since.pop(subject, None)) is not None:
                self._seconds[subject] = time.monotonic() - since
            self._line("standby", f"machine {subject}: {detail}")
        elif kind in ("delete", "preempted") and subject in self._since:
            self._seconds[subject] = time.monotonic() - self._since[subject]
            self._line(
                "deleted" if kind == "delete" else kind, f"machine {subject}: {detail or 'the cloud took it back'}"
            )
        elif kind == "job-runs":
            self._line("runs", f"{subject} {detail}")
        elif kind == "job-ended":
            self._line("ended", f"{subject}: {self._conclusion(subject) or detail}")
        elif kind in _SHOWN:
            self._line(kind, f"{subject}: {detail}")
            if kind == "job-waits" and self._explain and _job_id(subject) == str(self._job):
                self._more(f"more: {self._explain}")
                self._explain = ""
                self._on_wait()

    def _conclusion(self, subject: str) -> str:
        """Return GitHub's conclusion of the job in a log line; empty without one. The manager does not know it."""
        record = self.world.get(JOB, _job_id(subject))
        return str(record.outputs["conclusion"] or "") if record else ""

    def has(self, name: str) -> bool:
        """Return True if the manager of this command requested the machine."""
        return name in self._since

    def any_left(self) -> bool:
        """Return True if a machine still exists."""
        return any(self._rows(name) for name in self._since)

    def _rows(self, name: str) -> list[Record]:
        """Return the machine of this name in the world. The name of a rented VM has more parts."""
        return [row for row in self.world.find(_INSTANCE) if f"{row.outputs.get('name')}-".startswith(f"{name}-")]

    def read_serial_ports(self) -> None:
        """Print what the machines have written to their serial ports since the last call."""
        for name in self._since:
            for record in self._rows(name):
                text = str(record.outputs.get(SERIAL, ""))
                new, self._printed[name] = text[self._printed.get(name, 0) :], len(text)
                for line in new.splitlines():
                    self._serial(name, line)

    def _serial(self, name: str, line: str) -> None:
        if found := _STEP.search(line):
            step = json.loads(found[1])["step"]
            self._line("machine", f"{name}: {STEPS.get(step, step)}")
        elif found := _RESULT.search(line):
            verdict = json.loads(base64.b64decode(found[1]))
            self._line("GPU", f"{verdict['verdict']}: {verdict['summary']}")

    def print_cost(self) -> None:
        """Print what the machines would have cost at the catalog's price."""
        for name, seconds in self._seconds.items():
            place = self._places[name]
            price, machine = self._prices.get(place), f"{seconds:.0f} s of {place}"
            if price is None:
                self._line("cost", f"{machine}, whose price is unknown")
            else:
                # Both clouds bill at least a minute (cloud.google.com/compute/all-pricing, aws.amazon.com/ec2/pricing).
                usd, billed = max(seconds, 60) * price / 3600, ", billed as 60 s" if seconds < 60 else ""
                self._line("cost", f"{machine} at {price:.2f} USD/h{billed}: {usd:.4f} USD")


def _job_id(subject: str) -> str:
    """Return the job's id from the subject of a log line: owner/repository#id, and the job's name in some lines."""
    return subject.partition("#")[2].partition(" ")[0]


def read_lines(source: IO[str], lines: queue.Queue[str]) -> None:
    """Put each line of a stream into the queue, and close the stream at its end."""
    with source:
        for line in source:
            lines.put(line)


def events(lines: queue.Queue[str]) -> Iterator[dict[str, str]]:
    """Yield the lines that have arrived."""
    while not lines.empty():
        yield json.loads(lines.get())


def configuration(stack: str, pool: str = "") -> dict[str, Any]:
    """Return the configuration of the manager from the outputs of the stack, with this pool or supplier as the first.

    It has no pools of other suppliers, because the sandbox does not always serve EC2 and Jarvis Labs.
    """
    finished = subprocess.run(
        [BIN / "pulumi-sandbox", "stack", "output", "manager", "--json", "--stack", stack],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if finished.returncode:
        got = next(
            (line for line in finished.stderr.splitlines() if line.startswith("error:")), finished.stderr.strip()
        )
        up = f"{shown('pulumi-sandbox')} up --stack {stack}"
        if "does not have output property" in got:
            needed = "a pool on Compute Engine, and gpu-ci:site.github.managerApp"
            hint = f"{_NO_KUBERNETES}; if the stack was destroyed, {up}"
            raise InputError(f"the stack {stack} has no runner manager", expected=needed, hint=hint)
        raise InputError(f"the stack {stack} is not up in the sandbox", got=got, hint=up)
    config = dict(json.loads(finished.stdout))
    # Without a pool, one on Compute Engine is the first.
    pools = sorted(config["pools"], key=lambda each: "supplier" in each)
    chosen = next(
        (each for each in pools if pool in ("", each["name"], each.get("supplier"), each["name"].rpartition("-")[2])),
        None,
    )
    if chosen is None:
        raise InputError(
            "no such pool of machines",
            got=pool,
            expected=f"one of {', '.join(each['name'] for each in pools)}",
            hint=_NO_KUBERNETES,
        )
    others = [each for each in pools if each is not chosen and each.get("supplier") == chosen.get("supplier")]
    config["pools"] = [chosen, *others]
    return config


def sandbox(*arguments: str, json_out: bool = True) -> dict[str, Any]:
    """Run a command of the sandbox, and return its output."""
    finished = subprocess.run([BIN / "pulumi-sandbox", *arguments], capture_output=True, text=True, check=False)
    if finished.returncode:
        raise InputError(finished.stderr.strip().removeprefix("Error: "))
    return dict(json.loads(finished.stdout)) if json_out else {}
