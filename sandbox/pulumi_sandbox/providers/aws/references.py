"""AWS's refusals because of another resource: it is missing, does not fit, has the same name, or uses this one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pulumi_sandbox.providers.aws import types
from pulumi_sandbox.providers.aws.eks import errors as eks_errors
from pulumi_sandbox.providers.aws.world import ExistingResources
from pulumi_sandbox.providers.inputs import rows, table, text_of
from pulumi_sandbox.world.store import World

Inputs = dict[str, Any]
SCALING_GROUP = "aws:autoscaling/group:Group"
IMAGE_BUILDER = (
    types.IMAGE_COMPONENT, types.IMAGE_RECIPE, types.BUILD_MACHINES, types.IMAGE_DISTRIBUTION, types.IMAGE_PIPELINE,
    types.IMAGE_LIFECYCLE,
)  # fmt: skip
# The inputs of a pipeline that are ARNs of other resources.
OF_PIPELINE = {
    "imageRecipeArn": types.IMAGE_RECIPE,
    "infrastructureConfigurationArn": types.BUILD_MACHINES,
    "distributionConfigurationArn": types.IMAGE_DISTRIBUTION,
}


@dataclass(frozen=True)
class References:
    """Checks that the resources to which inputs refer exist and fit."""

    existing: ExistingResources

    def missing_references(self, token: str, inputs: Inputs) -> Iterator[str]:
        checks: dict[str, Callable[[Inputs], Iterator[str]]] = {
            types.NODE_GROUP: self._node_group,
            types.ATTACHMENT: self._of_role("attaching IAM Policy to", "AttachRolePolicy"),
            types.ROLE_POLICY: self._of_role("putting a policy of", "PutRolePolicy"),
            types.INSTANCE_PROFILE: self._of_role("adding to an instance profile", "AddRoleToInstanceProfile"),
            types.GROUP_TAG: self._group_tag,
            types.TAG: self._tag,
        }
        if check := checks.get(token):
            yield from check(inputs)

    def _tag(self, inputs: Inputs) -> Iterator[str]:
        """Check the tag of an image. Tags of other resources are not checked."""
        resource = text_of(inputs, "resourceId")
        if resource.startswith("ami-") and not self.existing.exists(resource):
            # The code: docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html.
            message = f"InvalidAMIID.NotFound: The image id '[{resource}]' does not exist"
            yield (
                f"creating EC2 Tag ({text_of(inputs, 'key')}) for resource ({resource}): operation error EC2: "
                f"CreateTags, https response error StatusCode: 400, api error {message}{hint(resource)}"
            )

    def _node_group(self, inputs: Inputs) -> Iterator[str]:
        for code, message, path in self._of_node_group(inputs):
            group = f"{text_of(inputs, 'clusterName')}:{text_of(inputs, 'nodeGroupName')}"
            yield eks_errors.creating(group, code, message) + (hint(path) if path else "")

    def _of_node_group(self, inputs: Inputs) -> Iterator[tuple[str, str, str]]:
        """Yield the code, the message and the path for sandbox.yaml of each refusal."""
        cluster, role = text_of(inputs, "clusterName"), text_of(inputs, "nodeRoleArn")
        if not self.existing.has_cluster(cluster):
            yield eks_errors.NOT_FOUND, eks_errors.no_cluster(cluster), f"cluster/{cluster}"
        for subnet in rows(inputs.get("subnetIds")):
            if not self.existing.exists(subnet):
                yield eks_errors.INVALID, f"The subnet ID '{subnet}' does not exist", subnet
        name = role.rpartition("/")[2]
        if not self.existing.has_role(role):
            yield eks_errors.INVALID, eks_errors.no_role(name), f"role/{role.partition(':role/')[2] or role}"
        role_row = self.existing.role_of(role)
        if role_row and not trusts(role_row.inputs.get("assumeRolePolicy"), "ec2.amazonaws.com"):
            yield eks_errors.INVALID, eks_errors.no_trust(role), ""
        yield from self._template(inputs)

    def _template(self, inputs: Inputs) -> Iterator[tuple[str, str, str]]:
        reference = table(inputs.get("launchTemplate"))
        template = text_of(reference, "id") or text_of(reference, "name")
        if not template:
            return
        row = self.existing.template(reference)
        if row is None:
            if not self.existing.exists(template) and not self.existing.exists(f"launch-template/{template}"):
                path = template if template.startswith("lt-") else f"launch-template/{template}"
                yield eks_errors.INVALID, f"The specified launch template, {template}, does not exist.", path
            return
        latest, version = int(row.outputs.get("latestVersion") or 1), text_of(reference, "version")
        if version.isdigit() and not 1 <= int(version) <= latest:
            yield eks_errors.INVALID, f"Could not find launch template version {version} for template {template}.", ""

    def _of_role(self, doing: str, operation: str) -> Callable[[Inputs], Iterator[str]]:
        def check(inputs: Inputs) -> Iterator[str]:
            name = text_of(inputs, "role")
            if name and not self.existing.has_role(name):
                message = f"NoSuchEntity: {eks_errors.no_role(name)}"
                yield (
                    f"{doing} IAM Role ({name}): operation error IAM: {operation}, https response error StatusCode: "
                    f"404, {message}{hint(f'role/{name}')}"
                )

        return check

    def _group_tag(self, inputs: Inputs) -> Iterator[str]:
        name = text_of(inputs, "autoscalingGroupName")
        groups = [*self.existing.world.find(SCALING_GROUP, name=name)]
        node_group_names = [
            one for group in self.existing.world.find(types.NODE_GROUP) for one in scaling_groups(group.outputs)
        ]
        if not groups and name not in node_group_names and not self.existing.exists(f"autoScalingGroupName/{name}"):
            # The message is our own. No source for the message of Auto Scaling was found.
            key = text_of(table(inputs.get("tag")), "key")
            text = (
                f"creating AutoScaling Group ({name}) tag ({key}): ValidationError: the Auto Scaling group is missing"
            )
            yield text + hint(f"autoScalingGroupName/{name}")


def trusts(document: Any, service: str) -> bool:
    """Return True if the trust policy of a role names a service, or if it cannot be read."""
    try:
        policy = json.loads(document) if isinstance(document, str) else document
    except ValueError:
        return True
    statements = table(policy).get("Statement")
    if policy is None or statements is None:
        return True
    for one in statements if isinstance(statements, list) else [statements]:
        principal = table(one).get("Principal")
        services = table(principal).get("Service")
        if principal == "*" or service in (services if isinstance(services, list) else [services]):
            return True
    return False


def scaling_groups(outputs: Inputs) -> list[str]:
    """Return the names of the Auto Scaling groups of a node group."""
    return [
        str(table(one).get("name"))
        for resource in rows(outputs.get("resources"))
        for one in rows(table(resource).get("autoscalingGroups"))
    ]


def hint(path: str) -> str:
    """Return the hint how to list an existing resource in sandbox.yaml."""
    return f"\n  hint: if the resource exists in the cloud, list it in sandbox.yaml: exists: {{aws: [{path}]}}"


# -- names in use, and resources in use. The messages are the usual ones of EKS, EC2 and IAM, without a source.


def name_in_use(world: World, token: str, inputs: dict[str, Any], arn: str = "") -> Iterator[str]:
    """Yield AWS's refusal if the name is in use. `arn` is the ARN of the new resource, if the ARN is its id."""
    name, cluster = text_of(inputs, "name"), text_of(inputs, "clusterName")
    match token:
        case types.NODE_GROUP if world.get(token, group := f"{cluster}:{text_of(inputs, 'nodeGroupName')}"):
            text = f"NodeGroup already exists with name {group.partition(':')[2]} and cluster name {cluster}"
            yield eks_errors.creating(group, eks_errors.IN_USE, text)
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

        case _ if token in IMAGE_BUILDER and world.find(token, arn=arn):
            # The format, and that of a dependency: hashicorp/terraform-provider-aws#40037.
            kind = token.rpartition(":")[2]
            yield (
                f"creating Image Builder {kind} ({name}): operation error imagebuilder: Create{kind}, https response "
                f"error StatusCode: 400, ResourceAlreadyExistsException: {arn} already exists."
            )


