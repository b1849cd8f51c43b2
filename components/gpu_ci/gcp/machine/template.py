"""A GPU machine as an instance template: its disks, network, identity, protection, and what it boots with."""

from __future__ import annotations

from collections.abc import Mapping

import pulumi
import pulumi_gcp as gcp

from . import boot, rules, software
from .args import GpuMachineArgs
from .runner import Registration

# Google's words for how machines are bought.
_MODELS = {"spot": "SPOT", "standard": "STANDARD", "flex-start": "FLEX_START", "reservation": "RESERVATION_BOUND"}

# No labels: Compute Engine takes those of persistent disks only, and refuses the instance otherwise (discovery document
# compute v1, AttachedDiskInitializeParams.labels; github.com/taskcluster/taskcluster/issues/6958).
_LOCAL_SSD: gcp.compute.RegionInstanceTemplateDiskArgsDict = {
    "type": "SCRATCH",
    "disk_type": "local-ssd",
    "interface": "NVME",
    "disk_size_gb": rules.LOCAL_SSD_GIB,
    "auto_delete": True,
}


def machine_template(
    logical_name: str,
    pool: str,
    args: GpuMachineArgs,
    *,
    account: pulumi.Input[str],
    tags: dict[str, str],
    deadline_sec: int,
    opts: pulumi.ResourceOptions,
    metadata: Mapping[str, pulumi.Input[str]] | None = None,
    registration: Registration | None = None,
) -> gcp.compute.RegionInstanceTemplate:
    """The template of `pool`'s machines. Google cannot change one, so every difference makes a new one."""
    attached = args.guest_accelerator
    return gcp.compute.RegionInstanceTemplate(
        logical_name,
        project=args.project,
        region=args.region,
        machine_type=args.machine_type,
        guest_accelerators=[{"type": attached.type, "count": attached.count}] if attached else None,
        disks=[_boot_disk(args, tags), *[_LOCAL_SSD] * args.local_ssd_count],
        # No access_configs: no public address.
        network_interfaces=[
            gcp.compute.RegionInstanceTemplateNetworkInterfaceArgs(
                network=args.network, subnetwork=args.subnetwork, nic_type=args.nic_type or args.machine.nic or None
            )
        ],
        service_account={"email": account, "scopes": ["https://www.googleapis.com/auth/cloud-platform"]},
        scheduling=_scheduling(args),
        reservation_affinity=_reservation(args),
        shielded_instance_config={
            "enable_vtpm": True,
            "enable_integrity_monitoring": True,
            "enable_secure_boot": software.is_signed(args.image),
        },
        metadata={
            **(metadata or {}),
            "enable-oslogin": "TRUE",
            "block-project-ssh-keys": "TRUE",
            "serial-port-enable": "FALSE",
            **boot.metadata(pool, args, deadline_sec, registration),
        },
        labels=tags,
        opts=opts,
    )


def _boot_disk(args: GpuMachineArgs, tags: dict[str, str]) -> gcp.compute.RegionInstanceTemplateDiskArgsDict:
    return {
        "boot": True,
        "auto_delete": True,
        "source_image": args.image,
        "disk_size_gb": args.disk_gib,
        "disk_type": args.boot_disk_type,
        "labels": tags,
    }


def _scheduling(args: GpuMachineArgs) -> gcp.compute.RegionInstanceTemplateSchedulingArgsDict:
    return {
        "provisioning_model": _MODELS[args.market],
        "preemptible": args.market == "spot",
        "automatic_restart": args.market == "standard",  # the others cannot be restarted
        "on_host_maintenance": "TERMINATE",  # the only choice with a GPU
        "instance_termination_action": "DELETE",
        # Unverified for RESERVATION_BOUND: no example of the provider has both, and no page of Google's excludes it.
        "max_run_duration": {"seconds": args.run_limit_sec},
    }


def _reservation(args: GpuMachineArgs) -> gcp.compute.RegionInstanceTemplateReservationAffinityArgsDict | None:
    if args.reservation:
        return {
            "type": "SPECIFIC_RESERVATION",
            "specific_reservation": {
                "key": "compute.googleapis.com/reservation-name",
                "values": [args.reservation],
            },
        }
    # Flex-start machines come from a capacity of their own, and may not take those that wait in a reservation.
    return {"type": "NO_RESERVATION"} if args.market == "flex-start" else None
