"""The kind of cluster `eks`: its fields in a stack file, their checks, and the arguments that pools get from a cluster.

The wiring of a pool is the arguments that the program adds to the fields of the stack file. Pulumi's AWS package is
loaded when a cluster is looked up, so the check of a stack file does not need it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import pulumi
from gpu_catalog import region_of
from pydantic import Field, ValidationInfo, field_validator

from .. import naming, versions
from ..args import OPEN
from ..errors import ArgsError, Problem, at_path, invalid, raise_problems
from ..kubernetes.cluster import Cluster, Connection, PoolEntry, kubeconfig_with_program, wrong_gpu_resource
from ..kubernetes.device_plugin import DevicePlugin, DevicePluginArgs, resource_of
from ..kubernetes.gpu_nodes import RESOURCE
from .nodes import rules
from .resource_names import SUBNET, ZONE, Profile, Region, RoleArn, SubnetId, partition

if TYPE_CHECKING:
    import pulumi_aws as aws

    from ..kinds.eks.args import EksRunnerPoolArgs

# awslabs/amazon-eks-ami@81fec2e:nodeadm/internal/containerd/config.go, EnableCDI.
_CDI_SINCE = (1, 32)
_DEVICE_LISTS = "deviceListStrategy"
_STRATEGY_HINT = "remove it: the default, volume-mounts, works on nodes of every pool"
"""A hint for settings of the device plugin that nodes of pools do not use."""


class EksCluster(Cluster):
    """An existing EKS cluster, and the settings that its pools share."""

    CLUSTER_KIND: ClassVar[str] = "eks"
    EXAMPLE: ClassVar[dict[str, Any]] = {
        "region": "us-east-1",
        "subnets": {"us-east-1a": "subnet-0123456789abcdef0"},
    }
    NAMESPACES: ClassVar[Mapping[str, str]] = {**Cluster.NAMESPACES, "device_plugin": "device plugin"}
    BUCKETS: ClassVar[str] = "s3"
    # docs.aws.amazon.com/eks/latest/userguide/pod-id-agent-setup.html.
    CREDENTIALS: ClassVar[Mapping[str, int]] = {"169.254.170.23/32": 80}

    kind: Literal["eks"] = Field(default="eks", description="a cluster of Amazon EKS; a cluster without kind is one")
    region: Region = Field(description="the region of the cluster, such as us-east-1")
    subnets: dict[str, SubnetId] = Field(
        min_length=1,
        description="a private subnet of the cluster's network for each zone that nodes may use, as "
        "subnet- and 8 or 17 hexadecimal digits",
    )
    profile: Profile | None = Field(
        default=None,
        description="the profile of the AWS CLI for the account of the cluster and its pools; by default the stack's "
        "aws: settings, and the environment's credentials for the cluster itself",
    )
    role_arn: RoleArn | None = Field(
        default=None,
        description="the IAM role to assume for the cluster and its pools, with the credentials of the profile or the "
        "environment",
        examples=["arn:aws:iam::123456789012:role/gpu-ci-deployer"],
    )
    device_plugin: DevicePluginArgs = Field(
        default=DevicePluginArgs(), description="NVIDIA's device plugin, which makes GPUs available to pods"
    )

    @field_validator("subnets")
    @classmethod
    def _subnets(cls, value: dict[str, SubnetId], info: ValidationInfo) -> dict[str, SubnetId]:
        return rules.subnets(value, info.data)

    @field_validator("device_plugin")
    @classmethod
    def _device_plugin(cls, value: DevicePluginArgs) -> DevicePluginArgs:
        return _supported_strategy(value)

    @classmethod
    def known_wiring(cls, described: Mapping[str, Any]) -> dict[str, Any]:
        """Return the region, and the subnets by zone."""
        region, subnets = described.get("region"), described.get("subnets")
        zones = _known_subnets(subnets, region) if isinstance(subnets, Mapping) else {}
        return {
            **({"region": region} if isinstance(region, str) else {}),
            **({"subnets": zones} if zones else {}),
        }

    @classmethod
    def problems_with_pools(cls, path: str, described: Mapping[str, Any], pools: Sequence[PoolEntry]) -> list[Problem]:
        plugin = described.get("devicePlugin")
        given = plugin if isinstance(plugin, Mapping) else {}
        return _pools_without_plugin(path, given, pools) + _wrong_gpu_resources(path, given, pools)

    @classmethod
    def marks(cls, described: Mapping[str, Any], project: str) -> set[str]:  # noqa: ARG003 - GKE uses it
        """Return the subnets. Clusters of several accounts may have one name in one region, but share no subnet."""
        subnets = described.get("subnets")
        return {*map(str, subnets.values())} if isinstance(subnets, Mapping) else set()

    def connect(self, name: str, path: str, file: str) -> EksConnection:
        return EksConnection(self, name, path, file)


class EksConnection(Connection):
    """An EKS cluster that was looked up."""

    def __init__(self, described: EksCluster, name: str, path: str, file: str) -> None:
        import pulumi_aws as aws

        self._described, self._path, self._file = described, path, file
        account = _account(naming.fit(name, 30), described)
        self.providers = [account] if account else []
        self._lookups = pulumi.InvokeOptions(provider=account)
        self._found = aws.eks.get_cluster_output(name=name, region=described.region, opts=self._lookups)
        self.kubeconfig = _kubeconfig(name, described, self._found)

    def create_shared(
        self, short_name: str, pools: Sequence[tuple[str, Any]], options: pulumi.ResourceOptions
    ) -> list[pulumi.Resource]:
        """Create the device plugin. Nodes of some AMI types have their own plugin."""
        settings = self._described.device_plugin
        own_plugin = [pool for pool, args in pools if args.chosen_ami_type.startswith("BOTTLEROCKET")]
        built_in_pools = sorted({*settings.built_in_pools, *own_plugin})
        with_pools = settings.model_copy(update={"built_in_pools": built_in_pools})
        return [DevicePlugin(f"{short_name}-plugin", with_pools, options)]

    def wiring(self, pools: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        described, found = self._described, self._found
        return {
            "kubernetes_version": self._checked_version(pools),
            "vpc_id": found.vpc_config.vpc_id,
            "cluster_security_group_id": found.vpc_config.cluster_security_group_id,
            **(_joining(found) if any(args.ami_id for _, args in pools) else {}),
            # A change of this text repeats the check of every pool. So it does not include the list of pools on which
            # the plugin does not run.
            "device_plugin": f"{versions.DEVICE_PLUGIN_CHART} {described.device_plugin.model_dump_json()}",
            "profile": described.profile,
            "role_arn": described.role_arn,
        }

    def pool_wiring(self, args: EksRunnerPoolArgs) -> dict[str, Any]:
        """Return the zones that offer each instance type of the pool, looked up at AWS."""
        return {"offerings": _offerings(args.instance_types, args.region, self._lookups)}

    def grant_bucket(self, name: str, url: str, account: tuple[str, str]) -> list[pulumi.Resource]:
        """Create a role with access to the folder, and associate it with the account by EKS Pod Identity.

        docs.aws.amazon.com/eks/latest/userguide/pod-id-role.html.
        """
        import pulumi_aws as aws

        region = self._described.region
        bucket, _, folder = url.partition("://")[2].rstrip("/").partition("/")
        arn = f"arn:{partition(region)}:s3:::{bucket}"
        objects = f"{folder}/*" if folder else "*"
        statements: list[dict[str, Any]] = [
            {
                "Effect": "Allow",
                "Action": ["s3:AbortMultipartUpload", "s3:DeleteObject", "s3:GetObject", "s3:PutObject"],
                "Resource": f"{arn}/{objects}",
            },
            {
                "Effect": "Allow",
                "Action": "s3:ListBucket",
                "Resource": arn,
                "Condition": {"StringLike": {"s3:prefix": objects}},
            },
        ]
        trust = {
            "Effect": "Allow",
            "Principal": {"Service": "pods.eks.amazonaws.com"},
            "Action": ["sts:AssumeRole", "sts:TagSession"],
        }
        options = pulumi.ResourceOptions(providers=list(self.providers))
        role = aws.iam.Role(
            f"{name}-role",
            description=f"Tasks of the notebook pipeline {name}: {url}",
            assume_role_policy=_policy([trust]),
            opts=options,
        )
        rights = aws.iam.RolePolicy(f"{name}-bucket", role=role.name, policy=_policy(statements), opts=options)
        namespace, service_account = account
        association = aws.eks.PodIdentityAssociation(
            f"{name}-account",
            cluster_name=self._found.name,
            namespace=namespace,
            service_account=service_account,
            role_arn=role.arn,
            region=region,
            opts=options,
        )
        return [rights, association]

    def pipeline_wiring(self) -> dict[str, Any]:
        return {
            "kubernetes_version": self._found.version,
            "vpc_id": self._found.vpc_config.vpc_id,
            "subnet_id": next(iter(self._described.subnets.values())),
        }

    def _checked_version(self, pools: Sequence[tuple[str, EksRunnerPoolArgs]]) -> pulumi.Output[str]:
        """Return the Kubernetes version of the cluster.

        Fail if AL2023 nodes of this version do not support cdi-cri.
        """
        strategy = self._described.device_plugin.device_list_strategy
        on = [pool for pool, args in pools if args.chosen_ami_type.startswith("AL2023")]

        def check(found: str) -> str:
            if strategy == "cdi-cri" and on and tuple(map(int, found.split("."))) < _CDI_SINCE:
                problem = Problem(
                    f"{self._path}.devicePlugin.{_DEVICE_LISTS}",
                    f"gives jobs of {', '.join(on)} no GPU: containerd has CDI off on AL2023 with Kubernetes {found}",
                    "'cdi-cri'",
                    "volume-mounts, or Kubernetes 1.32 or newer",
                    _STRATEGY_HINT,
                    rule="no-gpu-with-cdi",
                )
                raise pulumi.RunError(problem.render(self._file))
            return found

        return self._found.version.apply(check)


def _policy(statements: list[dict[str, Any]]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


def _supported_strategy(plugin: DevicePluginArgs) -> DevicePluginArgs:
    """Return the settings of the device plugin. Raise an error for the strategy envvar.

    With envvar, the plugin assigns GPUs by the variable NVIDIA_VISIBLE_DEVICES. Nodes of pools ignore this variable,
    because otherwise any image could get GPUs with it (nodes/user_data.py).
    """
    if (strategy := plugin.device_list_strategy) == "envvar":
        error = invalid(
            "gives jobs no GPU: nodes of pools ignore NVIDIA_VISIBLE_DEVICES",
            "no-gpu-with-envvar",
            expected="volume-mounts or cdi-cri",
            hint=_STRATEGY_HINT,
        )
        raise_problems([at_path(error, strategy, _DEVICE_LISTS)])
    return plugin


def _known_subnets(given: Mapping[str, Any], region: Any) -> dict[str, Any]:
    """Return the subnets of the region by zone. An invalid subnet is OPEN, so that no zone is missing."""
    found: dict[str, Any] = {}
    for zone, subnet in given.items():
        in_order = isinstance(subnet, str) and re.fullmatch(SUBNET, subnet) and subnet not in found.values()
        if re.fullmatch(ZONE, zone) and (not isinstance(region, str) or region_of(zone) == region):
            found[zone] = subnet if in_order else OPEN
    return found


def _pools_without_plugin(path: str, plugin: Mapping[str, Any], pools: Sequence[PoolEntry]) -> list[Problem]:
    """Report pools in `builtInPools` whose nodes have no device plugin of their own.

    The stack's plugin does not run on the nodes of these pools, so they would have no plugin at all.
    """
    built_in_pools = plugin.get("builtInPools")
    without = {pool.name for pool in pools if not _has_built_in_plugin(pool)}
    return [
        Problem(
            f"{path}.devicePlugin.builtInPools[{at}]",
            "has nodes without a built-in device plugin: the check of the pool would wait for GPUs until its deadline",
            repr(pool),
            "pools with Bottlerocket in other stacks; such pools of this stack are added automatically",
            "remove it",
            rule="no-device-plugin",
        )
        for at, pool in enumerate(built_in_pools if isinstance(built_in_pools, list) else ())
        if isinstance(pool, str) and pool in without
    ]


def _wrong_gpu_resources(path: str, plugin: Mapping[str, Any], pools: Sequence[PoolEntry]) -> list[Problem]:
    """Report resource names of GPUs that the nodes do not offer. Pods would stay pending, without an error."""
    try:
        given = resource_of(DevicePluginArgs(sharing=plugin.get("sharing", {"kind": "none"})).sharing)
    except ArgsError:
        return []  # the check of the cluster's fields already reports this
    placed = [pool for pool in pools if not _has_built_in_plugin(pool)]
    if given != RESOURCE and placed:
        return [
            Problem(
                f"{path}.devicePlugin.sharing",
                f"gives GPUs another name, and the check of {', '.join(pool.name for pool in placed)} would wait for "
                f"{RESOURCE} until its deadline",
                f"{given}…" if given.endswith("-") else given,
                f"{RESOURCE}, which the check of a pool requests",
                "renameByDefault: false, or strategy: single for MIG",
                rule="renamed-gpus",
            )
        ]
    return [found for pool in pools for found in wrong_gpu_resource(pool, str(pool.choices["clusterName"]))]


def _has_built_in_plugin(pool: PoolEntry) -> bool:
    """Return True if the nodes have their own device plugin, as Bottlerocket does."""
    return str(pool.choices.get("amiType", "")).startswith("BOTTLEROCKET")


def _account(short_name: str, described: EksCluster) -> aws.Provider | None:
    """Return the AWS provider for a cluster with its own profile or role.

    Return None for other clusters, which use the stack's `aws:` settings.
    """
    if not described.profile and not described.role_arn:
        return None
    import pulumi_aws as aws

    roles = [aws.ProviderAssumeRoleArgs(role_arn=described.role_arn)] if described.role_arn else None
    return aws.Provider(f"{short_name}-account", region=described.region, profile=described.profile, assume_roles=roles)


def _kubeconfig(name: str, described: EksCluster, found: pulumi.Output[aws.eks.GetClusterResult]) -> pulumi.Output[str]:
    """Return the kubeconfig of a cluster. The command `aws eks get-token` returns the credentials."""
    role = ["--role-arn", described.role_arn] if described.role_arn else []
    arguments = ["--region", described.region, "eks", "get-token", "--cluster-name", name, "--output", "json", *role]
    program: dict[str, Any] = {"command": "aws", "args": arguments}
    if described.profile:
        program["env"] = [{"name": "AWS_PROFILE", "value": described.profile}]
    return found.apply(
        lambda each: kubeconfig_with_program(name, each.endpoint, each.certificate_authorities[0].data, program)
    )


def _joining(found: pulumi.Output[aws.eks.GetClusterResult]) -> dict[str, Any]:
    """Return the arguments with which a node of an image of the user's own joins the cluster."""
    network = found.kubernetes_network_configs[0]
    return {
        "cluster_endpoint": found.endpoint,
        "cluster_certificate": found.certificate_authorities[0].data,
        # A cluster has either IPv4 or IPv6 services.
        "service_cidr": network.apply(lambda each: str(each.service_ipv4_cidr or each.service_ipv6_cidr)),
    }


def _offerings(
    instance_types: Sequence[str], region: str, lookups: pulumi.InvokeOptions
) -> dict[str, pulumi.Output[list[str]]]:
    """Return the zones that offer each instance type, looked up at AWS."""
    import pulumi_aws as aws

    found = aws.ec2.get_instance_type_offerings_output(
        location_type="availability-zone",
        filters=[{"name": "instance-type", "values": list(instance_types)}],
        region=region,
        opts=lookups,
    )

    def zones_of(name: str) -> pulumi.Output[list[str]]:
        return found.apply(
            lambda offers: sorted(
                zone for zone, each in zip(offers.locations, offers.instance_types, strict=True) if each == name
            )
        )

    return {name: zones_of(name) for name in instance_types}
