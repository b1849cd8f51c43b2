"""Creates the objects of Tekton for a notebook pipeline: tasks, the graph of a run, and the listener for pushes.

The graph: `prepare` clones the pushed commit and finds the notebooks; `execute` runs each notebook in a pod of its own
on a GPU node, while `fetch-tests` clones the tests; `convert` makes HTML; `test` runs pytest on the results; `verdict`
fails the run if a notebook or a test failed; `publish` always runs last.

A bad notebook does not fail its task: the task's result says so, and `verdict` reads it. So a retry of a task means a
lost node, and a failed notebook still has its HTML.

Tasks exchange files by the storage alone, so a run needs no workspace that two nodes must mount. Every value reaches a
program by its environment or its arguments, never by the text of a script.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import gpu_nodes
from ..name_types import CONTAINER_SECURITY, POD_SECURITY, environment, pull_secrets, tolerations
from .args import CLAIM_PATH, FINALLY_MIN, START_MIN, Claim, NotebookPipelineArgs

TASKS_FOLDER = Path(__file__).parent / "tasks"
PROGRAMS_PATH = "/gpu-ci"
"""The folder of the tasks' programs in a container."""
WORK_PATH = "/work"
"""The folder for files of one task. It is empty at first."""
MOST_NOTEBOOKS = 64
"""The notebooks of one run. Their names must fit into one result of Tekton, of 4,096 bytes."""
PUSH = "push"
LISTENER, RUN = "listener", "run"
"""The service accounts of the listener and of the tasks."""
_USER = 1000


@dataclass(frozen=True)
class _Step:
    """A task with one step, which runs the program of the same name."""

    name: str
    params: Sequence[str] = ()
    list_param: str = ""
    """The param that is a list. Its values are the arguments of the program."""
    results: Mapping[str, str] = field(default_factory=dict)
    """The type of each result."""
    secrets: Sequence[str] = ()
    """The Secrets whose keys become variables of the environment."""
    resources: Mapping[str, Mapping[str, str]] = field(
        default_factory=lambda: {"requests": {"cpu": "250m", "memory": "512Mi"}, "limits": {"memory": "2Gi"}}
    )
    variables: Mapping[str, str] = field(default_factory=dict)
    more: Mapping[str, str] = field(default_factory=dict)
    """Variables that the user chose."""


def secret_name(pipeline: str, role: str) -> str:
    """Return the name of a Secret: of the roles webhook, github and notify."""
    return f"{pipeline}-{role}"


GITHUB_KEYS = {"GITHUB_APP_ID": "id", "GITHUB_INSTALLATION_ID": "installationId", "GITHUB_PRIVATE_KEY": "privateKey"}
"""The keys of the Secret of the role github, by the variable that a program reads."""
NOTIFY_KEYS = {"NOTIFY_URL": "url"}
_KEYS = {"github": GITHUB_KEYS, "notify": NOTIFY_KEYS}
_RUN_PARAMS = ("run", "repository", "branch", "revision")
"""The params that every task gets."""
_ENDED = ("prepare", "execute", "fetch-tests", "convert", "test", "verdict")
"""The tasks whose end `publish` reports."""


def objects(name: str, namespace: str, args: NotebookPipelineArgs) -> list[dict[str, Any]]:
    """Return the objects of a pipeline, without accounts, roles and Secrets, in the order of their creation.

    Args:
        name: The name of the pipeline, and the beginning of the names of its objects.
        namespace: The namespace of all objects.
        args: The arguments. Only the names of Secrets are in the objects, and no secret.
    """
    steps = _steps(args)

    def made(api: str, kind: str, role: str, **rest: Any) -> dict[str, Any]:
        metadata = {"name": f"{name}-{role}" if role else name, "namespace": namespace}
        return {"apiVersion": api, "kind": kind, "metadata": metadata, **rest}

    programs = {path.name: path.read_text(encoding="utf-8") for path in sorted(TASKS_FOLDER.glob("*.*"))}
    tasks = [made("tekton.dev/v1", "Task", each.name, spec=_task(name, each, args)) for each in steps]
    return [
        made("v1", "ConfigMap", "tasks", data=programs),
        *tasks,
        made("tekton.dev/v1", "Pipeline", "", spec=_pipeline(name, steps, args)),
        made("triggers.tekton.dev/v1beta1", "TriggerTemplate", "", spec=_template(name, args)),
        made("triggers.tekton.dev/v1beta1", "EventListener", "", spec=_listener(name, args)),
    ]


