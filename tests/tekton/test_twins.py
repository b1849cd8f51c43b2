"""Small pipelines end on the executor of the sandbox as on Tekton: order, reasons, skipped tasks and results."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest
from gpu_ci.kubernetes import gpu_nodes

from tests.tekton.conftest import Tier
from tests.tekton.twins import TEKTON, Executor, Real, Seen, wait_until_running

SPACE = "twins"
AT_ONCE = 5
HANG = "sleep 300"
ONCE = 'test -e "$DIR/$RUN-$NAME" && exit 0; touch "$DIR/$RUN-$NAME"; '
"""The start of a script whose first attempt ends in another way."""
RUN = {"name": "run", "value": "$(context.pipelineRun.name)"}


def task(name: str, *after: str, script: str = "true", results: dict[str, str] | None = None, gpus: int = 0,
         of_step: dict[str, Any] | None = None, volumes: list[Any] | None = None, last: bool = False,
         **fields: Any) -> dict[str, Any]:  # fmt: skip
    """Return a task of a pipeline, with the spec of its Task in `own`."""
    given = [each["name"] for each in fields.get("params", ())]
    given += [each["name"] for each in (fields.get("matrix") or {}).get("params", ())]
    kinds = {
        "array" if isinstance(each["value"], list) else "string": each["name"] for each in fields.get("params", ())
    }
    variables = {"STORE": "file:///store", "RUN": "$(params.run)", "NAME": name}
    variables |= {each.upper(): f"$(params.{each})" for each in given if each != kinds.get("array")}
    variables |= {f"RESULT_{key.upper()}": f"$(results.{key}.path)" for key in results or ()}
    resources = {each: {gpu_nodes.RESOURCE: str(gpus)} for each in ("requests", "limits")} if gpus else {}
    step = {
        "name": "step", "image": "local/shell:1", "computeResources": resources,
        "command": ["sh", "-ec", f'DIR="${{STORE#file://}}"; {script}'],
        "env": [{"name": key, "value": each} for key, each in variables.items()],
        "volumeMounts": [{"name": "store", "mountPath": "/store"}],
    }  # fmt: skip
    more = of_step or {}
    own = {
        "params": [{"name": "run"}] + [
            {"name": each, "type": "array" if each == kinds.get("array") else "string"} for each in given
        ],
        "results": [{"name": key, "type": kind} for key, kind in (results or {}).items()],
        "volumes": [{"name": "store", "persistentVolumeClaim": {"claimName": "store"}}, *(volumes or ())],
        "steps": [{**step, **more, "env": [*step["env"], *more.get("env", ())],
                   "volumeMounts": [*step["volumeMounts"], *more.get("volumeMounts", ())]}],
    }  # fmt: skip
    fields["params"] = [RUN, *fields.get("params", ())]
    return {"own": own, "last": last, "name": name, **({"runAfter": list(after)} if after else {}), **fields}


def values(**given: Any) -> list[dict[str, Any]]:
    return [{"name": key, "value": each} for key, each in given.items()]


def over(reference: str) -> dict[str, Any]:
    return {"params": values(item=[reference])}


def listed(*items: str) -> dict[str, Any]:
    """Return a task that writes a list."""
    text = ",".join(f'"{each}"' for each in items)
    shell = text.replace("$(", "$%s")  # not a reference in the Task
    return task("list", script=f"""printf '[{shell}]' '(' '(' > "$RESULT_ITEMS" """, results={"items": "array"})


def reports(*names: str) -> dict[str, Any]:
    """Return a last task that gets the ends of tasks."""
    states = {f"{each}_{what}": f"$(tasks.{each}.{what})" for each in names for what in ("status", "reason")}
    return task("last", last=True, params=values(whole="$(tasks.status)", **states))


@dataclass(frozen=True)
class Case:
    tasks: list[dict[str, Any]]
    cancel_in: str = ""
    """The task in which the run is cancelled."""
    more: dict[str, Any] = field(default_factory=dict)
    """Further fields of the pipeline."""


WRITES = """printf '%s' "of $NAME" > "$RESULT_TEXT" """
TEXT = {"text": "string"}
EACH = "$(tasks.list.results.items[*])"
ITEM = """printf '%s' "<$ITEM>" > "$RESULT_TEXT" """
CASES = {
    "one-gpu": Case(
        [listed("x", "y", "z"), reports("each"),
         task("each", gpus=1, matrix=over(EACH), script='mkdir "$DIR/$RUN-gpu"; sleep 2; rmdir "$DIR/$RUN-gpu"')]
    ),
    "branches-and-a-join": Case(
        [task("a"), task("b", "a", script="sleep 1"), task("c", "a"), task("d", "b", "c"), reports("a", "d")]
    ),
    "a-failure": Case(
        [task("a", script="exit 3"), task("b", script="sleep 3"), task("c", "b"), task("d", "a"),
         reports("a", "b", "c", "d")]
    ),
    "a-failure-of-the-last-task": Case([task("a"), task("last", last=True, script="exit 1")]),
    "a-retry-succeeds": Case([task("a", retries=1, script=f"{ONCE} exit 1"), task("b", "a"), reports("a")]),
    "retries-end": Case([task("a", retries=2, script="exit 1"), task("b", "a"), reports("a", "b")]),
    "cancelled": Case([task("a", retries=2, script=HANG), task("b", "a"), reports("a", "b")], cancel_in="a"),
    "cancelled-with-a-branch": Case(
        [task("a"), task("b", "a", script=HANG), task("c", "a", script=HANG), task("d", "b", "c"),
         reports("a", "b", "c", "d")], cancel_in="b",
    ),
    "a-matrix": Case(
        [listed("x", "y z", "*"), task("each", script=ITEM, results=TEXT, matrix=over(EACH)),
         task("join", params=values(texts=["$(tasks.each.results.text[*])"])), reports("list", "each")],
    ),
    "one-of-a-matrix-fails": Case(
        [listed("x", "y", "z"), task("each", script='test "$ITEM" != y; sleep 2', matrix=over(EACH)),
         task("next", "each"), reports("each", "next")]
    ),
    "one-of-a-matrix-is-retried": Case(
        [listed("x", "y"), reports("each"),
         task("each", retries=1, matrix=over(EACH), script=f'test "$ITEM" = x || {{ {ONCE} exit 1; }}')]
    ),
    "a-matrix-of-one": Case([listed("x"), task("each", matrix=over(EACH)), reports("each")]),
    "results-alone-order-tasks": Case(
        [task("a", script=WRITES, results=TEXT), task("b", script=WRITES, results=TEXT),
         task("c", params=values(one="$(tasks.a.results.text)", two="<$(tasks.b.results.text)>"))],
        more={"results": values(text="$(tasks.b.results.text)")},
    ),
    "a-result-of-several-lines": Case(
        [task("a", results=TEXT, script="""printf ' "one"\\n$%sx) two \\n' '(' > "$RESULT_TEXT" """),
         task("b", params=values(one="$(tasks.a.results.text)"))],
        more={"results": values(text="$(tasks.a.results.text)")},
    ),
    "a-missing-result-of-the-run": Case(
        [task("a", script=WRITES, results=TEXT), reports("b"),
         task("b", "a", results=TEXT, script=f"{WRITES}; exit 1")],
        more={"results": values(a="$(tasks.a.results.text)", b="$(tasks.b.results.text)")},
    ),
    "a-large-matrix": Case(
        [listed(*map(str, range(11))), task("each", script=ITEM, results=TEXT, matrix=over(EACH)),
         task("join", params=values(texts=["$(tasks.each.results.text[*])"]))],
    ),
    "a-killed-step": Case([task("a", script="kill -9 $$"), task("b", "a"), reports("a")]),
    "files-and-secrets": Case(
        [task("a", results=TEXT, script="""cp /files/a.txt /empty/b; cat /empty/b - > "$RESULT_TEXT" <<E\n$TOKEN\nE""",
              volumes=[{"name": "files", "configMap": {"name": "files"}}, {"name": "empty", "emptyDir": {}}],
              of_step={"volumeMounts": [{"name": each, "mountPath": f"/{each}"} for each in ("files", "empty")],
                       "env": [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "token", "key": "t"}}}],
                       "workingDir": "/empty"})],
        more={"results": values(text="$(tasks.a.results.text)")},
    ),
}  # fmt: skip


def objects() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what the pipelines share, with the types of Pulumi."""
    meta = {"namespace": SPACE}
    storage = {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "shared",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    for kind, name, rest in (
        ("PersistentVolumeClaim", "store", {"spec": storage}),
        ("ConfigMap", "files", {"data": {"a.txt": "a file\n"}}),
        ("Secret", "token", {"stringData": {"t": "a-secret"}}),
    ):
        given = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, **meta}, **rest}
        yield f"kubernetes:core/v1:{kind}", given


