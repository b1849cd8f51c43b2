"""A supplier whose machines are processes of this computer. The account of a pool is a folder.

A machine is a folder in it with the file `machine.json`, and a process that runs the pool's template in bash. The
process holds a lock on the file `on`, which the kernel releases at its end.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from gpu_manager.decision.names import STANDBY, slug
from gpu_manager.model import Insert, Machine, Pool
from gpu_manager.ports import Refused, Started, Supplier, Unavailable

from .channel import FolderChannel, folder_of

_RECORD = "machine.json"


class ToySupplier(Supplier):
    """The processes of one manager."""

    TITLE = "Toy vendor"

    def __init__(self, manager: str) -> None:
        self._manager = manager
        self.channel = FolderChannel()

    def start(self, pool: Pool, insert: Insert) -> Started:
        offer, template = insert.rung, pool.template_of(insert.rung)
        machine = Machine(
            insert.machine, pool.name, offer.zone, "RUNNING", offer.market, offer.machine_type, template,
            account=pool.account, job=slug(insert.job.key) if insert.job else STANDBY, id=secrets.token_hex(6),
            registered_by=pool.registered_by,
        )  # fmt: skip
        folder = folder_of(machine)
        if folder.exists():
            return Started("", self._read(folder)[1].id)
        # The folder appears with its record, so that a killed manager leaves no process without one.
        new = folder.with_name(f".{folder.name}")
        new.mkdir(parents=True, exist_ok=True)
        (new / _RECORD).write_text(json.dumps({"manager": self._manager, "machine": asdict(machine)}))
        new.rename(folder)
        with (folder / "on").open("w") as on:
            fcntl.flock(on, fcntl.LOCK_EX)
            on.truncate()
            os.set_inheritable(on.fileno(), True)
            environment = {**os.environ, "TOY_MACHINE": str(folder), "TOY_NAME": f"{machine.name}-{machine.id}"}
            process = os.posix_spawn("/bin/bash", ["bash", template], environment, setsid=True)
        (folder / "pid").write_text(str(process))
        return Started("", machine.id)

    def list(self, pools: Sequence[Pool]) -> tuple[Machine, ...]:
        found = []
        for account in dict.fromkeys(pool.account for pool in pools):
            try:
                folders = sorted(each for each in Path(account).iterdir() if not each.name.startswith("."))
            except OSError as error:
                raise Unavailable(f"the folder {account}: {error.strerror}") from None
            found += [machine for manager, machine in map(self._read, folders) if manager == self._manager]
        return tuple(found)

    def delete(self, machine: Machine) -> None:
        folder = folder_of(machine)
        if not folder.exists():
            return
        manager, found = self._read(folder)
        if manager != self._manager:
            raise Refused(f"delete of {machine.name}: it is a machine of {manager}")
        with suppress(FileNotFoundError, ProcessLookupError):  # a killed manager left no pid
            process = int((folder / "pid").read_text())
            if not found.off:
                os.killpg(process, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(process, 0)
        shutil.rmtree(folder)

    def _read(self, folder: Path) -> tuple[str, Machine]:
        """Return the manager of a machine, and the machine with its status."""
        record = json.loads((folder / _RECORD).read_text())
        with (folder / "on").open("a") as on:
            try:
                fcntl.flock(on, fcntl.LOCK_EX | fcntl.LOCK_NB)
                record["machine"]["status"] = "TERMINATED"
            except BlockingIOError:
                pass
        sealed = (folder / "registration").exists()
        return record["manager"], Machine(**{**record["machine"], "sealed": sealed})
