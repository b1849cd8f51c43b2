"""AWS's refusals because of an existing resource: the name is taken, or another resource uses the deleted one.

The messages are the usual ones of EKS, EC2 and IAM. In contrast to eks/errors.py, they have no source.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pulumi_sandbox.providers.aws import types
from pulumi_sandbox.providers.aws.eks import errors as eks_errors
from pulumi_sandbox.providers.aws.imagebuilder import references as image_builder
from pulumi_sandbox.providers.inputs import text_of
from pulumi_sandbox.world.store import World


def name_in_use(world: World, token: str, inputs: dict[str, Any], arn: str = "") -> Iterator[str]:
    """Yield AWS's refusal if the name is in use. `arn` is the ARN of the new resource, if the ARN is its id."""
    name, cluster = text_of(inputs, "name"), text_of(inputs, "clusterName")
    match token:
        case types.NODE_GROUP if world.get(token, group := f"{cluster}:{text_of(inputs, 'nodeGroupName')}"):
            text = f"NodeGroup already exists with name {group.partition(':')[2]} and cluster name {cluster}"
            yield eks_errors.creating(group, eks_errors.IN_USE, text)
        case types.ACCESS_ENTRY if world.get(token, entry := f"{cluster}:{text_of(inputs, 'principalArn')}"):
            text = f"{eks_errors.IN_USE}: The specified access entry resource is already in use on this cluster."
            yield f"creating EKS Access Entry ({entry}): operation error EKS: CreateAccessEntry, {text}"
        case types.CLUSTER if world.get(token, name):
            text = f"{eks_errors.IN_USE}: Cluster already exists with name: {name}"
            yield f"creating EKS Cluster ({name}): operation error EKS: CreateCluster, {text}"
        case types.ROLE if name and world.get(token, name):
            text = f"EntityAlreadyExists: Role with name {name} already exists."
            yield f"creating IAM Role ({name}): operation error IAM: CreateRole, {text}"
        case types.OIDC_PROVIDER if any(_issuer(one.inputs) == _issuer(inputs) for one in world.find(token)):
            # docs.aws.amazon.com/IAM/latest/APIReference/API_CreateOpenIDConnectProvider.html: the URL is unique in the
            # account.
            text = f"EntityAlreadyExists: Provider with url {text_of(inputs, 'url')} already exists."
            yield f"creating IAM OIDC Provider: operation error IAM: CreateOpenIDConnectProvider, {text}"
        case types.LAUNCH_TEMPLATE if name and world.find(token, name=name):
            text = "InvalidLaunchTemplateName.AlreadyExistsException: Launch template name already in use."
            yield f"creating EC2 Launch Template ({name}): operation error EC2: CreateLaunchTemplate, api error {text}"

        case _ if token in image_builder.NAMES and world.find(token, arn=arn):
            yield image_builder.refusal(token, inputs, f"ResourceAlreadyExistsException: {arn} already exists.")


def _issuer(inputs: dict[str, Any]) -> str:
    return text_of(inputs, "url").removeprefix("https://").rstrip("/")


def delete_blockers(world: World, token: str, identity: str) -> Iterator[str]:
    """Yield AWS's refusal to delete a resource that is in use."""
    match token:
        case types.CLUSTER if world.find(types.NODE_GROUP, clusterName=identity):
            text = f"{eks_errors.IN_USE}: Cluster has nodegroups attached"
            yield f"deleting EKS Cluster ({identity}): operation error EKS: DeleteCluster, {text}"
        case _ if token in image_builder.NAMES:
            yield from image_builder.delete_blockers(world, token, identity)
        case types.ROLE if world.find(types.ATTACHMENT, role=identity):
            text = "DeleteConflict: Cannot delete entity, must detach all policies first."
            yield f"deleting IAM Role ({identity}): operation error IAM: DeleteRole, {text}"
