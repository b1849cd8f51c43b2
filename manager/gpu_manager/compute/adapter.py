"""The manager's adapter of Compute Engine. It uses the same API client as the smoke gate."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from http.client import HTTPException
from typing import Any, Protocol

from gpu_ci.gcp.gate.compute_api import ApiError, GoogleCompute, Operation
from gpu_ci.gcp.gate.stopped import MANAGER_LABEL, TEMPLATE_LABEL
from gpu_ci.gcp.template_links import region_and_name_of_template
from gpu_ci.naming import fit

from ..decision.names import STANDBY, slug
from ..model import OFF, End, Insert, InsertError, Machine, OperationState, Pool
from ..ports import InsertRefused, Metadata, Refused, Requested, Unavailable
from ..registration import METADATA_KEY
from .guest_attributes import END, MachineKeys, end_of

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


# The next pass repeats a failed request anyway. One retry covers a connection that was closed in the meantime.
_RETRIES = 1
# The lease of a manager depends on this value (stores/bucket.py, CALL_SEC).
_TIMEOUT_SEC = 20.0
# Only the keys of the metadata are read, because its values contain the agent of each machine.
_FIELDS = ("id", "name", "zone", "status", "machineType", "scheduling", "labels", "metadata/items/key")
_PREEMPTED = 'operationType="compute.instances.preempted"'
_PREEMPTED_WITHIN_SEC = 3600.0
# The machine names of decision/names.py.
_GENERATED = re.compile(r"(.+)-[0-9a-f]{8}")
_INSERT = 'operationType="insert"'
_INSERTING = f'{_INSERT} AND status!="DONE"'
# Errors of an answer that is not Google's: a proxy may answer 200 with its own page, or cut off an answer.
_UNUSABLE = (KeyError, TypeError, ValueError, AttributeError, HTTPException)
# How long a machine that is off has the status STOPPING for the manager, while its end cannot be read.
_END_WITHIN_SEC = 300.0


class Api(Protocol):
    """The methods of Google's API that the manager needs."""

    @property
    def account(self) -> str: ...
    def template(self, project: str, region: str, name: str) -> Body: ...
    def insert(self, project: str, zone: str, body: Body, template: str, request_id: str = "") -> Operation: ...
    def delete(self, project: str, zone: str, name: str) -> str: ...
    def start(self, project: str, zone: str, name: str, request_id: str) -> str: ...
    def stop(self, project: str, zone: str, name: str) -> str: ...
    def operation(self, project: str, zone: str, operation: str) -> Operation: ...
    def operations(self, project: str, zone: str, expression: str) -> Iterator[Body]: ...
    def instance(self, project: str, zone: str, name: str) -> Body: ...
    def instances_of_all_zones(self, project: str, expression: str, fields: Sequence[str]) -> list[Body]: ...
    def guest_attribute(self, project: str, zone: str, name: str, key: str) -> str: ...
    def set_metadata(self, project: str, zone: str, name: str, fingerprint: str, items: Mapping[str, str]) -> str: ...
    def close(self) -> None: ...


