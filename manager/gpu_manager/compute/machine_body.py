"""The request for a machine: what differs from its template."""

from __future__ import annotations

from typing import Any

from gpu_ci.gcp.gate.stopped import MANAGER_LABEL, TEMPLATE_LABEL
from gpu_ci.gcp.resource_names import region_and_name_of_template
from gpu_ci.naming import fit

from ..decision.names import STANDBY, slug
from ..model import Insert, InsertError, Pool
from ..ports import InsertRefused

Body = dict[str, Any]

POOL, MANAGER, JOB, TEMPLATE = "gpu-ci-pool", MANAGER_LABEL, "gpu-ci-job", TEMPLATE_LABEL
"""Labels by which the manager knows its machines."""
REGISTERED_BY = "gpu-ci-registered-by"
"""Label of machines whose runner the manager registers. Those of an earlier template register their own."""
REPOSITORY, WORKFLOW = "gpu-ci-repository", "gpu-ci-workflow"
"""Labels for the cost report alone."""
_LABEL_CHARACTERS = 63

MARKETS = {"SPOT": "spot", "STANDARD": "standard", "FLEX_START": "flex-start", "RESERVATION_BOUND": "reservation"}
"""Google's provisioning models, and the markets of a stack file."""

FLEX_START_WAIT_SEC = 1800
"""How long Google looks for capacity for a flex-start machine in one zone, before the next zone is asked.

Google takes up to two hours (cloud.google.com/blog, "Introducing Flex-start VMs for the Compute Engine Instance API").
"""

# Machines with GPUs cannot be migrated, and Google restarts only those that it never takes back.
_SCHEDULING: dict[str, Body] = {
    "spot": {"provisioningModel": "SPOT", "preemptible": True, "automaticRestart": False},
    "standard": {"provisioningModel": "STANDARD", "preemptible": False, "automaticRestart": True},
}


def machine_body(template: Body, pool: Pool, insert: Insert, manager: str) -> Body:
    """The body of instances.insert. InsertRefused where the rung cannot be made from the template.

    Google replaces labels and metadata whole, so the template's own are copied.
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
    """Labels that find the machine, and labels that attribute its cost."""
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
    """How a machine or template is bought."""
    model = scheduling.get("provisioningModel") or ("SPOT" if scheduling.get("preemptible") else "STANDARD")
    return MARKETS.get(model, model)


def _machine_type(template: Body, insert: Insert) -> Body:
    """The rung's machine type.

    N1 machines have the GPUs that a template attaches, and all others have theirs built in: one template cannot be for
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
    # Compute Engine requires a termination action of a machine that is limited in time or spot.
    changed = {"instanceTerminationAction": "DELETE", **scheduling, **_SCHEDULING[insert.rung.market]}
    if template.get("reservationAffinity"):
        return {"scheduling": changed, "reservationAffinity": {"consumeReservationType": "NO_RESERVATION"}}
    return {"scheduling": changed}


def _refused(insert: Insert, problem: str) -> InsertRefused:
    return InsertRefused(InsertError("refused", f"{insert.machine} in {insert.rung.zone}: {problem}"))
