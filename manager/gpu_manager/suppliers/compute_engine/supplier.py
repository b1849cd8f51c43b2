"""Compute Engine as a supplier of machines. It uses the same API client as the smoke gate."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from gpu_ci.gcp.gate.compute_api import ApiError
from gpu_ci.gcp.gate.stopped import MANAGER_LABEL, TEMPLATE_LABEL
from gpu_ci.gcp.template_links import region_and_name_of_template
from gpu_ci.naming import fit

from ...copies import Copy, software, without_runner
from ...decision.names import STANDBY, slug
from ...model import Insert, InsertError, Machine, Offer, OperationState, Pool
from ...ports import InsertRefused, Refused, Started, Supplier, Unavailable
from .api import Api, Body, Connection, checked_answer, converted_errors, failure, is_own, is_temporary, last
from .channel import GuestChannel, is_sealed
from .pool import ComputeEnginePool

POOL, MANAGER, JOB, TEMPLATE = "gpu-ci-pool", MANAGER_LABEL, "gpu-ci-job", TEMPLATE_LABEL
"""Labels by which the manager recognizes its machines."""
REGISTERED_BY = "gpu-ci-registered-by"
"""Label of machines whose runner the manager registers. Machines of earlier templates register their own runner."""
REPOSITORY, WORKFLOW = "gpu-ci-repository", "gpu-ci-workflow"
"""Labels for the cost report only."""
_LABEL_CHARACTERS = 63
CONFIG = "gpu-agent-config"
"""The metadata with the configuration of the agent (agent/gpu_agent/config.py)."""
_EXTERNAL = ("accessConfigs", "ipv6AccessConfigs")

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


def copy_body(template: Body, pool: Pool, insert: Insert, hours: int) -> Body:
    """Return the body of instances.insert for a copy, which has no runner, and no label of a manager.

    Raises InsertRefused like machine_body.
    """
    body = machine_body(template, pool, insert, "")
    items = {str(each["key"]): str(each.get("value", "")) for each in body["metadata"]["items"]}
    items[CONFIG] = json.dumps(without_runner(json.loads(items.get(CONFIG, "{}"))))
    limited = {
        "automaticRestart": False,
        "instanceTerminationAction": "DELETE",
        "maxRunDuration": {"seconds": str(hours * 3600)},
    }
    return body | {
        "labels": template.get("labels", {}),
        "metadata": {"items": [{"key": key, "value": value} for key, value in items.items()]},
        "scheduling": template.get("scheduling", {}) | body.get("scheduling", {}) | limited,
        "networkInterfaces": [
            {key: value for key, value in each.items() if key not in _EXTERNAL}
            for each in template.get("networkInterfaces", [])
        ],
    }


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


# Only the keys of the metadata are read, because its values contain the agent of each machine.
_FIELDS = ("id", "name", "zone", "status", "machineType", "scheduling", "labels", "metadata/items/key",
           "lastStartTimestamp", "lastStopTimestamp")  # fmt: skip
_PREEMPTED = 'operationType="compute.instances.preempted"'
_PREEMPTED_WITHIN_SEC = 3600.0
# The machine names of decision/names.py.
_GENERATED = re.compile(r"(.+)-[0-9a-f]{8}")
_INSERT = 'operationType="insert"'
_INSERTING = f'{_INSERT} AND status!="DONE"'


class ComputeEngine(Supplier):
    """The machines of one manager, for use by one thread.

    It lists and deletes only machines whose label gpu-ci-manager is this manager's name.
    """

    TITLE = "Compute Engine"
    NO_COPY = ""
    POOL = ComputeEnginePool

    def __init__(self, manager: str, api: Api | None = None, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._manager = fit(manager, 63)
        self._google = Connection(api)
        self._templates: dict[str, Body] = {}
        self._inserted: dict[str, bool] = {}
        """True for the id of a machine that the manager's account has inserted, and False if another account has."""
        self._user = ""
        """The account of the manager's own operations."""
        self.channel = GuestChannel(self._manager, self._google, monotonic)

    def close(self) -> None:
        self._google.close()

    def list(self, pools: Sequence[Pool]) -> tuple[Machine, ...]:
        rows = []
        for project in dict.fromkeys(pool.account for pool in pools):
            with converted_errors(f"the machines of project {project}"):
                found = self._google().instances_of_all_zones(project, f"labels.{MANAGER}={self._manager}", _FIELDS)
                rows += [(project, row) for row in found if is_own(row, self._manager)]
        templates = {
            (pool.account, region_and_name_of_template(template)[1]): template
            for pool in pools
            for template in pool.templates
        }
        with converted_errors("the machines"):
            return tuple(_machine(project, row, templates) for project, row in rows)

    def operation(self, pool: Pool, offer: Offer, operation: str) -> OperationState:
        zone = offer.zone
        try:
            with checked_answer(f"operation {operation} in {zone}"):
                found = self._google().operation(pool.account, zone, operation)
                self._user = found.user or self._user
        except ApiError as problem:
            if problem.missing:
                return OperationState(done=True)
            raise Unavailable(f"operation {operation} in {zone}: {problem}") from None
        # Google reports the error of an operation before the operation has ended.
        error = _operation_error(found.error) if found.error else None
        return OperationState(found.done or error is not None, error, found.target_id)

    def preempted(self, pools: Sequence[Pool]) -> frozenset[str]:
        # Only Google's times are compared, because this computer's clock may be wrong.
        names: set[str] = set()
        for project, zone in _places(pools):
            with converted_errors(f"preemptions in {zone}"):
                found = [
                    (datetime.fromisoformat(each["insertTime"]), f"{last(each['targetLink'])}-{each['targetId']}")
                    for each in self._google().operations(project, zone, _PREEMPTED)
                ]
                newest = max((at for at, _ in found), default=None)
                names |= {
                    name for at, name in found if newest and (newest - at).total_seconds() <= _PREEMPTED_WITHIN_SEC
                }
        return frozenset(names)

    def starting(self, pools: Sequence[Pool]) -> tuple[Machine, ...]:
        # An operation has no labels, so the pool is derived from the machine's name.
        found: list[Machine] = []
        for project, zone in _places(pools):
            by_name = {pool.name: pool for pool in pools if pool.account == project}
            with converted_errors(f"inserts in {zone}"):
                for each in self._google().operations(project, zone, _INSERTING):
                    name = last(each["targetLink"])
                    generated = _GENERATED.fullmatch(name)
                    pool = by_name.get(generated[1]) if generated else None
                    if pool and "/instances/" in each["targetLink"] and self._is_own_operation(each):
                        first = pool.rungs[0]
                        row = Machine(name, pool.name, zone, "PROVISIONING", first.market, first.machine_type, "")
                        found.append(replace(row, account=project, id=str(each["targetId"])))
        return tuple(found)

    def owns(self, machine: Machine) -> bool:
        """Return True if the operation of the machine's insert has the manager's account as its user.

        Others can set labels and names. Only Google writes the user and the target's id of an operation. A user's login
        has no account, so it is unknown until the first operation of the manager. Google keeps operations for a limited
        time (discovery document compute v1, Operation). A machine without its operation counts as another's.
        """
        if machine.id not in self._inserted:
            link = f"https://www.googleapis.com/compute/v1/projects/{machine.account}/zones/{machine.zone}/instances/{machine.name}"
            with converted_errors(f"the insert of {machine.name} in {machine.zone}"):
                found = self._google().operations(machine.account, machine.zone, f'{_INSERT} AND targetLink="{link}"')
                own = [self._is_own_operation(each) for each in found if str(each["targetId"]) == machine.id]
            if not own or not (self._google().account or self._user):
                return False
            self._inserted[machine.id] = any(own)
        return self._inserted[machine.id]

    def _is_own_operation(self, operation: Body) -> bool:
        return str(operation["user"]) == (self._google().account or self._user)

    def start(self, pool: Pool, insert: Insert) -> Started:
        zone = insert.rung.zone
        try:
            with checked_answer(f"insert of {insert.machine} in {zone}"):
                template = pool.template_of(insert.rung)
                body = machine_body(self._template(pool.account, template), pool, insert, self._manager)
                made = self._google().insert(pool.account, zone, body, template, insert.request_id)
                self._user = made.user or self._user
                return Started(made.name, made.target_id)
        except ApiError as error:
            if error.status == 409 and (existing := self._requested_machine(pool, insert)):
                return Started("", existing)
            if is_temporary(error) and not (error.no_capacity or error.over_quota):
                raise Unavailable(f"insert of {insert.machine} in {zone}: {error}") from None
            raise InsertRefused(_insert_error(error)) from None

    def stop(self, machine: Machine) -> None:
        subject = f"the stop of {machine.name} in {machine.zone}"
        try:
            with checked_answer(subject):
                row = self._google().instance(machine.account, machine.zone, machine.name)
                if not is_own(row, self._manager) or str(row["id"]) != machine.id or is_sealed(row):
                    raise Refused(f"{subject}: another machine has this name now, or it has a runner")
                self._google().stop(machine.account, machine.zone, machine.name)
        except ApiError as error:
            if not error.missing:
                raise failure(subject, error) from None

    def start_again(self, machine: Machine, request_id: str) -> str:
        subject = f"the start of {machine.name} in {machine.zone}"
        try:
            with checked_answer(subject):
                return self._google().start(machine.account, machine.zone, machine.name, request_id)
        except ApiError as error:
            # A deleted machine is missing from the next list, and its error says nothing about the capacity of the
            # place.
            if error.missing or (is_temporary(error) and not (error.no_capacity or error.over_quota)):
                raise Unavailable(f"{subject}: {error}") from None
            raise InsertRefused(_insert_error(error)) from None

    def software(self, pool: Pool, offer: Offer) -> Mapping[str, str]:
        with converted_errors(f"the template {offer.template}"):
            template = self._template(pool.account, pool.template_of(offer))
            items = {each["key"]: each.get("value", "") for each in template.get("metadata", {}).get("items", [])}
            images = [each.get("initializeParams", {}).get("sourceImage", "") for each in template.get("disks", [])]
            return {"image": next(filter(None, images), "unknown"), **software(json.loads(items.get(CONFIG, "{}")))}

    def start_copy(self, pool: Pool, insert: Insert, hours: int) -> Copy:
        zone, template = insert.rung.zone, pool.template_of(insert.rung)
        with converted_errors(f"the template {template}"):
            body = copy_body(self._template(pool.account, template), pool, insert, hours)
        with converted_errors(f"the insert of {insert.machine} in {zone}"):
            made = self._google().insert(pool.account, zone, body, template, insert.request_id)
        where = f"{insert.machine} --zone {zone} --project {pool.account}"
        return Copy(
            made.name,
            f"gcloud compute ssh {where} --tunnel-through-iap",
            f"gcloud compute instances delete {where}",
        )

    def delete(self, machine: Machine) -> None:
        project, zone, name = machine.account, machine.zone, machine.name
        try:
            with checked_answer(f"delete of {name} in {zone}"):
                if not is_own(self._google().instance(project, zone, name), self._manager):
                    raise Refused(f"delete of {name} in {zone}: its label {MANAGER} is not {self._manager}")
                self._google().delete(project, zone, name)
        except ApiError as error:
            if not error.missing:
                raise failure(f"delete of {name} in {zone}", error) from None

    def _requested_machine(self, pool: Pool, insert: Insert) -> str:
        """Return the id of the existing machine of this name, or "" if it is not the requested one."""
        zone = insert.rung.zone
        with converted_errors(f"{insert.machine} in {zone}, which has the name"):
            found = self._google().instance(pool.account, zone, insert.machine)
            machine = Machine(
                insert.machine, pool.name, zone, "", "", "", "", account=pool.account, id=str(found["id"])
            )
        wanted = labels(pool, insert, self._manager)
        same = all(found.get("labels", {}).get(key) == wanted[key] for key in (MANAGER, POOL, JOB))
        return machine.id if same and self.owns(machine) else ""

    def _template(self, project: str, template: str) -> Body:
        """Return a template. Templates cannot change, so each is read once."""
        if template not in self._templates:
            region, name = region_and_name_of_template(template)
            self._templates[template] = self._google().template(project, region, name)
        return self._templates[template]


