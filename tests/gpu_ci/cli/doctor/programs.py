"""Fakes of the AWS SDK, `kubectl` and `gke-gcloud-auth-plugin`, in this process.

A call is held to botocore's model: services, operations and parameters that the model lacks are refused, and each
answer has the model's shape.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import botocore.session
from botocore import xform_name
from botocore.validate import validate_parameters
from gpu_ci.aws.limits.eks_api import Account as AwsAccount
from gpu_ci.aws.limits.eks_api import ApiError
from gpu_ci.cli.programs import Output

Json = dict[str, Any]
SESSION = botocore.session.get_session()
SECRETS = "arn:aws:secretsmanager:us-east-1:111122223333:secret:"
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
    secrets: dict[str, str] = field(default_factory=dict)
    """The values in AWS Secrets Manager, by the ARN without the characters that AWS adds."""
    pod_identities: list[Json] = field(default_factory=list)
    role: str = ""
    """The one identity with rights in the account; empty where every identity has them."""
    profile: str = ""
    """The one profile that may assume the role; empty for the environment's credentials."""
    versioning: str = "Enabled"
    """The versioning of the bucket with the state; empty if it was never set."""
    error: ApiError | None = None
    """The answer to every request to AWS, if there is one."""
    ran: list[str] = field(default_factory=list)

    def run(
        self, command: Sequence[str], timeout_sec: float = 0, environment: Mapping[str, str] | None = None
    ) -> Output:
        self.ran.append(" ".join(command))
        programs = {"kubectl": self._kubectl, "gke-gcloud-auth-plugin": self._plugin}
        return programs[command[0]](command[1:])

    def _plugin(self, words: Sequence[str]) -> Output:
        assert words == ["--version"]
        return Output(0, "Kubernetes v1.30.0+0a5be104\n", "")

    def _kubectl(self, words: Sequence[str]) -> Output:
        if (kind := next(word for word in words[words.index("get") + 1 :])) not in self.objects:
            return Output(1, "", f'error: the server doesn\'t have a resource type "{kind}"')
        return Output(0, json.dumps({"items": self.objects[kind]}), "")

    def call(self, service: str, account: AwsAccount, operation: str, arguments: Json) -> Json:
        self.ran.append(f"aws {service} {operation}")
        if self.error:
            raise self.error
        model = SESSION.get_service_model(service)
        name = next(each for each in model.operation_names if xform_name(each) == operation)
        shape = model.operation_model(name)
        report = validate_parameters(arguments, shape.input_shape)
        assert report is None, report
        if self.role and (account.role_arn, account.profile) != (self.role, self.profile):
            raise ApiError("AccessDenied", "not authorized")
        answer = self._answers()[name](arguments)
        if answer is None:
            raise ApiError("NoSuchEntity", "not found")
        validate_parameters(answer, shape.output_shape)
        return answer

    def _answers(self) -> dict[str, Callable[[Json], Json | None]]:
        return {
            "GetCallerIdentity": lambda _: {"Account": "111122223333", "Arn": "arn:aws:iam::111122223333:user/a"},
            "DescribeCluster": lambda _: {"cluster": self.cluster},
            "DescribeAddon": lambda _: {"addon": self.addon},
            "ListPodIdentityAssociations": lambda _: {"associations": self.pod_identities},
            "ListServiceQuotas": lambda _: {
                "Quotas": [{"QuotaCode": code, "Value": value} for code, value in self.quotas.items()]
            },
            "GetSecretValue": lambda given: {"SecretString": self.secrets[self._secret(given)]},
            "PutSecretValue": lambda given: self._store(self._secret(given), given),
            "CreateSecret": lambda given: self._store(f"{SECRETS}{given['Name']}", given),
            "GetRole": self._role,
            "GetBucketVersioning": lambda _: {"Status": self.versioning} if self.versioning else {},
            "DescribeRouteTables": lambda _: {"RouteTables": [{"Routes": self.routes}] if self.routes else []},
            "ListNodegroups": lambda _: {"nodegroups": ["a10g"]},
            "DescribeNodegroup": lambda _: {"nodegroup": {"health": {"issues": self.issues}}},
        }

    def _secret(self, parameters: Json) -> str:
        if parameters["SecretId"] not in self.secrets:
            raise ApiError("ResourceNotFoundException", "Secrets Manager can't find the specified secret.")
        return str(parameters["SecretId"])

    def _store(self, arn: str, parameters: Json) -> Json:
        self.secrets[arn] = parameters["SecretString"]
        return {"ARN": f"{arn}-a1B2c3"}

    def _role(self, parameters: Json) -> Json | None:
        name = parameters["RoleName"]
        role = {"RoleName": name, "Path": "/", "RoleId": "AROA0000000000000000", "Arn": "arn:aws:iam::1:role/x",
                "CreateDate": "2026-01-01T00:00:00Z"}  # fmt: skip
        return {"Role": role} if name in self.roles else None


def connect(accounts: Callable[[], Account]) -> Any:
    """Return a class in place of AwsClient, whose calls the current account answers."""

    class Client:
        def __init__(self, service: str, account: AwsAccount) -> None:
            self.service, self.account = service, account

        def call(self, operation: str, **arguments: Any) -> Json:
            return accounts().call(self.service, self.account, operation, arguments)

    return Client
