"""A supplier whose machines have their records and their channel in a mailbox.

So a vendor needs no tags, no request ids and no metadata. Its subclass requests, lists, finds and deletes machines.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, cast

from gpu_catalog.locations import region_of
from gpu_ci.mailbox.boot import REGISTRATION, Definition, Host
from gpu_ci.mailbox.objects import Objects, S3Objects

from ..copies import software
from ..model import OFF, Insert, InsertError, Machine, Offer, OperationState, Pool
from ..ports import InsertRefused, Refused, Started, Supplier, Unavailable
from .mailboxes import Mailboxes, Record


class Row(NamedTuple):
    """A machine in the vendor's list."""

    value: Any
    """The vendor's own form of it."""
    key: str
    """The vendor's own id of it."""
    status: str
    """Compute Engine's word for its state (Machine.status)."""
    is_ended: bool
    """True if it needs no deletion."""
    record: Record
    """What the vendor says of it. The id is the one with which it was requested, which a second machine may have."""
    on_unix: float = 0.0
    error: InsertError | None = None
    """Why it could not start."""


class Known(NamedTuple):
    """A machine of the manager."""

    record: Record
    row: Row | None
    mail: Mapping[str, float] = {}
    """Its objects and their times (Mailboxes.mail)."""
    is_recorded: bool = False


def objects_at(address: str, region: str = "") -> Objects:
    """Return the objects of the bucket gs://NAME or s3://NAME. `region` is that of a bucket of S3."""
    scheme, _, name = address.partition("://")
    if scheme == "s3":
        return S3Objects(name, region)
    from gpu_ci.mailbox.google_objects import GoogleObjects

    return GoogleObjects(name)


