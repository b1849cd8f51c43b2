"""The channel of a toy machine: the files `key`, `end` and `registration` in its folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import NamedTemporaryFile

from gpu_manager.model import End, Machine
from gpu_manager.ports import Mailbox
from gpu_manager.registration import key_of


def folder_of(machine: Machine) -> Path:
    """Return the folder of a machine."""
    return Path(machine.account) / machine.name


class FolderChannel:
    """Files in the folder of the machine."""

    def listen(self, machines: Sequence[Machine]) -> tuple[Machine, ...]:
        return tuple(
            replace(
                machine,
                end=End(_text(machine, "end")) if machine.off and _text(machine, "end") else None,
                key=key_of(_text(machine, "key"), machine.name, machine.id) if machine.unregistered else "",
            )
            for machine in machines
        )

    def mailbox(self, machine: Machine) -> Mailbox:
        return Mailbox(registered=(folder_of(machine) / "registration").exists())

    def send(self, machine: Machine, mailbox: Mailbox, registration: str) -> bool:
        file = folder_of(machine) / "registration"
        with NamedTemporaryFile("w", dir=file.parent) as new:
            new.write(registration)
            new.flush()
            try:
                os.link(new.name, file)
            except FileExistsError:
                return False
        return True


def _text(machine: Machine, name: str) -> str:
    file = folder_of(machine) / name
    return file.read_text() if file.exists() else ""
