"""The steps of `gpu-ci doctor` about clusters on EKS and GKE."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_ci.aws.limits.eks_api import ApiError
from gpu_ci.cli import programs
from gpu_ci.cli.doctor import eks, gke
from gpu_ci.cli.programs import Output
from gpu_ci.github_trust import set_subject
from gpu_common import google_permissions

from tests.gpu_ci.cli.doctor.conftest import KEYS, KMS, STACK, Environment, fixes, statuses
from tests.gpu_ci.cli.doctor.google_apis import CLUSTER, NETWORK
from tests.gpu_ci.cli.doctor.programs import GPU_TAINT, SECRETS, Account, daemon, listener

EKS = """\
  gpu-ci:clusters:
    ci: {region: us-east-1, subnets: {us-east-1a: subnet-0123456789abcdef0, us-east-1b: subnet-0123456789abcdef1}}
"""
RUNNER_IMAGE = f"111122223333.dkr.ecr.us-east-1.amazonaws.com/runner@sha256:{'1' * 64}"
NODES = (
    "    a10g: {kind: eks-runners, clusterName: ci, instanceTypes: [g5.2xlarge], market: spot, max: 2, "
    f"runner: {{image: '{RUNNER_IMAGE}'}}}}\n"
)
ON_EKS = STACK.replace("    subnetworks: {us-central1: projects/acme-ci/regions/us-central1/subnetworks/ci}\n", "")
ON_EKS = ON_EKS.replace("managerApp", "runnerApp").partition("  gpu-ci:pools:")[0] + EKS + f"  gpu-ci:pools:\n{NODES}"
EKS_STEPS = [step.name for step in eks.STEPS]


NO_ROLE = {"configurationValues": '{"enableNetworkPolicy": "true"}'}


def on_eks(environment: Environment) -> None:
    environment.text = f"{ON_EKS}secretsprovider: {KMS}\n"
    del environment.github.apps[103]["permissions"]["actions"]


def test_a_stack_on_eks_alone_asks_google_for_its_keys_only(environment: Environment) -> None:
    on_eks(environment)
    environment.cloud.apis = {
        f"{name}.googleapis.com" for name in ("cloudkms", "cloudresourcemanager", "secretmanager", "storage")
    }
    answer = environment.doctor("--json")
    names = [
        "google/project", "google/quota project", "google/apis", "google/secrets",
        *(f"eks/{name}" for name in EKS_STEPS),
        "github/app", "github/runnerApp", "github/subject", "state/backend", "state/secrets provider",
    ]  # fmt: skip
    assert statuses(answer) == dict.fromkeys(names, "pass")
    assert not any(" compute " in asked for asked in environment.cloud.asked)


def test_the_app_of_a_pool_has_a_step_and_a_secret(environment: Environment) -> None:
    on_eks(environment)
    app = "{id: 4, installationId: 14, privateKey: projects/acme-ci/secrets/a10g-key}"
    environment.replace("      runnerApp:", f"      poolApps: {{a10g: {app}}}\n      runnerApp:")
    environment.cloud.secrets["a10g-key"] = ""
    answer = environment.doctor("--json", "--only", "github", "--only", "google/secrets")
    found = statuses(answer)
    assert (found["github/poolApps.a10g"], found["google/secrets"]) == ("fail", "fail")
    assert fixes(answer, "github/poolApps.a10g") == [
        "gpu-ci github-app store projects/acme-ci/secrets/a10g-key < KEY.pem",
        "gpu-ci github-app create Pulumi.dev.yaml --only poolApps.a10g",
    ]


def test_a_stack_on_aws_alone_asks_google_for_nothing(environment: Environment) -> None:
    on_eks(environment)
    environment.has_credentials = False
    environment.replace("  gcp:project: acme-ci\n", "")
    environment.replace("secretsprovider: gcpkms://projects/acme-ci", "secretsprovider: awskms://alias/x#")
    environment.login = "s3://acme-ci-pulumi-state?region=eu-west-1"
    for key in ("key", "manager-key"):
        environment.replace(f"projects/acme-ci/secrets/{key}}}", f"{SECRETS}{key}}}")
    environment.account.secrets = {f"{SECRETS}{name}": pem.decode() for name, (pem, _) in KEYS.items()}
    found = statuses(environment.doctor("--json"))
    assert [name for name in found if name.startswith("google/")] == []
    assert (found["github/app"], found["github/runnerApp"], found["state/backend"]) == ("pass", "pass", "pass")
    environment.account.secrets = {}
    answer = environment.doctor("--json", "--only", "github")
    assert statuses(answer) == {"github/app": "fail", "github/runnerApp": "fail", "github/subject": "pass"}
    assert fixes(answer, "github/app")[0] == f"gpu-ci github-app store {SECRETS}key < KEY.pem"
    environment.account.error = ApiError("AccessDeniedException", "no")
    answer = environment.doctor("--json", "--only", "github")
    assert statuses(answer) == {"github/app": "unknown", "github/runnerApp": "unknown", "github/subject": "pass"}


@pytest.mark.parametrize(
    ("changes", "status", "fix"),
    [
        ({}, "pass", []),
        ({"versioning": "Suspended"}, "fail",
         ["aws s3api put-bucket-versioning --bucket b --versioning-configuration Status=Enabled"]),
        ({"versioning": ""}, "fail",
         ["aws s3api put-bucket-versioning --bucket b --versioning-configuration Status=Enabled"]),
        ({"error": ApiError("NoSuchBucket", "no")}, "fail", ["aws s3 mb s3://b --region us-east-1"]),
        ({"error": ApiError("AccessDenied", "no")}, "unknown", ["aws sso login"]),
    ],
)  # fmt: skip
def test_a_state_on_s3_keeps_old_versions(
    environment: Environment, changes: dict[str, Any], status: str, fix: list[str]
) -> None:
    environment.login = "s3://b"
    for name, value in changes.items():
        setattr(environment.account, name, value)
    answer = environment.doctor("--json", "--only", "backend")
    assert statuses(answer) == {"state/backend": status}
    assert fixes(answer, "state/backend") == fix


@pytest.mark.parametrize(
    ("step", "changes", "fix"),
    [
        ("cluster", {"cluster": {"name": "ci", "status": "ACTIVE", "version": "1.33",
                                 "accessConfig": {"authenticationMode": "CONFIG_MAP"}}},
         ("aws eks update-cluster-config --name ci --access-config authenticationMode=API_AND_CONFIG_MAP "
         "--region us-east-1")),
        ("network plugin", {"addon": {"addonVersion": "v1", "serviceAccountRoleArn": "arn:aws:iam::111122223333:role/c",
                                      "configurationValues": '{"init": {}}'}},
         ("aws eks update-addon --cluster-name ci --addon-name vpc-cni --region us-east-1 --configuration-values "
         """'{"init": {}, "enableNetworkPolicy": "true"}'""")),
        ("quotas", {"quotas": {"L-3819A6DF": 8, "L-DB2E81BA": 64}},
         ("aws service-quotas request-service-quota-increase --service-code ec2 --quota-code L-3819A6DF "
         "--desired-value 16 --region us-east-1")),
        ("roles", {"roles": {"AWSServiceRoleForAmazonEKSNodegroup", "AWSServiceRoleForAutoScaling"}},
         "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com --region us-east-1"),
        ("subnets", {"routes": [{"DestinationCidrBlock": "10.0.0.0/16", "GatewayId": "local"}]},
         ("aws ec2 describe-route-tables --region us-east-1 --filters "
         "Name=association.subnet-id,Values=subnet-0123456789abcdef0  # then: aws ec2 create-route to a NAT gateway")),
        ("node groups", {"issues": [{"code": "AccessDenied", "message": "x", "resourceIds": []}]},
         ("aws eks describe-nodegroup --cluster-name ci --region us-east-1 --nodegroup-name a10g "
         "--query nodegroup.health")),
        ("cluster", {"cluster": {"status": "UPDATING", "version": "1.33"}}, "# wait until the cluster is ACTIVE"),
        ("network plugin", {"addon": NO_ROLE},
         "# write `cniPolicy: true` in each pool of the cluster, or give aws-node a role"),
    ],
)  # fmt: skip
def test_what_is_broken_on_a_cluster_names_the_command(
    environment: Environment, step: str, changes: dict[str, Any], fix: str
) -> None:
    on_eks(environment)
    for name, value in changes.items():
        setattr(environment.account, name, value)
    answer = environment.doctor("--json", "--only", "eks")
    assert statuses(answer) == {**{f"eks/{name}": "pass" for name in EKS_STEPS}, f"eks/{step}": "fail"}
    assert fixes(answer, f"eks/{step}")[0] == fix
    assert answer.code == 1


@pytest.mark.parametrize(
    ("answer", "status", "got"),
    [
        ({"use_default": True}, "fail", "the subject has names instead of ids"),
        ({"use_default": True, "use_immutable_subject": True}, "unknown",
         "the subject is GitHub's, which only a role with subjectClaim: immutable trusts"),
        ({"use_default": False, "include_claim_keys": ["repo", "context"]}, "fail", "the subject has repo, context"),
    ],
)  # fmt: skip
def test_a_subject_that_no_role_of_bootstrap_trusts_names_the_command(
    environment: Environment, answer: dict[str, Any], status: str, got: str
) -> None:
    on_eks(environment)
    environment.subject = answer
    [step] = environment.doctor("--json", "--only", "subject").json["steps"]
    assert (step["status"], step["got"]) == (status, got)
    assert step["fix"] == [set_subject("{owner}/{repo}")]
    assert environment.ran == ["gh api repos/{owner}/{repo}/actions/oidc/customization/sub"]


GKE_STEPS = [step.name for step in gke.STEPS]
ON_GKE = ON_EKS.replace(EKS, "  gpu-ci:clusters: {gpu: {kind: gke, location: us-central1}}\n").replace(
    NODES,
    "    l4: {kind: gke-runners, clusterName: gpu, machineType: g2-standard-8, zones: [us-central1-a, us-central1-b], "
    f"market: spot, max: 4, runner: {{image: '{RUNNER_IMAGE}'}}}}\n",
)


PRIVATE = {"enablePrivateNodes": True, "masterIpv4CidrBlock": "172.16.0.0/28"}


def on_gke(environment: Environment) -> None:
    environment.text = f"{ON_GKE}secretsprovider: {KMS}\n"
    environment.account.objects["daemonsets"] = []
    environment.cloud.apis.add("container.googleapis.com")
    del environment.github.apps[103]["permissions"]["actions"]


def test_a_stack_on_gke_alone_asks_about_its_project_once(environment: Environment) -> None:
    on_gke(environment)
    answer = environment.doctor("--json")
    names = [
        "google/project", "google/quota project", "google/apis", "google/permissions", "google/secrets",
        *(f"gke/{name}" for name in GKE_STEPS if name not in ("apis", "permissions")),
        "github/app", "github/runnerApp", "state/backend", "state/secrets provider",
    ]  # fmt: skip
    assert statuses(answer) == dict.fromkeys(names, "pass")
    environment.cloud.apis.discard("container.googleapis.com")
    answer = environment.doctor("--json", "--only", "google")
    assert fixes(answer, "google/apis") == ["gcloud services enable container.googleapis.com --project acme-ci"]


def test_a_gke_cluster_of_another_project_is_asked_about_this_project(environment: Environment) -> None:
    on_gke(environment)
    environment.replace("location: us-central1}", "location: us-central1, project: acme-clusters}")
    answer = environment.doctor("--json")
    found = statuses(answer)
    assert [name for name in found if name.startswith("gke/")] == [f"gke/{name}" for name in GKE_STEPS]
    assert "google/permissions" not in found  # the stack only reads secrets in its own project
    asked = {line.split(" ", 2)[2] for line in environment.cloud.asked if " container " in line}
    assert asked == {"/v1/projects/acme-clusters/locations/us-central1/clusters/gpu"}


@pytest.mark.parametrize(
    ("step", "cluster", "fix"),
    [
        ("cluster", None, ["gcloud container clusters list --project acme-ci  # names and locations"]),
        ("network policies", {**CLUSTER, "networkConfig": {"subnetwork": CLUSTER["networkConfig"]["subnetwork"]}},
         [("gcloud container clusters update gpu --location us-central1 --project acme-ci "
           "--update-addons NetworkPolicy=ENABLED"),
          ("gcloud container clusters update gpu --location us-central1 --project acme-ci --enable-network-policy"
           "  # creates all nodes again")]),
    ],
)  # fmt: skip
def test_what_is_broken_on_a_gke_cluster_names_the_command(
    environment: Environment, step: str, cluster: dict[str, Any] | None, fix: list[str]
) -> None:
    on_gke(environment)
    environment.cloud.cluster = cluster
    answer = environment.doctor("--json", "--only", "gke")
    assert (statuses(answer)[f"gke/{step}"], fixes(answer, f"gke/{step}")) == ("fail", fix)


RULE = {
    "name": "kueue", "network": NETWORK, "direction": "INGRESS", "sourceRanges": ["172.16.0.0/24"],
    "allowed": [{"IPProtocol": "tcp", "ports": ["443", "9000-9999"]}],
}  # fmt: skip


@pytest.mark.parametrize(
    ("private", "rules", "status"),
    [
        ({}, [], "pass"),
        ({"enablePrivateNodes": True}, [], "unknown"),
        (PRIVATE, [], "fail"),
        (PRIVATE, [RULE], "pass"),
        (PRIVATE, [{**RULE, "disabled": True}], "fail"),
        (PRIVATE, [{**RULE, "direction": "EGRESS"}], "fail"),
        (PRIVATE, [{**RULE, "sourceRanges": ["172.16.1.0/28", "::/0"]}], "fail"),
        (PRIVATE, [{**RULE, "allowed": [{"IPProtocol": "tcp", "ports": ["443", "10250"]}]}], "fail"),
        (PRIVATE, [{**RULE, "network": NETWORK.replace("/ci", "/other-ci")}], "fail"),
        (PRIVATE, [{**RULE, "allowed": [{"IPProtocol": "all"}]}], "pass"),
    ],
)
def test_the_control_plane_of_a_private_cluster_must_reach_the_webhooks_of_kueue(
    environment: Environment, private: dict[str, Any], rules: list[dict[str, Any]], status: str
) -> None:
    on_gke(environment)
    environment.replace("location: us-central1}", "location: us-central1, kueue: {queues: {vision: {gpus: 4}}}}")
    environment.replace("market: spot, max: 4,", "market: spot, max: 4, queue: vision,")
    network = {**CLUSTER["networkConfig"], "network": "projects/acme-ci/global/networks/ci"}
    environment.cloud.cluster = {**CLUSTER, "privateClusterConfig": private, "networkConfig": network}
    environment.cloud.firewall = rules
    answer = environment.doctor("--json", "--only", "gke/kueue webhook")
    assert statuses(answer) == {"gke/kueue webhook": status}
    create = (
        "gcloud compute firewall-rules create gke-gpu-kueue --network ci --project acme-ci --direction INGRESS "
        "--source-ranges 172.16.0.0/28 --allow tcp:9443"
    )
    assert fixes(answer, "gke/kueue webhook") == ([create] if status == "fail" else [])


def test_kubectl_without_a_gke_cluster_names_the_command_that_connects_it(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_gke(environment)
    monkeypatch.setattr(programs, "run", lambda *_, **__: Output(1, "", f"{NO_CLUSTER}\n"))
    answer = environment.doctor("--json", "--only", "gke")
    connect = "gcloud container clusters get-credentials gpu --location us-central1 --project acme-ci"
    assert {name: fixes(answer, f"gke/{name}") for name in ("other nodes", "device plugins", "listeners")} == {
        "other nodes": [connect],
        "device plugins": [connect],
        "listeners": [connect],
    }


NO_CLUSTER = "The connection to the server localhost:8080 was refused - did you specify the right host or port?"
CONNECT = "aws eks update-kubeconfig --name ci --region us-east-1"
OF_AWS = ("identity", "cluster", "network plugin", "quotas", "roles", "subnets", "node groups")


@pytest.mark.parametrize(
    ("profile", "error", "kubectl", "of_aws", "of_kubectl"),
    [
        ("", ApiError("", "Unable to locate credentials"), NO_CLUSTER,
         "aws sso login  # or set AWS_PROFILE to a profile of the account", CONNECT),
        ("ops", ApiError("ExpiredToken", "expired"), NO_CLUSTER, "aws sso login --profile ops",
         f"{CONNECT} --profile ops"),
        ("", ApiError("AccessDenied", "no"), None, None, "# install kubectl: kubernetes.io/docs/tasks/tools"),
    ],
)  # fmt: skip
def test_without_access_to_a_cluster_each_step_names_the_command(
    environment: Environment,
    monkeypatch: pytest.MonkeyPatch,
    profile: str,
    error: ApiError,
    kubectl: str | None,
    of_aws: str | None,
    of_kubectl: str | None,
) -> None:
    on_eks(environment)
    environment.account.error = error
    if profile:
        environment.replace("region: us-east-1", f"profile: {profile}, region: us-east-1")

    def failing(*_: Any, **__: Any) -> Output:
        if kubectl is None:
            raise programs.NotInstalledError("kubectl is not installed")
        return Output(255, "", f"\n{kubectl}\n")

    monkeypatch.setattr(programs, "run", failing)
    answer = environment.doctor("--json", "--only", "eks")
    assert statuses(answer) == {f"eks/{name}": "unknown" for name in EKS_STEPS}
    by_step = {name: of_aws if name in OF_AWS else of_kubectl for name in EKS_STEPS}
    assert {name: fixes(answer, f"eks/{name}") for name in EKS_STEPS} == {
        name: [fix] if fix else [] for name, fix in by_step.items()
    }


def test_a_context_of_kubectl_is_for_the_cluster_that_it_names(environment: Environment) -> None:
    on_eks(environment)
    environment.doctor("--only", "eks", "--context", "ci=admin")
    used = {command.partition(" get ")[0] for command in environment.ran if command.startswith("kubectl")}
    assert used == {"kubectl --context admin"}
    answer = environment.doctor("--context", "prod=admin")
    assert (answer.code, answer.out) == (2, "")
    assert "gpu-ci doctor: --context names no cluster: prod" in answer.err


ROLE = "arn:aws:iam::444455556666:role/deployer"


@pytest.mark.parametrize("profile", ["", "profile: prod, "])
def test_every_question_is_asked_as_the_clusters_role(environment: Environment, profile: str) -> None:
    on_eks(environment)
    environment.replace("{region: us-east-1,", f"{{{profile}roleArn: '{ROLE}', region: us-east-1,")
    environment.account = Account(role=ROLE, profile="prod" if profile else "")
    answer = environment.doctor("--json", "--only", "eks")
    assert statuses(answer) == {f"eks/{name}": "pass" for name in EKS_STEPS}
    environment.account = Account(role=ROLE.replace("deployer", "other"))
    found = statuses(environment.doctor("--json", "--only", "eks"))
    assert found == {f"eks/{name}": "unknown" if name in OF_AWS else "pass" for name in EKS_STEPS}


def test_no_command_changes_anything(environment: Environment) -> None:
    on_eks(environment)
    environment.doctor("--only", "eks")
    commands = [*environment.ran, *environment.account.ran]
    verbs = {each.split()[1 if each.startswith("kubectl") else 2].split("_")[0] for each in commands}
    assert verbs == {"get", "describe", "list"}


def test_a_role_of_the_cni_by_pod_identity_by_an_annotation_or_by_the_pools_counts(environment: Environment) -> None:
    on_eks(environment)
    for account in (
        Account(addon=NO_ROLE, pod_identities=[{"associationId": "a-1", "serviceAccount": "aws-node"}]),
        Account(addon=NO_ROLE),
        Account(addon=NO_ROLE),
    ):
        environment.account = account
        role = {"eks.amazonaws.com/role-arn": "arn:aws:iam::111122223333:role/cni"}
        if not account.pod_identities and "cniPolicy" not in environment.text:
            account.objects["serviceaccounts"] = [{"metadata": {"name": "aws-node", "annotations": role}}]
        answer = environment.doctor("--json", "--only", "network plugin")
        assert statuses(answer) == {"eks/network plugin": "pass"}
        if account.objects["serviceaccounts"][0]["metadata"].get("annotations"):
            environment.replace("market: spot", "cniPolicy: true, market: spot")


PLUGIN = "nvcr.io/nvidia/k8s-device-plugin:v0.17.1"
TERMS = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu-ci-pool", "operator": "DoesNotExist"}]}]}
OPERAND = {"nodeSelector": {"nvidia.com/gpu.deploy.device-plugin": "true"}}
OFF = {"present": "true", "deploy.operands": "false"}
CREATING = {"reason": "ContainerCreating"}


def gpu_node(labels: dict[str, str]) -> dict[str, Any]:
    found = {f"nvidia.com/gpu.{name}": value for name, value in labels.items()}
    return {"metadata": {"name": "gpu-1", "labels": {"gpu-ci-pool": "a10g", **found}}, "spec": {"taints": [GPU_TAINT]}}


@pytest.mark.parametrize(
    ("step", "objects", "status", "got"),
    [
        ("device plugins", {"daemonsets": [daemon("gpu-operator", PLUGIN, GPU_TAINT)]}, "unknown", "gpu-operator"),
        ("device plugins", {"daemonsets": [daemon("gpu-operator", PLUGIN)]}, "pass", ""),
        ("device plugins", {"daemonsets": [daemon("gpu-operator", PLUGIN, GPU_TAINT, affinity={"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": TERMS}})]}, "pass", ""),
        ("device plugins", {"daemonsets": [daemon("x", PLUGIN, GPU_TAINT, **OPERAND)], "nodes": [gpu_node(OFF)]},
         "pass", ""),
        ("device plugins", {"daemonsets": [daemon("x", PLUGIN, GPU_TAINT, **OPERAND)],
                            "nodes": [gpu_node({"present": "true"})]}, "unknown", "would assign their GPUs, too"),
        ("device plugins", {"nodes": [gpu_node({"present": "true", "deploy.driver": "true", "deploy.dcgm": "true"})]},
         "fail", "the GPU Operator places its driver on gpu-1, which already has this software"),
        ("device plugins", {"nodes": [gpu_node({**OFF, "present": "false"})]}, "fail",
         "gpu-1 has nvidia.com/gpu.present=false"),
        ("listeners", {"pods": [listener("Running", waiting={"reason": "CrashLoopBackOff"})]}, "fail",
         "a10g-listener is CrashLoopBackOff"),
        ("listeners", {"pods": [listener("Running", since="2999-01-01T00:00:00Z")]}, "unknown",
         "started within the last 60 s: a10g-listener"),
        ("listeners", {"pods": []}, "unknown", "no listener exists; run this command again after `pulumi up`"),
        ("listeners", {"autoscalingrunnersets": [{"metadata": {"name": "t4"}, "status": {"phase": "Outdated"}}]},
         "fail", "the scale set t4 is Outdated: its runner is too old for GitHub"),
        ("autoscaler", {"deployments": []}, "fail", "no nodes start"),
        ("other nodes", {"nodes": []}, "fail", ""),
        ("other nodes", {"nodes": [gpu_node({})]}, "fail", ""),
    ],
)  # fmt: skip
def test_each_object_of_a_cluster_decides_its_own_step(
    environment: Environment, step: str, objects: dict[str, Any], status: str, got: str
) -> None:
    on_eks(environment)
    environment.account.objects |= objects
    answer = environment.doctor("--json", "--only", f"eks/{step}")
    [found] = answer.json["steps"]
    assert found["status"] == status
    assert got in found["got"]
    assert bool(found["fix"]) is (status == "fail")


def test_before_the_first_up_there_are_no_definitions_of_scale_sets(environment: Environment) -> None:
    on_eks(environment)
    environment.account.objects["pods"] = []
    del environment.account.objects["autoscalingrunnersets"]
    assert statuses(environment.doctor("--json", "--only", "listeners")) == {"eks/listeners": "unknown"}


def test_the_permissions_for_a_gke_cluster_of_another_project_are_those_of_node_pools(environment: Environment) -> None:
    on_gke(environment)
    environment.replace("location: us-central1}", "location: us-central1, project: acme-ci}")
    environment.replace("gcp:project: acme-ci", "gcp:project: acme-other")
    resources = ("container/nodePool:NodePool", "serviceaccount/account:Account", "projects/iAMMember:IAMMember")
    types = [f"gcp:{each}" for each in resources]
    needed = {permission for token in types for permission in google_permissions.of_type(token)}
    environment.cloud.permissions = needed
    assert statuses(environment.doctor("--json", "--only", "gke/permissions")) == {"gke/permissions": "pass"}
    environment.cloud.permissions = needed - {"container.clusters.update"}
    [step] = environment.doctor("--json", "--only", "gke/permissions").json["steps"]
    assert step["got"] == "missing: container.clusters.update"


OPEN = {"subnetwork": CLUSTER["networkConfig"]["subnetwork"]}


@pytest.mark.parametrize(
    ("cluster", "step", "status", "got"),
    [
        ({"status": "PROVISIONING"}, "cluster", "fail", "the cluster is PROVISIONING"),
        ({"autopilot": {"enabled": True}}, "cluster", "fail",
         "l4: autopilot: the cluster is an Autopilot cluster, which has no node pools"),
        ({"currentMasterVersion": "1.29.9-gke.1000000"}, "cluster", "fail",
         "l4: controlPlaneVersion: does not install the NVIDIA driver on nodes"),
        ({"networkConfig": OPEN, "networkPolicy": {"provider": "CALICO", "enabled": True}}, "network policies", "pass",
         ""),
        ({"nodePools": [{"name": "l4-a1", "status": "ERROR", "conditions": [
            {"canonicalCode": "RESOURCE_EXHAUSTED", "message": "the zone has no capacity"}]}]}, "node pools", "fail",
         "l4-a1: the zone has no capacity"),
    ],
)  # fmt: skip
def test_the_description_of_a_gke_cluster_decides_each_step(
    environment: Environment, cluster: dict[str, Any], step: str, status: str, got: str
) -> None:
    on_gke(environment)
    environment.cloud.cluster = {**CLUSTER, **cluster}
    [found] = environment.doctor("--json", "--only", f"gke/{step}").json["steps"]
    assert found["status"] == status
    assert got in found["got"]


def test_a_stack_without_network_policies_needs_none_of_its_gke_cluster(environment: Environment) -> None:
    on_gke(environment)
    environment.replace("location: us-central1}", "location: us-central1, networkPolicies: false}")
    environment.cloud.cluster = {**CLUSTER, "networkConfig": OPEN}
    found = statuses(environment.doctor("--json", "--only", "network policies"))
    assert found == {"gke/network policies": "pass"}
