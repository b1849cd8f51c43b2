"""The component GkeGpuNodePool: a node pool with GPUs for a GKE cluster. It starts without nodes."""

from __future__ import annotations

from typing import Any, ClassVar

import pulumi
import pulumi_gcp as gcp

from .. import naming
from ..args import Args
from ..component import Component
from ..errors import ArgsError
from ..kubernetes import gpu_nodes
from ..labels import merge
from . import identities
from .gke_nodes import rules
from .gke_nodes.args import GkeGpuNodePoolArgs

__all__ = ["GkeGpuNodePool", "GkeGpuNodePoolArgs"]

# GKE's limit is 40 characters, and Pulumi adds a dash and seven random characters to the logical name.
_NAME_MOST = 40 - 8

# A job on a self-hosted runner can run for five days (docs.github.com/en/actions/reference/limits). GKE allows up to
# seven (docs.cloud.google.com/kubernetes-engine/docs/concepts/node-pool-upgrade-strategies). While GKE waits, the
# autoscaler removes each node whose job has ended.
_WAIT_FOR_JOBS_SEC = 432_000

# GKE's names of the taint effects.
_EFFECTS = {"NoSchedule": "NO_SCHEDULE"}


class GkeGpuNodePool(Component):
    """GPU nodes on Google Kubernetes Engine for pods that tolerate the GPU taint, scaled on demand from zero to `max`.

    Creates: a service account for the nodes, with the role that GKE requires, and read access to imageRepositories.
    With imageStreaming, also a role for the API that streams images. A node pool with GKE's driver, the GPU taint and
    the labels of GPU nodes. Its nodes have no public address. GKE upgrades the nodes, and repairs them unless they
    are flex-start nodes.
    Costs: nothing while there is no node. A node costs its machine and its disks. A reservation is paid for its time.
    Does not: create the cluster or start nodes. The cluster autoscaler starts a node when a pod needs it, and GKE's
    own device plugin announces the GPUs. Nodes can read private images of Artifact Registry only from
    imageRepositories. To reach other registries, the network needs Cloud NAT. For flex-start, the cluster must have
    another node pool.
    Replaces on change of: the node pool for guestAccelerator, market, reservation, maxRunDurationSec, imageType,
    driver, localSsdCount, secondaryBootDisk, the project, the cluster, its location and the subnetwork, and for a
    machineType with other GPUs. GKE could change the driver in place, but Google's provider replaces the pool. Other
    changes are in place. After a change of machineType, the disk or imageStreaming, and after an upgrade, GKE replaces
    the nodes.
    """

    TYPE: ClassVar[str] = "gpu-ci:gcp:GkeGpuNodePool"
    ARGS: ClassVar[type[Args]] = GkeGpuNodePoolArgs
    FIXED: ClassVar[dict[str, tuple[str, ...]]] = {
        "nodes": ("node_config.machine_type", "node_config.image_type", "node_config.guest_accelerators")
    }
    EXAMPLE: ClassVar[dict[str, Any]] = {
        "machineType": "g2-standard-8",
        "zones": ["us-central1-a", "us-central1-b", "us-central1-c"],
        "market": "spot",
        "max": 4,
    }

    node_pool_name: pulumi.Output[str]
    """Name of the node pool, for programs that change or watch it."""
    service_account_email: pulumi.Output[str]
    """Email of the nodes' service account, for access that the component does not grant."""
    generation: pulumi.Output[str]
    """Identifies the node pool, its machine type, node image and driver, and the GKE version of its nodes."""

    def __init__(self, name: str, args: GkeGpuNodePoolArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
        if branch := rules.branch_of(dict(args)):
            # NVIDIA's support of R535 ended in June 2026 (gpu_catalog, lifetimes.json). Most jobs run on it, so this is
            # only a warning.
            pulumi.log.warn(
                f"driver: GKE installs driver {branch}, which NVIDIA no longer supports; hint: "
                f"{rules.newer_driver(dict(args))}",
                self,
            )
        account, grants = self._account(name, args)
        nodes = self._nodes(name, args, account, grants)
        self.node_pool_name = nodes.name
        self.service_account_email = account.email
        self.generation = pulumi.Output.concat(
            nodes.id, " ", args.machine_type, " ", args.image_type, " ", args.driver, " ", nodes.version
        )
        self.register()

    def _account(self, name: str, args: GkeGpuNodePoolArgs) -> tuple[gcp.serviceaccount.Account, list[pulumi.Resource]]:
        """Create the service account of the nodes and its grants, which nodes need to join the cluster.

        The first role is the minimum for logs, metrics and registration
        (docs.cloud.google.com/kubernetes-engine/security/configure-node-service-accounts). Image streaming needs the
        second on the project of the images (docs.cloud.google.com/kubernetes-engine/docs/how-to/image-streaming,
        "Requirements"). Neither role reads images. Pods need their own identities.
        """
        account = identities.service_account(
            f"{name}-account", "gke", name, f"nodes of the GPU node pool {name}", args.project, self.child()
        )
        roles = {"node": "roles/container.defaultNodeServiceAccount"}
        if args.image_streaming:
            roles["image-streaming"] = "roles/serviceusage.serviceUsageConsumer"
        return account, [
            *(
                identities.in_project(f"{name}-{purpose}-role", role, account, args.project, self.child())
                for purpose, role in roles.items()
            ),
            *identities.image_readers(name, args.image_repositories, account, self.child()),
        ]

    def _nodes(
        self,
        name: str,
        args: GkeGpuNodePoolArgs,
        account: gcp.serviceaccount.Account,
        grants: list[pulumi.Resource],
    ) -> gcp.container.NodePool:
        """Create the node pool without nodes. The cluster autoscaler changes its size."""
        found = _checked(args, "control_plane_version", "location")
        return gcp.container.NodePool(
            naming.fit(f"{name}-nodes", _NAME_MOST),
            project=args.project,
            cluster=args.cluster_name,
            location=args.location,
            node_locations=args.zones,
            initial_node_count=0,
            # The limits are for all zones together. ANY takes the zone that has capacity.
            autoscaling={"total_min_node_count": 0, "total_max_node_count": args.max, "location_policy": "ANY"},
            # A flex-start node is not repaired (docs.cloud.google.com/kubernetes-engine/docs/how-to/dws-flex-start).
            management={"auto_repair": args.market != "flex-start", "auto_upgrade": True},
            upgrade_settings=found.apply(lambda each: _upgrade_settings(args, each["control_plane_version"])),
            network_config={
                "enable_private_nodes": True,
                **({"subnetwork": _subnetwork(args)} if args.subnetwork is not None else {}),
            },
            node_config=self._node_config(name, args, account),
            # The number differs after a resize, and a difference would replace the pool.
            opts=self.child(ignore_changes=["initialNodeCount"], depends_on=grants),
        )

    def _node_config(
        self, name: str, args: GkeGpuNodePoolArgs, account: gcp.serviceaccount.Account
    ) -> gcp.container.NodePoolNodeConfigArgsDict:
        machine, pool = args.machine, args.pool or name
        config: gcp.container.NodePoolNodeConfigArgsDict = {
            "machine_type": args.machine_type,
            "image_type": args.image_type,
            "disk_size_gb": args.disk_gib,
            "disk_type": args.boot_disk_type,
            "guest_accelerators": [
                {
                    "type": machine.accelerator,
                    "count": machine.api_gpu_count,
                    "gpu_driver_installation_config": {"gpu_driver_version": args.driver},
                }
            ],
            "labels": gpu_nodes.labels(pool) | gpu_nodes.OPERANDS_OFF,
            # GKE adds its taint only if the cluster has a pool without GPUs when this pool is created.
            "taints": [
                {"key": key, "value": value, "effect": _EFFECTS[gpu_nodes.TAINT_EFFECT]}
                for key, value in gpu_nodes.taints(unproven=args.unproven).items()
            ],
            "resource_labels": merge(args.labels, {"gpu-ci-pool": pool}),
            "service_account": account.email,
            # The driver's installer reads Cloud Storage. The roles of the service account limit the other APIs.
            "oauth_scopes": ["https://www.googleapis.com/auth/cloud-platform"],
            "workload_metadata_config": {
                "mode": pulumi.Output.from_input(args.workload_identity).apply(
                    lambda has: "GKE_METADATA" if has else "GCE_METADATA"
                )
            },
            # GKE has no field for the vTPM, which Shielded GKE Nodes always have. Google signs the driver of
            # Container-Optimized OS. It is not verified that the driver on Ubuntu is signed.
            "shielded_instance_config": {
                "enable_secure_boot": args.image_type == "COS_CONTAINERD",
                "enable_integrity_monitoring": True,
            },
            "gcfs_config": {"enabled": args.image_streaming},
        }
        if args.market == "spot":
            config["spot"] = True
        if args.market == "flex-start":
            config["flex_start"] = True
        if affinity := _reservation(args):
            config["reservation_affinity"] = affinity
        if args.max_run_duration_sec is not None:
            config["max_run_duration"] = f"{args.max_run_duration_sec}s"
        if machine.nic == "GVNIC":
            config["gvnic"] = {"enabled": True}
        if args.local_ssd_count:
            config["ephemeral_storage_local_ssd_config"] = {"local_ssd_count": args.local_ssd_count}
        if args.secondary_boot_disk:
            config["secondary_boot_disks"] = [{"disk_image": args.secondary_boot_disk, "mode": "CONTAINER_IMAGE_CACHE"}]
        return config


def _upgrade_settings(
    args: GkeGpuNodePoolArgs, control_plane_version: str
) -> gcp.container.NodePoolUpgradeSettingsArgsDict | None:
    """Return the upgrade settings, or None for flex-start nodes, which GKE replaces when their time ends.

    An autoscaled blue-green upgrade starts without new nodes, and waits for the pods of jobs, which the autoscaler may
    not evict. A surge upgrade waits one hour for a pod. It never takes a node away before its successor runs.
    """
    if args.market == "flex-start":
        return None
    has_blue_green = not rules.older(control_plane_version, rules.AUTOSCALED_BLUE_GREEN)
    if (args.upgrade_strategy or ("BLUE_GREEN" if has_blue_green else "SURGE")) == "SURGE":
        # Both numbers are set, because the provider sends a missing number as 0
        # (hashicorp/terraform-provider-google#17164).
        return {"strategy": "SURGE", "max_surge": 1, "max_unavailable": 0}
    return {
        "strategy": "BLUE_GREEN",
        "blue_green_settings": {
            "autoscaled_rollout_policy": {"wait_for_drain_duration": f"{_WAIT_FOR_JOBS_SEC}s"},
        },
    }


def _checked(args: GkeGpuNodePoolArgs, *wiring: str) -> pulumi.Output[dict[str, Any]]:
    """Return the wiring of these names, on which other fields depend. Check the arguments again when it is known."""

    def checked(values: dict[str, Any]) -> dict[str, Any]:
        try:
            type(args)(**dict(args) | values)
        except ArgsError as error:
            raise ArgsError(args.subject, error.problems) from None
        return values

    return pulumi.Output.all(**{key: getattr(args, key) for key in wiring}).apply(checked)


def _subnetwork(args: GkeGpuNodePoolArgs) -> pulumi.Output[str]:
    """Return the path of the subnetwork, also for a link. The API documents no links (container v1, NetworkConfig)."""
    found = _checked(args, "location", "subnetwork")
    return found.apply(lambda each: each["subnetwork"][each["subnetwork"].index("projects/") :])


def _reservation(args: GkeGpuNodePoolArgs) -> gcp.container.NodePoolNodeConfigReservationAffinityArgsDict | None:
    if args.reservation:
        return {
            "consume_reservation_type": "SPECIFIC_RESERVATION",
            "key": "compute.googleapis.com/reservation-name",
            "values": [args.reservation],
        }
    # Flex-start requires this value (hashicorp/terraform-provider-google#18341).
    return {"consume_reservation_type": "NO_RESERVATION"} if args.market == "flex-start" else None
