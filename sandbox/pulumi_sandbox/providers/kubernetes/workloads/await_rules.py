"""Decide when an object is ready, and build the errors of `pulumi up` for an object that is not.

Sources: pulumi-kubernetes at 94977969, provider/pkg: await/{job,error}.go and await/checker/{job,pod}/check.go for
Jobs; metadata/overrides.go (ReadyCondition), jsonpath/jsonpath.go and await/internal/awaiter.go for the annotation
`pulumi.com/waitFor`. The real provider never reports why a pod is Pending.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from pulumi_sandbox.providers.kubernetes.objects import inner, items
from pulumi_sandbox.providers.readiness import NotReady
from pulumi_sandbox.providers.resource import Resource

DEFAULT_TIMEOUT_SEC = 600.0  # job.go, DefaultJobTimeoutMins
SKIP, REPLACE, WAIT_FOR = (f"pulumi.com/{one}" for one in ("skipAwait", "replaceUnready", "waitFor"))
# The two forms that components use: a condition with its status, which is True by default, and a path of names, with
# brackets around a name with a hyphen (RFC 9535).
CONDITION = re.compile(r"condition=([A-Za-z.]+)(?:=(.+))?")
EXPRESSION = re.compile(r"""jsonpath=\{\s*\$?((?:\.\w+|\["[^"]+"\]|\['[^']+'\])+)\s*\}(?:=(.+))?""")
NAME = re.compile(r"""[^.\["'\]]+""")
FAILED = "Resource '{}' was created but failed to initialize"
TIMED_OUT = (
    'resource "{}" was successfully created, but the Kubernetes API server reported that it failed to fully initialize '
    "or become live: timed out waiting for the condition"
)


def timeout_sec(res: Resource) -> float:
    """Return the timeout of a Job. In a cluster, every event of the Job restarts it."""
    return res.timeout or DEFAULT_TIMEOUT_SEC


def annotation(inputs: Mapping[str, Any], name: str) -> str:
    value = inner(inputs, "metadata", "annotations")
    return str(value.get(name, "")) if isinstance(value, Mapping) else ""


def is_complete(status: Any) -> bool:
    return any(one.get("type") == "Complete" for _, one in items(inner(status, "conditions")))


def qualified(meta: Any) -> str:
    space, name = inner(meta, "namespace"), inner(meta, "name")
    return str(name) if space in (None, "", "default") else f"{space}/{name}"


def _failure(status: Any) -> list[str]:
    """Return the reason of a failed Job (job/check.go, collectJobConditionErrors)."""
    conditions = items(inner(status, "conditions"))
    return [f"[{one['reason']}] {one['message']}" for _, one in conditions if one.get("type") == "Failed"]


def _pod_warning(pod: Mapping[str, Any]) -> list[str]:
    """Return the warning about a pod that did not succeed (pod/check.go, podInitialized and podReady).

    A pod that waits for a node has none.
    """
    states = [one for _, one in items(inner(pod, "status", "containerStatuses"))]
    errors = [text for one in states if (text := _container(one))]
    if not errors or inner(pod, "status", "phase") == "Succeeded":
        return []
    waiting = [str(one.get("name")) for one in states if inner(one, "state", "waiting")]
    ready = f"containers with unready status: [{' '.join(waiting)}]" if waiting else ""
    return [f"[Pod {qualified(inner(pod, 'metadata'))}]: {ready}" + "\n".join(errors)]


def _container(status: Mapping[str, Any]) -> str:
    """Return the error of a container (containerWaitingError, containerTerminatedError)."""
    state = inner(status, "state", "waiting") or inner(status, "state", "terminated") or {}
    if state.get("message"):
        return f"[{state['reason']}] {state['message']}"
    return f'container "{status.get("name")}" completed with exit code {state["exitCode"]}' if state else ""


def reasons(status: Any, pods: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the warnings of the Job's pods, followed by the reason of the Job's failure."""
    return list(dict.fromkeys([*(text for pod in pods for text in _pod_warning(pod)), *_failure(status)]))


def unready(res: Resource, status: dict[str, Any], pods: Iterable[Mapping[str, Any]], *, cancelled: bool) -> NotReady:
    """Return the error of an `up` for a Job that is not ready."""
    name = str(inner(res.inputs, "metadata", "name"))
    if _failure(status):
        reason = FAILED.format(name)
    elif cancelled:
        reason = f'Resource operation was cancelled for "{name}"'
    else:
        reason = f"'{name}' timed out waiting to be Ready"
    is_new = res.old_inputs is None
    start = f'resource "{res.urn}" was successfully created, but the' if is_new else "the"
    subject = "it" if is_new else f'"{res.id}"'
    text = f"{start} Kubernetes API server reported that {subject} failed to fully initialize or become live: {reason}"
    return NotReady(text, reasons(status, pods), {"status": status})


def check_condition(res: Resource, live: Mapping[str, Any]) -> None:
    """Raise NotReady unless the live object satisfies the condition that it waits for. Other forms are not checked."""
    wanted = annotation(res.inputs, WAIT_FOR)
    holds = True
    if condition := CONDITION.fullmatch(wanted):
        states = [(one.get("type"), one.get("status")) for _, one in items(inner(live, "status", "conditions"))]
        holds = (condition[1], condition[2] or "True") in states
    elif found := EXPRESSION.fullmatch(wanted):
        value = inner(live, *NAME.findall(found[1]))
        holds = value is not None and found[2] in (None, str(value))
    if not holds:
        raise NotReady(TIMED_OUT.format(res.urn))
