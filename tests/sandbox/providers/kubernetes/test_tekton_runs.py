"""PipelineRuns with real processes, and the listener that starts them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pulumi_sandbox.providers.kubernetes.scheduling.scheduler import POD, Scheduler
from pulumi_sandbox.providers.kubernetes.tekton.graph import TaskRun
from pulumi_sandbox.providers.kubernetes.tekton.listener import Delivery, Listener, signed
from pulumi_sandbox.providers.kubernetes.tekton.runs import API, PIPELINE_RUN, TRIGGERS, Runs, Settings
from pulumi_sandbox.providers.kubernetes.workloads.containers import CONFIG_MAP, Containers
from pulumi_sandbox.providers.machines.settings import GuestSettings
from pulumi_sandbox.providers.machines.vm_processes import is_running, start_time
from pulumi_sandbox.providers.resource import Refused
from pulumi_sandbox.world.store import Record, World

GPU = "nvidia.com/gpu"
NODE = {"name": "one", "allocatable": {"cpu": "8", "memory": "32Gi", GPU: "1"}}
KEY = "a-key-of-the-webhook"
PROGRAM = """
import json, os, sys, time
from pathlib import Path
out = Path(os.environ["STORE"].removeprefix("file://")) / os.environ["RUN"]
out.mkdir(parents=True, exist_ok=True)
"""
LIST = 'Path(os.environ["RESULT_NAMES"]).write_text(json.dumps(["a", "b"]))'
EACH = """
began = time.monotonic()
Path("here").write_text(os.environ["TOKEN"])
time.sleep(0.3)
(out / os.environ["NAME"]).write_text(json.dumps([began, time.monotonic()]))
Path(os.environ["RESULT_LENGTH"]).write_text(os.environ["NAME"] * int(os.environ["SIZE"]))
"""
LAST = '(out / "last").write_text(" ".join(sys.argv[1:]))'


def step(name: str, args: list[str] | None = None, resources: Any = None, **env: Any) -> dict[str, Any]:
    values = {"STORE": "gs://bucket/ci", "RUN": "$(params.run)", **env}
    variables = [{"name": key, **({"value": each} if isinstance(each, str) else each)} for key, each in values.items()]
    mounts = [{"name": "programs", "mountPath": "/programs"}, {"name": "work", "mountPath": "/work"}]
    return {
        "volumes": [{"name": "programs", "configMap": {"name": "programs"}}, {"name": "work", "emptyDir": {}}],
        "steps": [
            {
                "name": name, "image": "i", "command": ["python3", f"/programs/{name}.py"], "args": args or [],
                "workingDir": "/work", "env": variables, "volumeMounts": mounts, "computeResources": resources or {},
            }
        ],
    }  # fmt: skip


def params(*names: str) -> list[dict[str, str]]:
    return [{"name": each} for each in names]


TOKEN = {"valueFrom": {"secretKeyRef": {"name": "token", "key": "t"}}}
GPUS = {"requests": {GPU: "1"}, "limits": {GPU: "1"}}
RUN = {"name": "run", "value": "$(context.pipelineRun.name)"}
OBJECTS: dict[str, Any] = {
    f"{API}:Task/list": {
        "params": params("run"), "results": [{"name": "names", "type": "array"}],
        **step("list", RESULT_NAMES="$(results.names.path)"),
    },
    f"{API}:Task/each": {
        "params": params("run", "name", "size"), "results": params("length"),
        **step("each", resources=GPUS, TOKEN=TOKEN, NAME="$(params.name)", SIZE="$(params.size)",
               RESULT_LENGTH="$(results.length.path)"),
    },
    f"{API}:Task/last": {
        "params": [*params("run"), {"name": "lengths", "type": "array"}], **step("last", ["$(params.lengths[*])"]),
    },
    f"{API}:Pipeline/p": {
        "params": params("size"),
        "tasks": [
            {"name": "list", "taskRef": {"name": "list"}, "params": [RUN]},
            {
                "name": "each", "taskRef": {"name": "each"},
                "params": [RUN, {"name": "size", "value": "$(params.size)"}],
                "matrix": {"params": [{"name": "name", "value": ["$(tasks.list.results.names[*])"]}]},
            },
        ],
        "finally": [
            {"name": "last", "taskRef": {"name": "last"},
             "params": [RUN, {"name": "lengths", "value": ["$(tasks.each.status)", "$(tasks.each.reason)"]}]}
        ],
        "results": [{"name": "names", "value": ["$(tasks.list.results.names[*])"]}],
    },
    f"{TRIGGERS}:TriggerTemplate/p": {
        "params": params("run", "size"),
        "resourcetemplates": [
            {"apiVersion": "tekton.dev/v1", "kind": "PipelineRun", "metadata": {"name": "$(tt.params.run)"},
             "spec": {"pipelineRef": {"name": "p"}, "params": [{"name": "size", "value": "$(tt.params.size)"}]}}
        ],
    },
    f"{TRIGGERS}:EventListener/p": {
        "triggers": [
            {
                "name": "push",
                "interceptors": [
                    {"ref": {"name": "github"}, "params": [
                        {"name": "secretRef", "value": {"secretName": "hook", "secretKey": "k"}},
                        {"name": "eventTypes", "value": ["push"]}]},
                    {"ref": {"name": "cel"}, "params": [
                        {"name": "filter", "value":
                            "!body.deleted && body.ref == 'refs/heads/' + body.repository.default_branch"
                            " && int(body.repository.id) % 100 < 50"},
                        {"name": "overlays", "value": [
                            {"key": "run", "expression":
                                "body.repository.name.lowerAscii().replace('_', '-') + body.after.truncate(4)"}]}]},
                ],
                "bindings": [{"name": "run", "value": "$(extensions.run)"}, {"name": "size", "value": "$(body.size)"}],
                "template": {"ref": "p"},
            }
        ]
    },
}  # fmt: skip


class Cluster:
    """One namespace with the objects above, on one node with one GPU."""

    def __init__(self, folder: Path) -> None:
        self.world = World(folder / "world.db")
        self.storage = folder / "storage"
        programs = {"list.py": PROGRAM + LIST, "each.py": PROGRAM + EACH, "last.py": PROGRAM + LAST}
        self.add(f"{CONFIG_MAP}/programs", data=programs)
        for key, spec in OBJECTS.items():
            self.add(key, spec=spec)
        scheduler = Scheduler(self.world, lambda: {"nodes": [NODE]}, lambda: "c")
        containers = Containers(self.world, GuestSettings, threading.Event())
        secrets = {"n/hook": {"k": KEY}, "n/token": {"t": "a-secret"}}
        self.states: list[str] = []
        self.runs = Runs(self.world, containers, scheduler, Settings(self.storage, secrets), self.changed)
        self.listener = Listener(self.runs, "n", "p")

    def changed(self, run: str, task_run: TaskRun, state: str) -> None:
        self.states.append(f"{task_run.name} {state.partition(':')[0]}")

    def add(self, key: str, **fields: Any) -> None:
        kind, _, name = key.rpartition("/")
        self.world.delete(kind, f"n/{name}")
        inputs = {"metadata": {"name": name, "namespace": "n"}, **fields}
        self.world.insert(Record(kind, f"n/{name}", name, "", inputs, inputs))

    def create(self, name: str, **fields: Any) -> bool:
        spec = {"pipelineRef": {"name": "p"}, "params": [{"name": "size", "value": "1"}], **fields}
        return self.runs.create({"metadata": {"name": name, "namespace": "n"}, "spec": spec})

    def status(self, name: str) -> dict[str, Any]:
        row = self.world.get(PIPELINE_RUN, f"n/{name}")
        assert row is not None
        status: dict[str, Any] = row.outputs["status"]
        return status

    def push(self, headers: dict[str, str] | None = None, **changes: Any) -> tuple[int, list[str], str]:
        repository = {"id": 123_450_049, "name": "My_Repo", "default_branch": "main"}
        body = {"ref": "refs/heads/main", "after": "abcdef", "deleted": False, "size": 1, "repository": repository}
        content = json.dumps({**body, **changes}).encode()
        good = {"x-github-event": "push", "x-hub-signature-256": signed(content, KEY)}
        receipt = self.listener.receive(Delivery(good if headers is None else {**good, **headers}, content))
        return receipt.status, receipt.runs, " ".join(receipt.notes)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    found = Cluster(tmp_path)
    yield found
    found.runs.close()
    found.world.close()


def test_two_runs_share_one_gpu_and_pass_their_values_on(cluster: Cluster) -> None:
    assert [cluster.create("r1"), cluster.create("r2"), cluster.create("r1")] == [True, True, False]
    cluster.runs.wait()
    times = []
    for name in ("r1", "r2"):
        status, folder = cluster.status(name), cluster.storage / "gs/bucket/ci" / name
        assert status["conditions"][0]["reason"] == "Succeeded"
        assert status["results"] == [{"name": "names", "value": ["a", "b"]}]
        assert (folder / "last").read_text() == "Succeeded Succeeded"
        times += [json.loads((folder / each).read_text()) for each in ("a", "b")]
    times.sort()
    assert all(first[1] <= second[0] for first, second in pairwise(times))
    assert "r2-each-1 ExceededNodeResources" in cluster.states or "r1-each-1 ExceededNodeResources" in cluster.states
    assert not cluster.world.find(POD)
    assert "a-secret" not in (cluster.world.path.read_bytes() + str(cluster.states).encode()).decode("latin-1")


@pytest.mark.slow
def test_a_cancelled_run_leaves_no_process(cluster: Cluster, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    hang = f"""
import subprocess
child = subprocess.Popen(["sleep", "300"], start_new_session=True)
Path({str(pids)!r}).write_text(f"{{os.getpid()}} {{child.pid}}")
time.sleep(300)
"""
    programs = {"list.py": PROGRAM + LIST, "each.py": PROGRAM + hang, "last.py": PROGRAM + LAST}
    cluster.add(f"{CONFIG_MAP}/programs", data=programs)
    cluster.create("r")
    wait_for(lambda: pids.exists() and pids.read_text().count(" ") == 1)
    processes = [(int(each), start_time(int(each))) for each in pids.read_text().split()]
    assert all(is_running(*each) for each in processes)
    cluster.runs.cancel("n/r")
    cluster.runs.wait()
    assert not any(is_running(*each) for each in processes)
    assert cluster.status("r")["conditions"][0]["reason"] == "Cancelled"
    assert (cluster.storage / "gs/bucket/ci/r/last").read_text() == "Failed TaskRunCancelled"
    assert not cluster.world.find(POD)


def wait_for(condition: Any) -> None:
    while not condition():
        time.sleep(0.05)


def test_a_run_without_its_task_is_refused(cluster: Cluster) -> None:
    cluster.world.delete(f"{API}:Task", "n/last")
    with pytest.raises(Refused, match=r"no such Task\n  got: n/last"):
        cluster.create("r")
    assert cluster.world.find(PIPELINE_RUN) == []


REPOSITORY = {"id": 123_450_050, "name": "r", "default_branch": "main"}


@pytest.mark.parametrize(
    ("headers", "changes", "note"),
    [
        ({"x-hub-signature-256": signed(b"another body", KEY)}, {}, "payload signature check failed"),
        ({"x-hub-signature-256": ""}, {}, "no X-Hub-Signature-256 header set"),
        ({"x-hub-signature-256": "sha1=" + "0" * 40}, {}, "payload signature check failed"),
        ({"x-github-event": "ping"}, {}, "event type ping is not allowed"),
        ({"x-github-event": "pull_request"}, {}, "event type pull_request is not allowed"),
        ({"content-type": "application/x-www-form-urlencoded"}, {}, "form parameter encoding not supported"),
        ({}, {"ref": "refs/heads/other"}, "did not return true"),
        ({}, {"ref": "refs/tags/main"}, "did not return true"),
        ({}, {"deleted": True, "after": "0" * 40}, "did not return true"),
        ({}, {"repository": REPOSITORY}, "did not return true"),
        ({}, {"repository": {}}, "error evaluating cel expression"),
        ({}, {"size": None}, "size is not found"),
    ],
)
def test_other_deliveries_get_202_and_start_nothing(
    cluster: Cluster, headers: dict[str, str], changes: dict[str, Any], note: str
) -> None:
    status, runs, notes = cluster.push(headers, **changes)
    assert (status, runs) == (202, [])
    assert note in notes
    assert KEY not in notes
    assert cluster.world.find(PIPELINE_RUN) == []


@pytest.mark.slow
def test_the_same_push_twice_starts_one_run(cluster: Cluster) -> None:
    assert cluster.push() == (202, ["n/my-repoabcd"], "")
    assert cluster.push() == (202, [], 'push: pipelineruns.tekton.dev "my-repoabcd" already exists')
    assert cluster.listener.receive(Delivery({}, b"not JSON")).status == 400
    cluster.runs.wait()
    assert cluster.status("my-repoabcd")["conditions"][0]["reason"] == "Succeeded"


@pytest.mark.parametrize("expression", ["body.repository.id % 100 == 1", "body.", "nothing(body)"])
def test_a_wrong_expression_starts_nothing(cluster: Cluster, expression: str) -> None:
    """A number of JSON is a double, and has no remainder."""
    [trigger] = OBJECTS[f"{TRIGGERS}:EventListener/p"]["triggers"]
    cel = {"ref": {"name": "cel"}, "params": [{"name": "filter", "value": expression}]}
    cluster.add(f"{TRIGGERS}:EventListener/p", spec={"triggers": [{**trigger, "interceptors": [cel]}]})
    status, runs, notes = cluster.push()
    assert (status, runs) == (202, [])
    assert "error evaluating cel expression" in notes
