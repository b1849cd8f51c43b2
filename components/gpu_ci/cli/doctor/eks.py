"""The steps of `gpu-ci doctor` about an EKS cluster of a stack and its account.

STEPS, at the end, lists the steps in order. The function of a step sends read-only requests to AWS, or runs `kubectl`,
and returns a Finding. It raises NotAskedError if there is no answer.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gpu_catalog import limits

from gpu_ci.aws.limits.eks_api import Account, ApiError, AwsClient
from gpu_ci.cli.doctor import kubernetes
from gpu_ci.cli.doctor.kubernetes import KubernetesCluster
from gpu_ci.cli.doctor.steps import Finding, Step, problems_or_pass
from gpu_ci.cli.programs import NotAskedError
from gpu_ci.cli.stack_files import StackFile
from gpu_ci.stack import quotas
from gpu_ci.stack.clusters import CLUSTERS

connect = AwsClient
"""Tests replace this class."""

# Service-linked roles. AWS creates them at the first use, if the caller has the permission
# (docs.aws.amazon.com/eks/latest/userguide/using-service-linked-roles-eks-nodegroups.html and the pages of Amazon EC2
# Auto Scaling and EC2 Spot).
ROLES = {
    "AWSServiceRoleForAmazonEKSNodegroup": "eks-nodegroup.amazonaws.com",
    "AWSServiceRoleForAutoScaling": "autoscaling.amazonaws.com",
}
SPOT_ROLE = {"AWSServiceRoleForEC2Spot": "spot.amazonaws.com"}
# The annotation of a service account with an AWS role (IAM roles for service accounts).
_IRSA = "eks.amazonaws.com/role-arn"
# Messages of the AWS SDK about missing or expired credentials (botocore/exceptions.py, and the error codes of AWS STS).
_NO_CREDENTIALS = re.compile(
    r"Unable to locate credentials|Partial credentials|config profile .* could not be found|SSO|retrieving token"
    r"|^(ExpiredToken|ExpiredTokenException|InvalidClientTokenId|UnrecognizedClientException):"
)
AUTOSCALER = "app.kubernetes.io/name in (aws-cluster-autoscaler,cluster-autoscaler)"


@dataclass(frozen=True)
class Cluster(KubernetesCluster):
    """A cluster, and the pools of one stack file on it."""

    name: str
    region: str
    subnets: tuple[str, ...]
    pools: Mapping[str, Any]
    context: str = ""
    """The context of kubectl; empty for the current context."""
    profile: str = ""
    """The AWS profile of the cluster's account; empty for the environment's credentials."""

    role_arn: str = ""
    """The role that is assumed with these credentials; empty if no role is assumed."""
    plugin_namespace: str = "nvidia-device-plugin"
    """The namespace of the stack's own device plugin."""

    @property
    def connect_command(self) -> str:
        return f"aws eks update-kubeconfig --name {self.name} {self.place}"

    def aws(self, service: str, operation: str, **arguments: Any) -> dict[str, Any]:
        """Return the answer of an operation of the AWS SDK. Raise NotAskedError if AWS refuses the request."""
        try:
            if service not in self._clients:
                self._clients[service] = connect(service, Account(self.region, self.profile, self.role_arn))
            return self._clients[service].call(operation, **arguments)
        except ApiError as error:
            login = f"aws sso login --profile {self.profile}" if self.profile else "aws sso login"
            other = "" if self.profile else "  # or set AWS_PROFILE to a profile of the account"
            fix = (f"{login}{other}",) if _NO_CREDENTIALS.search(str(error)) else ()
            raise NotAskedError(str(error), fix) from None

    @cached_property
    def _clients(self) -> dict[str, AwsClient]:
        return {}

    @property
    def place(self) -> str:
        """The options with which a command of the AWS CLI finds the cluster's account and region."""
        profile = f" --profile {self.profile}" if self.profile else ""
        return f"--region {self.region}{profile}"


def target(file: StackFile, name: str, context: str, connect: Callable[[], Any] | None = None) -> Cluster:  # noqa: ARG001 - GKE uses it
    """Return one cluster of a stack file. Raise LookupError if the file does not describe it."""
    # A stack with pools on EC2 alone uses this module too, without the package of Kubernetes.
    from gpu_ci.kubernetes.device_plugin import DevicePluginArgs

    described = file.values[CLUSTERS][name]
    subnets = tuple(described["subnets"].values())
    account = described.get("profile", ""), described.get("roleArn", "")
    plugin = DevicePluginArgs(**described.get("devicePlugin", {})).namespace
    return Cluster(name, described["region"], subnets, file.pools_on(name), context, *account, plugin)


