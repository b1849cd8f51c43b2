"""Decide when an object is ready, and build the errors of `pulumi up` for an object that is not.

Sources: pulumi-kubernetes at 94977969, provider/pkg: await/{job,error}.go and await/checker/{job,pod}/check.go for
Jobs; metadata/overrides.go (ReadyCondition), jsonpath/jsonpath.go and await/internal/awaiter.go for the annotation
`pulumi.com/waitFor`. The real provider never reports why a pod is Pending.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from pulumi_sandbox.providers.kubernetes.objects import inner, items
from pulumi_sandbox.providers.readiness import NotReady
from pulumi_sandbox.providers.resource import Refused, Resource

DEFAULT_TIMEOUT_SEC = 600.0  # job.go, DefaultJobTimeoutMins
SKIP, REPLACE, WAIT_FOR = (f"pulumi.com/{one}" for one in ("skipAwait", "replaceUnready", "waitFor"))
# A path follows RFC 9535, so a name with a hyphen needs brackets.
EXPRESSION = re.compile(r"jsonpath=\{\s*\$?(.*?)\s*\}(?:=(.+))?")
# internal/awaiter.go, a condition with its status, which is True by default.
CONDITION = re.compile(r"condition=([A-Za-z.]+)(?:=(.+))?")
STEP = re.compile(r"""\.([A-Za-z_][A-Za-z0-9_]*)|\[(?:"([^"]+)"|'([^']+)')\]""")
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


def failure(status: Any) -> str:
    """Return the reason of a failed Job; else empty (job/check.go, collectJobConditionErrors)."""
    for _, one in items(inner(status, "conditions")):
        if one.get("type") == "Failed":
            return f"[{one['reason']}] {one['message']}"
    return ""


def pod_warning(pod: Mapping[str, Any]) -> str:
    """Return the warning about a pod; empty for a pod that waits for a node.

    Source: pod/check.go, podInitialized and podReady.
    """
    states = [one for _, one in items(inner(pod, "status", "containerStatuses"))]
    errors = [text for one in states if (text := _container(one))]
    if not errors or inner(pod, "status", "phase") == "Succeeded":
        return ""
    waiting = [str(one.get("name")) for one in states if inner(one, "state", "waiting")]
    ready = f"containers with unready status: [{' '.join(waiting)}]" if waiting else ""
    meta = inner(pod, "metadata")
    return f"[Pod {qualified(meta)}]: {ready}" + "\n".join(errors)


def _container(status: Mapping[str, Any]) -> str:
    """Return the error of a container (containerWaitingError, containerTerminatedError)."""
    if waiting := inner(status, "state", "waiting"):
        return f"[{waiting['reason']}] {waiting['message']}"
    ended = inner(status, "state", "terminated")
    if not ended:
        return ""
    if ended.get("message"):
        return f"[{ended['reason']}] {ended['message']}"
    return f'container "{status.get("name")}" completed with exit code {ended["exitCode"]}'


def qualified(meta: Any) -> str:
    space, name = inner(meta, "namespace"), inner(meta, "name")
    return str(name) if space in (None, "", "default") else f"{space}/{name}"


def reasons(status: Any, pods: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the warnings of the Job's pods, followed by the reason of the Job's failure."""
    warnings = [text for pod in pods if (text := pod_warning(pod))]
    return list(dict.fromkeys([*warnings, *([failure(status)] if failure(status) else [])]))


def unready(res: Resource, status: dict[str, Any], pods: Iterable[Mapping[str, Any]], *, cancelled: bool) -> NotReady:
    """Return the error of an `up` for a Job that is not ready."""
    name = str(inner(res.inputs, "metadata", "name"))
    if failure(status):
        reason = failed(name)
    elif cancelled:
        reason = f'Resource operation was cancelled for "{name}"'
    else:
        reason = f"'{name}' timed out waiting to be Ready"
    is_new = res.old_inputs is None
    start = f'resource "{res.urn}" was successfully created, but the' if is_new else "the"
    subject = "it" if is_new else f'"{res.id}"'
    text = f"{start} Kubernetes API server reported that {subject} failed to fully initialize or become live: {reason}"
    return NotReady(text, reasons(status, pods), {"status": status})


def failed(name: str) -> str:
    return f"Resource '{name}' was created but failed to initialize"


def conditions(inputs: Mapping[str, Any]) -> list[str]:
    """Return the conditions that an object waits for; the annotation has one condition or a JSON list."""
    given = annotation(inputs, WAIT_FOR)
    try:
        found = json.loads(given)
    except ValueError:
        found = None
    return found if isinstance(found, list) else [given] if given else []


def check_conditions(res: Resource, live: Mapping[str, Any]) -> None:
    """Raise NotReady unless the live object satisfies every condition."""
    if not all(_holds(one, live) for one in conditions(res.inputs)):
        raise NotReady(TIMED_OUT.format(res.urn))


def _holds(expression: str, live: Mapping[str, Any]) -> bool:
    if condition := CONDITION.fullmatch(expression):
        wanted = (condition[1], condition[2] or "True")
        return wanted in [(one.get("type"), one.get("status")) for _, one in items(inner(live, "status", "conditions"))]
    found = EXPRESSION.fullmatch(expression)
    if found is None or "".join(step[0] for step in STEP.finditer(found[1])) != found[1]:
        raise Refused(
            f"{WAIT_FOR}: not a path that the sandbox supports\n  got: {expression}\n"
            "  expected: a path of names, with brackets around a name with a hyphen, such as "
            'jsonpath={.metadata.annotations["some-name"]}'
        )
    value = inner(live, *(next(filter(None, step.groups())) for step in STEP.finditer(found[1])))
    return value is not None and found[2] in (None, str(value))
