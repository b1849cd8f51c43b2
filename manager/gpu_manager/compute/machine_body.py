"""The request for a machine: the fields in which it differs from its template."""

from __future__ import annotations

from typing import Any

from gpu_ci.gcp.gate.stopped import MANAGER_LABEL, TEMPLATE_LABEL
from gpu_ci.gcp.template_links import region_and_name_of_template
from gpu_ci.naming import fit

from ..decision.names import STANDBY, slug
from ..model import Insert, InsertError, Pool
from ..ports import InsertRefused

Body = dict[str, Any]

POOL, MANAGER, JOB, TEMPLATE = "gpu-ci-pool", MANAGER_LABEL, "gpu-ci-job", TEMPLATE_LABEL
"""Labels by which the manager recognizes its machines."""
REGISTERED_BY = "gpu-ci-registered-by"
"""Label of machines whose runner the manager registers. Machines of earlier templates register their own runner."""
REPOSITORY, WORKFLOW = "gpu-ci-repository", "gpu-ci-workflow"
"""Labels for the cost report only."""
_LABEL_CHARACTERS = 63

MARKETS = {"SPOT": "spot", "STANDARD": "standard", "FLEX_START": "flex-start", "RESERVATION_BOUND": "reservation"}
"""Google's provisioning models with the markets of a stack file."""

FLEX_START_WAIT_SEC = 1800
"""The time that Google looks for capacity for a flex-start machine in one zone, before the next zone is tried.

Google's limit is two hours (cloud.google.com/blog, "Introducing Flex-start VMs for the Compute Engine Instance API").
"""

# Machines with GPUs cannot be migrated. Google restarts only machines that are not preemptible.
_SCHEDULING: dict[str, Body] = {
    "spot": {"provisioningModel": "SPOT", "preemptible": True, "automaticRestart": False},
    "standard": {"provisioningModel": "STANDARD", "preemptible": False, "automaticRestart": True},
}


def machine_body(template: Body, pool: Pool, insert: Insert, manager: str) -> Body:
    """Return the body of instances.insert.

    Google replaces all labels and metadata, so those of the template are copied into the body.

    Raises:
        InsertRefused: The template cannot create a machine for the rung.
    """
    body: Body = {
        "name": insert.machine,
        "labels": {**template.get("labels", {}), **labels(pool, insert, manager)},
        "metadata": {"items": template.get("metadata", {}).get("items", [])},
    }
    if insert.rung.machine_type != template["machineType"]:
        body |= _machine_type(template, insert)
    if insert.rung.market != market(template.get("scheduling", {})):
        body |= _market(template, insert)
    if insert.rung.market == "flex-start":
        body["params"] = {"requestValidForDuration": {"seconds": str(FLEX_START_WAIT_SEC)}}
    return body


def labels(pool: Pool, insert: Insert, manager: str) -> dict[str, str]:
    """Return the labels that identify the machine and those that attribute its cost."""
    job = insert.job
    cost = {REPOSITORY: fit(job.key.repository, _LABEL_CHARACTERS)} if job else {}
    workflow = {WORKFLOW: fit(job.workflow, _LABEL_CHARACTERS)} if job and job.workflow else {}
    return {
        POOL: pool.name,
        MANAGER: manager,
        JOB: slug(job.key) if job else STANDBY,
        TEMPLATE: region_and_name_of_template(pool.template_of(insert.rung))[1],
        **({REGISTERED_BY: pool.registered_by} if pool.registered_by == "manager" else {}),
        **cost,
        **workflow,
    }


def market(scheduling: Body) -> str:
    """Return the market of a machine or template from its scheduling."""
    model = scheduling.get("provisioningModel") or ("SPOT" if scheduling.get("preemptible") else "STANDARD")
    return MARKETS.get(model, model)


def _machine_type(template: Body, insert: Insert) -> Body:
    """Return the rung's machine type.

    The template attaches the GPUs of N1 machines, while all other types have GPUs built in. One template cannot create
    both.
    """
    rung, given = insert.rung, template["machineType"]
    families = {rung.machine_type.partition("-")[0], given.partition("-")[0]}
    if "n1" in families and len(families) > 1:
        raise _refused(insert, f"the template of a {given} cannot make a {rung.machine_type}")
    return {"machineType": f"zones/{rung.zone}/machineTypes/{rung.machine_type}"}


def _market(template: Body, insert: Insert) -> Body:
    scheduling = template.get("scheduling", {})
    if insert.rung.market not in _SCHEDULING:
        raise _refused(insert, f"a template for {market(scheduling)} cannot make a machine for {insert.rung.market}")
    # Compute Engine requires a termination action for spot machines and for machines with a time limit.
    changed = {"instanceTerminationAction": "DELETE", **scheduling, **_SCHEDULING[insert.rung.market]}
    if template.get("reservationAffinity"):
        return {"scheduling": changed, "reservationAffinity": {"consumeReservationType": "NO_RESERVATION"}}
    return {"scheduling": changed}


def _refused(insert: Insert, problem: str) -> InsertRefused:
    return InsertRefused(InsertError("refused", f"{insert.machine} in {insert.rung.zone}: {problem}"))
