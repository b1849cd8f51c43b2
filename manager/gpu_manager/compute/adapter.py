"""The manager's port to Compute Engine, over the API client that the gate has as well."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from http.client import HTTPException
from typing import Any, Protocol

from gpu_ci.gcp.gate.compute_api import ApiError, GoogleCompute
from gpu_ci.gcp.resource_names import region_and_name_of_template
from gpu_ci.naming import fit

from ..decision.names import pool_of
from ..model import OFF, End, Insert, InsertError, Machine, OperationState, Pool
from ..ports import InsertRefused, Metadata, Refused, Unavailable
from ..registration import METADATA_KEY
from . import machine_end
from .machine_body import JOB, MANAGER, POOL, REGISTERED_BY, TEMPLATE, Body, labels, machine_body, market
from .machine_keys import MachineKeys

# The next pass asks again anyway. One repetition gets over a connection that was closed meanwhile.
_RETRIES = 1
# The lease of a manager relies on it (stores/bucket.py, CALL_SEC).
_TIMEOUT_SEC = 20.0
# Of the metadata the keys alone: the values hold the agent of each machine.
_FIELDS = ("id", "name", "zone", "status", "machineType", "scheduling", "labels", "metadata/items/key")
_PREEMPTED = 'operationType="compute.instances.preempted"'
_PREEMPTED_WITHIN_SEC = 3600.0
_INSERTING = 'operationType="insert" AND status!="DONE"'
# A proxy may answer 200 with a page of its own, or break off an answer.
_UNUSABLE = (KeyError, TypeError, ValueError, AttributeError, HTTPException)
# How long a machine that is off counts as stopping because its end cannot be read.
_END_WITHIN_SEC = 300.0


class Api(Protocol):
    """What the manager needs of Google."""

    def template(self, project: str, region: str, name: str) -> Body: ...
    def insert(self, project: str, zone: str, body: Body, template: str, request_id: str = "") -> str: ...
    def delete(self, project: str, zone: str, name: str) -> str: ...
    def start(self, project: str, zone: str, name: str, request_id: str) -> str: ...
    def stop(self, project: str, zone: str, name: str) -> str: ...
    def operation(self, project: str, zone: str, operation: str) -> tuple[bool, ApiError | None]: ...
    def operations(self, project: str, zone: str, expression: str) -> Iterator[Body]: ...
    def instance(self, project: str, zone: str, name: str) -> Body: ...
    def instances_of_all_zones(self, project: str, expression: str, fields: Sequence[str]) -> list[Body]: ...
    def guest_attribute(self, project: str, zone: str, name: str, key: str) -> str: ...
    def set_metadata(self, project: str, zone: str, name: str, fingerprint: str, items: Mapping[str, str]) -> str: ...
    def close(self) -> None: ...


class ComputeAdapter:
    """The machines of one manager. Implements ports.Compute. One thread uses it.

    It lists, and deletes, only machines whose label gpu-ci-manager is this manager's name. It lists those alone whose
    pool is of this share, and asks for no guest attribute of another share's: Google allows ten queries a minute.
    """

    def __init__(
        self,
        manager: str,
        api: Api | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        owns: Callable[[str], bool] = lambda _: True,
    ) -> None:
        self._manager = fit(manager, 63)
        self._owns = owns
        self._api = api
        self._monotonic = monotonic
        self._templates: dict[str, Body] = {}
        self._ends: dict[str, End | None] = {}
        self._unread_since: dict[str, float] = {}
        self._keys = MachineKeys(monotonic)

    def close(self) -> None:
        """Close the connection."""
        if self._api is not None:
            self._api.close()

    def machines(self, pools: Sequence[Pool]) -> tuple[Machine, ...]:
        """Those of the manager of all pools in all zones; the end of each that is off. Unavailable or Refused.

        A machine that is off counts as STOPPING until its end has been read, for five minutes at most. Deleting it
        would lose what stops its pool.
        """
        rows: list[tuple[str, Body]] = []
        for project in dict.fromkeys(pool.project for pool in pools):
            with _asking(f"the machines of project {project}"):
                found = self._google().instances_of_all_zones(project, f"labels.{MANAGER}={self._manager}", _FIELDS)
                rows += [(project, row) for row in found if self._ours(row) and self._owns(row["labels"].get(POOL, ""))]
        templates = {
            (pool.project, region_and_name_of_template(template)[1]): template
            for pool in pools
            for template in pool.templates
        }
        with _asking("the machines"):
            # A machine on standby is off more than once, and each time has an end of its own.
            self._forget({str(row["id"]) for _, row in rows if row["status"] in OFF})
            listed = tuple(self._machine(project, row, templates) for project, row in rows)
            return self._keys.with_keys(listed, self._google().guest_attribute)

    def operation(self, pool: Pool, zone: str, operation: str) -> OperationState:
        """How far an insert has come. Unavailable; one that Google has forgotten is done without an error."""
        try:
            with _usable(f"operation {operation} in {zone}"):
                done, error = self._google().operation(pool.project, zone, operation)
        except ApiError as failure:
            if failure.missing:
                return OperationState(done=True)
            raise Unavailable(f"operation {operation} in {zone}: {failure}") from None
        # Google names the error of an operation before it has ended.
        return OperationState(done or error is not None, _of_operation(error) if error else None)

    def preempted(self, pools: Sequence[Pool]) -> frozenset[str]:
        """Names and ids of machines that Google took back within an hour of the zone's last preemption. Unavailable.

        Only Google's own times are compared: the clock of this computer may be wrong.
        """
        names: set[str] = set()
        for project, zone in _places(pools):
            with _asking(f"preemptions in {zone}"):
                newest: datetime | None = None
                for each in self._google().operations(project, zone, _PREEMPTED):
                    at = datetime.fromisoformat(each["insertTime"])
                    newest = newest or at
                    if (newest - at).total_seconds() > _PREEMPTED_WITHIN_SEC:
                        break
                    names.add(f"{_last(each['targetLink'])}-{each['targetId']}")
        return frozenset(names)

    def starting(self, pools: Sequence[Pool]) -> tuple[Machine, ...]:
        """Machines of the pools whose insert has not ended. They may be in no list yet. Unavailable or Refused.

        An operation names no labels. The pool follows from the machine's name.
        """
        found: list[Machine] = []
        for project, zone in _places(pools):
            by_name = {pool.name: pool for pool in pools if pool.project == project}
            with _asking(f"inserts in {zone}"):
                for each in self._google().operations(project, zone, _INSERTING):
                    name = _last(each["targetLink"])
                    pool = by_name.get(pool_of(name))
                    if pool and "/instances/" in each["targetLink"]:
                        first = pool.rungs[0]
                        row = Machine(name, pool.name, zone, "PROVISIONING", first.market, first.machine_type, "")
                        found.append(replace(row, project=project))
        return tuple(found)

    def insert(self, pool: Pool, insert: Insert) -> str:
        """Ask for a machine; the name of the operation. A machine of that name for that job is no error, and gives "".

        Unavailable where the answer was lost: the same insert may be repeated. InsertRefused where Google says no.
        """
        zone = insert.rung.zone
        try:
            with _usable(f"insert of {insert.machine} in {zone}"):
                template = pool.template_of(insert.rung)
                body = machine_body(self._template(pool.project, template), pool, insert, self._manager)
                return self._google().insert(pool.project, zone, body, template, insert.request_id)
        except ApiError as error:
            if error.status == 409 and self._is_there(pool, insert):
                return ""
            if _may_pass(error) and not (error.no_capacity or error.over_quota):
                raise Unavailable(f"insert of {insert.machine} in {zone}: {error}") from None
            raise InsertRefused(_insert_error(error)) from None

    def metadata(self, machine: Machine) -> Metadata:
        """Its metadata as it is now. Unavailable, also where another machine has the name now; or Refused."""
        what = f"the metadata of {machine.name} in {machine.zone}"
        try:
            with _usable(what):
                row = self._google().instance(machine.project, machine.zone, machine.name)
                if not self._ours(row) or str(row["id"]) != machine.id:
                    raise Unavailable(f"{what}: another machine has this name now")
                found = row["metadata"]
                items = {str(each["key"]): str(each.get("value", "")) for each in found.get("items", [])}
                return Metadata(str(found["fingerprint"]), items)
        except ApiError as error:
            raise _of_machine(what, error) from None

    def set_metadata(self, machine: Machine, seen: Metadata, key: str, value: str) -> bool:
        """Add one value; False where the metadata has changed since it was seen. Unavailable or Refused.

        Google replaces all of the metadata at once, and only where its fingerprint is still that one.
        """
        items = {**seen.items, key: value}
        try:
            with _usable(f"the metadata of {machine.name}"):
                self._google().set_metadata(machine.project, machine.zone, machine.name, seen.fingerprint, items)
        except ApiError as error:
            if error.status == 412:
                return False
            raise _of_machine(f"the metadata of {machine.name} in {machine.zone}", error) from None
        return True

    def stop(self, machine: Machine) -> None:
        """Ask for its stop; one that is off or gone is no error. Unavailable; or Refused, as for one with a runner."""
        what = f"the stop of {machine.name} in {machine.zone}"
        try:
            with _usable(what):
                row = self._google().instance(machine.project, machine.zone, machine.name)
                if not self._ours(row) or str(row["id"]) != machine.id or _is_sealed(row):
                    raise Refused(f"{what}: another machine has this name now, or it has a runner")
                self._google().stop(machine.project, machine.zone, machine.name)
        except ApiError as error:
            if not error.missing:
                raise _failure(what, error) from None

    def start(self, machine: Machine, request_id: str) -> str:
        """Ask for the start of a stopped machine; the name of the operation.

        Unavailable where the answer was lost: the same start may be repeated. InsertRefused where Google says no.
        """
        what = f"the start of {machine.name} in {machine.zone}"
        try:
            with _usable(what):
                return self._google().start(machine.project, machine.zone, machine.name, request_id)
        except ApiError as error:
            # A machine that is gone is in no list from the next pass on, and that says nothing about its place.
            if error.missing or (_may_pass(error) and not (error.no_capacity or error.over_quota)):
                raise Unavailable(f"{what}: {error}") from None
            raise InsertRefused(_insert_error(error)) from None

    def delete(self, project: str, zone: str, name: str) -> None:
        """Ask for its deletion; one that is gone is no error. Unavailable or Refused."""
        try:
            with _usable(f"delete of {name} in {zone}"):
                if not self._ours(self._google().instance(project, zone, name)):
                    raise Refused(f"delete of {name} in {zone}: its label {MANAGER} is not {self._manager}")
                self._google().delete(project, zone, name)
        except ApiError as error:
            if not error.missing:
                raise _failure(f"delete of {name} in {zone}", error) from None

    def _google(self) -> Api:
        """Made when first used, so that credentials that are missing are an answer and no crash. ApiError."""
        if self._api is None:
            self._api = GoogleCompute(_RETRIES, _TIMEOUT_SEC)
        return self._api

    def _ours(self, row: Body) -> bool:
        return bool(row.get("labels", {}).get(MANAGER) == self._manager)

    def _is_there(self, pool: Pool, insert: Insert) -> bool:
        """Whether the machine that has the name already is the one that is asked for."""
        try:
            found = self._google().instance(pool.project, insert.rung.zone, insert.machine).get("labels", {})
        except ApiError as error:
            raise Unavailable(f"{insert.machine} in {insert.rung.zone}, which has the name: {error}") from None
        wanted = labels(pool, insert, self._manager)
        return all(found.get(key) == wanted[key] for key in (MANAGER, POOL, JOB))

    def _template(self, project: str, template: str) -> Body:
        """Google changes no template, so that each is read once."""
        if template not in self._templates:
            region, name = region_and_name_of_template(template)
            self._templates[template] = self._google().template(project, region, name)
        return self._templates[template]

    def _machine(self, project: str, row: Body, templates: dict[tuple[str, str], str]) -> Machine:
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
        """Whether the machine's end is known, and the end. It is read once: a machine that is off writes no other."""
        key = str(row["id"])
        if key in self._ends:
            return True, self._ends[key]
        try:
            self._ends[key] = machine_end.read(
                self._google().guest_attribute(project, zone, row["name"], machine_end.GUEST_ATTRIBUTE)
            )
        except ApiError as error:
            since = self._unread_since.setdefault(key, self._monotonic())
            if error.not_yet and self._monotonic() - since < _END_WITHIN_SEC:
                return False, None
            self._ends[key] = None
        return True, self._ends[key]

    def _forget(self, there: set[str]) -> None:
        """Drop what was kept of other machines than those that are off."""
        self._ends = {key: end for key, end in self._ends.items() if key in there}
        self._unread_since = {key: since for key, since in self._unread_since.items() if key in there}


