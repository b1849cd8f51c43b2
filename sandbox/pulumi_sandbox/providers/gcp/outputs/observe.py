"""Compute ids and outputs of log-based metrics and alert policies, as the provider reads them back."""

from __future__ import annotations

from collections.abc import Callable

from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.gcp.compute.operations import now, number
from pulumi_sandbox.providers.gcp.names import last
from pulumi_sandbox.providers.gcp.outputs.machine import Located, keep_or_make
from pulumi_sandbox.providers.gcp.site import Site, Values
from pulumi_sandbox.providers.inputs import rows, table, text_of


def identity(token: str, inputs: Values, site: Site) -> str:
    """Return the id: a metric's name, or a policy's path with a number from Google."""
    if token == types.LOG_METRIC:
        return text_of(inputs, "name")
    return f"projects/{site.place(inputs)[0]}/alertPolicies/{number()}"


def _alert_policy(at: Located) -> Values:
    record = keep_or_make(
        at.old, "creationRecords", lambda: [{"mutateTime": now(), "mutatedBy": "sandbox@example.com"}]
    )
    conditions = [
        {**table(row), "name": f"{at.path}/conditions/{last(at.path)}{index}"}
        for index, row in enumerate(rows(at.inputs.get("conditions")))
    ]
    return {"conditions": conditions, "creationRecords": record, "name": at.path}


KINDS: dict[str, Callable[[Located], Values]] = {types.LOG_METRIC: lambda _: {}, types.ALERT_POLICY: _alert_policy}
