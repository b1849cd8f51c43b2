"""What a node group with GPUs is made of: its machines, their image and disk, and where they are."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Literal

import gpu_catalog as catalog
from gpu_catalog import Demand, Machine
from pydantic import Field, ValidationInfo, ValidatorFunctionWrapHandler, field_validator

from ...args import Args, Input, Integer, StrictBool
from ...errors import validate_whole_and_entries
from ...kubernetes.name_types import Pool
from ..resource_names import (
    ClusterName,
    KmsKeyArn,
    KubernetesVersion,
    Profile,
    Region,
    ReservationId,
    RoleArn,
    SecurityGroupId,
    SubnetId,
    VpcId,
)
from . import ami, disk, rules
from .tags import Tags

# Which rules a field is held to, where these need the fields before it.
_RULES: dict[str, Any] = {
    "region": rules.region,
    "subnets": rules.subnets,
    "market": rules.market,
    "capacity_reservation_id": rules.capacity_reservation_id,
    "efa": rules.efa,
    "vpc_id": rules.needed_by_efa,
    "cluster_security_group_id": rules.needed_by_efa,
    "ami_type": ami.ami_type,
    "release_version": ami.release_version,
    "torch": ami.torch,
    "kms_key_arn": rules.kms_key_arn,
    "disk_iops": disk.iops,
    "disk_throughput_mib": disk.throughput,
}
# Those that look at entries one by one, also where one of them is no text.
_LISTS: dict[str, Any] = {"instance_types": rules.instance_types, "zones": rules.zones}


class GpuNodeGroupArgs(Args):
    """What a managed node group with GPUs is made of."""

    WIRING: ClassVar[frozenset[str]] = frozenset(
        {
            "cluster_name",
            "kubernetes_version",
            "region",
            "subnets",
            "offerings",
            "tags",
            "vpc_id",
            "cluster_security_group_id",
            "pool",
            "profile",
            "role_arn",
        }
    )
    DECIDED: ClassVar[dict[str, str]] = {
        "capacityType": "market decides it: spot, standard or capacity-block",
        "desiredSize": "a group begins with no node, and an autoscaler decides from then on",
        "minSize": "it is always 0, so that nothing is paid for at rest",
        "maxSize": "max is its name here",
        "machineType": "instanceTypes is its name here, and takes several, such as [g6.2xlarge, g6.4xlarge]",
        "instanceType": "instanceTypes is its name here, and takes several, such as [g6.2xlarge, g6.4xlarge]",
        "diskSize": "diskGib is its name here; with a launch template EKS takes no other",
        "remoteAccess": "there is none; sessionManager opens a shell without a port or a key",
        "imageId": "amiType names the image: EKS joins only its own to the cluster by itself",
        "labels": "the nodes of every cloud have the same, so that pods find them",
        "taints": "the nodes of every cloud have the same, so that only pods that want a GPU get in",
        "userData": "it keeps GPUs from containers that asked for none, and EKS adds what a node joins the cluster by",
        "warmPoolConfig": "a stopped node holds no GPU, and starting it may find none left",
    }

    region: Region = Field(description="the region of the cluster, such as us-east-1")
    cluster_name: Input[ClusterName] = Field(description="the name of the EKS cluster")
    kubernetes_version: Input[KubernetesVersion] = Field(
        description="the Kubernetes version of the nodes, the cluster's, such as 1.35"
    )
    subnets: dict[str, Input[SubnetId]] = Field(
        min_length=1, description="the private subnets nodes may be in, each by its zone"
    )
    offerings: dict[str, Input[list[str]]] = Field(
        default={},
        description="the zones that offer each instance type, as getInstanceTypeOfferings answers; AWS publishes no "
        "list, so without it no zone is checked",
    )
    tags: Tags = Field(default={}, description="tags put on everything that takes them")

    profile: Profile | None = Field(
        default=None,
        description="the profile of the AWS command line's configuration by which the group's maximum is changed; by "
        "default the environment's credentials. The same as the AWS provider's",
    )
    role_arn: RoleArn | None = Field(
        default=None, description="the role that is assumed for it; the same as the AWS provider's"
    )
    pool: Pool | None = Field(
        default=None, description="what the label gpu-ci-pool of the nodes says; by default the component's name"
    )

    instance_types: list[str] = Field(
        min_length=1,
        max_length=20,
        description="EC2 instance types with the same GPUs, the smallest first, such as [g6.2xlarge, g6.4xlarge]; for "
        "spot, the more the better",
    )
    market: Literal["spot", "standard", "capacity-block"] = Field(
        default="spot",
        validate_default=True,
        description="how nodes are bought: spot (cheaper, can be taken away), standard or capacity-block (for a time "
        "that was reserved)",
    )
    capacity_reservation_id: ReservationId | None = Field(
        default=None,
        validate_default=True,
        description="the reservation of the capacity block, such as cr-0123456789abcdef0; for market capacity-block",
    )
    zones: list[str] | None = Field(
        default=None,
        validate_default=True,
        min_length=1,
        description="the zones nodes are in, such as [us-east-1a]; by default every one that has a subnet",
    )
    max: Integer = Field(ge=1, le=1000, description="the most nodes there may be at any time, 1 to 1000")
    efa: StrictBool = Field(
        default=False,
        description="whether nodes have EFA interfaces, for jobs over several nodes; in one zone",
    )
    vpc_id: Input[VpcId] | None = Field(
        default=None, validate_default=True, description="the network of the cluster; for efa"
    )
    cluster_security_group_id: Input[SecurityGroupId] | None = Field(
        default=None,
        validate_default=True,
        description="the security group EKS made for the cluster; for efa, as EKS adds it to no node that has others",
    )
    ami_type: str | None = Field(
        default=None,
        validate_default=True,
        description="EKS's image, with an NVIDIA driver; by default AL2023's for the processor",
    )
    release_version: str | None = Field(
        default=None,
        validate_default=True,
        description="the release of the image, such as 1.35.3-20260917; by default the newest when the group is made",
    )
    torch: str | None = Field(
        default=None,
        pattern=r"^[0-9]+\.[0-9]+\.[0-9]+(\+cu[0-9]{3})?$",
        description="the torch of the jobs' images, such as 2.14.0+cu126: checked against the GPU and the driver, and "
        "put nowhere",
    )
    disk_gib: Integer = Field(
        default=100,
        ge=disk.SIZE_GIB[0],
        le=disk.SIZE_GIB[1],
        description="size of the disk that images and jobs share, in GiB, 30 to 65536; EKS's own 20 hold no image with "
        "CUDA and torch beside a second one",
    )
    disk_iops: Integer = Field(
        default=disk.IOPS[0],
        ge=disk.IOPS[0],
        le=disk.IOPS[1],
        description="operations per second of that disk, 3000 to 80000, at most 500 for each GiB",
    )
    disk_throughput_mib: Integer = Field(
        default=disk.THROUGHPUT_MIB[0],
        ge=disk.THROUGHPUT_MIB[0],
        le=disk.THROUGHPUT_MIB[1],
        description="MiB per second of that disk, 125 to 2000, at most a quarter for each of diskIops; an image of "
        "10 GiB takes 80 seconds at 125",
    )
    kms_key_arn: KmsKeyArn | None = Field(
        default=None,
        description="the key the disks are encrypted with; by default AWS's own. Its policy has to let "
        "AWSServiceRoleForAutoScaling use it, or no node starts",
    )
    metadata_hop_limit: Integer = Field(
        default=1,
        ge=1,
        le=2,
        description="1, and no pod of its own network reaches the node's identity; 2 where pods read the instance's "
        "metadata and have no identity of their own",
    )
    session_manager: StrictBool = Field(
        default=False, description="whether AWS Systems Manager may open a shell on nodes"
    )
    cni_policy: StrictBool = Field(
        default=False,
        description="whether nodes may manage network interfaces; only where the VPC CNI has no role of its own",
    )
    node_repair: StrictBool = Field(
        default=True,
        description="whether EKS replaces nodes whose GPU fails; it sees that with the add-on "
        "eks-node-monitoring-agent",
    )

    @field_validator(*_RULES)
    @classmethod
    def _check_against_earlier_fields(cls, value: Any, info: ValidationInfo) -> Any:
        return _RULES[str(info.field_name)](value, info.data)

    @field_validator(*_LISTS, mode="wrap")
    @classmethod
    def _check_entries_against_earlier_fields(
        cls, value: Any, entries: ValidatorFunctionWrapHandler, info: ValidationInfo
    ) -> Any:
        return validate_whole_and_entries(value, entries, partial(_LISTS[str(info.field_name)], others=info.data))

    @classmethod
    def stand_in_wiring(cls, region: str, choices: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "region": region,
            "cluster_name": "ci",
            # Which version the cluster has is looked up later, and a release is held to it then.
            "kubernetes_version": ami.version_of(choices.get("releaseVersion")) or "1.35",
            "subnets": {f"{region}a": "subnet-0123456789abcdef0"},
        }

    @property
    def machines(self) -> tuple[Machine, ...]:
        """The machines nodes can be, the smallest first."""
        return rules.machines_of(dict(self))

    @property
    def chosen_zones(self) -> tuple[str, ...]:
        """The zones nodes are in, chosen or not."""
        return tuple(self.subnets if self.zones is None else self.zones)

    @property
    def chosen_ami_type(self) -> str:
        """The AMI type, chosen or not."""
        return ami.ami_of(dict(self))

    def demand(self, name: str) -> Demand:
        """What the group `name` asks of AWS when every node is of the largest type; its cost and the quotas it needs
        follow from it."""
        largest = max(self.machines, key=lambda machine: machine.vcpus)
        return Demand(
            pool=name,
            machine=largest,
            others=tuple(each for each in self.machines if each != largest),
            market=catalog.market(self.market),
            region=self.region,
            max_machines=self.max,
            boot_disk="gp3",
            boot_disk_gib=self.disk_gib,
        )