def made(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": TEKTON, "kind": kind, "metadata": {"name": name, "namespace": SPACE}, "spec": spec}


def run(side: Real | Executor, name: str) -> Seen:
    """Run a case on one side, and return its end."""
    case = CASES[name]
    spec: dict[str, Any] = {"tasks": [], "finally": [], **case.more}
    for each in case.tasks:
        own = f"{name}-{each['name']}"
        side.add(f"kubernetes:{TEKTON}:Task", made("Task", own, each["own"]))
        fields = {key: value for key, value in each.items() if key not in ("own", "last")}
        spec["finally" if each["last"] else "tasks"].append({**fields, "taskRef": {"name": own}})
    side.add(f"kubernetes:{TEKTON}:Pipeline", made("Pipeline", name, spec))
    template: dict[str, Any] = {}
    if any("requests" in each["own"]["steps"][0]["computeResources"] for each in case.tasks):
        taint = {"key": gpu_nodes.TAINT_KEY, "operator": "Exists", "effect": gpu_nodes.TAINT_EFFECT}
        template = {"taskRunTemplate": {"podTemplate": {"tolerations": [taint]}}}
    side.create(made("PipelineRun", name, {"pipelineRef": {"name": name}, **template}))
    if case.cancel_in:
        wait_until_running(side, SPACE, name, case.cancel_in)
        side.cancel(SPACE, name)
    return side.ended(SPACE, name, spec)


@pytest.fixture(scope="module")
def ends(tier: Tier, real: Real, executor: Executor, request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """Start the selected cases, some of them at the same time, and return what will be seen of each on both sides."""
    tier.api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
    tier.api.ensure_account(SPACE)
    sides: tuple[Real | Executor, ...] = real, executor
    for side in sides:
        for kind, each in objects():
            side.add(kind, each)
    chosen = [each.callspec.params["name"] for each in request.session.items if each.module is request.module]
    with ThreadPoolExecutor(AT_ONCE * len(sides)) as pool:
        futures: dict[str, list[Future[Seen]]] = {
            name: [pool.submit(run, side, name) for side in sides] for name in chosen
        }
        yield futures


@pytest.mark.parametrize("name", CASES)
def test_the_executor_runs_a_pipeline_as_tekton(ends: dict[str, list[Future[Seen]]], name: str) -> None:
    of_tekton, of_executor = (each.result() for each in ends[name])
    assert vars(of_executor) == vars(of_tekton)
    assert of_tekton.early == []
