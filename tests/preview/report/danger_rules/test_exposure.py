"""Tests of the rules `public` and `identity`: each kind, and similar changes that allow no more."""

from __future__ import annotations

import json
from typing import Any

import pytest
from gpu_preview.model import Severity
from gpu_preview.report.danger_rules import find
from gpu_preview.report.danger_rules.exposure import is_open

from ...danger_cases import CREATE, DELETE, REPLACE, SAME, UNKNOWN, UPDATE, found, resource, state, texts, urn

TEMPLATE = "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate"
FIREWALL = "gcp:compute/firewall:Firewall"
GROUP = "aws:ec2/securityGroup:SecurityGroup"
CLUSTER = "aws:eks/cluster:Cluster"
BLOCK = "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock"
SERVICE = "kubernetes:core/v1:Service"
POLICY = "kubernetes:networking.k8s.io/v1:NetworkPolicy"

# The type, inputs that are public, inputs that are not, and the text of the finding.
CASES: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    (TEMPLATE, {"networkInterfaces": [{"accessConfigs": [{}]}]}, {"networkInterfaces": [{"accessConfigs": []}]},
     ": networkInterfaces[0].accessConfigs gives machines a public address"),
    ("gcp:container/cluster:Cluster", {"privateClusterConfig": {"enablePrivateEndpoint": False}},
     {"privateClusterConfig": {"enablePrivateEndpoint": True}},
     ": privateClusterConfig.enablePrivateEndpoint opens the control plane to the Internet"),
    ("gcp:projects/iAMMember:IAMMember", {"member": "allUsers"}, {"member": "user:all@example.org"},
     ": member grants the role to everybody"),
    ("gcp:storage/bucketIAMBinding:BucketIAMBinding", {"members": ["user:a@example.org", "allAuthenticatedUsers"]},
     {"members": ["user:a@example.org"]}, ": members grants the role to everybody"),
    ("gcp:storage/bucketAccessControl:BucketAccessControl", {"entity": "allUsers"}, {"entity": "user-a"},
     ": entity gives everybody access"),
    ("gcp:storage/bucket:Bucket", {"publicAccessPrevention": "inherited"}, {"publicAccessPrevention": "enforced"},
     ": publicAccessPrevention may be made public"),
    ("aws:ec2/launchTemplate:LaunchTemplate", {"networkInterfaces": [{"associatePublicIpAddress": "true"}]},
     {"networkInterfaces": [{"associatePublicIpAddress": "false"}]},
     ": networkInterfaces[0].associatePublicIpAddress gives machines a public address"),
    ("aws:ec2/subnet:Subnet", {"mapPublicIpOnLaunch": True}, {"mapPublicIpOnLaunch": False},
     ": mapPublicIpOnLaunch gives every machine in it a public address"),
    ("aws:rds/instance:Instance", {"publiclyAccessible": True}, {"publiclyAccessible": False},
     ": publiclyAccessible gives it a public address"),
    ("aws:s3/bucketAcl:BucketAcl", {"acl": "public-read"}, {"acl": "private"}, ": acl lets everybody read it"),
    (BLOCK, {"blockPublicAcls": False}, {"blockPublicAcls": True},
     ": blockPublicAcls turns off a block of public access"),
    ("github:index/actionsRunnerGroup:ActionsRunnerGroup", {"allowsPublicRepositories": True},
     {"allowsPublicRepositories": False},
     (": allowsPublicRepositories lets anybody's pull request to a public repository run on the runners, also "
      "on those that are registered now, which accept every run")),
    ("github:index/repository:Repository", {"visibility": "public"}, {"visibility": "internal"},
     ": visibility makes the repository public"),
    (FIREWALL, {"sourceRanges": ["0.0.0.0/0"], "allows": [{"protocol": "tcp", "ports": ["22"]}]},
     {"sourceRanges": ["10.0.0.0/8"], "allows": [{"protocol": "tcp", "ports": ["22"]}]},
     " allows traffic from 0.0.0.0/0 (tcp 22)"),
    (FIREWALL, {"allows": [{"protocol": "icmp"}]}, {"sourceTags": ["a"], "allows": [{"protocol": "icmp"}]},
     " allows traffic from 0.0.0.0/0 (icmp every port)"),
    (FIREWALL, {"direction": "INGRESS", "sourceRanges": ["::/0"], "allows": [{"protocol": "tcp"}]},
     {"direction": "EGRESS", "sourceRanges": ["::/0"], "allows": [{"protocol": "tcp"}]},
     " allows traffic from ::/0 (tcp every port)"),
    ("gcp:compute/networkFirewallPolicyRule:NetworkFirewallPolicyRule",
     {"direction": "INGRESS", "action": "allow", "match": {"srcIpRanges": ["0.0.0.0/0"]}},
     {"direction": "INGRESS", "action": "deny", "match": {"srcIpRanges": ["0.0.0.0/0"]}},
     " allows traffic from 0.0.0.0/0"),
    (GROUP, {"ingress": [{"protocol": "tcp", "fromPort": 22, "toPort": 22, "cidrBlocks": ["0.0.0.0/0"]}]},
     {"egress": [{"protocol": "tcp", "fromPort": 22, "toPort": 22, "cidrBlocks": ["0.0.0.0/0"]}]},
     " allows traffic from 0.0.0.0/0 (tcp 22)"),
    ("aws:ec2/securityGroupRule:SecurityGroupRule",
     {"type": "ingress", "protocol": "-1", "fromPort": 0, "toPort": 0, "ipv6CidrBlocks": ["::/0"]},
     {"type": "egress", "protocol": "-1", "fromPort": 0, "toPort": 0, "ipv6CidrBlocks": ["::/0"]},
     " allows traffic from ::/0 (every port)"),
    ("aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule",
     {"ipProtocol": "tcp", "fromPort": 80, "toPort": 90, "cidrIpv4": "0.0.0.0/0"},
     {"ipProtocol": "tcp", "fromPort": 80, "toPort": 90, "cidrIpv4": "192.0.2.0/24"},
     " allows traffic from 0.0.0.0/0 (tcp 80-90)"),
    (CLUSTER, {"vpcConfig": {"endpointPublicAccess": True}},
     {"vpcConfig": {"endpointPublicAccess": True, "publicAccessCidrs": ["192.0.2.0/24"]}},
     " has a control plane that the whole Internet can reach (endpointPublicAccess)"),
    (CLUSTER, {"vpcConfig": {"publicAccessCidrs": ["192.0.2.0/24", "0.0.0.0/0"]}},
     {"vpcConfig": {"publicAccessCidrs": ["192.0.2.0/24"]}},
     " has a control plane that the whole Internet can reach (endpointPublicAccess)"),
    (CLUSTER, {"vpcConfig": {}}, {"vpcConfig": {"endpointPublicAccess": False}},
     " has a control plane that the whole Internet can reach (endpointPublicAccess)"),
    (SERVICE, {"spec": {"type": "LoadBalancer"}},
     {"spec": {"type": "LoadBalancer"},
      "metadata": {"annotations": {"networking.gke.io/load-balancer-type": "Internal"}}},
     " is a load balancer with a public address"),
    (POLICY, {"spec": {"ingress": [{"from": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]}]}},
     {"spec": {"egress": [{"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]}]}}, " allows traffic from 0.0.0.0/0"),
    ("aws:s3/bucketPolicy:BucketPolicy",
     {"policy": json.dumps({"Statement": {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject"}})},
     {"policy": json.dumps({"Statement": {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject",
                                          "Condition": {"StringEquals": {"aws:SourceVpc": "vpc-1"}}}})},
     " lets anyone do s3:GetObject"),
    ("aws:ecr/repositoryPolicy:RepositoryPolicy",
     {"policy": json.dumps({"Statement": [{"Effect": "Allow", "Principal": {"AWS": ["*"]}, "Action": ["ecr:*"]}]})},
     {"policy": json.dumps({"Statement": [{"Effect": "Deny", "Principal": {"AWS": ["*"]}, "Action": ["ecr:*"]}]})},
     " lets anyone do ecr:*"),
]  # fmt: skip
each_case = pytest.mark.parametrize(("type_", "public", "private", "text"), CASES)


@each_case
def test_a_resource_that_becomes_public_is_reported(type_: str, public: Any, private: Any, text: str) -> None:
    expected = [f"public: {type_.rpartition(':')[2]} x{text}"]
    for operation in (UPDATE, REPLACE):
        dangers = texts(found(type_, operation, private, public))
        assert [text for text in dangers if text.startswith("public: ")] == expected
    assert texts(found(type_, CREATE, after=public)) == expected


@each_case
def test_a_resource_that_does_not_become_public_is_no_danger(type_: str, public: Any, private: Any, text: str) -> None:
    assert found(type_, CREATE, after=private) == []
    assert found(type_, UPDATE, public, public) == []
    assert found(type_, UPDATE, public, private) == []
    assert found(type_, UPDATE, private, private) == []
    assert found(type_, SAME, private, public) == []


def test_a_block_of_public_access_that_is_forgotten_is_reported() -> None:
    flags = {"blockPublicAcls": True, "restrictPublicBuckets": True}
    assert texts(found(BLOCK, UPDATE, flags, {"blockPublicAcls": True})) == [
        "public: BucketPublicAccessBlock x: restrictPublicBuckets turns off a block of public access"
    ]
    assert found(BLOCK, UPDATE, {"blockPublicAcls": True}, {"blockPublicAcls": UNKNOWN}) == []
    assert found(BLOCK, UPDATE, {"blockPublicAcls": None}, {"blockPublicAcls": None}) == []


def test_a_block_that_goes_with_its_bucket_is_no_danger() -> None:
    bucket = "aws:s3/bucket:Bucket"
    before = {each.urn: each for each in (state(BLOCK, "x", dependencies=(urn(bucket, "b"),)), state(bucket, "b"))}
    block, gone = resource(BLOCK, DELETE), resource(bucket, DELETE, "b")
    stays = {urn(bucket, "b"): state(bucket, "b")}
    assert texts(find(before, stays, [block, resource(bucket, SAME, "b")])) == [
        "public: BucketPublicAccessBlock x is deleted: the bucket can be made public"
    ]
    assert [each.rule for each in find(before, {}, [block, gone])] == ["loses-data"]


def test_a_network_policy_that_is_deleted_without_its_namespace_is_reported() -> None:
    namespace = "kubernetes:core/v1:Namespace"
    before = {each.urn: each for each in (state(POLICY, dependencies=(urn(namespace, "n"),)), state(namespace, "n"))}
    [finding] = find(before, {}, [resource(POLICY, DELETE)])
    assert finding.text == "NetworkPolicy x is deleted: traffic that it blocked may reach its pods"
    both = find(before, {}, [resource(POLICY, DELETE), resource(namespace, DELETE, "n")])
    assert "public" not in [each.rule for each in both]


def test_one_more_port_of_an_open_firewall_is_reported_alone() -> None:
    def rule(*ports: str) -> dict[str, Any]:
        return {"sourceRanges": ["0.0.0.0/0"], "allows": [{"protocol": "tcp", "ports": [port]} for port in ports]}

    [finding] = found(FIREWALL, UPDATE, rule("443"), rule("443", "22"))
    assert finding.text == "Firewall x allows traffic from 0.0.0.0/0 (tcp 22)"
    assert finding.severity == Severity.DANGER
    assert found(FIREWALL, CREATE, after={**rule("22"), "disabled": True}) == []
    assert found(FIREWALL, CREATE, after={**rule("22"), "sourceRanges": UNKNOWN}) == []


@pytest.mark.parametrize(
    ("cidr", "expected"),
    [
        ("0.0.0.0/0", True),
        ("128.0.0.0/1", True),
        ("8.0.0.0/7", True),
        ("8.0.0.0/8", False),
        ("10.0.0.0/8", False),
        ("::/0", True),
        ("2000::/3", True),
        ("2001:db8::/32", False),
        ("fc00::/7", False),
        (" 0.0.0.0/0 ", True),
        ("0.0.0.0", False),  # noqa: S104 - nothing listens
        ("nothing", False),
        ("", False),
    ],
)
def test_addresses_are_open_if_they_include_most_of_the_internet(cidr: str, expected: bool) -> None:
    assert is_open(cidr) is expected


MEMBER = "gcp:projects/iAMMember:IAMMember"
BINDING = "gcp:projects/iAMBinding:IAMBinding"
IAM = "aws:iam/policy:Policy"
ROLE = "aws:iam/role:Role"
PROVIDER = "gcp:iam/workloadIdentityPoolProvider:WorkloadIdentityPoolProvider"
ROLE_BINDING = "kubernetes:rbac.authorization.k8s.io/v1:ClusterRoleBinding"
RELEASE = "kubernetes:helm.sh/v3:Release"
JOB_PODS = "lets jobs create pods, so a job can read every Secret of the namespace, also the key of the GitHub App"
RUNNERS = "github:index/actionsRunnerGroup:ActionsRunnerGroup"
GITHUB = "token.actions.githubusercontent.com"


def policy(action: Any, resource: Any = "*", **others: Any) -> dict[str, Any]:
    return {
        "policy": json.dumps({"Statement": [{"Effect": "Allow", "Action": action, "Resource": resource, **others}]})
    }


def trust(*subjects: str, operator: str = "StringLike", audience: bool = True) -> dict[str, Any]:
    condition: dict[str, Any] = {"StringEquals": {f"{GITHUB}:aud": "sts.amazonaws.com"}} if audience else {}
    if subjects:
        condition.setdefault(operator, {})[f"{GITHUB}:sub"] = list(subjects)
    principal = {"Federated": f"arn:aws:iam::123456789012:oidc-provider/{GITHUB}"}
    statement = {"Effect": "Allow", "Principal": principal, "Action": "sts:AssumeRoleWithWebIdentity"}
    return {"assumeRolePolicy": json.dumps({"Statement": [{**statement, "Condition": condition}]})}


NO_SUB = f"trusts {GITHUB} with no condition on sub"
TAKES = "workflows of other repositories can assume the role"
ONE = "repo:org/a:ref:refs/heads/main"

# The type, the inputs before (None: a new resource) and after, and the texts of the findings.
GRANTS: list[tuple[str, dict[str, Any] | None, dict[str, Any], list[str]]] = [
    (MEMBER, None, {"role": "roles/owner", "member": "user:a"}, ["grants roles/owner to user:a"]),
    (MEMBER, None, {"role": "roles/logging.logWriter", "member": "user:a"}, []),
    (MEMBER, None, {"role": "roles/editor", "member": UNKNOWN},
     ["grants roles/editor to a member known only after the update"]),
    (MEMBER, {"role": "roles/viewer", "member": "user:a"}, {"role": "roles/editor", "member": "user:a"},
     ["grants roles/editor to user:a"]),
    (BINDING, {"role": "roles/owner", "members": ["user:a"]}, {"role": "roles/owner", "members": ["user:b", "user:a"]},
     ["grants roles/owner to user:b"]),
    (MEMBER, None, {"role": "roles/x", "member": "principalSet://iam.googleapis.com/p/workloadIdentityPools/ci/*"},
     ["grants a role to every identity of a pool: principalSet://iam.googleapis.com/p/workloadIdentityPools/ci/*"]),
    (MEMBER, None, {"role": "roles/x", "member": "principalSet://iam.googleapis.com/p/workloadIdentityPools/ci/a/b"},
     []),
    (IAM, None, policy("*", "arn:aws:s3:::a"), ["allows *"]),
    (IAM, None, policy(["s3:*", "s3:GetObject"]), ["allows s3:*"]),
    (IAM, None, policy("s3:*", "arn:aws:s3:::a"), []),
    (IAM, policy("s3:*"), policy(["ec2:*", "s3:*"]), ["allows ec2:*"]),
    (IAM, None, policy(None, NotAction="iam:*"), ["allows all but some (NotAction)"]),
    (IAM, None, {"policy": json.dumps({"Statement": [{"Effect": "Deny", "Action": "*", "Resource": "*"}]})}, []),
    (IAM, None, {"policy": UNKNOWN}, []),
    (ROLE, {}, {"managedPolicyArns": ["arn:aws:iam::aws:policy/AdministratorAccess"]},
     ["attaches arn:aws:iam::aws:policy/AdministratorAccess"]),
    ("aws:iam/rolePolicyAttachment:RolePolicyAttachment", None,
     {"policyArn": "arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy"}, []),
    (ROLE, trust(ONE), trust(), [f"{NO_SUB} any more: {TAKES}"]),
    (ROLE, trust(ONE), trust(ONE, operator="StringNotLike"), [f"{NO_SUB} any more: {TAKES}"]),
    (ROLE, None, trust(audience=False), [f"{NO_SUB}: {TAKES}"]),
    (ROLE, None, trust(ONE), []),
    (ROLE, trust(ONE), trust("repo:org/*:*"), [f"trusts {GITHUB} with sub like repo:org/*:*: {TAKES}"]),
    (ROLE, trust(ONE), trust("repo:org/a:*"), [f"newly trusts repo:org/a:* of {GITHUB}"]),
    (ROLE, trust("repo:org/a:*"), trust(ONE), []),
    (ROLE, trust(ONE), trust(ONE, "repo:org/b:*"), [f"newly trusts repo:org/b:* of {GITHUB}"]),
    (ROLE, None, trust("repo:org/*", operator="StringEquals"), []),
    (PROVIDER, {"attributeCondition": "a == 'b'"}, {},
     ["accepts tokens of every repository: its attributeCondition is removed"]),
    (PROVIDER, {"attributeCondition": "a == 'b'"}, {"attributeCondition": "a == 'c'"},
     ["accepts tokens by another attributeCondition: check if it accepts more tokens"]),
    (PROVIDER, {"attributeCondition": "a == 'b'"}, {"attributeCondition": "a=='b'"}, []),
    (PROVIDER, {"attributeCondition": "a == 'b'"}, {"attributeCondition": UNKNOWN}, []),
    (PROVIDER, None, {"oidc": {"issuerUri": f"https://{GITHUB}"}},
     ["accepts tokens of every repository: it has no attributeCondition"]),
    (PROVIDER, None, {"oidc": {"issuerUri": f"https://{GITHUB}"}, "attributeCondition": "a == 'b'"}, []),
    ("kubernetes:rbac.authorization.k8s.io/v1:ClusterRoleBinding", None, {"roleRef": {"name": "cluster-admin"}},
     ["makes its subjects cluster-admin"]),
    ("kubernetes:rbac.authorization.k8s.io/v1:ClusterRoleBinding", None, {"roleRef": {"name": "view"}}, []),
    (ROLE, trust(ONE), trust(ONE, operator="StringLikeIfExists"), [f"{NO_SUB} any more: {TAKES}"]),
    ("kubernetes:rbac.authorization.k8s.io/v1:ClusterRole", {"rules": [{"verbs": ["get"], "resources": ["*"]}]},
     {"rules": [{"verbs": ["*"], "resources": ["*"]}]}, ["allows every verb on every resource"]),
    ("kubernetes:rbac.authorization.k8s.io/v1:ClusterRole", None, {"rules": [{"verbs": ["*"], "resources": ["pods"]}]},
     []),
    (RELEASE, None, {"values": {"containerMode": {"type": "kubernetes"}}}, [JOB_PODS]),
    (RELEASE, {"values": {}}, {"values": {"containerMode": {"type": "kubernetes-novolume"}}}, [JOB_PODS]),
    (RELEASE, {"values": {"containerMode": {"type": "kubernetes-novolume"}}},
     {"values": {"containerMode": {"type": "kubernetes"}}}, []),
    (RELEASE, None, {"values": {"containerMode": {"type": "dind"}}}, []),
    ("kubernetes:apps/v1:Deployment", {"spec": [{"privileged": False}]}, {"spec": [{"privileged": True}]},
     ["weakens the isolation of a container: spec[0].privileged"]),
    (RUNNERS, {"selectedRepositoryIds": [1]}, {"selectedRepositoryIds": [2, 1, 3]},
     ["allows 2 more in selectedRepositoryIds"]),
    (RUNNERS, {"selectedRepositoryIds": [1]}, {"selectedRepositoryIds": UNKNOWN}, []),
    (RUNNERS, {"selectedRepositoryIds": [1]}, {"selectedRepositoryIds": [1, UNKNOWN]}, []),
    (RUNNERS, None, {"selectedRepositoryIds": [1], "visibility": "selected"}, []),
    (RUNNERS, {"visibility": "selected"}, {"visibility": "all"},
     ["is available to all repositories (before: selected)"]),
    (RUNNERS, None, {"visibility": "all"}, ["is available to all repositories (before: none)"]),
    (RUNNERS, {"restrictedToWorkflows": True}, {"restrictedToWorkflows": False},
     ["is no longer restricted to selected workflows"]),
    (ROLE_BINDING, {"subjects": [{"kind": "User", "name": "dev"}]},
     {"subjects": [{"kind": "Group", "name": f"system:{each}"} for each in ("unauthenticated", "serviceaccounts")]},
     ["binds every client of the API server: system:unauthenticated",
      "binds every pod of the cluster: system:serviceaccounts"]),
    (ROLE_BINDING, None, {"subjects": [{"kind": "Group", "name": "system:authenticated"}]},
     ["binds every account of the cluster: system:authenticated"]),
    (ROLE_BINDING, {"subjects": [{"name": "system:anonymous"}]},
     {"subjects": [{"name": "system:anonymous"}, {"name": "a"}]}, []),
    (ROLE_BINDING, None, {"subjects": [{"name": ["system:anonymous"]}, 3]}, []),
    ("github:index/repositoryRuleset:RepositoryRuleset", {"enforcement": "active"}, {"enforcement": "disabled"},
     ["is no longer enforced: enforcement is not active"]),
    ("github:index/repositoryRuleset:RepositoryRuleset", {"enforcement": "evaluate"}, {"enforcement": "disabled"}, []),
    ("github:index/repositoryRuleset:RepositoryRuleset", {"bypassActors": []}, {"bypassActors": [{"actorId": 1}]},
     ["allows 1 more in bypassActors"]),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "before", "after", "expected"), GRANTS)
def test_a_change_that_allows_more_is_reported(type_: str, before: Any, after: Any, expected: list[str]) -> None:
    findings = found(type_, CREATE if before is None else UPDATE, before, after)
    assert texts(findings) == [f"identity: {type_.rpartition(':')[2]} x {text}" for text in expected]
    assert {each.severity for each in findings} <= {Severity.DANGER}


def test_a_ruleset_that_is_deleted_is_reported() -> None:
    type_ = "github:index/repositoryRuleset:RepositoryRuleset"
    assert texts(found(type_, DELETE, {"enforcement": "active"})) == [
        "identity: RepositoryRuleset x is deleted: its branches can be changed without its checks"
    ]
    assert found(MEMBER, DELETE, {"role": "roles/owner", "member": "user:a"}) == []
