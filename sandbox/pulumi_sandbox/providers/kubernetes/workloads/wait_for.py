"""Check the conditions of the annotation `pulumi.com/waitFor`.

Sources: pulumi-kubernetes at 94977969, provider/pkg: metadata/overrides.go (ReadyCondition), jsonpath/jsonpath.go and
await/internal/awaiter.go. A path follows RFC 9535, so a name with a hyphen needs brackets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from pulumi_sandbox.providers.kubernetes.rules.pod_rules import inner
from pulumi_sandbox.providers.kubernetes.workloads.await_rules import annotation
from pulumi_sandbox.providers.readiness import NotReady
from pulumi_sandbox.providers.resource import Refused, Resource

WAIT_FOR = "pulumi.com/waitFor"
EXPRESSION = re.compile(r"jsonpath=\{\s*\$?(.*?)\s*\}(?:=(.+))?")
STEP = re.compile(r"""\.([A-Za-z_][A-Za-z0-9_]*)|\[(?:"([^"]+)"|'([^']+)')\]""")
TIMED_OUT = (
    'resource "{}" was successfully created, but the Kubernetes API server reported that it failed to fully initialize '
    "or become live: timed out waiting for the condition"
)


def expressions(inputs: Mapping[str, Any]) -> list[str]:
    """Return the conditions that a resource waits for; the annotation has one condition or a JSON list."""
    given = annotation(inputs, WAIT_FOR)
    try:
        found = json.loads(given)
    except ValueError:
        found = None
    return found if isinstance(found, list) else [given] if given else []


def check(res: Resource, live: Mapping[str, Any]) -> None:
    """Raise NotReady unless the live object satisfies every condition."""
    if not all(_holds(one, live) for one in expressions(res.inputs)):
        raise NotReady(TIMED_OUT.format(res.urn))


def _holds(expression: str, live: Mapping[str, Any]) -> bool:
    found = EXPRESSION.fullmatch(expression)
    if found is None or "".join(step[0] for step in STEP.finditer(found[1])) != found[1]:
        raise Refused(
            f"{WAIT_FOR}: not a path that the sandbox supports\n  got: {expression}\n"
            "  expected: a path of names, with brackets around a name with a hyphen, such as "
            'jsonpath={.metadata.annotations["some-name"]}'
        )
    names = [next(filter(None, step.groups())) for step in STEP.finditer(found[1])]
    value = inner(live, *names)
    return value is not None and found[2] in (None, str(value))