class MailboxSupplier(Supplier):
    """The machines of one manager, for use by one thread."""

    HOST: ClassVar[Host]
    REPEATS: ClassVar[bool] = False
    """True if the vendor recognizes a repeated request by the record's id."""
    LISTED_WITHIN_SEC: ClassVar[float]
    """The time after which the vendor's list certainly has a machine that was requested."""

    def __init__(
        self,
        manager: str,
        bucket: Any,
        objects: Callable[[Any], Objects] = lambda bucket: objects_at(bucket.address, bucket.region),
        unix: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create the supplier of a manager with this mailbox. `unix` is the clock of its records."""
        self._manager, self._bucket, self._unix, self._monotonic = manager, bucket, unix, monotonic
        self._objects = objects(bucket)
        self._mailboxes = Mailboxes(manager, self._objects, unix)
        self._accounts: set[str] = set()
        self._definitions: dict[tuple[str, str], Definition] = {}
        self._missing_since: dict[str, float] = {}
        """Since when the vendor's list has lacked the machine of a record. A new manager counts again."""
        self.channel = self._mailboxes.channel

    @classmethod
    def of(cls, manager: str, pools: Sequence[Pool]) -> Supplier:
        return cls(manager, cast(Any, pools[0]).mailbox)

    @abstractmethod
    def _account(self, region: str) -> str:
        """Return the account of the credentials."""

    @abstractmethod
    def _rows(self, regions: Collection[str]) -> Iterable[Row]:
        """Return the vendor's list. Of several machines with one id, the first one gets its mail."""

    @abstractmethod
    def _find(self, machine_id: str, region: str, subject: str) -> Row | None:
        """Return the newest state of one machine. Raises Refused if the machine is another manager's."""

    @abstractmethod
    def _definition(self, region: str, template: str) -> str:
        """Return the text of a template's definition. Raises ValueError if it is not the one."""

    def _check(self, pool: Pool, insert: Insert, subject: str) -> None:
        """Raise Unavailable or InsertRefused if a machine cannot be requested now."""

    @abstractmethod
    def _request(self, pool: Pool, record: Record, subject: str) -> None:
        """Request the machine of a record. Raises Unavailable or InsertRefused."""

    @abstractmethod
    def _remove(self, row: Row, machine: Machine, subject: str) -> None:
        """Request the deletion of a machine."""

    @abstractmethod
    def _stop(self, row: Row, subject: str) -> None:
        """Request the stop of a machine that is on."""

    def start(self, pool: Pool, insert: Insert) -> Started:
        subject = f"the start of {insert.machine} in {insert.rung.zone}"
        old = next((each for each in self._mailboxes.records() if each.name == insert.machine), None)
        if old and self._find(old.id, region_of(old.zone), subject):
            return Started(old.id, old.id)
        if old and not self.REPEATS:
            if not self._is_late(old):
                raise Unavailable(f"{subject}: it was requested, and may still appear in the list")
            self._mailboxes.close(old)
        self._check(pool, insert, subject)
        record = self._open(pool, insert, subject)
        # Also of a repeated request, which may be the first to arrive.
        self._missing_since[record.id] = self._monotonic()
        try:
            self._request(pool, record, subject)
        except InsertRefused:
            self._mailboxes.close(record)
            raise
        return Started(record.id, record.id)

    def operation(self, pool: Pool, offer: Offer, operation: str) -> OperationState:  # noqa: ARG002 - the id is enough
        if row := self._find(operation, offer.region, f"the request of {operation}"):
            return OperationState(row.status != "PROVISIONING", row.error, operation)
        records = [each for each in self._mailboxes.records() if each.id == operation]
        return OperationState(all(map(self._is_late, records)), id=operation)

    def list(self, pools: Sequence[Pool]) -> tuple[Machine, ...]:
        return tuple(map(self._machine, self._listed(pools)))

    def starting(self, pools: Sequence[Pool]) -> tuple[Machine, ...]:
        found = [self._machine(each) for each in self._known(pools) if self._may_appear(each)]
        return tuple(replace(each, status="PROVISIONING") for each in found)

    def delete(self, machine: Machine) -> None:
        subject = f"delete of {machine.name} in {machine.zone}"
        row = self._find(machine.id, machine.region, subject)
        if row and not row.is_ended:
            self._remove(row, machine, subject)
        elif machine.off:
            # A machine that is on and has no row is not listed yet.
            self._mailboxes.close(machine)

    def stop(self, machine: Machine) -> None:
        subject = f"the stop of {machine.name} in {machine.zone}"
        row = self._find(machine.id, machine.region, subject)
        if row is None or row.is_ended or row.status in ("STOPPING", *OFF):
            return
        if self.channel.mailbox(machine).registered:
            raise Refused(f"{subject}: the machine has a runner")
        self._stop(row, subject)

    def software(self, pool: Pool, offer: Offer) -> Mapping[str, str]:
        return software(self._defined(offer.region, pool.template_of(offer), f"the template {offer.template}").config)

    def _listed(self, pools: Sequence[Pool]) -> Sequence[Known]:
        """Return the machines that exist, or whose end must still be read. Close the records of those that are gone."""
        listed = [each for each in self._known(pools) if not self._may_appear(each)]
        for each in filter(self._is_gone, listed):
            self._mailboxes.close(each.record)
        return [each for each in listed if not self._is_gone(each)]

    def _may_appear(self, known: Known) -> bool:
        return known.row is None and not self._is_late(known.record)

    def _is_gone(self, known: Known) -> bool:
        """Return True if a machine is gone, and its end is known or nobody asks for it."""
        return known.row is None

    def _is_late(self, record: Record) -> bool:
        """Return True if a record has had no machine for so long that it gets none."""
        since = self._missing_since.setdefault(record.id, self._monotonic())
        return self._monotonic() - since > self.LISTED_WITHIN_SEC

    def _known(self, pools: Sequence[Pool]) -> Iterator[Known]:
        """Return each record with its machine, and each machine without a record, which costs money until its deletion.

        A machine without a record gets no registration.
        """
        for pool in pools:
            if cast(Any, pool).mailbox != self._bucket:
                raise Refused(f"pool {pool.name}: its mailbox is not {self._bucket.address}, as of the first pool")
            if pool.account not in self._accounts:
                if (found := self._account(pool.rungs[0].region)) != pool.account:
                    raise Refused(f"pool {pool.name}: the account of the key: got {found}, expected {pool.account}")
                self._accounts.add(pool.account)
        records = self._mailboxes.records()
        regions = {rung.region for pool in pools for rung in pool.rungs} | {region_of(each.zone) for each in records}
        rows: dict[str, Row] = {}
        for row in self._rows(regions):
            if rows.setdefault(row.record.id, row) is not row:
                rows[row.key] = row
        mail = self._mailboxes.mail()
        # The last machine of a host has it.
        known = [
            Known(record, rows.pop(record.vm_id, None), mail.get(record.id, {}), is_recorded=True)
            for record in sorted(records, key=lambda each: -each.jobs)
        ]
        missing = {each.record.id for each in known if each.row is None}
        self._missing_since = {key: since for key, since in self._missing_since.items() if key in missing}
        yield from known
        # The loop knows a machine by its name.
        names = {record.name for record in records}
        for machine_id, row in rows.items():
            if row.is_ended and row.status in OFF:
                continue
            if row.record.name in names or machine_id == row.key:
                yield Known(replace(row.record, name=row.key, id=row.key), row)
            else:
                yield Known(row.record, row, mail.get(machine_id, {}))
            names.add(row.record.name)

    def _status(self, known: Known) -> str:
        return known.row.status if known.row else "TERMINATED"

    def _machine(self, known: Known) -> Machine:
        record = known.record
        return Machine(
            record.name, record.pool, record.zone, self._status(known), record.market, record.machine_type,
            record.template, account=record.account, job=record.job, id=record.id, registered_by=record.registered_by,
            jobs=record.jobs,
            sealed=REGISTRATION in known.mail, on_unix=known.row.on_unix if known.row else 0.0,
        )  # fmt: skip

    def _open(self, pool: Pool, insert: Insert, subject: str) -> Record:
        """Return the record of a machine (Mailboxes.open)."""
        definition = self._defined(insert.rung.region, pool.template_of(insert.rung), subject)
        return self._mailboxes.open(pool, insert, definition, self.HOST)

    def _defined(self, region: str, template: str, subject: str) -> Definition:
        """Return the definition of a template. Templates cannot change, so each is read once."""
        key = region, template
        if key not in self._definitions:
            try:
                self._definitions[key] = Definition.parse(self._definition(region, template))
            except ValueError as error:
                raise InsertRefused(InsertError("refused", f"{subject}: template {template}: {error}")) from None
        return self._definitions[key]
