"""What a machine of a runner pool is: its disk, network, identity, protection, and what it boots with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulumi
import pulumi_gcp as gcp

from .. import boot, versions
from . import pool_rules

if TYPE_CHECKING:
    from .runner_pool import RunnerPoolArgs


def machine_template(
    logical_name: str,
    pool: str,
    args: RunnerPoolArgs,
    account: pulumi.Output[str],
    tags: dict[str, str],
    opts: pulumi.ResourceOptions,
) -> gcp.compute.RegionInstanceTemplate:
    """The pool's template. Google cannot change one, so every difference makes a new one."""
    spot, attached = args.market == "spot", args.guest_accelerator
    return gcp.compute.RegionInstanceTemplate(
        logical_name,
        project=args.project,
        region=args.region,
        machine_type=args.machine_type,
        guest_accelerators=[{"type": attached.type, "count": attached.count}] if attached else None,
        disks=[
            {
                "boot": True,
                "auto_delete": True,
                "source_image": args.image,
                "disk_size_gb": args.disk_gib,
                "disk_type": args.disk_type or pool_rules.default_disk_type(args.machine),
                "labels": tags,
            }
        ],
        # No access_configs: no public address.
        network_interfaces=[
            gcp.compute.RegionInstanceTemplateNetworkInterfaceArgs(
                network=args.network, subnetwork=args.subnetwork, nic_type=args.machine.nic or None
            )
        ],
        service_account={"email": account, "scopes": ["https://www.googleapis.com/auth/cloud-platform"]},
        scheduling={
            "provisioning_model": "SPOT" if spot else "STANDARD",
            "preemptible": spot,
            "automatic_restart": not spot,
            "on_host_maintenance": "TERMINATE",  # the only choice with a GPU
            "instance_termination_action": "DELETE",
            "max_run_duration": {"seconds": args.max_run_duration_sec},
        },
        shielded_instance_config={
            "enable_vtpm": True,
            "enable_integrity_monitoring": True,
            # Google signs the driver modules of its own accelerator images; another's may be unsigned.
            "enable_secure_boot": args.image == versions.GCE_IMAGE,
        },
        metadata={
            "enable-oslogin": "TRUE",
            "block-project-ssh-keys": "TRUE",
            "serial-port-enable": "FALSE",
            **boot.metadata(pool, args.machine, args.smoke.deadline_sec),
        },
        labels=tags,
        opts=opts,
    )
