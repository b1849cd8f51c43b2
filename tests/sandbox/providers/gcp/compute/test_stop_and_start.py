"""Machines that are stopped and started again: their states and operations, and what they find at their next boot."""

from __future__ import annotations

import time
import uuid
from pathlib import Path
from typing import Any

import pytest
from pulumi_sandbox.providers.gcp.compute import vm_store
from pulumi_sandbox.providers.gcp.compute.operations import OPERATION, Operations
from pulumi_sandbox.providers.gcp.compute.vm_store import ATTRIBUTES, GUEST, INSTANCE, STOPPED_AT, VirtualMachines
from pulumi_sandbox.providers.gcp.errors import GoogleError
from pulumi_sandbox.providers.gcp.names import in_zone
from pulumi_sandbox.providers.machines.local_services import LocalServices
from pulumi_sandbox.providers.machines.settings import GuestSettings
from pulumi_sandbox.providers.machines.vm_processes import VmProcesses
from pulumi_sandbox.world.faults import Fault
from pulumi_sandbox.world.store import Record, World

from tests.sandbox.providers.gcp.api import Api, printed, script
from tests.sandbox.providers.gcp.compute.test_manager_calls import HERE, undocumented
from tests.sandbox.providers.gcp.conftest import Google

MACHINE = f"{HERE}/instances/check"
# Counts its boots on the disk, prints files of an earlier boot, and ends on SIGTERM.
COUNTS = """
echo boot >> $HOME/boots
echo boot $(grep -c boot $HOME/boots), $(ls $TMPDIR | wc -l) temporary files
touch $TMPDIR/left
root=http://$GCE_METADATA_HOST/computeMetadata/v1/instance
curl -sf -X PUT -H 'Metadata-Flavor: Google' --data x $root/guest-attributes/boots/$(grep -c boot $HOME/boots)
trap 'echo told to end; exit' TERM
echo ready
while true; do sleep 0.1; done
"""


def machines_of(google: Google) -> VirtualMachines:
    """The machines of the world in another process, which runs none of them."""
    folder = google.workspace.root
    processes = VmProcesses(GuestSettings(), LocalServices({}))
    return VirtualMachines(google.world, processes, Operations(google.world), folder / "disks")


def ready(api: Api, boots: int = 1) -> None:
    """Wait until the machine has come to its work this many times."""
    api.until(lambda: printed(api.serial()).count("ready") == boots, f"boot {boots} at work")


def stop(api: Api) -> dict[str, Any]:
    """The finished operation of a stop, of a machine that is off then."""
    begun = api.ok("POST", f"{MACHINE}/stop")
    api.off()
    return api.done(begun["name"])


def start(api: Api) -> dict[str, Any]:
    """The finished operation of a start."""
    begun = api.ok("POST", f"{MACHINE}/start")
    return api.done(begun["name"])


def attributes(api: Api) -> dict[str, dict[str, str]]:
    record = api.google.world.get(INSTANCE, in_zone("ci-project", "us-central1-a", "instances", "check"))
    assert record
    found: dict[str, dict[str, str]] = record.outputs[ATTRIBUTES]
    return found


def disks(api: Api) -> list[Path]:
    return list((api.google.workspace.root / "disks").iterdir())


def reason(answer: tuple[int, dict[str, Any]]) -> tuple[int, str]:
    return answer[0], answer[1]["error"]["errors"][0]["reason"]


def test_a_stopped_machine_keeps_its_disk_and_guest_attributes_and_nothing_of_its_memory(api: Api) -> None:
    api.insert(api.google.template(**script(COUNTS)).id)
    ready(api)
    identity = api.instance()["id"]
    stop(api)
    start(api)
    ready(api, 2)
    lines = [line for line in printed(api.serial()) if line not in ("ready", "Terminated")]
    assert lines == ["boot 1, 0 temporary files", "told to end", "boot 2, 0 temporary files"]
    assert attributes(api) == {"boots": {"1": "x", "2": "x"}}
    assert (api.instance()["id"], len(disks(api))) == (identity, 1)


def test_the_operation_of_a_stop_is_done_once_the_machine_is_off(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vm_store, "STOPPING_SEC", 0.5)
    slow = COUNTS.replace("echo told to end; exit", "echo told to end; touch $HOME/told; sleep 1; exit")
    api.insert(api.google.template(**script(slow)).id)
    ready(api)
    begun = api.ok("POST", f"{MACHINE}/stop")
    assert (begun["operationType"], begun["status"], undocumented("Operation", begun)) == ("stop", "RUNNING", [])
    assert api.instance()["status"] == "STOPPING"
    api.until(lambda: (disks(api)[0] / "root" / "told").exists(), "the machine told to end")
    assert api.ok("GET", f"{HERE}/operations/{begun['name']}")["status"] == "RUNNING"
    done = api.done(begun["name"])
    assert (done["status"], "error" in done, api.instance()["status"]) == ("DONE", False, "TERMINATED")


