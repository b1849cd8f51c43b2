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
from pulumi_sandbox.providers.aws.iam.managed_policies import OURS
from pulumi_sandbox.providers.aws.world import CloudContext
from pulumi_sandbox.providers.inputs import rows, table, text_of

Inputs = dict[str, Any]
SCALING_GROUP = "aws:autoscaling/group:Group"


@dataclass(frozen=True)
class References:
    around: CloudContext

    def missing(self, token: str, inputs: Inputs) -> Iterator[str]:
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
            types.SUBNET: self._vpc("Subnet", "CreateSubnet"),
            types.SECURITY_GROUP: self._vpc("Security Group", "CreateSecurityGroup"),
        }
        if check := checks.get(token):
            yield from check(inputs)

    def _node_group(self, inputs: Inputs) -> Iterator[str]:
        for code, message, path in self._of_node_group(inputs):
            group = f"{text_of(inputs, 'clusterName')}:{text_of(inputs, 'nodeGroupName')}"
            yield eks_errors.creating(group, code, message) + (hint(path) if path else "")

    def _of_node_group(self, inputs: Inputs) -> Iterator[tuple[str, str, str]]:
        """Yield the code, the message and the path for sandbox.yaml of each refusal."""
        cluster, role = text_of(inputs, "clusterName"), text_of(inputs, "nodeRoleArn")
        if not self.around.has_cluster(cluster):
            yield eks_errors.NOT_FOUND, eks_errors.no_cluster(cluster), f"cluster/{cluster}"
        for subnet in rows(inputs.get("subnetIds")):
            if not self.around.exists(subnet):
                yield eks_errors.INVALID, eks_errors.no_subnet(subnet), subnet
        name = role.rpartition("/")[2]
        if not self.around.has_role(role):
            yield eks_errors.INVALID, eks_errors.no_role(name), f"role/{role.partition(':role/')[2] or role}"
        made = self.around.role_of(role)
        if made and not trusts(made.inputs.get("assumeRolePolicy"), "ec2.amazonaws.com"):
            yield eks_errors.INVALID, eks_errors.no_trust(role), ""
        for group in rows(table(inputs.get("remoteAccess")).get("sourceSecurityGroupIds")):
            if not self.around.exists(group):
                yield eks_errors.INVALID, f"The security group '{group}' does not exist", group
        version = inputs.get("version") or self.around.version(cluster)
        if too_old(inputs.get("amiType"), version):
            yield eks_errors.INVALID, eks_errors.too_old(inputs["amiType"]), ""
        yield from self._template(inputs)

    def _template(self, inputs: Inputs) -> Iterator[tuple[str, str, str]]:
        given = table(inputs.get("launchTemplate"))
        named = text_of(given, "id") or text_of(given, "name")
        if not named:
            return
        made = self.around.template(given)
        if made is None:
            if not self.around.exists(named) and not self.around.exists(f"launch-template/{named}"):
                path = named if named.startswith("lt-") else f"launch-template/{named}"
                yield eks_errors.INVALID, eks_errors.no_template(named), path
            return
        latest, wanted = int(made.outputs.get("latestVersion") or 1), text_of(given, "version")
        if wanted.isdigit() and not 1 <= int(wanted) <= latest:
            yield eks_errors.INVALID, eks_errors.no_version(wanted, named), ""
        elif wanted in ("$Latest", str(latest)) or made.outputs.get("defaultVersion") == latest:
            # The world does not store the content of older versions.
            for code, message in node_group_template.refusals(inputs, made.inputs):
                yield code, message, ""

    def _cluster(self, inputs: Inputs) -> Iterator[str]:
        name, role = text_of(inputs, "name"), text_of(inputs, "roleArn")
        start = (
            f"creating EKS Cluster ({name}): operation error EKS: CreateCluster, https response error StatusCode: 400"
        )
        if not self.around.has_role(role):
            # terraform-provider-aws, internal/service/eks/cluster.go (at 00555dc5)
            message = f"{eks_errors.INVALID}: roleArn, {role}, does not exist"
            yield f"{start}, {message}{hint('role/' + role.partition(':role/')[2])}"
        for subnet in rows(table(inputs.get("vpcConfig")).get("subnetIds")):
            if not self.around.exists(subnet):
                yield f"{start}, {eks_errors.INVALID}: {eks_errors.no_subnet(subnet)}{hint(subnet)}"

    def _in_cluster(self, what: str, operation: str) -> Callable[[Inputs], Iterator[str]]:
        def check(inputs: Inputs) -> Iterator[str]:
            cluster = text_of(inputs, "clusterName")
            if not self.around.has_cluster(cluster):
                which = text_of(inputs, "principalArn") or text_of(inputs, "addonName")
                yield (
                    f"creating EKS {what} ({cluster}:{which}): operation error EKS: {operation}, https response error "
                    f"StatusCode: 404, {eks_errors.NOT_FOUND}: {eks_errors.no_cluster(cluster)}"
                    f"{hint(f'cluster/{cluster}')}"
                )

        return check

    def _access_policy(self, inputs: Inputs) -> Iterator[str]:
        yield from self._in_cluster("Access Policy Association", "AssociateAccessPolicy")(inputs)
        cluster, principal = text_of(inputs, "clusterName"), text_of(inputs, "principalArn")
        if self.around.cluster(cluster) and not self.around.world.get(types.ACCESS_ENTRY, f"{cluster}:{principal}"):
            # terraform-provider-aws, internal/service/eks/access_policy_association.go (at 01f43111)
            yield (
                f"creating EKS Access Policy Association ({cluster}#{principal}#{text_of(inputs, 'policyArn')}): "
                "operation error EKS: AssociateAccessPolicy, https response error StatusCode: 404, "
                f"{eks_errors.NOT_FOUND}: The specified principalArn could not be found."
            )

    def _pod_identity(self, inputs: Inputs) -> Iterator[str]:
        yield from self._in_cluster("Pod Identity Association", "CreatePodIdentityAssociation")(inputs)
        role = text_of(inputs, "roleArn")
        if not self.around.has_role(role):
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
        known = self.around.world.get(types.POLICY, policy) or self.around.exists(f"policy/{_end(policy)}")
        mine = f":{self.around.values.get('account')}:policy/" in policy
        if mine and not policy.startswith(OURS) and not known:
            # https://github.com/pulumi/pulumi/issues/7419
            message = f"NoSuchEntity: Policy {policy} does not exist or is not attachable."
            yield f"{start}, https response error StatusCode: 404, {message}{hint(f'policy/{_end(policy)}')}"

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
        if name and not self.around.has_role(name):
            message = f"NoSuchEntity: {eks_errors.no_role(name)}"
            yield f"{start}, https response error StatusCode: 404, {message}{hint(f'role/{name}')}"

    def _group_tag(self, inputs: Inputs) -> Iterator[str]:
        name = text_of(inputs, "autoscalingGroupName")
        groups = [*self.around.world.find(SCALING_GROUP, name=name)]
        made = [one for group in self.around.world.find(types.NODE_GROUP) for one in scaling_groups(group.outputs)]
        if not groups and name not in made and not self.around.exists(f"autoScalingGroupName/{name}"):
            # The message is our own. No source for the message of Auto Scaling was found.
            key = text_of(table(inputs.get("tag")), "key")
            text = (
                f"creating AutoScaling Group ({name}) tag ({key}): ValidationError: the Auto Scaling group is missing"
            )
            yield text + hint(f"autoScalingGroupName/{name}")

    def _vpc(self, what: str, operation: str) -> Callable[[Inputs], Iterator[str]]:
        def check(inputs: Inputs) -> Iterator[str]:
            vpc = text_of(inputs, "vpcId")
            if vpc and not self.around.exists(vpc):
                message = f"InvalidVpcID.NotFound: The vpc ID '{vpc}' does not exist"
                yield (
                    f"creating EC2 {what}: operation error EC2: {operation}, https response error StatusCode: 400, api "
                    f"error {message}{hint(vpc)}"
                )

        return check


def trusts(document: Any, service: str) -> bool:
    """Return True if the trust policy of a role names a service, or if it cannot be read."""
    try:
        found = json.loads(document) if isinstance(document, str) else document
    except ValueError:
        return True
    statements = table(found).get("Statement")
    if found is None or statements is None:
        return True
    for one in statements if isinstance(statements, list) else [statements]:
        who = table(one).get("Principal")
        named = table(who).get("Service")
        if who == "*" or service in (named if isinstance(named, list) else [named]):
            return True
    return False


def scaling_groups(outputs: Inputs) -> list[str]:
    """Return the names of the Auto Scaling groups of a node group."""
    return [
        str(table(one).get("name"))
        for resource in rows(outputs.get("resources"))
        for one in rows(table(resource).get("autoscalingGroups"))
    ]


def _end(arn: str) -> str:
    return arn.partition(":policy/")[2]


def hint(path: str) -> str:
    """Return the hint how to list an existing resource in sandbox.yaml."""
    return f"\n  hint: if the resource exists in the cloud, list it in sandbox.yaml: exists: {{aws: [{path}]}}"