def _steps(args: NotebookPipelineArgs) -> list[_Step]:
    """Return the tasks in the order of a run."""
    github = ["github"] if args.github else []
    patterns = {"NOTEBOOKS": "\n".join(args.notebooks), "MOST_NOTEBOOKS": str(MOST_NOTEBOOKS)}
    elsewhere = {
        "TESTS_REPOSITORY": f"{args.owner}/{args.tests.repository}",
        "TESTS_REVISION": args.tests.revision or "",
    }
    tests = {"TESTS_PATH": args.tests.path, **(elsewhere if args.tests.repository else {})}
    host = args.github_host
    api = {
        "GITHUB_URL": f"https://{host}",
        "GITHUB_API": "https://api.github.com" if host == "github.com" else f"https://{host}/api/v3",
    }
    memory, limit_sec = f"{args.memory_gib}Gi", str(args.timeouts.notebook_min * 60)
    gpus = gpu_nodes.gpus(args.gpus, args.gpu_resource)
    on_gpus = {
        "requests": {"cpu": str(args.cpus), "memory": memory, **gpus["requests"]},
        "limits": {"memory": memory, **gpus["limits"]},
    }
    statuses = [f"{each}-{what}" for each in _ended(args) for what in ("status", "reason")]
    events = {"NOTIFY_ON": " ".join(args.notify.on) if args.notify else ""}
    report = {"REPORT_URL": _report_url(args)}
    to_publish = [*github, *(["notify"] if args.notify else [])]
    return [
        _Step(
            "prepare",
            results={"commit": "string", "notebooks": "array"},
            secrets=github,
            variables={**api, **patterns, **report},
        ),
        _Step(
            "execute",
            ["notebook"],
            results={"status": "string"},
            resources=on_gpus,
            variables={"NOTEBOOK_LIMIT_SEC": limit_sec, "GPUS": str(args.gpus), "MEMORY_GIB": str(args.memory_gib)},
            more=args.environment,
        ),
        *([_Step("fetch-tests", secrets=github, variables={**api, **tests})] if args.tests.repository else []),
        _Step("convert"),
        _Step("test", results={"passed": "string", "failed": "string"}, variables=tests),
        _Step("verdict", ["passed", "failed"], list_param="statuses"),
        _Step("publish", [*statuses, "status"], secrets=to_publish, variables={**api, **report, **events}),
    ]


def _ended(args: NotebookPipelineArgs) -> list[str]:
    return [each for each in _ENDED if each != "fetch-tests" or args.tests.repository]


def _report_url(args: NotebookPipelineArgs) -> str:
    """Return the address of the storage for a browser, to which a path is added; empty for a claim, which has none."""
    if args.report_url or isinstance(args.storage, Claim):
        return f"{args.report_url.rstrip('/')}/" if args.report_url else ""
    scheme, _, path = args.store.partition("://")
    bucket, _, folder = path.partition("/")
    inside = f"{folder}/" if folder else ""
    if scheme == "gs":  # this host asks for a login
        return f"https://storage.cloud.google.com/{bucket}/{inside}"
    return f"https://s3.console.aws.amazon.com/s3/object/{bucket}?prefix={inside}"


def variable(name: str) -> str:
    """Return the variable of the environment for a param or result."""
    return name.upper().replace("-", "_")


