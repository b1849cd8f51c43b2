"""Compute ids and outputs of Cloud Run worker pools and custom roles, as the provider reads them back."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.gcp.compute.operations import now
from pulumi_sandbox.providers.gcp.names import last
from pulumi_sandbox.providers.gcp.outputs.machine import Located, keep_or_make, labels
from pulumi_sandbox.providers.gcp.site import Site, Values
from pulumi_sandbox.providers.inputs import table, text_of

_SUCCEEDED = {"type": "Ready", "state": "CONDITION_SUCCEEDED"}


def identity(token: str, inputs: Values, site: Site) -> str:
    project, _, _ = site.place(inputs)
    if token == types.CUSTOM_ROLE:
        return f"projects/{project}/roles/{text_of(inputs, 'roleId')}"
    return f"projects/{project}/locations/{text_of(inputs, 'location')}/workerPools/{text_of(inputs, 'name')}"


def _worker_pool(at: Located) -> Values:
    revision = f"{at.path}/revisions/{last(at.path)}-{str(uuid4())[:5]}"
    generation = str(int(keep_or_make(at.old, "generation", lambda: "0")) + 1)
    return labels(at.inputs, at.site) | {
        "conditions": [],
        "createTime": keep_or_make(at.old, "createTime", now),
        "creator": "sandbox@example.com",
        "deleteTime": "",
        "deletionProtection": at.inputs.get("deletionProtection") is not False,
        "effectiveAnnotations": table(at.inputs.get("annotations")),
        "etag": f'"{generation}"',
        "expireTime": "",
        "generation": generation,
        "instanceSplitStatuses": [{"type": "INSTANCE_SPLIT_ALLOCATION_TYPE_LATEST", "percent": 100}],
        "lastModifier": "sandbox@example.com",
        "latestCreatedRevision": revision,
        "latestReadyRevision": revision,
        "launchStage": text_of(at.inputs, "launchStage") or "GA",
        "observedGeneration": generation,
        "reconciling": False,
        "terminalConditions": [_SUCCEEDED],
        "uid": keep_or_make(at.old, "uid", lambda: str(uuid4())),
        "updateTime": now(),
    }


def _custom_role(at: Located) -> Values:
    return {"deleted": False, "name": at.path, "stage": text_of(at.inputs, "stage") or "GA"}


KINDS: dict[str, Callable[[Located], Values]] = {types.RUN_POOL: _worker_pool, types.CUSTOM_ROLE: _custom_role}
