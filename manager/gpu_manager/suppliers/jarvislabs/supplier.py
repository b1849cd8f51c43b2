"""Jarvis Labs as a supplier of VMs. The records and the channel of its machines are in a mailbox.

The API has no request ids, no labels, and names that several VMs may have. So each record of the mailbox stands for one
request: it is written before the request, and its id is in the VM's name. A request without a VM after a minute gets
a new record. If the VM of the old one appears later, it is deleted like any VM without a record. A VM that its agent
has switched off may still cost money, so a machine that has reported its end counts as off and is deleted.

In a pool with `reuse`, the VM of a machine whose job has ended well is paused instead. Then a new record has this VM,
for a new machine that waits stopped like one on standby. So each machine runs one job, whatever its host is.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast

from gpu_ci.mailbox.boot import BOOT, WRITTEN, mail_key
from gpu_ci.mailbox.objects import MOST_SIGNED_SEC

from ...decision.machines import JOB_DONE
from ...mailboxes.channel import converted_errors as converted_object_errors
from ...mailboxes.mailboxes import END, Record
from ...mailboxes.supplier import Known, MailboxSupplier, Row
from ...model import Insert, InsertError, Machine, Pool
from ...ports import InsertRefused, Refused, Unavailable
from .api import Api, converted_errors, converted_insert_errors
from .api import Row as Vm
from .boot import Boots
from .pool import JarvisPool

_STATUS = {
    "creating": "PROVISIONING", "resuming": "PROVISIONING", "running": "RUNNING", "pausing": "STOPPING",
    "paused": "STOPPED", "destroying": "STOPPING", "failed": "TERMINATED",
}  # fmt: skip
_NAME = re.compile(r"((.+)-[0-9a-f]{8})-([0-9a-f]{12})-([0-9a-f]{6})")
_RESUMED = "resumed"
# A machine on standby is replaced a day before its signed URLs end.
_MOST_STANDBY_SEC = MOST_SIGNED_SEC - 86_400
_PAUSED_WITHIN_SEC = 600.0


def vm_name(record: Record, manager: str) -> str:
    """Return the name of a record's VM: its runner's name, and a digest of the manager. At most 40 characters."""
    return f"{record.name}-{record.id}-{_digest(manager)}"


def _digest(text: str, characters: int = 6) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:characters]


class JarvisLabs(MailboxSupplier):
    """The VMs of one manager, for use by one thread. It changes only VMs whose name has the manager's digest."""

    TITLE = "Jarvis Labs"
    POOL = JarvisPool
    # The vendor names no time.
    LISTED_WITHIN_SEC = 60.0
    HOST = "rented"

    def __init__(self, *args: Any, api: Api | None = None, boots: Boots | None = None, **values: Any) -> None:
        super().__init__(*args, **values)
        self._api, self._boots = api or Api(), boots or Boots()
        self._unbooted: dict[str, tuple[Record, Vm]] = {}
        """The machines of the last list that are on and have said nothing, by id."""
        self._pools: Mapping[str, Pool] = {}
        self._pausing_since: dict[str, float] = {}

    def close(self) -> None:
        self._boots.close()
        self._api.close()

    def _check(self, pool: Pool, insert: Insert, subject: str) -> None:
        own = self._own(self._vms(subject))
        if sum(each.record.pool == pool.name and each.value.has_power for each in own) >= pool.max:
            # Duplicates, and VMs whose machine has ended, until they are deleted.
            raise Unavailable(f"{subject}: {pool.max} VMs of the pool are still on")
        self._check_capacity(subject, insert.rung.zone, insert.rung.machine_type)

    def _request(self, pool: Pool, record: Record, subject: str) -> None:
        storage_gb = cast(JarvisPool, pool).storage_gb
        with converted_insert_errors(subject):
            self._api.create(vm_name(record, self._manager), record.zone, record.machine_type, storage_gb)

    def list(self, pools: Sequence[Pool]) -> tuple[Machine, ...]:
        listed, self._pools = self._listed(pools), {pool.name: pool for pool in pools}
        self._unbooted = {
            record.id: (record, row.value)
            for record, row, mail, is_recorded in listed
            if is_recorded and row and row.status == "RUNNING" and not mail.keys() & set(WRITTEN)
        }
        return tuple(map(self._machine, listed))

    def boot(self, machines: Sequence[Machine]) -> None:
        wanted = [self._unbooted[each.id] for each in machines if each.id in self._unbooted]
        self._boots.keep({self._boot(record, vm) for record, vm in wanted})

    def start_again(self, machine: Machine, request_id: str) -> str:  # noqa: ARG002 - the API has no request ids
        subject = f"the start of {machine.name} in {machine.zone}"
        found = self._all(machine.id, subject)
        row = next(iter(found), None)
        status = row.value.status if row else "missing"
        if status in ("running", "resuming") and END not in self._mailboxes.mail().get(machine.id, ()):
            return machine.id
        if row is None or status != "paused":
            raise Unavailable(f"{subject}: the VM is {status}, and not paused yet")
        if sum(not each.is_ended for each in found) > 1:
            # Either could be booted as this machine.
            raise Unavailable(f"{subject}: a second VM of the machine is not deleted yet")
        self._check_capacity(subject, row.value.zone, row.value.machine_type)
        self._mailboxes.renew(machine)
        with converted_object_errors():
            # The VM may get another number.
            self._objects.delete(self._host_key(machine.id))
            self._objects.write(mail_key(self._manager, machine.id, _RESUMED), b"")
        with converted_insert_errors(subject):
            self._api.resume(row.value)
        return machine.id

    def _account(self, region: str) -> str:  # noqa: ARG002 - one key for all regions
        with converted_errors("the account of the API key"):
            return self._api.account()

    def _rows(self, regions: Collection[str]) -> Iterable[Row]:  # noqa: ARG002 - one list for all regions
        return self._ordered(self._own(self._vms("the machines")))

    def _find(self, machine_id: str, region: str, subject: str) -> Row | None:  # noqa: ARG002 - one list
        return next(iter(self._all(machine_id, subject)), None)

    def _all(self, machine_id: str, subject: str) -> Sequence[Row]:
        """Return the VMs of one machine, with the booted one first."""
        holders = self._holders()
        found = [
            each for each in self._vms(subject) if machine_id in (holders.get(each.record.id, each.record.id), each.key)
        ]
        if len(found) > len(self._own(found)):
            raise Refused(f"{subject}: it is a VM of another manager")
        return self._ordered(found)

    def _holders(self) -> dict[str, str]:
        """Return the id of the last machine on each host, by the id in the name of its VM."""
        return {each.vm_id: each.id for each in sorted(self._mailboxes.records(), key=lambda each: each.jobs)}

    def _own(self, rows: Iterable[Row]) -> Sequence[Row]:
        return [each for each in rows if each.value.name.endswith(f"-{_digest(self._manager)}")]

    def _vms(self, subject: str) -> Sequence[Row]:
        """Return the VMs of all managers."""
        with converted_errors(subject):
            found = [(_NAME.fullmatch(vm.name), vm) for vm in self._api.rows()]
        return [_row(name, vm) for name, vm in found if name]

    def _ordered(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Return the VMs of each machine with the booted one first, which stays the machine."""
        doubled = [key for key, number in Counter(each.record.id for each in rows).items() if number > 1]
        holders = self._holders() if doubled else {}
        with converted_object_errors():
            booted = {key: self._objects.read(self._host_key(holders.get(key, key))) for key in doubled}
        return sorted(
            rows, key=lambda row: (str(row.value.number).encode() != booted.get(row.record.id), row.value.number)
        )

    def _boot(self, record: Record, vm: Vm) -> str:
        """Send the boot script, and return the name of the boot. Another VM of the record is never booted."""
        key, number, name = self._host_key(record.id), str(vm.number).encode(), f"{record.id}-{vm.number}"
        with converted_object_errors():
            booted = self._objects.read(key)
            if booted == number or (booted is None and self._objects.write(key, number, only_new=True)):
                problem = self._boots.send(name, vm.ssh_command, record.user_data)
                if problem:
                    self._mailboxes.end(record.id, "not-booted", problem)
        return name

    def _status(self, known: Known) -> str:
        status = super()._status(known)
        if _is_unbooted(known):
            # It counts as off, and is deleted at once.
            return "STOPPING" if status == "STOPPING" else "TERMINATED"
        return "TERMINATED" if END in known.mail and status in ("RUNNING", "UNKNOWN") else status

    def _machine(self, known: Known) -> Machine:
        machine, mail = super()._machine(known), known.mail
        if _is_unbooted(known):
            return replace(machine, off_unix=1.0)
        # The vendor says no times. These are when the bucket got what was written before the request, and the end. The
        # bucket deletes mail after days, and keeps records.
        begun = mail.get(BOOT) or known.record.since_unix
        is_paused = machine.status == "STOPPED"
        on_unix = mail.get(_RESUMED) or (0.0 if machine.jobs and is_paused else begun)
        is_off = machine.status == "TERMINATED" or not on_unix
        off_unix = mail.get(END) or (on_unix or begun if is_off else 0.0)
        # A VM that the agent has switched off without a pause is on for the vendor, and cannot wait on standby.
        begun, most_sec = (known.record.since_unix, _MOST_STANDBY_SEC) if is_paused else (off_unix, _PAUSED_WITHIN_SEC)
        is_old = machine.off and not machine.sealed and self._unix() - begun > most_sec
        return replace(machine, template="" if is_old else machine.template, on_unix=on_unix, off_unix=off_unix)

    def _remove(self, row: Row, machine: Machine, subject: str) -> None:
        # What cannot be paused or used again is deleted, because it costs money.
        with suppress(Refused, InsertRefused):
            if self._keep(row, machine, subject):
                return
        with converted_errors(subject):
            self._api.destroy(row.value)

    def _keep(self, row: Row, machine: Machine, subject: str) -> bool:
        """Pause the host of a machine whose job has ended, and then give it to a new machine. Return True meanwhile."""
        pool = self._pools.get(machine.pool)
        record = next((each for each in self._mailboxes.records() if each.id == machine.id), None)
        rung, ended_well = pool and pool.rung_of(machine), machine.end and machine.end.reason == JOB_DONE
        if not (pool and record and rung and ended_well) or record.jobs + 1 >= pool.reuse:
            return False
        since = self._pausing_since.setdefault(machine.id, self._monotonic())
        if row.status == "STOPPED":
            name = f"{pool.name}-{_digest(machine.id, 8)}"
            definition = self._defined(rung.region, machine.template, subject)
            self._mailboxes.open(pool, Insert(pool.name, name, rung, None, ""), definition, self.HOST, record)
            self._mailboxes.close(machine)
            return True
        if row.status not in ("RUNNING", "STOPPING") or self._monotonic() - since >= _PAUSED_WITHIN_SEC:
            return False
        if row.status == "RUNNING":
            self._stop(row, subject)
        return True

    def _stop(self, row: Row, subject: str) -> None:
        with converted_errors(subject):
            self._api.pause(row.value)

    def _check_capacity(self, subject: str, zone: str, machine_type: str) -> None:
        """Raise InsertRefused if no machine can start: without free GPUs there, or without SSH here."""
        if problem := self._boots.problem():
            raise InsertRefused(InsertError("refused", f"{subject}: {problem}"))
        count, _, gpu = machine_type.partition("x")
        with converted_errors(subject):
            free = self._api.free()
        if gpu not in free:
            text = f"Jarvis Labs has no VMs with {gpu}; it has {', '.join(sorted(free))}"
            raise InsertRefused(InsertError("refused", f"{subject}: {text}"))
        if free[gpu].get(zone, 0) < int(count):
            others = tuple(each for each, number in free[gpu].items() if number >= int(count))
            raise InsertRefused(InsertError("no-capacity", f"{subject}: {free[gpu].get(zone, 0)} are free", others))

    def _definition(self, region: str, template: str) -> str:  # noqa: ARG002 - all regions have the same
        key = f"{self._manager}/templates/{template}.json"
        with converted_object_errors():
            content = self._objects.read(key) or b""
        if hashlib.sha256(content).hexdigest() != template:
            raise ValueError(f"{key} is missing, or has another SHA-256")
        return content.decode()

    def _host_key(self, machine_id: str) -> str:
        """Return the key of the object with the number of the VM that was booted."""
        return mail_key(self._manager, machine_id, "host")


def _is_unbooted(known: Known) -> bool:
    """Return True for a second VM of a machine, and for one whose request took so long that its record was deleted."""
    return known.row is not None and not known.is_recorded and not known.mail


def _row(name: re.Match[str], vm: Vm) -> Row:
    record = Record(name[1], name[3], name[2], "", "", vm.zone, vm.machine_type, "standard", "")
    error = InsertError("no-capacity", "Jarvis Labs could not start the VM") if vm.status == "failed" else None
    status = _STATUS.get(vm.status, "UNKNOWN")
    return Row(vm, f"vm-{vm.number}", status, vm.status == "destroying", record, error=error)


SUPPLIER = JarvisLabs
