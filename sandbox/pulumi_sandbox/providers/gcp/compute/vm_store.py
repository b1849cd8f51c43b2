"""Boot, watch, stop and delete the VMs of the world (emulated cloud state), and build their metadata.

A *machine* here is a VM of Compute Engine. Its *guest* is the process that runs its startup script.
"""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import shutil
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pulumi_sandbox.providers.gcp import errors, types
from pulumi_sandbox.providers.gcp.compute.operations import Operations, now, number
from pulumi_sandbox.providers.gcp.compute.requests import Json
from pulumi_sandbox.providers.gcp.names import in_zone, last, part, self_link
from pulumi_sandbox.providers.machines import settings
from pulumi_sandbox.providers.machines.metadata import SCOPES, Machine, service_accounts
from pulumi_sandbox.providers.machines.supervisor import SOFT_OFF
from pulumi_sandbox.providers.machines.vm_processes import SERIAL_BYTES, Boot, VmProcesses, is_running, soft_off, stop
from pulumi_sandbox.world.store import Exists, Record, World

INSTANCE = types.INSTANCE
# Fields that the sandbox stores of a machine in addition to those of the API.
GUEST, SERIAL, SERIAL_START, ATTRIBUTES = "sandboxGuest", "serialPortOutput", "serialPortStart", "guestAttributes"
STOPPED_AT, PREEMPTED, STOP = "sandboxStoppedAt", "sandboxPreempted", "sandboxStop"
SANDBOX_FIELDS = (GUEST, SERIAL, SERIAL_START, ATTRIBUTES, STOPPED_AT, PREEMPTED, STOP)
# The interval of checks for planted preemptions while Spot VMs run in this process.
PREEMPTION_CHECK_SEC = 0.5
# The time in STOPPING after a guest has ended (documentation "VM instance lifecycle"). Real VMs take longer.
STOPPING_SEC = 2.0
OFF = ("TERMINATED", "STOPPED")
PREEMPTION = "compute.instances.preempted"
SCRIPTS_NOT_ALLOWED = (
    "the sandbox boots a machine by running its startup script on this computer as your user, and sandbox.yaml does "
    f"not allow that\n  {settings.HINT}"
)
NO_FOLDER = (
    "sandbox.yaml: guest.path: folder does not exist\n  got: {}\n  expected: a folder with the programs of the guest's "
    "image\n  hint: create the folder or remove the entry; a comment in sandbox.yaml may say how"
)


# The guest attributes of a VM allow 10 queries a minute and 3 a second, from outside and from the VM together
# (docs.cloud.google.com/compute/docs/metadata/manage-guest-attributes).
QUERY_LIMITS = ((10, 60.0), (3, 1.0))


class QueryRate:
    """The query rate of one VM. A refused query does not count, so the rate recovers."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._allowed: deque[float] = deque(maxlen=64)

    def allows(self) -> bool:
        """Return True if one more query is within the limits."""
        with self._lock:
            now = self._clock()
            for limit, seconds in QUERY_LIMITS:
                if sum(now - at < seconds for at in self._allowed) >= limit:
                    return False
            self._allowed.append(now)
            return True


def is_spot(instance: Json) -> bool:
    """Return True if Google may preempt the VM at any time."""
    scheduling = instance.get("scheduling") or {}
    return bool(scheduling.get("preemptible")) or scheduling.get("provisioningModel") == "SPOT"


def fingerprint(value: Any) -> str:
    """Return the hash of metadata items or labels, which a change must send (discovery document, fingerprint)."""
    text = json.dumps(value, sort_keys=True)
    return base64.b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode()


def metadata_of(instance: Json) -> dict[str, str]:
    """Return the instance's own metadata."""
    return {row["key"]: row.get("value", "") for row in instance.get("metadata", {}).get("items", [])}


