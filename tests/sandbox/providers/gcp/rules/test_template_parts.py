"""Rules for a template's local disks and network interfaces, as the catalog and the real provider have them."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi_sandbox.providers.gcp.types import REGION_TEMPLATE
from pulumi_sandbox.providers.values import UNKNOWN

from tests.sandbox.providers.gcp.conftest import TEMPLATE, Google

LOCAL_SSD = {"type": "SCRATCH", "diskType": "local-ssd", "interface": "NVME", "diskSizeGb": 375}
HYPERDISK = "hyperdisk-balanced"


def machine(name: str, local_ssds: int = 0, disk: str = "pd-balanced", **more: Any) -> dict[str, Any]:
    disks = [{"sourceImage": "one", "diskType": disk}, *[LOCAL_SSD] * local_ssds]
    return {"machineType": name, "disks": disks, **more}


def t4(local_ssds: int) -> dict[str, Any]:
    return machine("n1-standard-8", local_ssds, guestAccelerators=[{"type": "nvidia-tesla-t4", "count": 1}])


def local(**changes: Any) -> dict[str, Any]:
    return {"disks": [*TEMPLATE["disks"], {**LOCAL_SSD, **changes}]}


def nic(name: str, *kinds: Any, disk: str = "pd-balanced") -> dict[str, Any]:
    return machine(name, disk=disk, networkInterfaces=[{"network": "default", "nicType": kind} for kind in kinds])


G4: dict[str, Any] = machine("g4-standard-48", disk=HYPERDISK)
A3: dict[str, Any] = machine("a3-highgpu-1g") | {
    "scheduling": {"provisioningModel": "SPOT", "preemptible": True, "automaticRestart": False}
}


def scoped(*scopes: Any) -> dict[str, Any]:
    return {"serviceAccount": {"email": "default", "scopes": list(scopes)}}


def confidential(kind: Any = None) -> dict[str, Any]:
    chosen = {"confidentialInstanceType": kind} if kind else {}
    return {"confidentialInstanceConfig": {"enableConfidentialCompute": True, **chosen}}


ACCEPTED: dict[str, dict[str, Any]] = {
    "one on a machine with one GPU": machine("g2-standard-8", 1),
    "eight on the largest of them": machine("g2-standard-96", 8),
    "three beside a T4": t4(3),
    "as many as come with the machine": machine("a2-ultragpu-2g", 2),
    "SCSI": local(interface="SCSI"),
    "a kind not known yet": local(type=UNKNOWN),
    "a size not known yet": local(diskSizeGb=UNKNOWN),
    "gVNIC where it is needed": nic("a3-highgpu-8g", "GVNIC"),
    "Google's choice": machine("a3-highgpu-8g"),
    "RDMA beside the first interface": nic("a3-ultragpu-8g", "GVNIC", "MRDMA", disk=HYPERDISK)
    | {"scheduling": {"provisioningModel": "SPOT", "preemptible": True, "automaticRestart": False}},
    "an interface that no vendor's text excludes": nic("g2-standard-8", "VIRTIO_NET"),
    "an interface not known yet": nic("a3-highgpu-8g", UNKNOWN),
    "interfaces not known yet": {"networkInterfaces": UNKNOWN},
    "scopes by their short names and by URL": scoped("storage-ro", "https://www.googleapis.com/auth/cloud-platform"),
    "no scope, and one not known yet": scoped(UNKNOWN),
    "AMD SEV on G4": {**G4, **confidential()},
    "Intel TDX on the smallest A3 High": {**A3, **confidential("TDX")},
    "a confidential machine without GPUs": {**machine("n2d-standard-8"), "scheduling": {}, **confidential("SEV")},
    "a way to be confidential not known yet": confidential(UNKNOWN),
    "a way to be confidential whose machines are not known": confidential("BMSAI"),
    "not confidential": {"confidentialInstanceConfig": {"enableConfidentialCompute": False}},
}


def test_parts_that_a_machine_takes_are_accepted(google: Google) -> None:
    assert {
        name: found
        for name, changes in ACCEPTED.items()
        if (found := google.problems(REGION_TEMPLATE, {**TEMPLATE, **changes}))
    } == {}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "two where there is room for one": (
        machine("g2-standard-8", 2),
        "disks: g2-standard-8 supports 0 or 1 local SSDs, got 2",
    ),
    "one where there have to be two": (
        machine("g2-standard-24", 1),
        "disks: g2-standard-24 supports 0 or 2 local SSDs, got 1",
    ),
    "nine beside a T4": (
        t4(9),
        "disks: n1-standard-8 supports 0 or 1 or 2 or 3 or 4 or 5 or 6 or 7 or 8 or 16 or 24 local SSDs, got 9",
    ),
    "another beside those that come with it": (
        machine("a2-ultragpu-2g", 1),
        "disks: a2-ultragpu-2g comes with 2 local SSDs; 1 cannot be added\n  hint: remove these disks",
    ),
    "one on a machine that has none": (
        machine("g4-standard-6", 1, HYPERDISK),
        "disks: g4-standard-6 does not support local SSDs, got 1",
    ),
    "a scratch disk on the network": (
        local(diskType="pd-ssd"),
        "disks[1].diskType: SCRATCH disks must have a disk_type of local-ssd. disk 1 has disk_type pd-ssd",
    ),
    "a local disk that stays": (
        local(type="PERSISTENT"),
        "disks[1].type: disks with a disk_type of local-ssd must be SCRATCH disks. disk 1 is a PERSISTENT disk",
    ),
    "a size there is not": (
        local(diskSizeGb=400),
        "disks[1].diskSizeGb: SCRATCH disks must be one of [375 3000 3500 7000 14000] GB, disk 1 is 400",
    ),
    "a large one without NVMe": (
        local(diskSizeGb=3000, interface="SCSI"),
        (
            "disks[1].interface: SCRATCH disks with a size of 3000 GB must have an interface of NVME. disk 1 has "
            "interface SCSI"
        ),
    ),
    "virtio where gVNIC is needed": (
        nic("a3-highgpu-8g", "VIRTIO_NET"),
        "networkInterfaces[0].nicType: a3-highgpu-8g does not support VIRTIO_NET\n  hint: use GVNIC",
    ),
    "no interface": (
        {"networkInterfaces": []},
        "networkInterfaces: At least one network interface is required.",
    ),
    "a short name there is not": (
        scoped("cloud-platform", "default"),
        (
            "serviceAccount.scopes[1]: One or more of the service account scopes are invalid: 'default'\n"
            "  hint: such as cloud-platform, or https://www.googleapis.com/auth/cloud-platform"
        ),
    ),
    "AMD SEV on G2": (
        confidential(),
        ("confidentialInstanceConfig: g2-standard-8 does not support SEV; of GPU machines only g4-standard-48 does"),
    ),
    "Intel TDX beside a T4": (
        {**t4(0), "scheduling": TEMPLATE["scheduling"], **confidential("TDX")},
        ("confidentialInstanceConfig: n1-standard-8 does not support TDX; of GPU machines only a3-highgpu-1g does"),
    ),
    "AMD SEV-SNP on G4": (
        {**G4, **confidential("SEV_SNP")},
        "confidentialInstanceConfig: g4-standard-48 does not support SEV_SNP; of GPU machines none does",
    ),
    "gVNIC on bare metal": (
        nic("a4x-maxgpu-4g-metal", "GVNIC", disk=HYPERDISK)
        | {
            "scheduling": {"provisioningModel": "RESERVATION_BOUND", "onHostMaintenance": "TERMINATE"},
            "reservationAffinity": {
                "type": "SPECIFIC_RESERVATION",
                "specificReservation": {"key": "compute.googleapis.com/reservation-name", "values": ["gb300"]},
            },
        },
        "networkInterfaces[0].nicType: a4x-maxgpu-4g-metal does not support GVNIC\n  hint: use IDPF",
    ),
}


@pytest.mark.parametrize(("changes", "expected"), REFUSED.values(), ids=REFUSED)
def test_parts_that_a_machine_does_not_take_are_refused(google: Google, changes: dict[str, Any], expected: str) -> None:
    assert google.problems(REGION_TEMPLATE, {**TEMPLATE, **changes}) == [expected]
