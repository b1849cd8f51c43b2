"""An EKS cluster as a stack file describes it. Its model brings the packages of AWS and Kubernetes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, ClassVar

from pydantic import Field, ValidationInfo, ValidatorFunctionWrapHandler, field_validator

from ..args import Args, StrictBool
from ..aws.nodes import rules
from ..aws.resource_names import Profile, Region, RoleArn, SubnetId
from ..errors import at_path, invalid, raise_problems, validate_whole_and_entries
from ..gcp.resource_names import SecretName as SecretManagerName
from ..kubernetes.arc_controller import ArcControllerArgs
from ..kubernetes.device_plugin import DevicePluginArgs
from ..kubernetes.name_types import EachOnce, NamespaceName, Registry, SecretName
from ..kubernetes.network_rules import PrivateRange

DEVICE_LISTS = "deviceListStrategy"
WHAT_NODES_TAKE = "leave it out: volume-mounts is what nodes of every pool take"
"""A hint for what nodes are told by in another way."""


class RegistryLogin(Args):
    """The login of one registry, whose password is named and not given."""

    name: SecretName = Field(examples=["ghcr"], description="the name by which runner.imagePullSecrets takes it")
    registry: Registry = Field(examples=["ghcr.io"], description="the registry's host, such as ghcr.io")
    username: str = Field(min_length=1, examples=["acme-bot"], description="who logs in")
    password: SecretManagerName = Field(
        examples=["projects/acme-ci/secrets/ghcr-token"],
        description="the secret of Secret Manager with the password or token, as projects/<project>/secrets/<name>",
    )


class Cluster(Args):
    """An EKS cluster that exists, and what the pools on it share."""

    EXAMPLE: ClassVar[dict[str, Any]] = {
        "region": "us-east-1",
        "subnets": {"us-east-1a": "subnet-0123456789abcdef0"},
    }

    region: Region = Field(description="the region it is in, such as us-east-1")
    subnets: dict[str, SubnetId] = Field(
        min_length=1, description="for each zone that nodes may be in, a private subnet of the cluster's network"
    )
    profile: Profile | None = Field(
        default=None,
        description="the profile of the AWS command line's configuration for the cluster and its pools, whose account "
        "they are in; by default the stack's aws: settings, and the environment's credentials for the cluster itself",
    )
    role_arn: RoleArn | None = Field(
        default=None, description="the role that is assumed for them, by the profile or the environment"
    )
    managed: StrictBool = Field(
        default=True,
        description="whether this stack makes what pools of all stacks share on the cluster, the device plugin and the "
        "controller; false where another stack does, which describes both in the same words",
    )
    namespace: NamespaceName = Field(
        default="gpu-ci", description="the namespace that is made for the runners of its pools; each stack has its own"
    )
    private_ranges: Annotated[list[PrivateRange], EachOnce] = Field(
        default=[],
        description="private addresses its runners reach, such as a registry's endpoint or, for runners of kind "
        "kubernetes or kubernetes-novolume, the cluster's API server",
    )
    network_policies: StrictBool = Field(
        default=True,
        description="whether the cluster enforces network policies, which the check of each pool then proves where "
        "privateRanges names none; with false, jobs reach private addresses",
    )
    image_pull_secrets: list[RegistryLogin] = Field(
        default=[], description="logins of registries with private images, each a Secret in the namespace"
    )
    device_plugin: DevicePluginArgs = Field(
        default=DevicePluginArgs(), description="NVIDIA's device plugin, by which the cluster knows of its GPUs"
    )
    controller: ArcControllerArgs = Field(
        default=ArcControllerArgs(), description="GitHub's Actions Runner Controller, which starts the runners"
    )

    @field_validator("subnets", mode="wrap")
    @classmethod
    def _subnets(cls, value: Any, entries: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
        return validate_whole_and_entries(value, entries, partial(rules.subnets, others=info.data))

    @field_validator("device_plugin", mode="wrap")
    @classmethod
    def _device_plugin(cls, value: Any, choices: ValidatorFunctionWrapHandler) -> Any:
        return validate_whole_and_entries(value, choices, _taken)


def _taken(plugin: DevicePluginArgs | Mapping[str, Any]) -> DevicePluginArgs | Mapping[str, Any]:
    """Not by the variable that nodes of pools refuse, so that no image gets GPUs by it (aws/nodes/user_data.py)."""
    strategy = plugin.device_list_strategy if isinstance(plugin, DevicePluginArgs) else plugin.get(DEVICE_LISTS)
    if strategy == "envvar":
        error = invalid(
            "gives jobs no GPU: nodes of pools take none from NVIDIA_VISIBLE_DEVICES",
            expected="volume-mounts or cdi-cri",
            hint=WHAT_NODES_TAKE,
        )
        raise_problems([at_path(error, strategy, DEVICE_LISTS)])
    return plugin