@dataclass
class VirtualMachines:
    """The VMs of the emulated state; the VMs that this process boots are its child processes."""

    world: World
    guests: VmProcesses
    operations: Operations
    disks: Path
    """The folder with the disk of each machine, named after the machine's id."""
    rates: dict[str, QueryRate] = field(default_factory=dict)
    """The query rates of the VMs by path; each process counts only the queries that it answers."""
    _preemption_watchers: set[threading.Thread] = field(default_factory=set)
    _closing: threading.Event = field(default_factory=threading.Event)

    def close(self) -> None:
        """Stop the checks for preemptions, which read the world, and switch off the VMs of this process."""
        self._closing.set()
        for watcher in tuple(self._preemption_watchers):
            watcher.join()
        self.guests.close()

    def boot(self, project: str, zone: str, instance: Json, inputs: Json) -> str:
        """Boot a new machine, and return its id."""
        name, machine_type = instance["name"], last(str(instance["machineType"]))
        path = in_zone(project, zone, "instances", name)
        self._check_guest_settings(instance)
        outputs = instance | {
            "kind": "compute#instance",
            "id": number(),
            "creationTimestamp": now(),
            "lastStartTimestamp": now(),
            "status": "STAGING",
            "zone": self_link(f"projects/{project}/zones/{zone}"),
            "machineType": self_link(in_zone(project, zone, "machineTypes", machine_type)),
            "selfLink": self_link(path),
        }
        self._set_assumed_attributes(outputs)
        try:
            self.world.insert(Record(INSTANCE, path, name, "", inputs, outputs, "api"))
        except Exists:
            raise errors.already_exists(path) from None
        self._power_on(path, outputs)
        return str(outputs["id"])

    def start(self, record: Record) -> None:
        """Boot a stopped machine from its old disk; its guest attributes still exist."""
        self._check_guest_settings(record.outputs)
        new_outputs: Json = {}

        def set_staging(outputs: Json) -> None:
            nonlocal new_outputs
            if outputs["status"] not in OFF:  # another request started the machine
                raise errors.not_ready(record.id)
            for key in (GUEST, STOPPED_AT, PREEMPTED, STOP):
                outputs.pop(key, None)
            outputs |= {"status": "STAGING", "lastStartTimestamp": now()}
            self._set_assumed_attributes(outputs)
            new_outputs = outputs

        self.update_outputs(record.id, set_staging)
        self._power_on(record.id, new_outputs)

    def stop(self, record: Record) -> Json:
        """Stop a machine's guest and keep the disk. The returned operation is done once the machine is off."""
        sec = SOFT_OFF[signal.SIGUSR2] + STOPPING_SEC
        project, zone = part(record.id, "projects"), part(record.id, "zones")
        operation: Json = {}

        def set_stopping(outputs: Json) -> None:
            nonlocal operation
            if outputs["status"] != "RUNNING":  # its script has ended the machine since the record was read
                raise errors.not_ready(record.id)
            operation = self.operations.add(project, zone, "stop", record.id, sec=sec)
            outputs |= {"status": "STOPPING", STOPPED_AT: time.time() + sec, STOP: operation["name"]}

        self.update_outputs(record.id, set_stopping)
        guest = record.outputs.get(GUEST)
        if guest:
            soft_off(int(guest["pid"]), str(guest["started"]), signal.SIGUSR2)
        else:
            self._guest_ended(record.id, expired=False)
        return operation

    def _check_guest_settings(self, instance: Json) -> None:
        """Raise GoogleError if the settings do not allow the machine's script or a folder of them is missing."""
        script = metadata_of(instance).get("startup-script", "")
        if script and not self.guests.settings.runs:
            raise errors.GoogleError(400, "sandbox", SCRIPTS_NOT_ALLOWED)
        # Checked here and not when the provider starts: a preview boots no VM and needs none of the folders.
        missing = next((folder for folder in self.guests.settings.path if not Path(folder).is_dir()), None)
        if script and missing:
            raise errors.GoogleError(400, "sandbox", NO_FOLDER.format(missing))

    def _set_assumed_attributes(self, outputs: Json) -> None:
        """Set the assumed guest attributes at once if the settings assume a result instead of running the guest."""
        assumed = self.guests.settings.assumed
        if assumed is not None:
            outputs |= {"status": "RUNNING", ATTRIBUTES: attributes(assumed)}

    def _power_on(self, path: str, outputs_at_boot: Json) -> None:
        """Run the startup script of a machine."""
        if self.guests.settings.assumed is not None:
            return
        name, zone = last(path), part(path, "zones")
        script = metadata_of(outputs_at_boot).get("startup-script", "")
        fault = self.world.take_fault("guest", INSTANCE, name, zone=zone, id=path)
        limit = (outputs_at_boot.get("scheduling") or {}).get("maxRunDuration") or {}
        guest = self.guests.boot(
            Boot(
                id=path,
                script=script,
                machine=Machine(
                    lambda: metadata_tree(self._outputs(path) or outputs_at_boot),
                    lambda: self._attributes(path),
                    self._writer(path),
                    lambda: self.allows_query(path),
                ),
                environment=dict(fault.settings) if fault else {},
                limit_sec=float(limit["seconds"]) if limit.get("seconds") else None,
                disk=self._disk(outputs_at_boot),
                serial=lambda text: self.update_outputs(path, lambda outputs: append_serial(outputs, text)),
                ended=lambda expired: self._guest_ended(path, expired),
            )
        )

        def set_running(outputs: Json) -> None:
            outputs[GUEST] = guest
            if outputs["status"] == "STAGING":
                outputs["status"] = "RUNNING"

        self.update_outputs(path, set_running)
        if is_spot(outputs_at_boot):
            watcher = threading.Thread(target=self._watch_for_preemption, args=(path,), name="spot", daemon=True)
            self._preemption_watchers.add(watcher)
            watcher.start()

    def _watch_for_preemption(self, path: str) -> None:
        """Preempt the Spot VM once a preemption is planted for it."""
        place = {"zone": part(path, "zones"), "id": path}
        while self.guests.runs(path) and not self._closing.is_set():
            if self.world.take_fault("preempt", INSTANCE, last(path), **place):
                self._preempt(path)
                break
            self._closing.wait(PREEMPTION_CHECK_SEC)
        self._preemption_watchers.discard(threading.current_thread())

    def _preempt(self, path: str) -> None:
        """Set the notice in the metadata, add the operation, and then send the ACPI soft off."""
        # Google's example of such an operation has the user "system" and statusMessage "Instance was preempted."
        # (cloud.google.com/compute/docs/instances/create-use-preemptible, "Detect if a VM was preempted").
        operation_fields = {"user": "system", "statusMessage": "Instance was preempted."}

        stopped_at = time.time() + SOFT_OFF[signal.SIGUSR1] + STOPPING_SEC
        guest: Json = {}

        def set_preempted(outputs: Json) -> None:
            outputs |= {PREEMPTED: True, "status": "STOPPING", STOPPED_AT: stopped_at}
            guest.update(outputs[GUEST])
            # The id distinguishes this machine from a later one with the same name (discovery document compute v1,
            # Operation.targetId).
            operation_fields["targetId"] = str(outputs["id"])

        self.update_outputs(path, set_preempted)
        self.operations.add(part(path, "projects"), part(path, "zones"), PREEMPTION, path, fields=operation_fields)
        soft_off(int(guest["pid"]), str(guest["started"]), signal.SIGUSR1)

    def _outputs(self, path: str) -> Json | None:
        record = self.world.get(INSTANCE, path)
        return record.outputs if record else None

    def instance_json(self, record: Record) -> Json:
        """Return the instance in the form of the API. An instance without a running process becomes TERMINATED."""
        if self._is_off_unrecorded(record):
            # Check again with the newest record: the VM may have ended after this one was read, and its watcher has
            # recorded STOPPING since.
            with self.world.transaction():
                record = self.world.get(INSTANCE, record.id) or record
                if self._is_off_unrecorded(record):
                    self.update_outputs(record.id, switch_off)
                    record = self.world.get(INSTANCE, record.id) or record
        instance = {key: value for key, value in record.outputs.items() if key not in SANDBOX_FIELDS}
        metadata = instance.get("metadata") or {}
        instance["metadata"] = {
            **metadata,
            "kind": "compute#metadata",
            "fingerprint": fingerprint(metadata.get("items") or []),
        }
        return instance

    def _is_off_unrecorded(self, record: Record) -> bool:
        """Return True if the VM is off and its record has another status."""
        status, guest = record.outputs.get("status"), record.outputs.get(GUEST)
        if status == "STOPPING":
            return time.time() >= float(record.outputs[STOPPED_AT])
        if status in OFF or not guest or self.guests.runs(record.id):
            return False
        return not is_running(int(guest["pid"]), str(guest["started"]))

    def remove(self, record: Record) -> None:
        """Stop the machine, whichever process runs it, and delete it from the emulated state."""
        guest = record.outputs.get(GUEST)
        if guest:
            stop(int(guest["pid"]), str(guest["started"]))
        self._delete(record)
        self.rates.pop(record.id, None)

    def _delete(self, record: Record) -> None:
        self.world.delete(INSTANCE, record.id)
        shutil.rmtree(self._disk(record.outputs), ignore_errors=True)

    def _disk(self, instance: Json) -> Path:
        return self.disks / str(instance["id"])

    def allows_query(self, path: str) -> bool:
        """Return True if a query of the VM's guest attributes is within the limits."""
        return self.rates.setdefault(path, QueryRate()).allows()

    def update_outputs(self, path: str, change: Callable[[Json], None]) -> None:
        with self.world.transaction():
            record = self.world.get(INSTANCE, path)
            if record is not None:
                outputs = copy.deepcopy(record.outputs)
                change(outputs)
                self.world.update(INSTANCE, path, outputs=outputs)

    def _guest_ended(self, path: str, expired: bool) -> None:
        with self.world.transaction():  # no stop may begin between the read and the write
            record = self.world.get(INSTANCE, path)
            action = (record.outputs.get("scheduling") or {}).get("instanceTerminationAction") if record else ""
            preempted = bool(record and record.outputs.get(PREEMPTED))
            if record and (expired or preempted) and action == "DELETE":
                self._delete(record)
            else:
                self.update_outputs(path, stopping)
        if record and (operation := record.outputs.get(STOP)):
            self.operations.finish(operation, STOPPING_SEC)

    def _attributes(self, path: str) -> dict[str, dict[str, str]] | None:
        record = self.world.get(INSTANCE, path)
        enabled = record and metadata_of(record.outputs).get("enable-guest-attributes", "").upper() == "TRUE"
        if record is None or not enabled:
            return None
        return record.outputs.get(ATTRIBUTES) or {}

    def _writer(self, path: str) -> Callable[[str, str, str], None]:
        def write(space: str, key: str, value: str) -> None:
            def change(outputs: Json) -> None:
                outputs.setdefault(ATTRIBUTES, {}).setdefault(space, {})[key] = value

            self.update_outputs(path, change)

        return write