def _task(pipeline: str, step: _Step, args: NotebookPipelineArgs) -> dict[str, Any]:
    params = [*_RUN_PARAMS, *step.params]
    lists = [{"name": step.list_param, "type": "array"}] if step.list_param else []
    own = {
        "HOME": WORK_PATH,
        "PYTHONDONTWRITEBYTECODE": "1",
        "PIPELINE": pipeline,
        "STORE": args.store,
        **{variable(each): f"$(params.{each})" for each in params},
        **{f"RESULT_{variable(each)}": f"$(results.{each}.path)" for each in step.results},
        **step.variables,
    }
    plain = [{"name": key, "value": value} for key, value in own.items()]
    from_secrets = [
        {"name": key, "valueFrom": {"secretKeyRef": {"name": secret_name(pipeline, role), "key": of_secret}}}
        for role in step.secrets
        for key, of_secret in _KEYS[role].items()
    ]
    claim = [{"name": "storage", "persistentVolumeClaim": {"claimName": f"{pipeline}-storage"}}]
    volumes = [
        {"name": "programs", "configMap": {"name": f"{pipeline}-tasks"}},
        {"name": "work", "emptyDir": {}},
        *(claim if isinstance(args.storage, Claim) else []),
    ]
    paths = {"programs": PROGRAMS_PATH, "work": WORK_PATH, "storage": CLAIM_PATH}
    mounts = [
        {
            "name": each["name"],
            "mountPath": paths[str(each["name"])],
            **({"readOnly": True} if each["name"] == "programs" else {}),
        }
        for each in volumes
    ]
    return {
        "params": [{"name": each, "type": "string"} for each in params] + lists,
        **({"results": [{"name": each, "type": kind} for each, kind in step.results.items()]} if step.results else {}),
        "volumes": volumes,
        "steps": [
            {
                "name": step.name,
                "image": args.image,
                "command": ["python3", f"{PROGRAMS_PATH}/{step.name.replace('-', '_')}.py"],
                **({"args": [f"$(params.{step.list_param}[*])"]} if step.list_param else {}),
                "workingDir": WORK_PATH,
                "env": [*environment(step.more, plain), *from_secrets],
                "computeResources": step.resources,
                "volumeMounts": mounts,
                # Both this and the feature set-security-context are needed for the pod security level restricted.
                "securityContext": {**CONTAINER_SECURITY, "runAsUser": _USER},
            }
        ],
    }  # fmt: skip


def _pipeline(name: str, steps: Sequence[_Step], args: NotebookPipelineArgs) -> dict[str, Any]:
    after = {
        "execute": ["prepare"],
        "fetch-tests": ["prepare"],
        "convert": ["execute"],
        "test": ["convert", *(["fetch-tests"] if args.tests.repository else [])],
        "verdict": ["test"],
    }
    values: dict[str, dict[str, Any]] = {
        "verdict": {
            "statuses": ["$(tasks.execute.results.status[*])"],
            **{each: f"$(tasks.test.results.{each})" for each in ("passed", "failed")},
        },
        "publish": {
            "status": "$(tasks.status)",
            **{f"{each}-{what}": f"$(tasks.{each}.{what})" for each in _ended(args) for what in ("status", "reason")},
        },
    }

    def task(step: _Step) -> dict[str, Any]:
        run = {"run": "$(context.pipelineRun.name)", **{each: f"$(params.{each})" for each in _RUN_PARAMS[1:]}}
        params = {**run, **values.get(step.name, {})}
        found: dict[str, Any] = {
            "name": step.name,
            "taskRef": {"name": f"{name}-{step.name}"},
            "params": [{"name": key, "value": value} for key, value in params.items()],
        }
        if step.name == "execute":
            found["matrix"] = {"params": [{"name": "notebook", "value": ["$(tasks.prepare.results.notebooks[*])"]}]}
            found["timeout"] = f"{args.timeouts.notebook_min + args.timeouts.queue_min + START_MIN}m"
        if step.name == "publish":
            return found
        if step.name != "verdict" and args.retries:
            found["retries"] = args.retries
        return {**found, **({"runAfter": after[step.name]} if step.name in after else {})}

    *during, last = map(task, steps)
    return {
        "params": [{"name": each, "type": "string"} for each in _RUN_PARAMS[1:]],
        "results": [
            {"name": "commit", "value": "$(tasks.prepare.results.commit)"},
            {"name": "passed", "value": "$(tasks.test.results.passed)"},
            {"name": "failed", "value": "$(tasks.test.results.failed)"},
        ],
        "tasks": during,
        "finally": [last],
    }


