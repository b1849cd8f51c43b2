"""The records of machines, in the bucket of the mailbox.

A record is written before the vendor is asked for the machine, and says everything that a repeated request needs. It
has the labels of the machine, so that vendors without tags can be suppliers. The objects of one manager are
`<manager>/records/<name>.json`, `<manager>/mail/<id>/...` and `<manager>/payloads/<sha256>`.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields

from gpu_ci.mailbox.boot import BOOT, WRITTEN, Definition, Host, mail_key, post_boot
from gpu_ci.mailbox.objects import MOST_SIGNED_SEC, Objects

from ..decision.names import STANDBY, slug
from ..model import Insert, Machine, Pool
from ..ports import Refused, Unavailable
from .channel import MailboxChannel, converted_errors

END = "end"
"""The object with which a machine says that it has ended."""


@dataclass(frozen=True)
class Record:
    """What the manager has requested from the vendor, and why."""

    name: str
    id: str
    """12 random hexadecimal characters. It is the machine's id for every supplier with a mailbox."""
    pool: str
    job: str
    """The slug of the machine's job, or `standby`."""
    template: str
    zone: str
    machine_type: str
    market: str
    account: str
    registered_by: str = "manager"
    since_unix: float = 0.0
    """When the machine was first requested, by the manager's clock."""
    user_data: str = field(default="", repr=False)
    """The boot script. It has a signed URL of the boot document, which the same request needs again."""
    vm: str = ""
    """The id of the first machine on its host, if that is another machine."""
    jobs: int = 0
    """The number of jobs that earlier machines have run on its host."""

    @property
    def vm_id(self) -> str:
        return self.vm or self.id


class Mailboxes:
    """The records and the mail of one manager's machines. For use by one thread.

    Each method raises Unavailable or Refused, and sends a few requests of 0.1 s each.
    """

    def __init__(self, manager: str, objects: Objects, unix: Callable[[], float]) -> None:
        self._manager = manager
        self._objects = objects
        self._unix = unix
        # Only the manager with the lease writes records, and none is changed, so each is read once.
        self._records: dict[str, Record] = {}
        self.channel = MailboxChannel(manager, objects)
        self.new_id: Callable[[], str] = lambda: secrets.token_hex(6)

    def open(
        self, pool: Pool, insert: Insert, definition: Definition, host: Host = "ec2", earlier: Record | None = None
    ) -> Record:
        """Return the record of the machine of this name. Without one, write a new one with its boot document.

        A repeated call returns the same record, so the same request can be sent to the vendor again. `earlier` is the
        machine on its host, which has run a job.
        """
        key = self._record_key(insert.machine)
        with converted_errors():
            found = self._read(key) or self._open(key, pool, insert, definition, host, earlier)
            self._records[key] = found
            return found

    def records(self) -> tuple[Record, ...]:
        """Return the records of all machines."""
        with converted_errors():
            keys = self._objects.names(self._record_key())
            records = {key: self._records.get(key) or self._read(key) for key in keys}
            self._records = {key: record for key, record in records.items() if record}
            return tuple(self._records.values())

    def mail(self) -> dict[str, dict[str, float]]:
        """Return the objects of each machine's mail by machine id, with the times at which they were written.

        A machine is sealed if it has `registration`. With `end` it has ended, also if the vendor says that it is on.
        But a second machine of one name writes into the same mail.
        """
        with converted_errors():
            found: dict[str, dict[str, float]] = {}
            prefix = mail_key(self._manager)
            for key, unix in self._objects.times(prefix).items():
                machine_id, _, name = key.removeprefix(prefix).partition("/")
                found.setdefault(machine_id, {})[name] = unix
            return found

    def end(self, machine_id: str, reason: str, detail: str) -> None:
        """Write the end of a machine that has not written it itself."""
        with converted_errors():
            text = json.dumps({"reason": reason, "detail": detail})
            self._objects.write(mail_key(self._manager, machine_id, END), text.encode(), only_new=True)

    def renew(self, machine: Machine) -> None:
        """Delete what a machine on standby has written, before it starts again. Raises Refused if it has a runner."""
        if self.channel.mailbox(machine).registered:
            raise Refused(f"the start of {machine.name}: the machine has a runner")
        with converted_errors():
            for name in WRITTEN:
                self._objects.delete(mail_key(self._manager, machine.id, name))
        self.channel.forget(machine)

    def boot_again(self, machine: Machine, definition: Definition, host: Host) -> str:
        """Write another boot document of a machine, with new signed URLs, and return its boot script."""
        with converted_errors():
            return post_boot(self._objects, self._manager, machine.name, machine.id, host, definition)

    def close(self, machine: Record | Machine) -> None:
        """Delete the mail and the record of a machine that is gone. A later machine of its name keeps its own."""
        key = self._record_key(machine.name)
        with converted_errors():
            for each in self._objects.names(mail_key(self._manager, machine.id)):
                self._objects.delete(each)
            found = self._read(key)
            if found and found.id == machine.id:
                self._objects.delete(key)
                self._records.pop(key, None)

    def _open(
        self, key: str, pool: Pool, insert: Insert, definition: Definition, host: Host, earlier: Record | None
    ) -> Record:
        machine_id, rung = self.new_id(), insert.rung
        # A machine that waits stopped fetches its boot document when it is started for a job.
        boot_sec = MOST_SIGNED_SEC if pool.kept else min(pool.boot_sec, MOST_SIGNED_SEC)
        # The document comes before the record, because the record has its digest.
        user_data = post_boot(
            self._objects, self._manager, insert.machine, machine_id, host, definition, boot_sec=boot_sec,
            limit_sec=pool.max_run_duration_sec,
        )  # fmt: skip
        record = Record(
            name=insert.machine,
            id=machine_id,
            pool=pool.name,
            job=slug(insert.job.key) if insert.job else STANDBY,
            template=pool.template_of(rung),
            zone=rung.zone,
            machine_type=rung.machine_type,
            market=rung.market,
            account=pool.account,
            registered_by=pool.registered_by,
            since_unix=self._unix(),
            user_data=user_data,
            vm=earlier.vm_id if earlier else "",
            jobs=earlier.jobs + 1 if earlier else 0,
        )
        content = json.dumps(asdict(record)).encode()
        if self._objects.write(key, content, only_new=True):
            return record
        # Another manager was faster, or the answer to this write was lost.
        found = self._read(key)
        if found is None:
            raise Unavailable(f"{key} was deleted meanwhile")
        if found.id != machine_id:
            self._objects.delete(mail_key(self._manager, machine_id, BOOT))
        return found

    def _read(self, key: str) -> Record | None:
        content = self._objects.read(key)
        if content is None:
            return None
        try:
            value = json.loads(content)
            return Record(**{each.name: value[each.name] for each in fields(Record) if each.name in value})
        except (ValueError, KeyError, TypeError):
            raise Refused(f"{key}: is not the record of a machine; delete the object") from None

    def _record_key(self, name: str = "") -> str:
        return f"{self._manager}/records/{name and name + '.json'}"
