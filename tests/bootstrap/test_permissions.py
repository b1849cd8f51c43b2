"""The deployer's roles have the permissions of what the stacks of this repository do, and no others."""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from typing import Any

import pytest
from gpu_ci.aws.limits import eks_api
from gpu_ci.aws.limits.eks_api import Account, AwsClient
from gpu_ci.ec2_gate import compute
from gpu_ci.ec2_gate.compute import GATE_TAG
from gpu_ci.gcp.gate.compute_api import ComputeApi, GoogleCompute
from gpu_ci.gcp.gate.runner import GATE_LABEL
from gpu_ci.kinds.eks import health as health_of_nodes
from gpu_ci.mailbox.boot import GATE as GATE_OF_MAILBOX
from gpu_ci.mailbox.boot import Definition, mail_key, state_key
from gpu_common import aws_permissions
from gpu_common.aws_permissions import END_OF_GATE
from gpu_common.google_permissions import CALLS, LOOKUPS, NEVER_UPDATED, RESOURCES, UPDATE
from pulumi_sandbox.providers.aws import schema
from pulumi_sandbox.providers.gcp.provider import Gcp

from tests.bootstrap.stacks import WIDE, config, staging_with
from tests.gpu_ci.harness import Row
from tests.gpu_ci.program.test_notebooks import CALLS as CALLS_WITH_A_WORKLOAD_POOL
from tests.gpu_ci.program.test_program import run
from tests.gpu_ci.support import CALLS as OF_EC2
from tests.manager.suppliers.ec2.conftest import Memory
from tests.sandbox.providers.gcp.conftest import SHAPES

pytestmark = pytest.mark.usefixtures("short_definitions")

GATE = "gpu-ci:gcp:SmokeGate"
# The functions that stacks call, and the types of which a stack with this call has a resource.
LOOKED_UP_FOR = {
    "gcp:organizations/getProject:getProject": "gpu-ci:kubernetes:NotebookPipeline",
    "gcp:container/getCluster:getCluster": "gcp:container/",
    "gcp:secretmanager/getSecretVersionAccess:getSecretVersionAccess": "github:",
}


def in_place(rows: Iterable[Row]) -> dict[str, set[str]]:
    """The types on Google Cloud, and their fields that Google changes without a new resource."""
    found: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        if row.type.startswith("gcp:"):
            names = [name for name in row.inputs if not name.startswith("__")]
            found[row.type] |= {name for name in names if not on_google(row.type, name)}
    return dict(found)


@cache
def on_google(token: str, name: str) -> bool | None:
    """True if a change of the field replaces the resource."""
    cloud = Gcp()
    cloud.shapes = SHAPES
    found = cloud.replaces(token, name)
    return cloud.replaces_by_documentation(token, name) if found is None else found


@cache
def rows_with(*options: str) -> tuple[Row, ...]:
    """What staging registers with some options."""
    return tuple(run(staging_with(*options), calls={**OF_EC2, **CALLS_WITH_A_WORKLOAD_POOL}).rows)


def needed(rows: Iterable[Row]) -> set[str]:
    """The permissions of every operation that a stack can do: create, read and delete, and updates of its fields."""
    rows = list(rows)
    permissions: set[str] = set()
    for token, fields in in_place(rows).items():
        operations = {name: each for name, each in RESOURCES[token].items() if name != UPDATE or fields}
        permissions |= {permission for each in operations.values() for permission in each}
    if any(row.type == GATE for row in rows):
        permissions |= {permission for each in CALLS.values() for permission in each}
    for function, callers in LOOKED_UP_FOR.items():
        if any(row.type.startswith(callers) for row in rows):
            permissions |= set(LOOKUPS[function])
    return permissions


