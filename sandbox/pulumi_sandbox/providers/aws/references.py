"""AWS's refusals because of a missing or unsuitable resource that the inputs refer to."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pulumi_sandbox.providers.aws import types
from pulumi_sandbox.providers.aws.eks import errors as eks_errors
from pulumi_sandbox.providers.aws.eks import node_group_template
from pulumi_sandbox.providers.aws.eks.node_group_rules import too_old
from pulumi_sandbox.providers.aws.iam.managed_policies import AWS_PREFIX
from pulumi_sandbox.providers.aws.imagebuilder import references as image_builder
from pulumi_sandbox.providers.aws.world import ExistingResources
from pulumi_sandbox.providers.inputs import rows, table, text_of

Inputs = dict[str, Any]
SCALING_GROUP = "aws:autoscaling/group:Group"


@dataclass(frozen=True)
class References:
    """Checks that the resources to which inputs refer exist and fit."""

    existing: ExistingResources

    def missing_references(self, token: str, inputs: Inputs) -> Iterator[str]:
        checks: dict[str, Callable[[Inputs], Iterator[str]]] = {
            types.NODE_GROUP: self._node_group,
            types.CLUSTER: self._cluster,
            types.ACCESS_ENTRY: self._in_cluster("Access Entry", "CreateAccessEntry"),
            types.ACCESS_POLICY: self._access_policy,
            types.ADDON: self._in_cluster("Add-On", "CreateAddon"),
            types.POD_IDENTITY: self._pod_identity,
            types.ATTACHMENT: self._attachment,
            types.ROLE_POLICY: self._role_policy,
            types.INSTANCE_PROFILE: self._instance_profile,
            types.GROUP_TAG: self._group_tag,
            types.TAG: self._tag,
            types.SUBNET: self._vpc("Subnet", "CreateSubnet"),
            types.SECURITY_GROUP: self._vpc("Security Group", "CreateSecurityGroup"),
        }
        if check := checks.get(token):
            yield from check(inputs)
        yield from self._image_builder(token, inputs)

    def _image_builder(self, token: str, inputs: Inputs) -> Iterator[str]:
        """Check the resources of an image pipeline. Messages about networks and roles are our own."""
        yield from image_builder.missing_references(self.existing.world, token, inputs)
        if token == types.BUILD_MACHINES:
            for path in (text_of(inputs, "subnetId"), *rows(inputs.get("securityGroupIds"))):
                if path and not self.existing.exists(path):
                    text = f"InvalidParameterValueException: {path} does not exist."
                    yield image_builder.refusal(token, inputs, text) + hint(path)
        if token == types.IMAGE_LIFECYCLE:
            role = text_of(inputs, "executionRole")
            row = self.existing.role_of(role) or self.existing.role(role)
            if not self.existing.has_role(role):
                text = f"InvalidParameterValueException: the role {role} does not exist."
                yield image_builder.refusal(token, inputs, text) + hint(f"role/{role.partition(':role/')[2] or role}")
            elif row and not trusts(row.inputs.get("assumeRolePolicy"), "imagebuilder.amazonaws.com"):
                text = f"InvalidParameterValueException: Image Builder is not able to assume the role {role}."
                yield image_builder.refusal(token, inputs, text)

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
                yield eks_errors.INVALID, eks_errors.no_subnet(subnet), subnet
        name = role.rpartition("/")[2]
        if not self.existing.has_role(role):
            yield eks_errors.INVALID, eks_errors.no_role(name), f"role/{role.partition(':role/')[2] or role}"
        role_row = self.existing.role_of(role)
        if role_row and not trusts(role_row.inputs.get("assumeRolePolicy"), "ec2.amazonaws.com"):
            yield eks_errors.INVALID, eks_errors.no_trust(role), ""
        for group in rows(table(inputs.get("remoteAccess")).get("sourceSecurityGroupIds")):
            if not self.existing.exists(group):
                yield eks_errors.INVALID, f"The security group '{group}' does not exist", group
        version = inputs.get("version") or self.existing.version(cluster)
        if too_old(inputs.get("amiType"), version):
            yield eks_errors.INVALID, eks_errors.too_old(inputs["amiType"]), ""
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
                yield eks_errors.INVALID, eks_errors.no_template(template), path
            return
        latest, version = int(row.outputs.get("latestVersion") or 1), text_of(reference, "version")
        if version.isdigit() and not 1 <= int(version) <= latest:
            yield eks_errors.INVALID, eks_errors.no_version(version, template), ""
        elif version in ("$Latest", str(latest)) or row.outputs.get("defaultVersion") == latest:
            # The world does not store the content of older versions.
            for code, message in node_group_template.refusals(inputs, row.inputs):
                yield code, message, ""

    def _cluster(self, inputs: Inputs) -> Iterator[str]:
        name, role = text_of(inputs, "name"), text_of(inputs, "roleArn")
        start = (
            f"creating EKS Cluster ({name}): operation error EKS: CreateCluster, https response error StatusCode: 400"
        )
        if not self.existing.has_role(role):
            # terraform-provider-aws, internal/service/eks/cluster.go (at 00555dc5)
            message = f"{eks_errors.INVALID}: roleArn, {role}, does not exist"
            yield f"{start}, {message}{hint('role/' + role.partition(':role/')[2])}"
        for subnet in rows(table(inputs.get("vpcConfig")).get("subnetIds")):
            if not self.existing.exists(subnet):
                yield f"{start}, {eks_errors.INVALID}: {eks_errors.no_subnet(subnet)}{hint(subnet)}"

    def _in_cluster(self, kind: str, operation: str) -> Callable[[Inputs], Iterator[str]]:
        def check(inputs: Inputs) -> Iterator[str]:
            cluster = text_of(inputs, "clusterName")
            if not self.existing.has_cluster(cluster):
                name = text_of(inputs, "principalArn") or text_of(inputs, "addonName")
                yield (
                    f"creating EKS {kind} ({cluster}:{name}): operation error EKS: {operation}, https response error "
                    f"StatusCode: 404, {eks_errors.NOT_FOUND}: {eks_errors.no_cluster(cluster)}"
                    f"{hint(f'cluster/{cluster}')}"
                )

        return check

    def _access_policy(self, inputs: Inputs) -> Iterator[str]:
        yield from self._in_cluster("Access Policy Association", "AssociateAccessPolicy")(inputs)
        cluster, principal = text_of(inputs, "clusterName"), text_of(inputs, "principalArn")
        if self.existing.cluster(cluster) and not self.existing.world.get(types.ACCESS_ENTRY, f"{cluster}:{principal}"):
            # terraform-provider-aws, internal/service/eks/access_policy_association.go (at 01f43111)
            yield (
                f"creating EKS Access Policy Association ({cluster}#{principal}#{text_of(inputs, 'policyArn')}): "
                "operation error EKS: AssociateAccessPolicy, https response error StatusCode: 404, "
                f"{eks_errors.NOT_FOUND}: The specified principalArn could not be found."
            )

    def _pod_identity(self, inputs: Inputs) -> Iterator[str]:
        yield from self._in_cluster("Pod Identity Association", "CreatePodIdentityAssociation")(inputs)
        role = text_of(inputs, "roleArn")
        if not self.existing.has_role(role):
            # terraform-provider-aws, internal/service/eks/pod_identity_association.go (at 00a35305)
            yield (
                "creating EKS Pod Identity Association: operation error EKS: CreatePodIdentityAssociation, https "
                f"response error StatusCode: 400, {eks_errors.INVALID}: Role provided in the request does not exist."
                f"{hint('role/' + role.partition(':role/')[2])}"
            )

    def _attachment(self, inputs: Inputs) -> Iterator[str]:
        role, policy = text_of(inputs, "role"), text_of(inputs, "policyArn")
        start = f"attaching IAM Policy ({policy}) to IAM Role ({role}): operation error IAM: AttachRolePolicy"
        yield from self._role(role, start)
        exists = self.existing.world.get(types.POLICY, policy) or self.existing.exists(f"policy/{_policy_path(policy)}")
        is_of_account = f":{self.existing.values.get('account')}:policy/" in policy
        if is_of_account and not policy.startswith(AWS_PREFIX) and not exists:
            # https://github.com/pulumi/pulumi/issues/7419
            message = f"NoSuchEntity: Policy {policy} does not exist or is not attachable."
            yield f"{start}, https response error StatusCode: 404, {message}{hint(f'policy/{_policy_path(policy)}')}"

    def _role_policy(self, inputs: Inputs) -> Iterator[str]:
        role = text_of(inputs, "role")
        yield from self._role(
            role, f"putting IAM Role ({role}) Policy ({text_of(inputs, 'name')}): operation error IAM"
        )

    def _instance_profile(self, inputs: Inputs) -> Iterator[str]:
        if role := text_of(inputs, "role"):
            profile = text_of(inputs, "name")
            yield from self._role(role, f"adding IAM Role ({role}) to IAM Instance Profile ({profile})")

    def _role(self, name: str, start: str) -> Iterator[str]:
        if name and not self.existing.has_role(name):
            message = f"NoSuchEntity: {eks_errors.no_role(name)}"
            yield f"{start}, https response error StatusCode: 404, {message}{hint(f'role/{name}')}"

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

    def _vpc(self, kind: str, operation: str) -> Callable[[Inputs], Iterator[str]]:
        def check(inputs: Inputs) -> Iterator[str]:
            vpc = text_of(inputs, "vpcId")
            if vpc and not self.existing.exists(vpc):
                message = f"InvalidVpcID.NotFound: The vpc ID '{vpc}' does not exist"
                yield (
                    f"creating EC2 {kind}: operation error EC2: {operation}, https response error StatusCode: 400, api "
                    f"error {message}{hint(vpc)}"
                )

        return check


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


def _policy_path(arn: str) -> str:
    return arn.partition(":policy/")[2]


def hint(path: str) -> str:
    """Return the hint how to list an existing resource in sandbox.yaml."""
    return f"\n  hint: if the resource exists in the cloud, list it in sandbox.yaml: exists: {{aws: [{path}]}}"
