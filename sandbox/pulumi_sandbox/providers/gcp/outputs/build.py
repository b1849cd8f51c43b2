"""Compute ids and outputs of Cloud Build and Artifact Registry, as the provider reads them back."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.gcp.compute.operations import now
from pulumi_sandbox.providers.gcp.names import last, part, relative
from pulumi_sandbox.providers.gcp.outputs.machine import Located, keep_or_make, labels
from pulumi_sandbox.providers.gcp.site import Site, Values
from pulumi_sandbox.providers.inputs import table, text_of


def identity(token: str, inputs: Values, site: Site) -> str:
    project, _, _ = site.place(inputs)
    if token == types.REPOSITORY:
        return repository_path(text_of(inputs, "repositoryId"), inputs, site)
    if token == types.TRIGGER:
        # Cloud Build creates the id of a trigger; the id differs from the name.
        return f"projects/{project}/locations/{text_of(inputs, 'location') or 'global'}/triggers/{uuid4()}"
    return f"projects/{project}/locations/{text_of(inputs, 'location')}/workerPools/{text_of(inputs, 'name')}"


def repository_path(given: str, inputs: Values, site: Site) -> str:
    """Return the path of a repository given by name or path. The default location is the provider's region."""
    if part(given, "repositories"):
        return relative(given)
    project, region, _ = site.place(inputs)
    return f"projects/{project}/locations/{text_of(inputs, 'location') or region}/repositories/{last(given)}"


def _worker_pool(at: Located) -> Values:
    workers = {
        "diskSizeGb": 100,
        "machineType": "e2-medium",
        "enableNestedVirtualization": False,
        "noExternalIp": False,
    }
    made: Values = {
        "createTime": keep_or_make(at.old, "createTime", now),
        "deleteTime": "",
        "effectiveAnnotations": table(at.inputs.get("annotations")),
        "state": "RUNNING",
        "uid": keep_or_make(at.old, "uid", lambda: str(uuid4())),
        "updateTime": now(),
        "workerConfig": workers | table(at.inputs.get("workerConfig")),
    }
    if at.inputs.get("privateServiceConnect") is not None:
        # The value is empty because the provider does not send the input: betaToGaPrivatePool looks for it in a new,
        # empty object (terraform-provider-google e03b7622, google/services/cloudbuild/cloudbuild_utils.go).
        made["privateServiceConnect"] = None
    return made


def _trigger(at: Located) -> Values:
    return {
        "approvalConfig": {"approvalRequired": False} | table(at.inputs.get("approvalConfig")),
        "createTime": keep_or_make(at.old, "createTime", now),
        "location": text_of(at.inputs, "location") or "global",
        "triggerId": last(at.path),
    }


def _repository(at: Located) -> Values:
    place = text_of(at.inputs, "location") or at.region
    project = part(at.path, "projects")
    scanning = table(at.inputs.get("vulnerabilityScanningConfig"))
    off = scanning.get("enablementConfig") == "DISABLED"
    return labels(at.inputs, at.site) | {
        "createTime": keep_or_make(at.old, "createTime", now),
        "location": place,
        "name": last(at.path),
        "registryUri": f"{place}-{text_of(at.inputs, 'format').lower()}.pkg.dev/{project}/{last(at.path)}",
        "updateTime": now(),
        # The sandbox assumes that the project's Container Scanning API is enabled.
        "vulnerabilityScanningConfig": {
            **scanning,
            "enablementState": "SCANNING_DISABLED" if off else "SCANNING_ACTIVE",
            "enablementStateReason": "",
        },
    }


KINDS: dict[str, Callable[[Located], Values]] = {
    types.WORKER_POOL: _worker_pool,
    types.TRIGGER: _trigger,
    types.REPOSITORY: _repository,
}
