"""The arguments of GpuNodeGroup, a node group with GPUs: its instance types, image, disk and zones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, cast

import gpu_catalog as catalog
from gpu_catalog import Demand, Machine
from pydantic import Field, ValidationInfo, field_validator

from ...args import Input, Integer, StrictBool
from ...kubernetes.name_types import Pool, TorchOfJobs
from ...pool_args import CheckMachine, PoolArgs
from ..resource_names import (
    AmiId,
    Base64,
    Cidr,
    ClusterName,
    Endpoint,
    KmsKeyArn,
    KubernetesVersion,
    Profile,
    Region,
    ReservationId,
    RoleArn,
    SecurityGroupId,
    SubnetId,
    Tags,
    VpcId,
)
from . import ami, rules

# The validators of fields that depend on earlier fields.
_RULES: dict[str, Any] = {
    "region": rules.region,
    "subnets": rules.subnets,
    "instance_types": rules.instance_types,
    "zones": rules.zones,
    "market": rules.market,
    "capacity_reservation_id": rules.capacity_reservation_id,
    "efa": rules.efa,
    "vpc_id": rules.needed_by_efa,
    "cluster_security_group_id": rules.needed_by_efa,
    "ami_type": ami.ami_type,
    "ami_id": ami.ami_id,
    "cluster_endpoint": ami.needed_by_ami_id,
    "cluster_certificate": ami.needed_by_ami_id,
    "service_cidr": ami.needed_by_ami_id,
    "release_version": ami.release_version,
    "torch": ami.torch,
    "kms_key_arn": rules.kms_key_arn,
    "disk_iops": rules.iops,
    "disk_throughput_mib": rules.throughput,
    "instance_store": rules.instance_store,
    "parallel_image_pull": ami.parallel_image_pull,
}


class GpuNodeGroupArgs(PoolArgs):
    """The arguments of a managed node group with GPUs."""

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
            "cluster_endpoint",
            "cluster_certificate",
            "service_cidr",
            "pool",
            "unproven",
            "profile",
            "role_arn",
        }
    )

    region: Region = Field(description="the region of the cluster, such as us-east-1")
    cluster_name: Input[ClusterName] = Field(description="the name of the EKS cluster")
    kubernetes_version: Input[KubernetesVersion] = Field(
        description="the Kubernetes version of the cluster and its nodes, such as 1.35"
    )
    subnets: dict[str, Input[SubnetId]] = Field(min_length=1, description="the private subnets of the nodes, by zone")
    offerings: dict[str, Input[list[str]]] = Field(
        default={},
        description="the zones that offer each instance type, as returned by getInstanceTypeOfferings; by default "
        "zones are not checked, because AWS publishes no list of the zones",
    )
    tags: Tags = Field(default={}, description="tags of every resource that supports tags")

    profile: Profile | None = Field(
        default=None,
        description="the AWS CLI profile for changes of the group's maximum; by default the environment's "
        "credentials; use the same profile as the AWS provider",
    )
    role_arn: RoleArn | None = Field(
        default=None, description="the role to assume for these changes; use the same role as the AWS provider"
    )
    pool: Pool | None = Field(
        default=None, description="the value of the nodes' label gpu-ci-pool; by default the component's name"
    )
    unproven: StrictBool = Field(
        default=False,
        description="whether nodes start with the taint of unproven nodes",
    )

    instance_types: list[str] = Field(
        min_length=1,
        max_length=20,
        description="EC2 instance types with the same GPUs, the smallest first, such as [g6.2xlarge, g6.4xlarge]; "
        "for spot, more types are better",
    )
    market: Literal["spot", "standard", "capacity-block"] = Field(
        default="spot",
        validate_default=True,
        description="how nodes are bought: spot (cheaper, can be interrupted), standard or capacity-block (for a "
        "reserved time)",
    )
    capacity_reservation_id: ReservationId | None = Field(
        default=None,
        validate_default=True,
        description="the capacity reservation of the capacity block, such as cr-0123456789abcdef0; for market "
        "capacity-block",
    )
    zones: list[str] | None = Field(
        default=None,
        validate_default=True,
        min_length=1,
        description="the zones of the nodes, such as [us-east-1a]; by default all zones with a subnet",
    )
    max: Integer = Field(ge=1, le=1000, description="the maximum number of nodes at any time, 1 to 1000")
    efa: StrictBool = Field(
        default=False,
        description="whether nodes have EFA interfaces, for jobs on several nodes; requires one zone",
    )
    vpc_id: Input[VpcId] | None = Field(
        default=None, validate_default=True, description="the VPC of the cluster; for efa"
    )
    cluster_security_group_id: Input[SecurityGroupId] | None = Field(
        default=None,
        validate_default=True,
        description="the security group that EKS created for the cluster; for efa, because EKS does not add it to "
        "nodes with other security groups",
    )
    ami_type: str | None = Field(
        default=None,
        validate_default=True,
        description="the EKS AMI type, with an NVIDIA driver; by default the AL2023 type for the architecture",
    )
    ami_id: AmiId | None = Field(
        default=None,
        validate_default=True,
        examples=["ami-0123456789abcdef0"],
        description="an image of your own, such as ami-0123456789abcdef0, built from EKS's AL2023 image with NVIDIA "
        "driver for the Kubernetes version of the cluster, as aws.GpuAmiPipeline builds it; by default EKS's image",
    )
    cluster_endpoint: Input[Endpoint] | None = Field(
        default=None,
        validate_default=True,
        description="the address of the cluster's API server; for amiId, because EKS adds it only to its own images",
    )
    cluster_certificate: Input[Base64] | None = Field(
        default=None,
        validate_default=True,
        description="the certificate authority of the cluster, in base64; for amiId",
    )
    service_cidr: Input[Cidr] | None = Field(
        default=None, validate_default=True, description="the address range of the cluster's services; for amiId"
    )
    release_version: str | None = Field(
        default=None,
        validate_default=True,
        description="the release of the image, such as 1.35.3-20260917; by default the newest release at the creation "
        "of the group",
    )
    torch: TorchOfJobs = None
    disk_gib: Integer = Field(
        default=100,
        ge=rules.SIZE_GIB[0],
        le=rules.SIZE_GIB[1],
        description="size of the disk for images and jobs in GiB, 30 to 65536; EKS's default of 20 is too small for "
        "two images with CUDA and torch",
    )
    disk_iops: Integer = Field(
        default=rules.IOPS[0],
        ge=rules.IOPS[0],
        le=rules.IOPS[1],
        description="IOPS of that disk, 3000 to 80000, at most 500 per GiB",
    )
    disk_throughput_mib: Integer = Field(
        default=rules.THROUGHPUT_MIB[0],
        ge=rules.THROUGHPUT_MIB[0],
        le=rules.THROUGHPUT_MIB[1],
        description="throughput of that disk in MiB/s, 125 to 2000, at most a quarter of diskIops; reading an image "
        "of 10 GiB takes 80 seconds at 125",
    )
    instance_store: StrictBool = Field(
        default=False,
        description="whether images and the files of pods are on the local NVMe disks of the instance, as one RAID 0 "
        "array, instead of that disk; all of them are empty on each new node",
    )
    parallel_image_pull: StrictBool = Field(
        default=False,
        description="whether nodes download and unpack the layers of an image in parallel (SOCI; FastImagePull on "
        "AL2023, experimental), with more CPU and memory during a pull; requires at least 8 vCPUs, and 600 for "
        "diskThroughputMib",
    )
    kms_key_arn: KmsKeyArn | None = Field(
        default=None,
        description="the KMS key that encrypts the disks; by default AWS's own key. The key's policy must allow its "
        "use by AWSServiceRoleForAutoScaling, or no node starts",
    )
    metadata_hop_limit: Integer = Field(
        default=1,
        ge=1,
        le=2,
        description="hop limit of the instance metadata service: with 1, pods without host network cannot use the "
        "node's role; set 2 if pods read instance metadata and have no role of their own",
    )
    session_manager: StrictBool = Field(
        default=False, description="whether AWS Systems Manager may open a shell on nodes"
    )
    cni_policy: StrictBool = Field(
        default=False,
        description="whether nodes may manage network interfaces; only needed if the VPC CNI has no role of its own",
    )
    node_repair: StrictBool = Field(
        default=True,
        description="whether EKS replaces nodes with a failed GPU; requires the add-on eks-node-monitoring-agent",
    )

    @field_validator(*_RULES)
    @classmethod
    def _check_with_earlier_fields(cls, value: Any, info: ValidationInfo) -> Any:
        return _RULES[str(info.field_name)](value, info.data)

    @property
    def machines(self) -> tuple[Machine, ...]:
        """The possible machines of the nodes, the smallest first."""
        return rules.machines_of(dict(self))

    @property
    def check_machine(self) -> CheckMachine | None:
        return CheckMachine(self.instance_types[0], self.machines[0], list(self.chosen_zones))

    @property
    def chosen_zones(self) -> tuple[str, ...]:
        """The zones of the nodes: the given zones, or the default."""
        return tuple(self.subnets if self.zones is None else self.zones)

    @property
    def chosen_ami_type(self) -> str:
        """The AMI type: the given type, or the default."""
        return ami.ami_of(dict(self))

    @property
    def pod_disk_gib(self) -> int:
        """The size of the disk with the images and the files of pods, on the node with the smallest disk."""
        return cast("int", rules.for_pods_gib(dict(self)))  # the fields of valid arguments are valid

    @property
    def alternatives(self) -> Sequence[str]:
        return self.instance_types

    def demand(self, name: str) -> Demand | None:
        """Return the machines of the group `name`, to compute its cost and its quotas.

        Every node has the largest type.
        """
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