def steps(file: StackFile, cluster: Cluster) -> Sequence[Step[Cluster]]:  # noqa: ARG001 - GKE uses both
    """Return the steps of `gpu-ci doctor`."""
    return STEPS


def identity(cluster: Cluster) -> Finding:
    answer = cluster.aws("sts", "get_caller_identity")
    return Finding("pass", f"account {answer['Account']}", answer)


def cluster_is_active(cluster: Cluster) -> Finding:
    answer = cluster.aws("eks", "describe_cluster", name=cluster.name)["cluster"]
    details = {key: answer.get(key) for key in ("status", "version", "accessConfig", "resourcesVpcConfig")}
    mode = (answer.get("accessConfig") or {}).get("authenticationMode", "CONFIG_MAP")
    if answer["status"] != "ACTIVE":
        return Finding("fail", f"the cluster is {answer['status']}", details)
    if mode == "CONFIG_MAP":
        change = "--access-config authenticationMode=API_AND_CONFIG_MAP"
        fix = (f"aws eks update-cluster-config --name {cluster.name} {change} {cluster.place}",)
        text = "authenticationMode is CONFIG_MAP: another tool may remove the nodes' entry"
        return Finding("fail", text, details, fix)
    return Finding("pass", f"ACTIVE, version {answer['version']}, authenticationMode {mode}", details)


def network_plugin(cluster: Cluster) -> Finding:
    addon = cluster.aws("eks", "describe_addon", clusterName=cluster.name, addonName="vpc-cni")["addon"]
    details = {key: addon.get(key) for key in ("addonVersion", "serviceAccountRoleArn", "podIdentityAssociations",
                                               "configurationValues")}  # fmt: skip
    nodes_have_role = all(pool.cni_policy for pool in cluster.pools.values())
    enforced = str(_configuration(addon).get("enableNetworkPolicy", "")).lower() == "true"
    has_role = nodes_have_role or _has_own_role(cluster, addon)
    problems = [] if has_role else ["aws-node has no role of its own, and a pool lacks cniPolicy: true"]
    fix = [] if has_role else ["# write `cniPolicy: true` in each pool of the cluster, or give aws-node a role"]
    if not enforced:
        problems.append("enableNetworkPolicy is not true, so network policies have no effect")
        values = shlex.quote(json.dumps({**_configuration(addon), "enableNetworkPolicy": "true"}))
        update = f"aws eks update-addon --cluster-name {cluster.name} --addon-name vpc-cni {cluster.place}"
        fix.append(f"{update} --configuration-values {values}")
    good = f"{addon.get('addonVersion')}, with a role, enforces network policies"
    return problems_or_pass(problems, good, details, fix=fix)


def _has_own_role(cluster: Cluster, addon: Mapping[str, Any]) -> bool:
    """Return True if the service account aws-node has a role from the add-on, EKS Pod Identity or IRSA."""
    if addon.get("serviceAccountRoleArn") or addon.get("podIdentityAssociations"):
        return True
    account = {"namespace": "kube-system", "serviceAccount": "aws-node"}
    found = cluster.aws("eks", "list_pod_identity_associations", clusterName=cluster.name, **account)
    if found["associations"]:
        return True
    named = ("--namespace", "kube-system", "--field-selector", "metadata.name=aws-node")
    accounts = cluster.kubectl("serviceaccounts", *named)
    return any(_IRSA in (each["metadata"].get("annotations") or {}) for each in accounts)


def quotas_suffice(cluster: Cluster) -> Finding:
    answer: dict[str, Any] = {"Quotas": []}
    token: dict[str, str] = {}
    while True:
        page = cluster.aws("service-quotas", "list_service_quotas", ServiceCode="ec2", **token)
        answer["Quotas"] += page["Quotas"]
        if not page.get("NextToken"):
            break
        token = {"NextToken": page["NextToken"]}
    known_limits = limits.from_answer(answer, cluster.region)
    findings = quotas.findings(quotas.demands(cluster.pools.items()), known_limits)
    short = [f"{each.need.name}: got {each.got}, expected {each.expected}" for each in findings if each.is_short]
    unknown = [each.need.name for each in findings if not each.is_short]
    details = [row for row in answer["Quotas"] if (cluster.region, row.get("QuotaCode")) in
               {(each.need.region, each.need.metric) for each in findings}]  # fmt: skip
    if unknown and not short:
        return Finding("unknown", f"the answer lacks {', '.join(unknown)}", details)
    fix = [
        f"aws service-quotas request-service-quota-increase --service-code ec2 --quota-code {each.need.metric} "
        f"--desired-value {each.need.amount:g} {cluster.place}"
        for each in findings
        if each.is_short
    ]
    return problems_or_pass(short, "limits cover every node at `max`", details, fix=fix)