class ComputeAdapter:
    """The machines of one manager. Implements ports.Compute, which describes the methods, for use by one thread.

    It lists and deletes only machines whose label gpu-ci-manager is this manager's name.
    """

    def __init__(
        self,
        manager: str,
        api: Api | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._manager = fit(manager, 63)
        self._api = api
        self._monotonic = monotonic
        self._templates: dict[str, Body] = {}
        self._ends: dict[str, End | None] = {}
        self._unread_since: dict[str, float] = {}
        self._inserted: dict[str, bool] = {}
        """True for the id of a machine that the manager's account has inserted, and False if another account has."""
        self._user = ""
        """The account of the manager's own operations."""
        self._keys = MachineKeys(monotonic)

    def close(self) -> None:
        """Close the connection."""
        if self._api is not None:
            self._api.close()

    def machines(self, pools: Sequence[Pool]) -> tuple[Machine, ...]:
        """List the machines, and read the ends of those that are off.

        A machine that is off counts as STOPPING until its end is read, for at most five minutes. If the manager deleted
        the machine earlier, an end that stops the pool would be lost.
        """
        rows: list[tuple[str, Body]] = []
        for project in dict.fromkeys(pool.project for pool in pools):
            with _converted_errors(f"the machines of project {project}"):
                found = self._google().instances_of_all_zones(project, f"labels.{MANAGER}={self._manager}", _FIELDS)
                rows += [(project, row) for row in found if self._is_own(row)]
        templates = {
            (pool.project, region_and_name_of_template(template)[1]): template
            for pool in pools
            for template in pool.templates
        }
        with _converted_errors("the machines"):
            # A machine on standby is switched off more than once, and reports another end each time.
            self._forget({str(row["id"]) for _, row in rows if row["status"] in OFF})
            listed = tuple(self._machine(project, row, templates) for project, row in rows)
            return self._keys.with_keys(listed, self._google().guest_attribute)

    def operation(self, pool: Pool, zone: str, operation: str) -> OperationState:
        try:
            with _checked_answer(f"operation {operation} in {zone}"):
                found = self._google().operation(pool.project, zone, operation)
                self._user = found.user or self._user
        except ApiError as failure:
            if failure.missing:
                return OperationState(done=True)
            raise Unavailable(f"operation {operation} in {zone}: {failure}") from None
        # Google reports the error of an operation before the operation has ended.
        error = _operation_error(found.error) if found.error else None
        return OperationState(found.done or error is not None, error, found.target_id)

    def preempted(self, pools: Sequence[Pool]) -> frozenset[str]:
        # Only Google's times are compared, because this computer's clock may be wrong.
        names: set[str] = set()
        for project, zone in _places(pools):
            with _converted_errors(f"preemptions in {zone}"):
                found = [
                    (datetime.fromisoformat(each["insertTime"]), f"{_last(each['targetLink'])}-{each['targetId']}")
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
            by_name = {pool.name: pool for pool in pools if pool.project == project}
            with _converted_errors(f"inserts in {zone}"):
                for each in self._google().operations(project, zone, _INSERTING):
                    name = _last(each["targetLink"])
                    generated = _GENERATED.fullmatch(name)
                    pool = by_name.get(generated[1]) if generated else None
                    if pool and "/instances/" in each["targetLink"] and self._is_own_operation(each):
                        first = pool.rungs[0]
                        row = Machine(name, pool.name, zone, "PROVISIONING", first.market, first.machine_type, "")
                        found.append(replace(row, project=project, id=str(each["targetId"])))
        return tuple(found)

    def inserted(self, machine: Machine) -> bool:
        """Return True if the operation of the machine's insert has the manager's account as its user.

        Others can set labels and names. Only Google writes the user and the target's id of an operation. A user's login
        has no account, so it is unknown until the first operation of the manager. Google keeps operations for a limited
        time (discovery document compute v1, Operation). A machine without its operation counts as another's.
        """
        if machine.id not in self._inserted:
            link = f"https://www.googleapis.com/compute/v1/projects/{machine.project}/zones/{machine.zone}/instances/{machine.name}"
            with _converted_errors(f"the insert of {machine.name} in {machine.zone}"):
                found = self._google().operations(machine.project, machine.zone, f'{_INSERT} AND targetLink="{link}"')
                own = [self._is_own_operation(each) for each in found if str(each["targetId"]) == machine.id]
            if not own or not (self._google().account or self._user):
                return False
            self._inserted[machine.id] = any(own)
        return self._inserted[machine.id]

    def _is_own_operation(self, operation: Body) -> bool:
        return str(operation["user"]) == (self._google().account or self._user)

    def insert(self, pool: Pool, insert: Insert) -> Requested:
        zone = insert.rung.zone
        try:
            with _checked_answer(f"insert of {insert.machine} in {zone}"):
                template = pool.template_of(insert.rung)
                body = machine_body(self._template(pool.project, template), pool, insert, self._manager)
                made = self._google().insert(pool.project, zone, body, template, insert.request_id)
                self._user = made.user or self._user
                return Requested(made.name, made.target_id)
        except ApiError as error:
            if error.status == 409 and (existing := self._requested_machine(pool, insert)):
                return Requested("", existing)
            if _is_temporary(error) and not (error.no_capacity or error.over_quota):
                raise Unavailable(f"insert of {insert.machine} in {zone}: {error}") from None
            raise InsertRefused(_insert_error(error)) from None

    def metadata(self, machine: Machine) -> Metadata:
        subject = f"the metadata of {machine.name} in {machine.zone}"
        try:
            with _checked_answer(subject):
                row = self._google().instance(machine.project, machine.zone, machine.name)
                if not self._is_own(row) or str(row["id"]) != machine.id:
                    raise Unavailable(f"{subject}: another machine has this name now")
                found = row["metadata"]
                items = {str(each["key"]): str(each.get("value", "")) for each in found.get("items", [])}
                return Metadata(str(found["fingerprint"]), items)
        except ApiError as error:
            raise _machine_error(subject, error) from None

    def set_metadata(self, machine: Machine, read: Metadata, key: str, value: str) -> bool:
        # Google replaces the whole metadata at once, and only if its fingerprint has not changed.
        items = {**read.items, key: value}
        try:
            with _checked_answer(f"the metadata of {machine.name}"):
                self._google().set_metadata(machine.project, machine.zone, machine.name, read.fingerprint, items)
        except ApiError as error:
            if error.status == 412:
                return False
            raise _machine_error(f"the metadata of {machine.name} in {machine.zone}", error) from None
        return True

    def stop(self, machine: Machine) -> None:
        subject = f"the stop of {machine.name} in {machine.zone}"
        try:
            with _checked_answer(subject):
                row = self._google().instance(machine.project, machine.zone, machine.name)
                if not self._is_own(row) or str(row["id"]) != machine.id or _is_sealed(row):
                    raise Refused(f"{subject}: another machine has this name now, or it has a runner")
                self._google().stop(machine.project, machine.zone, machine.name)
        except ApiError as error:
            if not error.missing:
                raise _failure(subject, error) from None

    def start(self, machine: Machine, request_id: str) -> str:
        subject = f"the start of {machine.name} in {machine.zone}"
        try:
            with _checked_answer(subject):
                return self._google().start(machine.project, machine.zone, machine.name, request_id)
        except ApiError as error:
            # A deleted machine is missing from the next list, and its error says nothing about the capacity of the
            # place.
            if error.missing or (_is_temporary(error) and not (error.no_capacity or error.over_quota)):
                raise Unavailable(f"{subject}: {error}") from None
            raise InsertRefused(_insert_error(error)) from None

    def delete(self, project: str, zone: str, name: str) -> None:
        try:
            with _checked_answer(f"delete of {name} in {zone}"):
                if not self._is_own(self._google().instance(project, zone, name)):
                    raise Refused(f"delete of {name} in {zone}: its label {MANAGER} is not {self._manager}")
                self._google().delete(project, zone, name)
        except ApiError as error:
            if not error.missing:
                raise _failure(f"delete of {name} in {zone}", error) from None

    def _google(self) -> Api:
        """Return the client. It is created at first use, so that missing credentials raise ApiError there."""
        if self._api is None:
            self._api = GoogleCompute(_RETRIES, _TIMEOUT_SEC)
        return self._api

    def _is_own(self, row: Body) -> bool:
        return bool(row.get("labels", {}).get(MANAGER) == self._manager)

    def _requested_machine(self, pool: Pool, insert: Insert) -> str:
        """Return the id of the existing machine of this name, or "" if it is not the requested one."""
        zone = insert.rung.zone
        with _converted_errors(f"{insert.machine} in {zone}, which has the name"):
            found = self._google().instance(pool.project, zone, insert.machine)
            machine = Machine(
                insert.machine, pool.name, zone, "", "", "", "", project=pool.project, id=str(found["id"])
            )
        wanted = labels(pool, insert, self._manager)
        same = all(found.get("labels", {}).get(key) == wanted[key] for key in (MANAGER, POOL, JOB))
        return machine.id if same and self.inserted(machine) else ""

    def _template(self, project: str, template: str) -> Body:
        """Return a template. Templates cannot change, so each is read once."""
        if template not in self._templates:
            region, name = region_and_name_of_template(template)
            self._templates[template] = self._google().template(project, region, name)
        return self._templates[template]

    def _machine(self, project: str, row: Body, templates: dict[tuple[str, str], str]) -> Machine:
        """Return the machine of one element of Google's list. `templates` maps projects and names to self links."""
        own = row["labels"]
        zone, status = _last(row["zone"]), str(row["status"])
        end = None
        if status in OFF:
            readable, end = self._end(project, zone, row)
            status = status if readable else "STOPPING"
        return Machine(
            name=row["name"],
            project=project,
            pool=own.get(POOL, ""),
            zone=zone,
            status=status,
            market=market(row.get("scheduling", {})),
            machine_type=_last(row["machineType"]),
            template=templates.get((project, own.get(TEMPLATE, "")), ""),
            end=end,
            job=own.get(JOB, ""),
            id=str(row["id"]),
            registered_by=own.get(REGISTERED_BY, "machine"),
            sealed=_is_sealed(row),
        )

    def _end(self, project: str, zone: str, row: Body) -> tuple[bool, End | None]:
        """Return True with the machine's end, or False if the end cannot be read yet.

        The end is read once, because a machine that is off writes no other.
        """
        key = str(row["id"])
        if key in self._ends:
            return True, self._ends[key]
        try:
            self._ends[key] = end_of(self._google().guest_attribute(project, zone, row["name"], END))
        except ApiError as error:
            since = self._unread_since.setdefault(key, self._monotonic())
            if error.not_yet and self._monotonic() - since < _END_WITHIN_SEC:
                return False, None
            self._ends[key] = None
        return True, self._ends[key]

    def _forget(self, ids: set[str]) -> None:
        """Drop the ends of machines that are not off any more."""
        self._ends = {key: end for key, end in self._ends.items() if key in ids}
        self._unread_since = {key: since for key, since in self._unread_since.items() if key in ids}


def _is_sealed(row: Body) -> bool:
    return any(each["key"] == METADATA_KEY for each in row.get("metadata", {}).get("items", []))


def _places(pools: Sequence[Pool]) -> Iterable[tuple[str, str]]:
    """Return each project and zone of the pools once."""
    return dict.fromkeys((pool.project, rung.zone) for pool in pools for rung in pool.rungs)


@contextmanager
def _checked_answer(subject: str) -> Iterator[None]:
    try:
        yield
    except _UNUSABLE as error:
        raise Unavailable(f"{subject}: Google's answer cannot be used: {type(error).__name__}: {error}") from None


@contextmanager
def _converted_errors(subject: str) -> Iterator[None]:
    try:
        with _checked_answer(subject):
            yield
    except ApiError as error:
        raise _failure(subject, error) from None


def _failure(subject: str, error: ApiError) -> Unavailable | Refused:
    return (Unavailable if _is_temporary(error) else Refused)(f"{subject}: {error}")


def _machine_error(subject: str, error: ApiError) -> Unavailable | Refused:
    """Return the error of a request about one machine. It is Unavailable if the machine is gone, because requests about
    other machines may succeed.
    """
    return Unavailable(f"{subject}: the machine is gone") if error.missing else _failure(subject, error)


def _is_temporary(error: ApiError) -> bool:
    """Return True if the same request may succeed later, also after an error of this computer's credentials."""
    return error.not_yet or error.reason == "unauthenticated"


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


def _last(link: Any) -> str:
    """Return the name at the end of a link."""
    return str(link).rstrip("/").rpartition("/")[-1]
