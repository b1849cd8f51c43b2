"""AWS's refusals because of another resource: it is missing or has the same name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pulumi_sandbox.providers.aws import types
from pulumi_sandbox.providers.aws.eks import node_groups
from pulumi_sandbox.providers.aws.world import ExistingResources
from pulumi_sandbox.providers.inputs import rows, text_of
from pulumi_sandbox.world.store import World

Inputs = dict[str, Any]


def missing_references(existing: ExistingResources, token: str, inputs: Inputs) -> Iterator[str]:
    """Yield the refusals because of clusters and subnets of a node group, and of the image of a tag."""
    if token == types.NODE_GROUP:
        cluster, group = text_of(inputs, "clusterName"), text_of(inputs, "nodeGroupName")
        if not existing.has_cluster(cluster):
            text = node_groups.NO_CLUSTER.format(cluster)
            error = node_groups.refused(f"{cluster}:{group}", node_groups.NOT_FOUND, text)
            yield f"{error}{hint(f'cluster/{cluster}')}"
        for subnet in rows(inputs.get("subnetIds")):
            if not existing.exists(subnet):
                text = f"The subnet ID '{subnet}' does not exist"
                yield f"{node_groups.refused(f'{cluster}:{group}', node_groups.INVALID, text)}{hint(subnet)}"
    resource = text_of(inputs, "resourceId")
    if token == types.TAG and resource.startswith("ami-") and not existing.exists(resource):
        # The code: docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html.
        message = f"InvalidAMIID.NotFound: The image id '[{resource}]' does not exist"
        yield (
            f"creating EC2 Tag ({text_of(inputs, 'key')}) for resource ({resource}): operation error EC2: "
            f"CreateTags, https response error StatusCode: 400, api error {message}{hint(resource)}"
        )


def hint(path: str) -> str:
    """Return the hint how to list an existing resource in sandbox.yaml."""
    return f"\n  hint: if the resource exists in the cloud, list it in sandbox.yaml: exists: {{aws: [{path}]}}"


def name_in_use(world: World, token: str, inputs: Inputs) -> Iterator[str]:
    """Yield AWS's refusal of a second OIDC provider with a URL.

    The URL is unique in the account (docs.aws.amazon.com/IAM/latest/APIReference/API_CreateOpenIDConnectProvider.html).
    """
    if token == types.OIDC_PROVIDER and any(_issuer(one.inputs) == _issuer(inputs) for one in world.find(token)):
        text = f"EntityAlreadyExists: Provider with url {text_of(inputs, 'url')} already exists."
        yield f"creating IAM OIDC Provider: operation error IAM: CreateOpenIDConnectProvider, {text}"


def _issuer(inputs: Inputs) -> str:
    return text_of(inputs, "url").removeprefix("https://").rstrip("/")
