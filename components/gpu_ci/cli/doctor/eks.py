"""The steps of `gpu-ci doctor` about an EKS cluster of a stack and its account.

STEPS, at the end, lists the steps in order. The function of a step runs `aws` or `kubectl`, and returns a Finding. It
raises NotAskedError if the program fails. Only `aws` and `kubectl` commands that change nothing are run.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gpu_catalog import limits, quota

from gpu_ci.aws.eks_runner_pool import EksRunnerPoolArgs
from gpu_ci.cli import programs
from gpu_ci.cli.doctor import kubernetes
from gpu_ci.cli.doctor.kubernetes import KubernetesCluster
from gpu_ci.cli.doctor.steps import Finding, Step, problems_or_pass
from gpu_ci.cli.programs import NotAskedError
from gpu_ci.cli.stack_files import StackFile
from gpu_ci.kubernetes.device_plugin import DevicePluginArgs
from gpu_ci.stack import quotas
from gpu_ci.stack.clusters import CLUSTERS

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
# Messages of the AWS CLI about missing or expired credentials (botocore/exceptions.py, and the error codes of AWS STS).
_NO_CREDENTIALS = re.compile(
    r"Unable to locate credentials|Partial credentials|config profile .* could not be found|SSO|retrieving token"
    r"|\((ExpiredToken|ExpiredTokenException|InvalidClientTokenId|UnrecognizedClientException)\)"
)
AUTOSCALER = "app.kubernetes.io/name in (aws-cluster-autoscaler,cluster-autoscaler)"


@dataclass(frozen=True)
class Cluster(KubernetesCluster):
    """A cluster, and the pools of one stack file on it."""

    name: str
    region: str
    subnets: tuple[str, ...]
    pools: Mapping[str, EksRunnerPoolArgs]
    context: str = ""
    """The context of kubectl; empty for the current context."""
    profile: str = ""
    """The profile of the AWS CLI for the cluster's account; empty for the environment's credentials."""

    role_arn: str = ""
    """The role that is assumed with these credentials; empty if no role is assumed."""
    plugin_namespace: str = "nvidia-device-plugin"
    """The namespace of the stack's own device plugin."""

    @property
    def connect_command(self) -> str:
        return f"aws eks update-kubeconfig --name {self.name} {self.place}"

    def aws(self, service: str, *arguments: str) -> Any:
        with self.fixes_of_aws():
            command, environment = self.aws_command(service, *arguments)
            return programs.run_json(command, environment)

    @contextmanager
    def fixes_of_aws(self) -> Iterator[None]:
        """Add the command that fixes missing credentials to the error of the block."""
        try:
            yield
        except programs.NotInstalledError as error:
            raise NotAskedError(str(error), ("# install the AWS CLI: docs.aws.amazon.com/cli",)) from None
        except NotAskedError as error:
            login = " ".join(["aws sso login", *self._profile_option])
            other = "" if self.profile else "  # or set AWS_PROFILE to a profile of the cluster's account"
            fix = (f"{login}{other}",) if _NO_CREDENTIALS.search(str(error)) else error.fix
            raise NotAskedError(str(error), fix) from None

    def aws_command(self, service: str, *arguments: str) -> tuple[list[str], dict[str, str]]:
        """Return a command of the AWS CLI, and its environment variables.

        The credentials of the role are passed in variables, because other users of the machine can read command lines.
        """
        command = ["aws", service, *arguments, "--region", self.region, "--output", "json"]
        # With --profile, the command would ignore the role's credentials in the environment.
        return (command, self._role_credentials) if self.role_arn else ([*command, *self._profile_option], {})

    @property
    def place(self) -> str:
        """The options with which a command of the AWS CLI finds the cluster's account and region."""
        return " ".join(["--region", self.region, *self._profile_option])

    @property
    def _profile_option(self) -> list[str]:
        return ["--profile", self.profile] if self.profile else []

    @cached_property
    def _role_credentials(self) -> dict[str, str]:
        command = ["aws", "sts", "assume-role", "--role-arn", self.role_arn, "--role-session-name", "gpu-ci"]
        answer = programs.run_json([*command, "--region", self.region, "--output", "json", *self._profile_option])[
            "Credentials"
        ]
        return {
            "AWS_ACCESS_KEY_ID": answer["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": answer["SecretAccessKey"],
            "AWS_SESSION_TOKEN": answer["SessionToken"],
        }


def target(file: StackFile, name: str, context: str, connect: Callable[[], Any] | None = None) -> Cluster:  # noqa: ARG001 - GKE uses it
    """Return one cluster of a stack file. Raise LookupError if the file does not describe it."""
    described = file.value(CLUSTERS)[name]
    pools = {
        pool: args for pool, args in file.pools if isinstance(args, EksRunnerPoolArgs) and args.cluster_name == name
    }
    subnets = tuple(described["subnets"].values())
    account = described.get("profile", ""), described.get("roleArn", "")
    plugin = DevicePluginArgs(**described.get("devicePlugin", {})).namespace
    return Cluster(name, described["region"], subnets, pools, context, *account, plugin)


def steps(file: StackFile, cluster: Cluster) -> Sequence[Step[Cluster]]:  # noqa: ARG001 - GKE uses both
    """Return the steps of `gpu-ci doctor`."""
    return STEPS


def identity(cluster: Cluster) -> Finding:
    answer = cluster.aws("sts", "get-caller-identity")
    return Finding("pass", f"account {answer['Account']}", answer)


def cluster_is_active(cluster: Cluster) -> Finding:
    answer = cluster.aws("eks", "describe-cluster", "--name", cluster.name)["cluster"]
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
    addon = cluster.aws("eks", "describe-addon", "--cluster-name", cluster.name, "--addon-name", "vpc-cni")["addon"]
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
    account = ("--namespace", "kube-system", "--service-account", "aws-node")
    found = cluster.aws("eks", "list-pod-identity-associations", "--cluster-name", cluster.name, *account)
    if found["associations"]:
        return True
    named = ("--namespace", "kube-system", "--field-selector", "metadata.name=aws-node")
    accounts = cluster.kubectl("serviceaccounts", *named)
    return any(_IRSA in (each["metadata"].get("annotations") or {}) for each in accounts)


def quotas_suffice(cluster: Cluster) -> Finding:
    answer = cluster.aws("service-quotas", "list-service-quotas", "--service-code", "ec2")
    known_limits = limits.from_answer(answer, cluster.region)
    findings = quota.compare(quota.needs(quotas.demands(cluster.pools.items())), known_limits)
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
        tables = cluster.aws("ec2", "describe-route-tables", "--filters", f"Name=association.subnet-id,Values={subnet}")
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
    names = cluster.aws("eks", "list-nodegroups", "--cluster-name", cluster.name)["nodegroups"]
    issues = {}
    for name in names:
        group = cluster.aws("eks", "describe-nodegroup", "--cluster-name", cluster.name, "--nodegroup-name", name)
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


def _role_exists(cluster: Cluster, name: str) -> bool:
    with cluster.fixes_of_aws():
        command, environment = cluster.aws_command("iam", "get-role", "--role-name", name)
        output = programs.run(command, environment=environment)
        if output.code and "NoSuchEntity" not in output.err:
            raise NotAskedError(f"aws: {(output.err.strip().splitlines() or ['no answer'])[-1]}")
    return not output.code


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