# The permissions of the role that neither staging nor prod uses: the option of a stack file that needs them, the option
# that it extends, and the permissions that only this option adds.
KEPT: dict[str, tuple[tuple[str, ...], set[str]]] = {
    "networks": (
        (),
        {
            "compute.firewalls.create",
            "compute.firewalls.delete",
            "compute.firewalls.get",
            "compute.firewalls.update",
            "compute.globalOperations.get",
            "compute.networks.create",
            "compute.networks.delete",
            "compute.networks.get",
            "compute.networks.updatePolicy",
            "compute.routers.create",
            "compute.routers.delete",
            "compute.routers.get",
            "compute.routers.update",
            "compute.subnetworks.create",
            "compute.subnetworks.delete",
            "compute.subnetworks.expandIpCidrRange",
            "compute.subnetworks.get",
            "compute.subnetworks.setPrivateIpGoogleAccess",
            "compute.subnetworks.update",
        },
    ),
    "manager": (
        (),
        {
            "artifactregistry.repositories.downloadArtifacts",
            "run.operations.get",
            "run.workerpools.create",
            "run.workerpools.delete",
            "run.workerpools.get",
            "run.workerpools.update",
            "secretmanager.secrets.getIamPolicy",
            "secretmanager.secrets.setIamPolicy",
        },
    ),
    "metrics": (
        ("manager",),
        {
            "logging.logMetrics.create",
            "logging.logMetrics.delete",
            "logging.logMetrics.get",
            "logging.logMetrics.update",
        },
    ),
    "alerts": (
        ("metrics",),
        {
            "monitoring.alertPolicies.create",
            "monitoring.alertPolicies.delete",
            "monitoring.alertPolicies.get",
            "monitoring.alertPolicies.update",
        },
    ),
    "notebooks": ((), {"resourcemanager.projects.get"}),
}


@pytest.mark.parametrize("option", KEPT)
def test_a_permission_that_neither_staging_nor_prod_uses_belongs_to_an_option(option: str) -> None:
    base, permissions = KEPT[option]
    assert needed(rows_with(option)) - needed(rows_with(*base)) == permissions


def test_the_role_has_what_the_stacks_and_their_options_need_and_nothing_else() -> None:
    used = needed(rows_with()) | needed(run(config("prod")).rows)
    kept: set[str] = set().union(*(permissions for _, permissions in KEPT.values()))
    assert used & kept == set()
    assert sorted(used | kept) == WIDE
    assert (len(used), len(kept)) == (75, 36)


def test_a_type_is_never_updated_if_each_change_of_it_replaces_it() -> None:
    fields = in_place(row for option in ("flow logs", "triggers", "alerts") for row in rows_with(option))
    changing = {token for token, names in fields.items() if names}
    # Instance templates and members of policies have no update in the table.
    assert {token for token in fields.keys() - changing if UPDATE in RESOURCES[token]} == NEVER_UPDATED
    assert fields["gcp:compute/subnetwork:Subnetwork"] == {"ipCidrRange", "logConfig", "privateIpGoogleAccess"}


def test_the_check_calls_exactly_the_methods_whose_permissions_the_role_has(monkeypatch: pytest.MonkeyPatch) -> None:
    called: set[str] = set()
    answer: dict[str, Any] = {"name": "o", "id": "1", "properties": {}, "status": "DONE"}

    def record(_: GoogleCompute, call: Any, retries: int | None = None) -> dict[str, Any]:
        called.add(call.methodId)
        return answer

    monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", "token")
    monkeypatch.setattr(GoogleCompute, "_run", record)
    api: ComputeApi = GoogleCompute()
    zone = ("p", "us-central1-a")
    api.template("p", "us-central1", "t")
    api.insert(*zone, {}, "t")
    api.delete(*zone, "m")
    api.done(*zone, "o")
    api.instances(*zone, "label", "value")
    api.instances_of_all_zones("p", "filter", ["name"])
    api.status(*zone, "m")
    api.guest_attribute(*zone, "m", "key")
    api.serial(*zone, "m", 0)
    # Each method of the protocol was called once.
    assert len([name for name in vars(ComputeApi) if not name.startswith("_")]) == 9
    assert called == CALLS.keys()


