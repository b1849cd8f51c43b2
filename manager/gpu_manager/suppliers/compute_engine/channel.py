"""The channel of machines on Compute Engine.

A machine publishes its end, and the public key for its registration, as guest attributes. The manager writes the
registration into the machine's metadata, where the agent reads it (gpu_agent/broker/registration.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from gpu_ci.gcp.gate.compute_api import ApiError

from ...ends import end_of
from ...model import End, Machine
from ...ports import Mailbox, Unavailable
from ...registration import key_of
from .api import Body, Connection, checked_answer, converted_errors, is_own, machine_error

METADATA_KEY = "gpu-agent-registration"
KEY = "gpu-agent/key"
"""The guest attribute with a machine's public key."""
END = "gpu-agent/end"
"""The guest attribute with a machine's end, which its agent wrote (agent/gpu_agent/report.py)."""
# Google allows "at most 10 queries a minute" for each VM, including those of the VM's own agent. Above that Google may
# drop values that the machine writes (docs.cloud.google.com/compute/docs/metadata/manage-guest-attributes). The manager
# makes at most 4 in any minute; the agent makes two for each value that it writes. Passes are 10 s apart, so four of
# five passes read the key.
_A_MINUTE = 4
_PAUSE_SEC = 10.0
# The calls are sequential and take about 0.1 s each.
MOST_AT_ONCE = 20
# How long a machine that is off has the status STOPPING for the manager, while its end cannot be read.
_END_WITHIN_SEC = 300.0


class GuestChannel:
    """Guest attributes and metadata. Implements ports.Channel."""

    def __init__(self, manager: str, google: Connection, monotonic: Callable[[], float]) -> None:
        self._manager = manager
        self._google = google
        self._monotonic = monotonic
        self._ends: dict[str, End | None] = {}
        self._unread_since: dict[str, float] = {}
        self._keys = MachineKeys(monotonic)

    def listen(self, machines: Sequence[Machine]) -> tuple[Machine, ...]:
        """Return the machines with their ends and keys.

        A machine that is off counts as STOPPING until its end is read, for at most five minutes. If the manager deleted
        the machine earlier, an end that stops the pool would be lost.
        """
        with converted_errors("the machines"):
            # A machine on standby is switched off more than once, and reports another end each time.
            self._forget({machine.id for machine in machines if machine.off})
            ended = [self._with_end(machine) if machine.off else machine for machine in machines]
            return self._keys.with_keys(ended, self._google().guest_attribute)

    def mailbox(self, machine: Machine) -> Mailbox:
        subject = f"the metadata of {machine.name} in {machine.zone}"
        try:
            with checked_answer(subject):
                row = self._google().instance(machine.account, machine.zone, machine.name)
                if not is_own(row, self._manager) or str(row["id"]) != machine.id:
                    raise Unavailable(f"{subject}: another machine has this name now")
                found = row["metadata"]
                items = {str(each["key"]): str(each.get("value", "")) for each in found.get("items", [])}
                return Mailbox(METADATA_KEY in items, (str(found["fingerprint"]), items))
        except ApiError as error:
            raise machine_error(subject, error) from None

    def send(self, machine: Machine, mailbox: Mailbox, registration: str) -> bool:
        # Google replaces the whole metadata at once, and only if its fingerprint has not changed.
        fingerprint, before = mailbox.version
        items = {**before, METADATA_KEY: registration}
        try:
            with checked_answer(f"the metadata of {machine.name}"):
                self._google().set_metadata(machine.account, machine.zone, machine.name, fingerprint, items)
        except ApiError as error:
            if error.status == 412:
                return False
            raise machine_error(f"the metadata of {machine.name} in {machine.zone}", error) from None
        return True

    def _with_end(self, machine: Machine) -> Machine:
        """Return the machine with its end. The end is read once, because a machine that is off writes no other."""
        key = machine.id
        if key not in self._ends:
            try:
                text = self._google().guest_attribute(machine.account, machine.zone, machine.name, END)
                self._ends[key] = end_of(text)
            except ApiError as error:
                since = self._unread_since.setdefault(key, self._monotonic())
                if error.not_yet and self._monotonic() - since < _END_WITHIN_SEC:
                    return replace(machine, status="STOPPING")
                self._ends[key] = None
        return replace(machine, end=self._ends[key])

    def _forget(self, ids: set[str]) -> None:
        """Drop the ends of machines that are not off any more."""
        self._ends = {key: end for key, end in self._ends.items() if key in ids}
        self._unread_since = {key: since for key, since in self._unread_since.items() if key in ids}


def is_sealed(row: Body) -> bool:
    """Return True if the machine's metadata has a registration."""
    return any(each["key"] == METADATA_KEY for each in row.get("metadata", {}).get("items", []))


@dataclass
class MachineKeys:
    """The keys of the machines that wait for their runner."""

    monotonic: Callable[[], float]
    _keys: dict[str, str] = field(default_factory=dict)
    """The last read key by machine id. A machine that boots again publishes another key."""
    _read_at: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """The times of the last four reads, by machine id."""

    def with_keys(
        self, machines: Sequence[Machine], attribute: Callable[[str, str, str, str], str]
    ) -> tuple[Machine, ...]:
        """Return the machines, with the keys of those that wait for a runner.

        Not every key is read in each pass. The key whose last reading is the oldest is read first.
        """
        waiting = {each.id: each for each in machines if each.unregistered and each.status == "RUNNING"}
        self._keys = {key: each for key, each in self._keys.items() if key in waiting}
        self._read_at = {key: each for key, each in self._read_at.items() if key in waiting}
        now = self.monotonic()
        late = [key for key in waiting if self._may_be_read(key, now)]
        late.sort(key=lambda key: self._read_at.get(key, (0.0,))[-1])
        for key in late[:MOST_AT_ONCE]:
            machine = waiting[key]
            self._read_at[key] = (*self._read_at.get(key, ()), now)[-_A_MINUTE:]
            try:
                text = attribute(machine.account, machine.zone, machine.name, KEY)
            except ApiError:
                # The next reading may succeed. A machine that gets no registration ends by itself.
                continue
            self._keys[key] = key_of(text, machine.name, machine.id)
        return tuple(replace(each, key=self._keys.get(each.id, "")) for each in machines)

    def _may_be_read(self, key: str, now: float) -> bool:
        times = self._read_at.get(key, ())
        return not times or (now - times[-1] >= _PAUSE_SEC and (len(times) < _A_MINUTE or now - times[0] >= 60))
