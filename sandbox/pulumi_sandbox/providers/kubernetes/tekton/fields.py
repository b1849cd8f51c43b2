"""The fields of Tekton's objects that the sandbox runs. It refuses every other field by its name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

from pulumi_sandbox.providers.kubernetes.tekton.engine import parents, references

ANY = None
"""A value that the sandbox does not read, or reads as it is."""
_DECLARED = [{"name": ANY, "type": ANY, "description": ANY, "default": ANY}]
_VALUES = [{"name": ANY, "value": ANY}]
_RESULTS = [{"name": ANY, "type": ANY, "description": ANY}]
_ENV = [{"name": ANY, "value": ANY, "valueFrom": {"secretKeyRef": {"name": ANY, "key": ANY}}}]
_STEP = {
    "name": ANY, "image": ANY, "command": ANY, "args": ANY, "workingDir": ANY, "env": _ENV, "computeResources": ANY,
    "securityContext": ANY, "volumeMounts": [{"name": ANY, "mountPath": ANY, "readOnly": ANY}],
}  # fmt: skip
_VOLUME = {"name": ANY, "configMap": {"name": ANY}, "emptyDir": {}, "persistentVolumeClaim": {"claimName": ANY}}
_FINAL = {
    "name": ANY, "taskRef": {"name": ANY}, "params": _VALUES, "matrix": {"params": _VALUES}, "retries": ANY,
    "timeout": ANY,
}  # fmt: skip
_POD = dict.fromkeys(
    ("affinity", "automountServiceAccountToken", "imagePullSecrets", "nodeSelector", "securityContext", "tolerations")
)
_TEMPLATE = [{"apiVersion": ANY, "kind": ANY, "metadata": ANY, "spec": ANY}]
_INTERCEPTOR = {"ref": {"name": ANY, "kind": ANY}, "params": _VALUES}
_TRIGGER = {"name": ANY, "interceptors": [_INTERCEPTOR], "bindings": _VALUES, "template": {"ref": ANY}}
SPECS: Mapping[str, Any] = {
    "Task": {"params": _DECLARED, "results": _RESULTS, "volumes": [_VOLUME], "steps": [_STEP], "description": ANY},
    "Pipeline": {
        "params": _DECLARED, "results": [{"name": ANY, "value": ANY, "description": ANY}],
        "tasks": [{**_FINAL, "runAfter": ANY}], "finally": [_FINAL], "description": ANY,
    },
    "PipelineRun": {
        "pipelineRef": {"name": ANY}, "params": _VALUES,
        "timeouts": {"pipeline": ANY, "tasks": ANY, "finally": ANY}, "status": ANY,
        "taskRunTemplate": {"serviceAccountName": ANY, "podTemplate": _POD},
        "taskRunSpecs": [{"pipelineTaskName": ANY, "podTemplate": _POD}],
    },
    "TriggerTemplate": {"params": _DECLARED, "resourcetemplates": _TEMPLATE},
    "EventListener": {"serviceAccountName": ANY, "resources": ANY, "triggers": [_TRIGGER]},
}  # fmt: skip
_HINT = "the sandbox runs only these fields; a cluster with Tekton runs the others, too"


def unsupported(kind: str, name: str, spec: Any) -> Iterator[str]:
    """Yield a message for each field of an object that the sandbox does not run."""
    for path, got, expected in _unknown(f"{kind} {name}: spec", spec, SPECS[kind]):
        yield _problem(f"{path}: the sandbox does not run this field", got, expected)


def _unknown(path: str, value: Any, supported: Any) -> Iterator[tuple[str, str, str]]:
    if isinstance(supported, list):
        for at, each in enumerate(value if isinstance(value, list) else ()):
            yield from _unknown(f"{path}[{at}]", each, supported[0])
    elif isinstance(supported, Mapping) and isinstance(value, Mapping):
        for key, each in value.items():
            if key in supported:
                yield from _unknown(f"{path}.{key}", each, supported[key])
            else:
                yield f"{path}.{key}", str(key), ", ".join(supported) or "no field"


def _problem(problem: str, got: str, expected: str, hint: str = _HINT) -> str:
    return f"{problem}\n  got: {got}\n  expected: {expected}\n  hint: {hint}"


def graph_problems(name: str, pipeline: Mapping[str, Any], tasks: Mapping[str, Any]) -> Iterator[str]:
    """Yield the problems of a Pipeline with its Tasks, which are the specs by name."""
    path, known = f"Pipeline {name}: spec", [str(each["name"]) for each in pipeline.get("tasks") or ()]
    graph = {str(each["name"]): parents(each) for each in pipeline.get("tasks") or ()}
    finals = {str(each["name"]): parents(each) for each in pipeline.get("finally") or ()}
    params = {str(each["name"]) for each in pipeline.get("params") or ()}
    for key in ("tasks", "finally"):
        for at, each in enumerate(pipeline.get(key) or ()):
            where, ref = f"{path}.{key}[{at}]", str(each["taskRef"]["name"])
            if ref not in tasks:
                yield _problem(
                    f"{where}.taskRef.name: no such Task", ref, ", ".join(tasks) or "a Task", "create the Task"
                )
            if unknown := sorted((graph | finals)[str(each["name"])] - set(known)):
                hint = "correct runAfter or the reference to a result"
                yield _problem(f"{where}: no such task", ", ".join(unknown), ", ".join(known), hint)
            matrix = (each.get("matrix") or {}).get("params") or ()
            if len(matrix) > 1:
                yield _problem(f"{where}.matrix.params: too many", str(len(matrix)), "one param")
            for reference in references(each):
                kind, _, rest = reference.partition(".")
                is_param = kind == "params" and rest.removesuffix("[*]") in params
                is_task = kind == "tasks" and (".results." in rest or key == "finally")
                if not (is_param or is_task or reference == "context.pipelineRun.name"):
                    expected = (
                        "params.NAME, tasks.NAME.results.NAME or context.pipelineRun.name; in finally tasks.status"
                    )
                    yield _problem(f"{where}: unknown reference", f"$({reference})", expected)
    matrices = {each["name"] for each in pipeline.get("tasks") or () if each.get("matrix")}
    for at, each in enumerate(pipeline.get("results") or ()):
        if read := sorted(parents(each) & matrices):
            # Tekton has them only if another task reads them, too.
            yield _problem(f"{path}.results[{at}]: a result of a matrix", ", ".join(read), "a result of another task")
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        got = " -> ".join(map(str, error.args[1]))
        yield _problem(f"{path}.tasks: tasks wait for each other", got, "a graph without a cycle", "correct runAfter")
    for ref, spec in tasks.items():
        yield from _task_problems(ref, spec)


def _task_problems(name: str, spec: Mapping[str, Any]) -> Iterator[str]:
    path, steps = f"Task {name}: spec", spec.get("steps") or ()
    if len(steps) != 1:
        yield _problem(f"{path}.steps: the sandbox runs one step", str(len(steps)), "one step")
    params = {str(each["name"]) for each in spec.get("params") or ()}
    results = {str(each["name"]) for each in spec.get("results") or ()}
    for at, step in enumerate(steps):
        if not step.get("command"):
            yield _problem(f"{path}.steps[{at}].command: missing", "nothing", "a command: the sandbox has no images")
        for key, each in step.items():
            for reference in references(each):
                kind, _, rest = reference.partition(".")
                is_param = kind == "params" and rest.removesuffix("[*]") in params
                is_result = kind == "results" and rest.removesuffix(".path") in results and key == "env"
                if not (is_param or is_result):
                    expected = "params.NAME; in env also results.NAME.path"
                    yield _problem(f"{path}.steps[{at}].{key}: unknown reference", f"$({reference})", expected)
