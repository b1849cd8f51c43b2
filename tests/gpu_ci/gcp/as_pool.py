"""A setup as the solver has it, written as a pool of a stack file; nothing where a pool has no words for it."""

from __future__ import annotations

from typing import Any

from gpu_catalog import Machine, queries, solver
from gpu_catalog.setup import driver_source

# The fields that only other kinds of pools have, and those that no user sets on a machine of Compute Engine.
_UNSAID = ("kernel_module", "ami_type", "python")
_OWN = "projects/acme-ci/global/images/gpu"
SHA256 = "e" * 64
_PLAIN = "projects/ubuntu-os-cloud/global/images/family/ubuntu-2404-lts-amd64"
_COS = "projects/cos-cloud/global/images/family/cos-{}stable"
_ACCELERATOR = "projects/ubuntu-os-accelerator-images/global/images/family/ubuntu-accelerator-2404-{}-with-nvidia-{}"
_DEEP_LEARNING = "projects/deeplearning-platform-release/global/images/family/common-cu129-ubuntu-2404-nvidia-{}"
# Newest first: a pool always has a torch, and a setup that names none should not fail for the one it gets.
_TORCHES = ("2.15.0", "2.10.0+cu130", "2.14.0+cu126", "2.8.0+cu128", "2.4.0+cu118", "2.0.1+cu117", "1.13.1+cu117")


def as_pool(row: dict[str, Any]) -> dict[str, Any] | None:
    """The choices of a gce-runners pool that come to this setup."""
    machine = row["machine"] if isinstance(row["machine"], Machine) else queries.machine(row["machine"])
    if machine.cloud != "gcp" or machine.legacy or any(row.get(key) for key in _UNSAID):
        return None
    if row.get("boot_disk") == "pd-extreme":  # pools boot from no such disk
        return None
    software = _software(row, machine)
    if software is None:
        return None
    market = row.get("market") or machine.markets[0]
    chosen = {
        "machineType": machine.machine_type,
        "zones": [_zone(row.get("zone"), machine)],
        "market": market,
        "max": 1,
        **({"reservation": "gpus"} if market == "reservation" else {}),
        **({"maxRunDurationSec": 3600} if market == "flex-start" else {}),
        **software,
        **({"diskType": row["boot_disk"]} if row.get("boot_disk") else {}),
        **({"nicType": row["nic"]} if row.get("nic") else {}),
    }
    if machine.attached:
        chosen["guestAccelerator"] = {"type": machine.accelerator, "count": machine.api_gpu_count}
    return chosen


def _zone(wanted: str | None, machine: Machine) -> str:
    near = machine.zones or tuple(f"{region}-a" for region in machine.zoneless_regions)
    if not wanted:
        return near[0]
    if wanted[-2] == "-":
        return wanted
    return next((zone for zone in near if zone.startswith(wanted)), f"{wanted}-a")


def _software(row: dict[str, Any], machine: Machine) -> dict[str, Any] | None:
    """Image, driver and torch; none for a source a machine of Compute Engine has not, or that the gate decides on."""
    source, branch, torch = row.get("driver_source"), row.get("driver_branch"), row.get("torch")
    architecture = "arm64" if machine.architecture == "arm64" else "amd64"
    if source in ("prebuilt", "operator", "al2023", "bottlerocket"):
        return None
    if source is None and branch is None:
        installed = {"driver": {"source": "installer", "sha256": SHA256}, "image": _PLAIN}
        fraction = installed if machine.gpu_count < 1 else {"image": _OWN}
        return fraction | ({"torch": torch} if torch else {})
    branch = branch or driver_source(source).default_of(machine)
    if source == "cos":
        version, _, cuda = str(torch or _torch(machine, 580)).partition("+cu")
        tag = f"{version}-cuda{cuda[:-1]}.{cuda[-1]}-cudnn9-runtime" if cuda else "latest"
        container = f"docker.io/pytorch/pytorch:{tag}@sha256:{'0' * 64}"
        driver = {"source": "cos", "checkImage": container, **({"branch": branch} if branch else {})}
        return {"driver": driver, "image": _COS.format("arm64-" if architecture == "arm64" else "")}
    found = {"torch": torch or _torch(machine, branch)}
    if source == "installer":
        return {"driver": {"source": "installer", "branch": branch, "sha256": SHA256}, "image": _PLAIN, **found}
    form = (
        _ACCELERATOR.format(architecture, branch)
        if source or architecture == "arm64"
        else _DEEP_LEARNING.format(branch)
    )
    return {"image": form, **found}


def _torch(machine: Machine, branch: int | None) -> str:
    """The newest of a few that works there."""
    works = (each for each in _TORCHES if solver.check(machine, driver_branch=branch, torch=each).works)
    return next(works, _TORCHES[0])
