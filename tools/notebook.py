"""`make notebook`: a push to a repository runs its notebooks in the sandbox, tests them, and publishes a report.

The objects of Tekton and the programs of the tasks are the real ones, with papermill on the CPU. The sandbox runs the
graph, receives the push, and emulates GitHub and the receiver of notifications. A bucket is a folder of this computer.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from gpu_ci.kubernetes import gpu_nodes
from gpu_ci.kubernetes.notebooks.args import NotebookPipelineArgs
from gpu_ci.kubernetes.notebooks.objects import objects, secret_name
from pulumi import Output
from pulumi_sandbox.providers.github.actions.runs_api import StatusesApi
from pulumi_sandbox.providers.github.app_api import GithubAppApi
from pulumi_sandbox.providers.github.organizations import Organizations
from pulumi_sandbox.providers.github.repositories import Repository
from pulumi_sandbox.providers.kubernetes.scheduling.scheduler import Scheduler
from pulumi_sandbox.providers.kubernetes.tekton.graph import TaskRun
from pulumi_sandbox.providers.kubernetes.tekton.listener import Delivery, Listener, Receipt, signed
from pulumi_sandbox.providers.kubernetes.tekton.runs import PIPELINE_RUN, Runs, Settings
from pulumi_sandbox.providers.kubernetes.workloads.containers import Containers
from pulumi_sandbox.providers.machines.local_server import Answer, as_json
from pulumi_sandbox.providers.machines.local_services import Call, LocalServices
from pulumi_sandbox.providers.machines.settings import GuestSettings
from pulumi_sandbox.providers.rsa_key import private_key
from pulumi_sandbox.workspace import Workspace
from pulumi_sandbox.world.store import Record, World

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES_FOLDER = ROOT / "examples" / "notebooks"
NAME, OWNER, REPOSITORY, POOL, CLUSTER = "analysis", "acme", "kernels", "l4", "make-notebook"
BUCKET = "acme-notebooks"
_APP = "1"
_CANCEL_SEC = 4.0
_LIMIT_SEC = "15"
_CANCELLED, _FAILED = 130, 1


@dataclass(frozen=True)
class Example:
    """What is pushed, and what happens while it runs."""

    text: str
    changes: dict[str, str] = field(default_factory=dict)
    """Texts of the notebook and the tests that are replaced, to change what they do."""
    environment: dict[str, str] = field(default_factory=dict)
    pushes: int = 1
    cancels: bool = False


_HANGS = {"steps = 200": "import time; time.sleep(300)"}
EXAMPLES = {
    "passing": Example("the notebooks and their tests pass"),
    "failing": Example("a notebook fails", {"steps = 200": "raise ValueError('no data for 2026')"}),
    "hanging": Example("a notebook runs longer than its limit", _HANGS, {"NOTEBOOK_LIMIT_SEC": _LIMIT_SEC}),
    "cancelled": Example("the run is cancelled while a notebook runs", _HANGS, cancels=True),
    "two-runs": Example("two pushes need the same GPU, so the second one waits", pushes=2),
    "bad-tests": Example("a test of the results fails", {"< 0.01": "< 0.0"}),
}


def main() -> int:
    """Return 0 if every run succeeded, 1 if one failed, and 130 if one was cancelled."""
    parser = argparse.ArgumentParser(prog="make notebook", description="Run notebooks of a push in the sandbox.")
    parser.add_argument("--python", default=str(ROOT / ".venv-notebook"), help="the environment with papermill")
    parser.add_argument("--verbose", action="store_true", help="print the output of the tasks")
    parser.add_argument("--example", choices=EXAMPLES, default="passing", metavar="NAME",
                        help=f"the push: {', '.join(EXAMPLES)} (default: %(default)s)")  # fmt: skip
    options = parser.parse_args()
    programs = Path(options.python) / "bin"
    if not (programs / "python3").exists():
        sys.stderr.write(
            f"notebook: no environment with papermill\n  got: {programs}\n  expected: a folder with python3\n"
            "  hint: run make notebook-tools, which creates it\n"
        )
        return 2
    example = EXAMPLES[options.example]
    with sandbox(example, programs, options.verbose) as session:
        print(f"Pushing to {OWNER}/{REPOSITORY} in the sandbox. Here {example.text}.\n", flush=True)
        code = session.run(example)
    others = ", ".join(f"NOTEBOOK={each}" for each in EXAMPLES if each != options.example)
    print(f"\nOther pushes: make notebook with {others}", flush=True)
    return code


@contextmanager
def sandbox(example: Example, programs: Path, verbose: bool) -> Iterator[Session]:
    """Serve the pipeline with one node that has one GPU. All processes have ended when the block ends."""
    workspace = Workspace.find()
    workspace.prepare()
    storage = workspace.root / "notebooks"
    shutil.rmtree(storage, ignore_errors=True)
    whole = World(workspace.world)
    world = whole.for_cluster("kubernetes", lambda: CLUSTER)
    github = GithubAppApi(whole, (f"{OWNER}/*",), Organizations(apps={_APP: {"contents": "read", "statuses": "write"}}))
    received: list[Any] = []

    def notify(call: Call) -> Answer:
        received.append(call.body)
        return as_json(200, {})

    services = LocalServices({"github": github.answer, "notify": notify})
    repository = github.repositories.get(f"{OWNER}/{REPOSITORY}")
    assert repository is not None  # noqa: S101 - the pattern above lists it
    with tempfile.TemporaryDirectory(prefix="make-notebook-") as folder:
        settings = Settings(
            storage,
            environment={
                "GITHUB_API": services.url("github"),
                "GITHUB_URL": (Path(folder) / "git").as_uri(),
                "GITHUB_APP_ID": _APP,
                "GITHUB_INSTALLATION_ID": _APP,
                "GITHUB_PRIVATE_KEY": private_key(whole, _APP),
                "NOTIFY_URL": services.url("notify").replace("http://", "json://"),
                "REPORT_URL": f"{(storage / 'gs' / BUCKET).as_uri()}/",
                **example.environment,
            },
        )
        scheduler = Scheduler(world, lambda: {"nodes": _NODES}, lambda: CLUSTER)
        guest = GuestSettings(path=(str(programs),))
        containers = Containers(world, lambda: guest, threading.Event())
        _remove(world)
        for each in objects(NAME, NAME, pipeline_args()):
            world.insert(_record(each))
        runs = Runs(world, containers, scheduler, settings)
        session = Session(runs, StatusesApi(whole), repository, Path(folder), received)
        runs.changed = session.show
        runs.log = session.log if verbose else runs.log
        try:
            yield session
        finally:
            runs.close()
            services.close()
            _remove(world)
            whole.close()


def pipeline_args() -> NotebookPipelineArgs:
    """Return the arguments of the pipeline, as a stack file and its pool give them."""
    secret = Output.secret("in the Secret, whose value no object has")
    return NotebookPipelineArgs.model_validate(
        {
            "owner": OWNER,
            "pool": POOL,
            "repositories": [REPOSITORY],
            "image": f"ghcr.io/{OWNER}/notebook:1@sha256:{'a1' * 32}",
            "storage": {"kind": "bucket", "url": f"gs://{BUCKET}"},
            "webhookSecret": secret,
            "github": {"id": _APP, "installationId": _APP, "privateKey": secret},
            "notify": {"url": secret, "on": ["success", "failure", "recovery"]},
        }
    )


_NODES = [
    {"name": "cpu-node", "allocatable": {"cpu": "16", "memory": "64Gi"}},
    {
        "name": "gpu-node",
        "labels": gpu_nodes.labels(POOL),
        "taints": [{"key": gpu_nodes.TAINT_KEY, "value": gpu_nodes.TAINT_VALUE, "effect": gpu_nodes.TAINT_EFFECT}],
        "allocatable": {"cpu": "8", "memory": "32Gi", gpu_nodes.RESOURCE: "1"},
    },
]


def _record(each: dict[str, Any]) -> Record:
    api = each["apiVersion"] if "/" in each["apiVersion"] else f"core/{each['apiVersion']}"
    name = each["metadata"]["name"]
    return Record(f"kubernetes:{api}:{each['kind']}", f"{NAME}/{name}", name, "", each, each, "api")


def _remove(world: World) -> None:
    for row in world.find("kubernetes:*"):
        world.delete(row.type, row.id, "make notebook")


class Session:
    """The pushes of one command, with what is printed about them."""

    def __init__(
        self, runs: Runs, statuses: StatusesApi, repository: Repository, folder: Path, received: list[Any]
    ) -> None:
        self.runs, self.statuses, self.repository = runs, statuses, repository
        self.folder, self.received = folder, received
        self.began = time.monotonic()
        self.listener = Listener(runs, NAME, NAME)
        self.cancels = False
        self.shown: dict[str, float] = {}

    def run(self, example: Example) -> int:
        self.cancels = example.cancels
        pushed: dict[str, str] = {}
        for sha in commits(self.folder / "work", self.folder / "git", example):
            receipt = self.push(sha)
            pushed |= dict.fromkeys(receipt.runs, sha)
            self.say("push", f"{sha[:12]} of main: {', '.join(receipt.runs) or '; '.join(receipt.notes)}")

        def cancel(_: int, __: FrameType | None) -> None:
            for each in pushed:
                self.runs.cancel(each)

        signal.signal(signal.SIGINT, cancel)
        signal.signal(signal.SIGTERM, cancel)
        self.runs.wait()
        return max((self.report(each, sha) for each, sha in pushed.items()), default=_FAILED)

    def push(self, sha: str) -> Receipt:
        """Deliver a push as GitHub does."""
        key = self.runs.settings.secret(NAME, secret_name(NAME, "webhook"), "secret")
        return self.listener.receive(delivery(self.repository, sha, key))

    def show(self, run: str, task_run: TaskRun, state: str) -> None:
        """Print the new state of a task."""
        notebook = task_run.params.get("notebook", "")
        name = f"{task_run.task} {notebook}".strip()
        since = self.shown.get(task_run.name)
        self.shown[task_run.name] = time.monotonic()
        took = f" after {time.monotonic() - since:.1f} s" if since and task_run.is_done else ""
        # Only the first sentence of the scheduler's message.
        self.say(run.rpartition("-")[2][:7], f"{name}: {state.partition('. ')[0]}{took}")
        if self.cancels and task_run.task == "execute" and state == "Running":
            self.cancels = False
            timer = threading.Timer(_CANCEL_SEC, self.runs.cancel, [f"{NAME}/{run}"])
            timer.daemon = True
            timer.start()

    def log(self, task_run: str, line: str) -> None:
        print(f"           {task_run}: {line}", flush=True)

    def say(self, word: str, text: str) -> None:
        print(f"{time.monotonic() - self.began:6.1f} s  {word:9}  {text}", flush=True)

    def report(self, run: str, sha: str) -> int:
        """Print how a run ended, and return the exit code."""
        row = self.runs.world.get(PIPELINE_RUN, run)
        status = row.outputs["status"] if row else {}
        [condition] = status["conditions"]
        print(f"\n{run}: {condition['reason']}: {condition['message']}")
        if skipped := status["skippedTasks"]:
            print(f"  skipped:      {', '.join(each['name'] for each in skipped)} ({skipped[0]['reason']})")
        name = run.partition("/")[2]
        page = self.runs.settings.storage / "gs" / BUCKET / NAME / self.repository.full_name / name / "index.html"
        print(f"  report:       {page if page.exists() else 'none'}")
        for each in self.statuses.of(self.repository, sha)[:1]:
            print(f"  status:       {each['context']}: {each['state']}: {each['description']}")
        for each in self.received:
            if name in json.dumps(each) or sha[:7] in json.dumps(each):
                print(f"  notification: {each.get('title', '')}: {str(each.get('message', '')).partition(chr(10))[0]}")
        sys.stdout.flush()
        if condition["status"] == "True":
            return 0
        return _CANCELLED if condition["reason"] == "Cancelled" else _FAILED


def delivery(repository: Repository, sha: str, key: str) -> Delivery:
    """Return the delivery of a push to the default branch, as GitHub signs it."""
    about = {"id": repository.id, "name": repository.name, "full_name": repository.full_name, "default_branch": "main"}
    content = json.dumps({"ref": "refs/heads/main", "after": sha, "deleted": False, "repository": about}).encode()
    headers = {"content-type": "application/json", "x-github-event": "push"}
    return Delivery({**headers, "x-hub-signature-256": signed(content, key)}, content)


def commits(work: Path, server: Path, example: Example) -> Iterator[str]:
    """Push commits of the example to a repository on this computer, and yield them.

    Args:
        work: The folder that is created for the files of the commits.
        server: The folder of repositories.
        example: What is pushed.
    """
    bare = server / OWNER / f"{REPOSITORY}.git"
    shutil.copytree(EXAMPLES_FOLDER, work)
    for path in [each for each in work.rglob("*") if each.is_file()]:
        text = path.read_text(encoding="utf-8")
        for old, new in example.changes.items():
            text = text.replace(old, new)
        path.write_text(text, encoding="utf-8")
    _git(work, "init", "--quiet", "--bare", "--initial-branch=main", str(bare))
    _git(bare, "config", "uploadpack.allowAnySHA1InWant", "true")
    _git(work, "init", "--quiet", "--initial-branch=main")
    for number in range(example.pushes):
        (work / "data" / "seed.txt").write_text(f"{number}\n", encoding="utf-8")
        _git(work, "add", "--all")
        _git(work, "commit", "--quiet", "--message", f"Change the data, part {number + 1}")
        _git(work, "push", "--quiet", "--force", str(bare), "main")
        yield _git(work, "rev-parse", "HEAD")


def _git(folder: Path, *arguments: str) -> str:
    identity = {f"GIT_{role}_{key}": each for role in ("AUTHOR", "COMMITTER")
                for key, each in (("NAME", "make notebook"), ("EMAIL", "notebook@example.com"))}  # fmt: skip
    settings = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    command = ["git", "-C", str(folder), *arguments]
    done = subprocess.run(
        command, env={**os.environ, **identity, **settings}, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