def roles_exist(cluster: Cluster) -> Finding:
    spot = any(pool.market == "spot" for pool in cluster.pools.values())
    create = "aws iam create-service-linked-role --aws-service-name"
    lacking = {
        name: service
        for name, service in (ROLES | (SPOT_ROLE if spot else {})).items()
        if not _role_exists(cluster, name)
    }
    missing = [f"{name} ({create} {service})" for name, service in lacking.items()]
    fix = [f"{create} {service} {cluster.place}" for service in lacking.values()]
    return problems_or_pass(missing, "every service-linked role exists", missing, fix=fix)


def subnets_reach_internet(cluster: Cluster) -> Finding:
    problems, details = [], []
    for subnet in cluster.subnets:
        tables = cluster.aws("ec2", "describe_route_tables", Filters=_association(subnet))
        routes = [route for table in tables["RouteTables"] for route in table["Routes"]]
        default = [route for route in routes if route.get("DestinationCidrBlock") == "0.0.0.0/0"]
        details.append({"subnet": subnet, "default": default})
        if not routes:
            problems.append(f"{subnet} has no route table of its own; check the main route table of its VPC")
        elif not any(route.get("NatGatewayId") or route.get("TransitGatewayId") for route in default):
            problems.append(f"{subnet} has no default route to a NAT gateway or a transit gateway")
    show = f"aws ec2 describe-route-tables {cluster.place} --filters Name=association.subnet-id,Values="
    fix = [f"{show}{each.split()[0]}  # then: aws ec2 create-route to a NAT gateway" for each in problems]
    good = f"all {len(cluster.subnets)} subnets have a default route to a gateway"
    return problems_or_pass(problems, good, details, fix=fix)


def node_groups_are_healthy(cluster: Cluster) -> Finding:
    names = cluster.aws("eks", "list_nodegroups", clusterName=cluster.name)["nodegroups"]
    issues = {}
    for name in names:
        group = cluster.aws("eks", "describe_nodegroup", clusterName=cluster.name, nodegroupName=name)
        if found := group["nodegroup"].get("health", {}).get("issues"):
            issues[name] = found
    problems = [f"{name}: {', '.join(issue['code'] for issue in found)}" for name, found in issues.items()]
    describe = f"aws eks describe-nodegroup --cluster-name {cluster.name} {cluster.place}"
    fix = [f"{describe} --nodegroup-name {name} --query nodegroup.health" for name in issues]
    return problems_or_pass(problems, f"none of {len(names)} node groups has an issue", issues, fix=fix)


def autoscaler_runs(cluster: Cluster) -> Finding:
    found = cluster.kubectl("deployments", "--all-namespaces", "--selector", AUTOSCALER)
    ready = [each for each in found if each.get("status", {}).get("readyReplicas")]
    names = [each["metadata"]["name"] for each in ready]
    if not names:
        return Finding("fail", "no Deployment of Cluster Autoscaler is ready, so no nodes start", found)
    return Finding("pass", f"{', '.join(names)} is ready", names)


def _configuration(addon: Mapping[str, Any]) -> dict[str, Any]:
    try:
        values = json.loads(addon.get("configurationValues") or "{}")
    except ValueError:  # EKS also accepts YAML
        raise NotAskedError("the configuration of vpc-cni is not JSON") from None
    return dict(values)


def _association(subnet: str) -> list[dict[str, Any]]:
    return [{"Name": "association.subnet-id", "Values": [subnet]}]


def _role_exists(cluster: Cluster, name: str) -> bool:
    try:
        cluster.aws("iam", "get_role", RoleName=name)
    except NotAskedError as error:
        if "NoSuchEntity" not in str(error):
            raise
        return False
    return True


STEPS: tuple[Step[Cluster], ...] = (
    Step("identity", "the command prints the account of the cluster", identity),
    Step(
        "cluster", "the cluster is ACTIVE, and its authenticationMode includes API", cluster_is_active,
        "wait until the cluster is ACTIVE",
    ),
    Step("network plugin", "the add-on has an IAM role, and enableNetworkPolicy is true", network_plugin),
    Step("quotas", "limits cover every node at `max`", quotas_suffice),
    Step("roles", "service-linked roles exist", roles_exist),
    Step("subnets", "a default route to a NAT gateway, to pull images and to reach github.com", subnets_reach_internet),
    Step("node groups", "no health issue", node_groups_are_healthy),
    Step(
        "autoscaler", "a Deployment is ready", autoscaler_runs,
        "install Cluster Autoscaler; Karpenter and Auto Mode start no nodes in these node groups",
    ),
    *kubernetes.STEPS,
)  # fmt: skip
