"""Fakes of `aws`, `kubectl` and `gke-gcloud-auth-plugin`, in this process.

An `aws` command is turned into a call of botocore's model, as the AWS CLI does: it refuses services, operations and
parameters that the model lacks, and holds each answer to the model's shape.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import botocore.session
from botocore import xform_name
from botocore.validate import validate_parameters
from gpu_ci.cli.programs import NotInstalledError, Output

Json = dict[str, Any]
SESSION = botocore.session.get_session()
SESSION_OF_ROLE = {"AccessKeyId": "ASIA0123456789ABCDEF", "SecretAccessKey": "hush", "SessionToken": "hush-hush"}
_VARIABLES = ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN")
NAT = {"DestinationCidrBlock": "0.0.0.0/0", "NatGatewayId": "nat-1"}


GPU_TAINT = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


def daemon(namespace: str, image: str, *tolerations: Json, **pod: Any) -> Json:
    spec = {"containers": [{"name": "c", "image": image}], "tolerations": list(tolerations), **pod}
    return {"metadata": {"namespace": namespace, "name": "plugin"}, "spec": {"template": {"spec": spec}}}


def listener(phase: str, since: str = "2026-01-01T00:00:00Z", **state: Json) -> Json:
    containers = [{"name": "listener", "state": state or {"running": {"startedAt": since}}}]
    status = {"phase": phase, "containerStatuses": containers}
    return {"metadata": {"name": "a10g-listener", "creationTimestamp": since}, "status": status}


@dataclass
class Account:
    """An AWS account and a cluster in which everything is ready, until a test changes them."""

    cluster: Json = field(
        default_factory=lambda: {
            "name": "ci", "status": "ACTIVE", "version": "1.33",
            "accessConfig": {"authenticationMode": "API_AND_CONFIG_MAP"},
        }
    )  # fmt: skip
    addon: Json = field(
        default_factory=lambda: {
            "addonVersion": "v1.20.4-eksbuild.1", "serviceAccountRoleArn": "arn:aws:iam::111122223333:role/cni",
            "configurationValues": '{"enableNetworkPolicy": "true"}',
        }
    )  # fmt: skip
    quotas: dict[str, float] = field(default_factory=lambda: {"L-3819A6DF": 64, "L-DB2E81BA": 64})
    roles: set[str] = field(
        default_factory=lambda: {
            "AWSServiceRoleForAmazonEKSNodegroup", "AWSServiceRoleForAutoScaling", "AWSServiceRoleForEC2Spot",
        }
    )  # fmt: skip
    routes: list[Json] = field(default_factory=lambda: [NAT])
    issues: list[Json] = field(default_factory=list)
    objects: dict[str, list[Json]] = field(
        default_factory=lambda: {
            "deployments": [{"metadata": {"name": "cluster-autoscaler"}, "status": {"readyReplicas": 1}}],
            "nodes": [{"metadata": {"name": "system-1"}, "spec": {},
                       "status": {"conditions": [{"type": "Ready", "status": "True"}]}}],
            "pods": [listener("Running")],
            "daemonsets": [daemon("nvidia-device-plugin", "nvcr.io/nvidia/k8s-device-plugin:v0.20.0", GPU_TAINT)],
            "autoscalingrunnersets": [{"metadata": {"name": "a10g"}, "status": {"phase": "Running"}}],
            "serviceaccounts": [{"metadata": {"name": "aws-node"}}],
        }
    )  # fmt: skip
    pod_identities: list[Json] = field(default_factory=list)
    missing: set[str] = field(default_factory=set)
    """Programs that are not installed."""
    role: str = ""
    """The one identity with rights in the account; empty where every identity has them."""
    profile: str = ""
    """The one profile that may assume the role; empty for the environment's credentials."""
    ran: list[str] = field(default_factory=list)

    def run(
        self, command: Sequence[str], timeout_sec: float = 0, environment: Mapping[str, str] | None = None
    ) -> Output:
        self.ran.append(" ".join(command))
        self._environment = environment or {}
        if command[0] in self.missing:
            raise NotInstalledError(f"{command[0]} is not installed")
        programs = {"aws": self._aws, "kubectl": self._kubectl, "gke-gcloud-auth-plugin": self._plugin}
        return programs[command[0]](command[1:])

    def _plugin(self, words: Sequence[str]) -> Output:
        assert words == ["--version"]
        return Output(0, "Kubernetes v1.30.0+0a5be104\n", "")

    def _kubectl(self, words: Sequence[str]) -> Output:
        if (kind := next(word for word in words[words.index("get") + 1 :])) not in self.objects:
            return Output(1, "", f'error: the server doesn\'t have a resource type "{kind}"')
        return Output(0, json.dumps({"items": self.objects[kind]}), "")

    def _aws(self, words: Sequence[str]) -> Output:
        model = SESSION.get_service_model(words[0])
        names = {xform_name(name, "-"): name for name in model.operation_names}
        operation = model.operation_model(names[words[1]])
        parameters = _parameters(operation.input_shape.members, words[2:])
        report = validate_parameters(parameters, operation.input_shape)
        assert report is None, report
        if self.role and not self._may(names[words[1]], words, parameters):
            error = f"An error occurred (AccessDenied) when calling the {names[words[1]]} operation: not authorized"
            return Output(254, "", error)
        answer = self._answers()[names[words[1]]](parameters)
        if answer is None:
            return Output(254, "", "An error occurred (NoSuchEntity) when calling the GetRole operation: not found")
        validate_parameters(answer, operation.output_shape)
        return Output(0, json.dumps(answer), "")

    def _may(self, operation: str, words: Sequence[str], parameters: Json) -> bool:
        """Credentials of the environment count only without --profile (botocore 1.44.5, credentials.py,
        create_credential_resolver)."""
        profile = words[words.index("--profile") + 1] if "--profile" in words else ""
        if operation == "AssumeRole":
            return (parameters["RoleArn"], profile) == (self.role, self.profile)
        return not profile and dict(self._environment) == {
            f"AWS_{name}": value for name, value in zip(_VARIABLES, SESSION_OF_ROLE.values(), strict=True)
        }

    def _answers(self) -> dict[str, Callable[[Json], Json | None]]:
        return {
            "AssumeRole": lambda _: {"Credentials": {**SESSION_OF_ROLE, "Expiration": "2026-01-01T00:00:00Z"}},
            "GetCallerIdentity": lambda _: {"Account": "111122223333", "Arn": "arn:aws:iam::111122223333:user/a"},
            "DescribeCluster": lambda _: {"cluster": self.cluster},
            "DescribeAddon": lambda _: {"addon": self.addon},
            "ListPodIdentityAssociations": lambda _: {"associations": self.pod_identities},
            "ListServiceQuotas": lambda _: {
                "Quotas": [{"QuotaCode": code, "Value": value} for code, value in self.quotas.items()]
            },
            "GetRole": self._role,
            "DescribeRouteTables": lambda _: {"RouteTables": [{"Routes": self.routes}] if self.routes else []},
            "ListNodegroups": lambda _: {"nodegroups": ["a10g"]},
            "DescribeNodegroup": lambda _: {"nodegroup": {"health": {"issues": self.issues}}},
        }

    def _role(self, parameters: Json) -> Json | None:
        name = parameters["RoleName"]
        role = {"RoleName": name, "Path": "/", "RoleId": "AROA0000000000000000", "Arn": "arn:aws:iam::1:role/x",
                "CreateDate": "2026-01-01T00:00:00Z"}  # fmt: skip
        return {"Role": role} if name in self.roles else None


def _parameters(members: Any, words: Sequence[str]) -> Json:
    names = {f"--{xform_name(name, '-')}": name for name in members}
    parameters: Json = {}
    for option, value in zip(words[::2], words[1::2], strict=True):
        if option in ("--region", "--output", "--profile"):
            continue
        name = names[option]
        parameters[name] = _shorthand(value) if members[name].type_name == "list" else value
    return parameters


def _shorthand(value: str) -> list[Json]:
    """The AWS CLI's `Name=…,Values=…` for a filter."""
    pairs = dict(pair.split("=", 1) for pair in value.split(","))
    return [{"Name": pairs["Name"], "Values": [pairs["Values"]]}]