def _is_sealed(row: Body) -> bool:
    return any(each["key"] == METADATA_KEY for each in row.get("metadata", {}).get("items", []))


def _places(pools: Sequence[Pool]) -> Iterable[tuple[str, str]]:
    """Each project and zone of the pools, once."""
    return dict.fromkeys((pool.project, rung.zone) for pool in pools for rung in pool.rungs)


@contextmanager
def _usable(what: str) -> Iterator[None]:
    try:
        yield
    except _UNUSABLE as error:
        raise Unavailable(f"{what}: Google's answer cannot be used: {type(error).__name__}: {error}") from None


@contextmanager
def _asking(what: str) -> Iterator[None]:
    try:
        with _usable(what):
            yield
    except ApiError as error:
        raise _failure(what, error) from None


def _failure(what: str, error: ApiError) -> Unavailable | Refused:
    return (Unavailable if _may_pass(error) else Refused)(f"{what}: {error}")


def _of_machine(what: str, error: ApiError) -> Unavailable | Refused:
    """A machine that is gone, or goes, says nothing of the next one."""
    return Unavailable(f"{what}: the machine is gone") if error.missing else _failure(what, error)


def _may_pass(error: ApiError) -> bool:
    """Whether the same request may go better later. Credentials that cannot be renewed say nothing of the request."""
    return error.not_yet or error.reason == "unauthenticated"


def _of_operation(error: ApiError) -> InsertError:
    """A failure inside Google says as little about the request as an empty zone does: the next rung may do."""
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
    """The name at the end of a link."""
    return str(link).rstrip("/").rpartition("/")[-1]