def _template(name: str, args: NotebookPipelineArgs) -> dict[str, Any]:
    security = {**POD_SECURITY, "runAsNonRoot": True, "runAsUser": _USER, "runAsGroup": _USER, "fsGroup": _USER}
    pod = {
        "securityContext": security,
        "automountServiceAccountToken": False,
        "affinity": gpu_nodes.off_gpu_nodes(),
        **pull_secrets(args.image_pull_secrets),
    }
    on_gpus = {
        "nodeSelector": gpu_nodes.labels(args.pool),
        "tolerations": tolerations(args.tolerations),
        "affinity": gpu_nodes.required(gpu_nodes.on_gpu_nodes()),
    }
    params = ("run", *_RUN_PARAMS[1:])
    return {
        "params": [{"name": each} for each in params],
        "resourcetemplates": [
            {
                "apiVersion": "tekton.dev/v1",
                "kind": "PipelineRun",
                "metadata": {
                    "name": "$(tt.params.run)",
                    "annotations": {f"gpu-ci.dev/{each}": f"$(tt.params.{each})" for each in _RUN_PARAMS[1:]},
                },
                "spec": {
                    "pipelineRef": {"name": name},
                    "params": [{"name": each, "value": f"$(tt.params.{each})"} for each in _RUN_PARAMS[1:]],
                    "timeouts": {
                        "pipeline": f"{args.timeouts.pipeline_min}m",
                        "tasks": f"{args.timeouts.pipeline_min - FINALLY_MIN}m",
                        "finally": f"{FINALLY_MIN}m",
                    },
                    "taskRunTemplate": {"serviceAccountName": f"{name}-{RUN}", "podTemplate": pod},
                    "taskRunSpecs": [{"pipelineTaskName": "execute", "podTemplate": on_gpus}],
                },
            }
        ],
    }


def _listener(name: str, args: NotebookPipelineArgs) -> dict[str, Any]:
    secret = {"secretName": secret_name(name, "webhook"), "secretKey": "secret"}
    # A push of the same commit has the same name, so a second delivery starts no second run.
    repository = "body.repository.name.lowerAscii().replace('_', '-').replace('.', '-').truncate(36)"
    run = f"'run-' + {repository} + '-' + body.after.truncate(12)"
    interceptors: dict[str, dict[str, Any]] = {
        "github": {"secretRef": secret, "eventTypes": [PUSH]},
        "cel": {"filter": push_filter(args), "overlays": [{"key": "run", "expression": run}]},
    }
    small = {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}}
    values = {
        "run": "$(extensions.run)",
        "repository": "$(body.repository.full_name)",
        "branch": "$(body.ref)",
        "revision": "$(body.after)",
    }
    return {
        "serviceAccountName": f"{name}-{LISTENER}",
        "resources": {"kubernetesResource": {"spec": {"template": {"spec": {"containers": [{"resources": small}]}}}}},
        "triggers": [
            {
                "name": PUSH,
                "interceptors": [
                    {"ref": {"name": each}, "params": [{"name": key, "value": value} for key, value in params.items()]}
                    for each, params in interceptors.items()
                ],
                "bindings": [{"name": key, "value": value} for key, value in values.items()],
                "template": {"ref": name},
            }
        ],
    }  # fmt: skip


def push_filter(args: NotebookPipelineArgs) -> str:
    """Return the expression in CEL for the pushes that start a run.

    GitHub accepts a repository's name in upper and lower case. A number of JSON is a double in CEL, so the id needs
    int(). A repository that is in a share stays in a larger one.
    """
    names = ", ".join(f"'{args.owner}/{each}'".lower() for each in args.repositories)
    refs = ", ".join(f"'refs/heads/{each}'" for each in args.branches)
    branch = f"body.ref in [{refs}]" if refs else "body.ref == 'refs/heads/' + body.repository.default_branch"
    share = f" && int(body.repository.id) % 100 < {args.rollout_percent}" if args.rollout_percent < 100 else ""
    return f"!body.deleted && body.repository.full_name.lowerAscii() in [{names}] && {branch}{share}"