def of_aws(rows: Iterable[Row]) -> dict[str, set[str]]:
    """The types on AWS, and their fields that AWS changes without a new resource."""
    found: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        if row.type.startswith("aws:"):
            found[row.type] |= {name for name in row.inputs if not name.startswith("__") and not on_aws(row.type, name)}
    return dict(found)


def on_aws(token: str, name: str) -> bool | None:
    """True if a change of the field replaces the resource."""
    return schema.replaces(token, name)


# The actions of the role on AWS that staging does not use. EFA creates a placement group and a security group. An image
# pipeline creates resources of Image Builder, an instance profile and a security group, and a pool tags its image.
OF_EFA = {
    "ec2:AuthorizeSecurityGroupEgress",
    "ec2:AuthorizeSecurityGroupIngress",
    "ec2:CreatePlacementGroup",
    "ec2:CreateSecurityGroup",
    "ec2:DeletePlacementGroup",
    "ec2:DeleteSecurityGroup",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribePlacementGroups",
    "ec2:DescribeSecurityGroupRules",
    "ec2:ModifySecurityGroupRules",
    "ec2:RevokeSecurityGroupEgress",
    "ec2:RevokeSecurityGroupIngress",
}
OF_AMI = {
    "ec2:AuthorizeSecurityGroupEgress",
    "ec2:CreateSecurityGroup",
    "ec2:DeleteSecurityGroup",
    "ec2:DescribeImages",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSecurityGroupRules",
    "ec2:DescribeTags",
    "ec2:ModifySecurityGroupRules",
    "ec2:RevokeSecurityGroupEgress",
    "iam:AddRoleToInstanceProfile",
    "iam:CreateInstanceProfile",
    "iam:DeleteInstanceProfile",
    "iam:GetInstanceProfile",
    "iam:RemoveRoleFromInstanceProfile",
    "iam:TagInstanceProfile",
    "iam:UntagInstanceProfile",
    "imagebuilder:TagResource",
    "imagebuilder:UntagResource",
    *(
        f"imagebuilder:{verb}{kind}"
        for verb in ("Create", "Delete", "Get")
        for kind in (
            "Component",
            "DistributionConfiguration",
            "ImagePipeline",
            "ImageRecipe",
            "InfrastructureConfiguration",
            "LifecyclePolicy",
        )
    ),
    "imagebuilder:UpdateDistributionConfiguration",
    "imagebuilder:UpdateImagePipeline",
    "imagebuilder:UpdateInfrastructureConfiguration",
    "imagebuilder:UpdateLifecyclePolicy",
}


OF_MANAGER = {
    *(f"ecs:{verb}{kind}" for verb in ("Create", "Delete", "Update") for kind in ("Cluster", "Service")),
    *(f"ecs:{verb}" for verb in ("DescribeClusters", "DescribeServices", "DescribeServiceDeployments")),
    *(f"ecs:{verb}TaskDefinition" for verb in ("Deregister", "Describe", "Register")),
    *(f"logs:{verb}" for verb in ("CreateLogGroup", "DeleteLogGroup", "DescribeLogGroups", "ListTagsForResource")),
    *(f"logs:{verb}" for verb in ("PutRetentionPolicy", "TagResource", "UntagResource")),
    "ecs:ListServiceDeployments",
    "ecs:TagResource",
    "ecs:UntagResource",
}


def test_the_role_on_aws_has_what_the_stacks_need_and_nothing_else() -> None:
    def actions(*options: str) -> set[str]:
        found: set[str] = set()
        for token, fields in of_aws(rows_with(*options)).items():
            operations = aws_permissions.RESOURCES[token]
            found |= {one for name, each in operations.items() if name != UPDATE or fields for one in each}
        groups = (*aws_permissions.CALLS.values(), *aws_permissions.LOOKUPS.values())
        return found | {action for group in groups for action in group}

    others = actions("no ec2")
    assert actions("no ec2", "efa") - others == OF_EFA
    assert actions("no ec2", "ami") - others == OF_AMI
    assert actions("manager on aws") - actions() == OF_MANAGER
    mailbox = {each for each in aws_permissions.deployer() if each.startswith("s3:")}
    [ends] = [each for each in aws_permissions.statements(aws_permissions.deployer()) if END_OF_GATE in each["Action"]]
    assert (ends["Action"], list(ends["Condition"]["StringLike"])) == ([END_OF_GATE], [f"aws:ResourceTag/{GATE_TAG}"])
    mail = aws_permissions.statements(["s3:GetObject", END_OF_GATE])[0]["Resource"]
    own = ("*/payloads/*", "*/templates/*", state_key("*", "configuration.json"), f"{mail_key(GATE_OF_MAILBOX)}*")
    assert mail == [f"arn:*:s3:::mailbox-*/{keys}" for keys in own]
    assert actions() - others - OF_AMI == mailbox
    assert sorted(actions("efa", "ami") | OF_MANAGER) == aws_permissions.deployer()
    assert len(aws_permissions.deployer()) == 122 + len(OF_MANAGER)