def attributes(values: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Group attributes named `namespace/key` by their namespace."""
    by_namespace: dict[str, dict[str, str]] = {}
    for name, value in values.items():
        namespace, _, key = name.partition("/")
        by_namespace.setdefault(namespace, {})[key] = value
    return by_namespace


def stopping(outputs: Json) -> None:
    outputs["status"] = "STOPPING"
    outputs[STOPPED_AT] = time.time() + STOPPING_SEC


def switch_off(outputs: Json) -> None:
    outputs["status"] = "TERMINATED"
    outputs["lastStopTimestamp"] = now()


def append_serial(outputs: Json, text: str) -> None:
    """Append serial output, and drop the oldest output above the size of the port's buffer."""
    contents = (str(outputs.get(SERIAL, "")) + text).encode()
    dropped = max(0, len(contents) - SERIAL_BYTES)
    outputs[SERIAL] = contents[dropped:].decode(errors="replace")
    outputs[SERIAL_START] = int(outputs.get(SERIAL_START, 0)) + dropped


def metadata_tree(instance: Json) -> dict[str, Any]:
    """Return the machine's metadata tree (documentation "Predefined metadata keys")."""
    project, zone = part(instance["selfLink"], "projects"), part(instance["selfLink"], "zones")
    accounts: dict[str, Any] = {}
    for account in instance.get("serviceAccounts") or []:
        accounts |= service_accounts(str(account.get("email", "default")), list(account.get("scopes") or SCOPES))
    return {
        "instance": {
            "id": instance["id"],
            "name": instance["name"],
            "zone": f"projects/0/zones/{zone}",
            "attributes": metadata_of(instance),
            "preempted": str(bool(instance.get(PREEMPTED))).upper(),
            "maintenance-event": "NONE",
            "service-accounts": accounts,
        },
        "project": {"project-id": project, "numeric-project-id": "0"},
        "universe": {"universe-domain": "googleapis.com", "universeDomain": "googleapis.com"},
    }