def _issuer(inputs: dict[str, Any]) -> str:
    return text_of(inputs, "url").removeprefix("https://").rstrip("/")


def delete_blockers(world: World, token: str, identity: str) -> Iterator[str]:
    """Yield AWS's refusal to delete a resource that is in use."""
    match token:
        case types.CLUSTER if world.find(types.NODE_GROUP, clusterName=identity):
            text = f"{eks_errors.IN_USE}: Cluster has nodegroups attached"
            yield f"deleting EKS Cluster ({identity}): operation error EKS: DeleteCluster, {text}"
        case _ if token in IMAGE_BUILDER:
            yield from _used_by_image_builder(world, token, identity)
        case types.ROLE if world.find(types.ATTACHMENT, role=identity):
            text = "DeleteConflict: Cannot delete entity, must detach all policies first."
            yield f"deleting IAM Role ({identity}): operation error IAM: DeleteRole, {text}"


def _used_by_image_builder(world: World, token: str, arn: str) -> Iterator[str]:
    """Yield the refusal to delete a resource that a recipe or a pipeline names. Built images do not block it."""
    recipes = world.find(types.IMAGE_RECIPE) if token == types.IMAGE_COMPONENT else []
    used = [text_of(table(row), "componentArn") for recipe in recipes for row in rows(recipe.inputs.get("components"))]
    for name, kind in OF_PIPELINE.items():
        if kind == token:
            used += [text_of(pipeline.inputs, name) for pipeline in world.find(types.IMAGE_PIPELINE)]
    if arn in used:
        kind = token.rpartition(":")[2]
        yield (
            f"deleting Image Builder {kind} ({arn}): operation error imagebuilder: Delete{kind}, https "
            "response error StatusCode: 400, ResourceDependencyException: Resource dependency error: The resource ARN "
            f"'{arn}' has other resources depended on it."
        )
