"""The arguments of GkeGpuNodePool, a node pool with GPUs: its machines, driver, node image and disks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import gpu_catalog as catalog
from gpu_catalog import Demand
from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from ...args import Args, Input, Integer, StrictBool
from ...kubernetes.name_types import Pool, TorchOfJobs
from ...labels import Labels
from ...pool_args import PoolArgs
from .. import identities
from ..machine import rules as machine_rules
from ..machine.args import GpuMachineChoices
from ..resource_names import ImageRepositories, Project, Subnetwork
from . import rules

ClusterName = Annotated[str, Field(pattern=r"^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$")]
DiskImage = Annotated[str, Field(pattern=r"^projects/[a-z0-9.:-]+/global/images/[a-z]([-a-z0-9]{0,61}[a-z0-9])?$")]

# The validators of fields that depend on earlier fields.
_RULES: dict[str, Any] = {
    "subnetwork": rules.subnetwork,
    "machine_type": rules.machine_type,
    "zones": rules.zones,
    "market": rules.market,
    "max_run_duration_sec": machine_rules.run_limit,
    "driver": rules.driver,
    "torch": rules.torch,
    "disk_type": machine_rules.disk_type,
    "local_ssd_count": machine_rules.local_ssd_count,
    "image_streaming": rules.image_streaming,
    "secondary_boot_disk": rules.secondary_boot_disk,
    "upgrade_strategy": rules.upgrade_strategy,
}


class NodePoolCluster(Args):
    """The cluster of a node pool, which exists already, and the names that the program gives to the nodes."""

    project: Input[Project] = Field(description="the id (not the number) of the Google Cloud project of the cluster")
    cluster_name: Input[ClusterName] = Field(
        examples=["ci"], description="the name (not the id) of the GKE cluster, a Standard cluster"
    )
    location: Input[Annotated[str, AfterValidator(rules.location)]] = Field(
        description="the region of the cluster, or its zone if it is a zonal cluster, such as us-central1"
    )
    control_plane_version: Input[
        Annotated[str, Field(pattern=rules.VERSION), AfterValidator(rules.control_plane_version)]
    ] = Field(description="the version of the cluster's control plane, such as 1.34.1-gke.3720000")
    autopilot: Input[Annotated[StrictBool, AfterValidator(rules.standard_cluster)]] = Field(
        default=False, description="whether the cluster is an Autopilot cluster, which cannot have the pool"
    )
    workload_identity: Input[StrictBool] = Field(
        default=True,
        description="whether the cluster has Workload Identity Federation for GKE; nodes then hide the service account "
        "of the pool from pods",
    )
    subnetwork: Input[Subnetwork] | None = Field(
        default=None,
        examples=["projects/acme-ci/regions/us-central1/subnetworks/gpu"],
        description="the subnetwork of the nodes, as projects/<project>/regions/<region>/subnetworks/<name>; by "
        "default the subnetwork of the cluster",
    )
    labels: Labels = Field(default={}, description="labels of the nodes' VMs and disks in Google Cloud")
    pool: Pool | None = Field(
        default=None, description="the value of the nodes' label gpu-ci-pool; by default the component's name"
    )
    unproven: StrictBool = Field(
        default=False,
        description="whether nodes start with the taint of unproven nodes",
    )


class GkeGpuNodePoolArgs(GpuMachineChoices, NodePoolCluster, PoolArgs):
    """The arguments of a node pool with GPUs for a GKE cluster."""

    WIRING: ClassVar[frozenset[str]] = frozenset(NodePoolCluster.model_fields)
    CREATES: ClassVar[tuple[str, ...]] = ("gcp:container/nodePool:NodePool", *identities.TYPES)
    CREATES_WITH: ClassVar[Mapping[str, tuple[str, ...]]] = identities.WITH_IMAGES

    max_run_duration_sec: Integer | None = Field(
        default=None,
        validate_default=True,
        ge=machine_rules.RUN_LIMIT_SEC[0],
        le=machine_rules.RUN_LIMIT_SEC[1],
        description="seconds after which a node is deleted, even if a job runs on it, 600 to 604800; by default there "
        "is no limit; required for flex-start",
    )
    max: Integer = Field(ge=1, le=1000, description="the maximum number of nodes in all zones together, 1 to 1000")
    image_type: Literal["COS_CONTAINERD", "UBUNTU_CONTAINERD"] = Field(
        default="COS_CONTAINERD",
        description="the node image: Container-Optimized OS, or Ubuntu",
    )
    driver: Literal["DEFAULT", "LATEST"] = Field(
        default="DEFAULT",
        validate_default=True,
        description="the NVIDIA driver that GKE installs: the default of the version of GKE, or the latest, which only "
        "Container-Optimized OS has",
    )
    torch: TorchOfJobs = None
    disk_gib: Integer = Field(default=100, ge=30, le=65536, description="size of the boot disk in GiB, 30 to 65536")
    disk_type: Literal["pd-balanced", "pd-ssd", "pd-standard", "hyperdisk-balanced"] | None = Field(
        default=None, description="type of the boot disk; by default pd-balanced if the machine series supports it"
    )
    local_ssd_count: Integer = Field(
        default=0,
        ge=0,
        le=32,
        description=f"number of local SSDs of {machine_rules.LOCAL_SSD_GIB} GiB, which store images, logs and "
        "emptyDir volumes instead of the boot disk; the machine type limits the possible numbers",
    )
    image_streaming: StrictBool = Field(
        default=False,
        description="whether containers start before their image is pulled, and read files of the image on demand; "
        "for images in Artifact Registry",
    )
    image_repositories: ImageRepositories = Field(
        default=[],
        description="Artifact Registry repositories with the images of pods, as "
        "projects/<project>/locations/<location>/repositories/<name>; nodes may read them",
    )
    secondary_boot_disk: DiskImage | None = Field(
        default=None,
        examples=["projects/acme-ci/global/images/runner-images-1"],
        description="a disk image with container images, as projects/<project>/global/images/<name>; each node gets a "
        "disk of it and does not pull these images; requires imageStreaming",
    )
    upgrade_strategy: Literal["SURGE", "BLUE_GREEN"] | None = Field(
        default=None,
        description="how GKE replaces nodes: SURGE ends a job after one hour; BLUE_GREEN (autoscaled; Preview) waits "
        f"up to five days for jobs; by default BLUE_GREEN if the control plane has {rules.AUTOSCALED_BLUE_GREEN} or "
        "newer",
    )

    @field_validator(*_RULES)
    @classmethod
    def _check_with_earlier_fields(cls, value: Any, info: ValidationInfo) -> Any:
        return _RULES[str(info.field_name)](value, info.data)

    @property
    def services(self) -> tuple[str, ...]:
        return ("compute.googleapis.com", *(["containerfilesystem.googleapis.com"] if self.image_streaming else []))

    @property
    def boot_disk_type(self) -> str:
        """The type of the boot disk: the given type, or the default."""
        return self.disk_type or machine_rules.default_disk_type(self.machine)

    def demand(self, name: str) -> Demand | None:
        """Return the machines and disks of the pool `name`, to compute its cost and its quotas."""
        return Demand(
            pool=name,
            machine=self.machine,
            market=catalog.market(self.market),
            region=self.region,
            max_machines=self.max,
            boot_disk=self.boot_disk_type,
            boot_disk_gib=self.disk_gib,
            local_ssd_gib=self.local_ssd_count * machine_rules.LOCAL_SSD_GIB,
            max_run_sec=self.max_run_duration_sec,
        )