def _machine(project: str, row: Body, templates: dict[tuple[str, str], str]) -> Machine:
    """Return the machine of one element of Google's list. `templates` maps projects and names to self links."""
    own = row["labels"]
    return Machine(
        name=row["name"],
        account=project,
        pool=own.get(POOL, ""),
        zone=last(row["zone"]),
        status=str(row["status"]),
        market=market(row.get("scheduling", {})),
        machine_type=last(row["machineType"]),
        template=templates.get((project, own.get(TEMPLATE, "")), ""),
        job=own.get(JOB, ""),
        id=str(row["id"]),
        registered_by=own.get(REGISTERED_BY, "machine"),
        sealed=is_sealed(row),
        on_unix=_unix(row.get("lastStartTimestamp")),
        off_unix=_unix(row.get("lastStopTimestamp")),
    )


def _unix(text: str | None) -> float:
    return datetime.fromisoformat(text).timestamp() if text else 0.0


def _places(pools: Sequence[Pool]) -> Iterable[tuple[str, str]]:
    """Return each project and zone of the pools once."""
    return dict.fromkeys((pool.account, rung.zone) for pool in pools for rung in pool.rungs)


def _operation_error(error: ApiError) -> InsertError:
    """Return the insert error of an operation. An internal error at Google counts as no capacity, so the next rung is
    tried.
    """
    found = _insert_error(error)
    if found.kind == "refused" and error.not_yet:
        return InsertError("no-capacity", found.message)
    return found


def _insert_error(error: ApiError) -> InsertError:
    if error.no_capacity:
        return InsertError("no-capacity", str(error), error.zones_available)
    if error.over_quota:
        return InsertError("over-quota", str(error), quota=error.quota.id if error.quota else "")
    return InsertError("refused", str(error))


SUPPLIER = ComputeEngine