def test_a_type_on_aws_is_never_updated_if_each_change_of_it_replaces_it() -> None:
    fields = of_aws([*rows_with("efa", "ami"), *rows_with("manager on aws")])
    assert fields.keys() == aws_permissions.RESOURCES.keys()
    with_update = {token for token in fields if UPDATE in aws_permissions.RESOURCES[token]}
    assert {token for token in with_update if not fields[token]} == aws_permissions.NEVER_UPDATED


def gate_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Call what the gate of EC2 calls."""
    monkeypatch.setattr(compute, "S3Objects", lambda *_: Memory())
    inputs = {"region": "us-east-1", "mailboxBucket": "m", "mailboxRegion": "us-east-1", "market": "spot"}
    api = compute.Ec2Compute({**inputs, "subnets": {"us-east-1a": "subnet-1"}, "securityGroups": ["sg-1"]})
    limit = {"maxRunDuration": {"seconds": "1500"}}
    zone = ("", "us-east-1a")
    api.template("", "us-east-1", "lt-1:1")
    api.insert(*zone, {"name": "m", "labels": {GATE_LABEL: "g"}, "scheduling": limit}, "lt-1:1")
    api.instances(*zone, GATE_LABEL, "g")
    api.delete(*zone, "m")
    api.done(*zone, "i-1")
    api.status(*zone, "m")


def test_the_calls_on_aws_are_those_whose_actions_the_role_has(monkeypatch: pytest.MonkeyPatch) -> None:
    called: set[str] = set()

    class Recorded(AwsClient):
        def __init__(self, service: str, account: Account, attempts: int = 0) -> None:
            self._service = service

        def call(self, operation: str, **arguments: Any) -> dict[str, Any]:
            called.add(f"{self._service}.{operation}")
            update = {"id": "u", "status": "Successful"}
            row = {"InstanceId": "i-1", "State": {"Name": "running"}, "Placement": {"AvailabilityZone": "us-east-1a"}}
            data = {
                "UserData": base64.b64encode(Definition({}, {"agent": "a" * 64, "smoke": "b" * 64}).text().encode())
            }
            return {
                "nodegroup": {"scalingConfig": {"desiredSize": 0, "maxSize": 1}},
                "update": update,
                "LaunchTemplateVersions": [{"LaunchTemplateData": data}],
                "Instances": [row],
                "Reservations": [{"Instances": [row]}],
            }

    for module in (eks_api, health_of_nodes, compute):
        monkeypatch.setattr(module, "AwsClient", Recorded)
    api, health = eks_api.AwsEks(Account("us-east-1")), health_of_nodes.AwsHealth(Account("us-east-1"))
    api.sizes("ci", "l4")
    api.set_most("ci", "l4", 2)
    api.update_status("ci", "l4", "u")
    api.suspend_balancing("eks-l4-1")
    health.issues("ci", "l4")
    health.activities("eks-l4-1")
    gate_check(monkeypatch)
    # Each method of both protocols was called once.
    protocols = (eks_api.EksApi, health_of_nodes.AwsHealth)
    assert sum(not name.startswith("_") for each in protocols for name in vars(each)) == 6
    assert called == aws_permissions.CALLS.keys()
