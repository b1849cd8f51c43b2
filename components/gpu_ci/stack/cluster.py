"""The model of an EKS cluster in a stack file. The import loads Pulumi's packages for AWS and Kubernetes."""

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
STRATEGY_HINT = "remove it: the default, volume-mounts, works on nodes of every pool"
"""A hint for settings of the device plugin that nodes of pools do not use."""


class RegistryLogin(Args):
    """The login of one registry, with the name of the secret that holds the password."""

    name: SecretName = Field(examples=["ghcr"], description="the name that runner.imagePullSecrets refers to")
    registry: Registry = Field(examples=["ghcr.io"], description="the registry's host, such as ghcr.io")
    username: str = Field(min_length=1, examples=["acme-bot"], description="the user name")
    password: SecretManagerName = Field(
        examples=["projects/acme-ci/secrets/ghcr-token"],
        description="the secret of Secret Manager with the password or token, as projects/<project>/secrets/<name>",
    )


class Cluster(Args):
    """An existing EKS cluster, and the settings that its pools share."""

    EXAMPLE: ClassVar[dict[str, Any]] = {
        "region": "us-east-1",
        "subnets": {"us-east-1a": "subnet-0123456789abcdef0"},
    }

    region: Region = Field(description="the region of the cluster, such as us-east-1")
    subnets: dict[str, SubnetId] = Field(
        min_length=1, description="a private subnet of the cluster's network for each zone that nodes may use"
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
    )
    managed: StrictBool = Field(
        default=True,
        description="true if this stack creates the device plugin and the controller, which all stacks on the cluster "
        "share; false if another stack creates them, with the same devicePlugin and controller settings",
    )
    namespace: NamespaceName = Field(
        default="gpu-ci",
        description="the namespace that is created for the runners of its pools; each stack needs its own",
    )
    private_ranges: Annotated[list[PrivateRange], EachOnce] = Field(
        default=[],
        description="private addresses that its runners may connect to, such as a registry's endpoint. Runners of "
        "kind kubernetes or kubernetes-novolume need the cluster's API server",
    )
    network_policies: StrictBool = Field(
        default=True,
        description="true if the cluster enforces network policies. Without privateRanges, the check of each pool "
        "verifies this. With false, jobs can connect to private addresses",
    )
    image_pull_secrets: list[RegistryLogin] = Field(
        default=[], description="logins of registries with private images, each a Secret in the namespace"
    )
    device_plugin: DevicePluginArgs = Field(
        default=DevicePluginArgs(), description="NVIDIA's device plugin, which makes GPUs available to pods"
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
        return validate_whole_and_entries(value, choices, _supported_strategy)


def _supported_strategy(plugin: DevicePluginArgs | Mapping[str, Any]) -> DevicePluginArgs | Mapping[str, Any]:
    """Return the settings of the device plugin. Raise an error for the strategy envvar.

    With envvar, the plugin assigns GPUs by the variable NVIDIA_VISIBLE_DEVICES. Nodes of pools ignore this variable,
    because otherwise any image could get GPUs with it (aws/nodes/user_data.py).
    """
    strategy = plugin.device_list_strategy if isinstance(plugin, DevicePluginArgs) else plugin.get(DEVICE_LISTS)
    if strategy == "envvar":
        error = invalid(
            "gives jobs no GPU: nodes of pools ignore NVIDIA_VISIBLE_DEVICES",
            expected="volume-mounts or cdi-cri",
            hint=STRATEGY_HINT,
        )
        raise_problems([at_path(error, strategy, DEVICE_LISTS)])
    return plugin
