"""The channel of machines with a mailbox: the objects that they write, and the registration that they read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from gpu_ci.mailbox.boot import REGISTRATION, mail_key
from gpu_ci.mailbox.objects import Objects, ObjectsError

from ..ends import end_of
from ..model import Machine
from ..ports import Mailbox, Refused, Unavailable
from ..registration import key_of

# The agent writes less: a key of 4,096 characters, or an end with a detail of 500.
_MOST_BYTES = 65_536


class MailboxChannel:
    """Objects of a bucket. Implements ports.Channel. For use by one thread.

    A machine writes each of its objects once, so each is read once. A pass sends one request, and another for each new
    object.
    """

    def __init__(self, manager: str, objects: Objects) -> None:
        self._manager, self._objects = manager, objects
        self._texts: dict[str, str] = {}
        """What the machines have written, by the object's key."""

    def listen(self, machines: Sequence[Machine]) -> tuple[Machine, ...]:
        if not any(each.off or each.unregistered for each in machines):
            return tuple(machines)
        with converted_errors():
            found = self._objects.names(mail_key(self._manager))
            self._texts = {key: text for key, text in self._texts.items() if key in found}
            return tuple(self._with_texts(machine, frozenset(found)) for machine in machines)

    def mailbox(self, machine: Machine) -> Mailbox:
        with converted_errors():
            registration = self._objects.read(mail_key(self._manager, machine.id, REGISTRATION))
            return Mailbox(registered=registration is not None)

    def send(self, machine: Machine, mailbox: Mailbox, registration: str) -> bool:  # noqa: ARG002 - it is written once
        key, data = mail_key(self._manager, machine.id, REGISTRATION), registration.encode()
        with converted_errors():
            # After a lost answer, the object may be this one. Each encryption gives another text.
            return self._objects.write(key, data, only_new=True) or self._objects.read(key) == data

    def forget(self, machine: Machine) -> None:
        """Forget what the machine has written, because it will write again."""
        folder = mail_key(self._manager, machine.id)
        self._texts = {key: text for key, text in self._texts.items() if not key.startswith(folder)}

    def _with_texts(self, machine: Machine, found: frozenset[str]) -> Machine:
        if machine.off:
            return replace(machine, end=end_of(self._text(machine, "end", found)))
        if machine.unregistered:
            return replace(machine, key=key_of(self._text(machine, "key", found), machine.name, machine.id))
        return machine

    def _text(self, machine: Machine, name: str, found: frozenset[str]) -> str:
        key = mail_key(self._manager, machine.id, name)
        if key not in found:
            return ""
        if key not in self._texts:
            self._texts[key] = (self._objects.read(key, _MOST_BYTES) or b"").decode(errors="replace")
        return self._texts[key]


@contextmanager
def converted_errors() -> Iterator[None]:
    """Raise Unavailable or Refused for an error of the bucket."""
    try:
        yield
    except ObjectsError as error:
        raise (Unavailable if error.is_temporary else Refused)(str(error)) from None
