"""Creates the instance template of a GPU machine: disks, network, service account, Shielded VM and metadata."""

from __future__ import annotations

from collections.abc import Mapping

import pulumi
import pulumi_gcp as gcp

from ...machines.runner import Registration
from . import boot, rules, software
from .args import GpuMachineArgs

# The API's names of the provisioning models.
_MODELS = {"spot": "SPOT", "standard": "STANDARD", "flex-start": "FLEX_START", "reservation": "RESERVATION_BOUND"}

# A local SSD has no labels. Compute Engine accepts labels of persistent disks only, and rejects an instance with other
# labels (discovery document compute v1, AttachedDiskInitializeParams.labels;
# github.com/taskcluster/taskcluster/issues/6958).
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
    account: pulumi.Input[str] | None,
    tags: dict[str, str],
    deadline_sec: int,
    opts: pulumi.ResourceOptions,
    metadata: Mapping[str, pulumi.Input[str]] | None = None,
    registration: Registration | None = None,
    checks_image: bool = False,
) -> gcp.compute.RegionInstanceTemplate:
    """Create the template of `pool`'s machines. Templates are immutable, so every change creates a new one.

    With `checks_image`, the machine installs nothing and secure boot is off, as for an image without a known publisher.
    """
    attached = args.guest_accelerator
    return gcp.compute.RegionInstanceTemplate(
        logical_name,
        project=args.project,
        region=args.region,
        machine_type=args.machine_type,
        guest_accelerators=[{"type": attached.type, "count": attached.count}] if attached else None,
        disks=[_boot_disk(args, tags), *[_LOCAL_SSD] * args.local_ssd_count],
        # Without access_configs, machines have no public address.
        network_interfaces=[
            gcp.compute.RegionInstanceTemplateNetworkInterfaceArgs(
                network=args.network, subnetwork=args.subnetwork, nic_type=args.nic_type or args.machine.nic or None
            )
        ],
        service_account={"email": account, "scopes": ["https://www.googleapis.com/auth/cloud-platform"]}
        if account is not None
        else None,
        scheduling=_scheduling(args),
        reservation_affinity=_reservation(args),
        shielded_instance_config={
            "enable_vtpm": True,
            "enable_integrity_monitoring": True,
            "enable_secure_boot": software.is_signed(args.image) and not checks_image,
        },
        metadata={
            **(metadata or {}),
            "enable-oslogin": "TRUE",
            "block-project-ssh-keys": "TRUE",
            "serial-port-enable": "FALSE",
            **boot.metadata(pool, args, deadline_sec, registration, installs=not checks_image),
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
        "automatic_restart": args.market == "standard",  # other markets do not support an automatic restart
        "on_host_maintenance": "TERMINATE",  # the only possible value for machines with a GPU
        "instance_termination_action": "DELETE",
        # It is not verified that RESERVATION_BOUND machines can have a maximum run duration. Google's documentation
        # does not exclude it.
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
    # Flex-start machines use a separate capacity, and may not use machines of a reservation.
    return {"type": "NO_RESERVATION"} if args.market == "flex-start" else None