def test_a_start_needs_capacity_and_quota_and_leaves_the_machine_off_without(api: Api) -> None:
    api.insert(api.google.template(**script(COUNTS)).id)
    ready(api)
    stop(api)
    api.google.world.add_fault(Fault("stockout", on="check"))
    failed = start(api)
    [error] = failed["error"]["errors"]
    assert (error["code"], failed["httpErrorStatusCode"], failed["status"]) == (
        "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS",
        503,
        "DONE",
    )
    assert api.instance()["status"] == "TERMINATED"
    api.google.world.add_fault(Fault("quota", on="check"))
    [error] = start(api)["error"]["errors"]
    assert (error["code"], api.instance()["status"]) == ("QUOTA_EXCEEDED", "TERMINATED")
    assert ("error" in start(api), api.instance()["status"]) == (False, "RUNNING")
    ready(api, 2)


def test_a_repeated_start_boots_once_and_a_missing_machine_is_not_found(api: Api) -> None:
    api.insert(api.google.template(**script(COUNTS)).id)
    ready(api)
    stop(api)
    identity = str(uuid.uuid4())
    first = api.ok("POST", f"{MACHINE}/start", requestId=identity)
    ready(api, 2)
    stop(api)
    assert api.ok("POST", f"{MACHINE}/start", requestId=identity)["name"] == first["name"]
    assert api.instance()["status"] == "TERMINATED"
    for verb in ("start", "stop"):
        assert reason(api.call("POST", f"{HERE}/instances/other/{verb}")) == (404, "notFound")


def ended_after_read(google: Google) -> Record:
    """A record that was read while its machine was running; the machine's end has been recorded since."""
    path = in_zone("ci-project", "us-central1-a", "instances", "check")
    outputs = {"status": "RUNNING", GUEST: {"pid": 0, "started": ""}}
    read = google.world.insert(Record(INSTANCE, path, "check", "", {}, outputs, "api"))
    google.world.update(INSTANCE, path, outputs={**outputs, "status": "STOPPING", STOPPED_AT: time.time() + 3600})
    return read


def test_a_machine_that_ends_while_its_record_is_read_is_stopping_and_not_off(google: Google) -> None:
    read = ended_after_read(google)
    assert machines_of(google).instance_json(read)["status"] == "STOPPING"
    assert [record.outputs["status"] for record in google.world.find(INSTANCE)] == ["STOPPING"]


def test_a_stop_of_a_machine_that_has_ended_since_it_was_read_is_refused_without_an_operation(google: Google) -> None:
    machines, read = machines_of(google), ended_after_read(google)
    with pytest.raises(GoogleError, match="is not ready"):
        machines.stop(read)
    assert list(google.world.settings(OPERATION)) == []


def test_a_preempted_machine_may_be_started_and_hears_of_no_preemption_then(api: Api) -> None:
    asks = COUNTS.replace("echo ready", "curl -sf -H 'Metadata-Flavor: Google' $root/preempted; echo; echo ready")
    api.insert(api.google.template(**script(asks)).id, scheduling={"provisioningModel": "SPOT", "preemptible": True})
    ready(api)
    api.google.world.add_fault(Fault("preempt", on="check"))
    api.off()
    start(api)
    ready(api, 2)
    assert [line for line in printed(api.serial()) if line in ("TRUE", "FALSE")] == ["FALSE", "FALSE"]


def test_another_provider_starts_a_machine_from_the_disk_that_it_left(google: Google, tmp_path: Path) -> None:
    google.cloud.configure(google.config)
    first = Api(google)
    first.insert(google.template(**script(COUNTS)).id)
    ready(first)
    google.cloud.stop()
    later = Google(tmp_path / "later")
    later.world.close()
    later.workspace = later.cloud.context.workspace = google.workspace
    later.world = later.cloud.context.world = World(later.workspace.world)
    later.cloud.configure(later.config)
    try:
        second = Api(later)
        assert second.instance()["status"] in ("STOPPING", "TERMINATED")
        second.off()
        start(second)
        ready(second, 2)
        assert "boot 2, 0 temporary files" in printed(second.serial())
    finally:
        later.cloud.stop()
        later.world.close()
