"""`gpu-ci verify eks`: a cluster on which everything is ready, and each thing that may be missing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gpu_ci.cli.verify import eks, programs

from tests.gpu_ci.cli.conftest import Answer, Ask
from tests.gpu_ci.cli.verify.programs import GPU_TAINT, Account, daemon, listener

Verify = Callable[..., Answer]
STACK = """\
config:
  gpu-ci:clusters:
    ci:
      region: us-east-1
      subnets: {us-east-1a: subnet-0123456789abcdef0, us-east-1b: subnet-0123456789abcdef1}
  gpu-ci:pools:
    a10g:
      kind: eks-runners
      clusterName: ci
      instanceTypes: [g5.2xlarge]
      market: spot
      max: 2
      runner:
        image: 111122223333.dkr.ecr.us-east-1.amazonaws.com/runner@sha256:1111111111111111111111111111111111111111111111111111111111111111
"""  # noqa: E501
STEPS = [
    "identity", "cluster", "network plugin", "quotas", "roles", "subnets", "node groups", "autoscaler", "other nodes",
    "device plugins", "listeners",
]  # fmt: skip


@pytest.fixture
def verify(ask: Ask, stack: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> Verify:
    def call(account: Account, *words: str, text: str = STACK) -> Answer:
        monkeypatch.setattr(programs, "run", account.run)
        monkeypatch.setattr(eks, "run", account.run)
        return ask("verify", "eks", stack(text=text), *words)

    return call


def statuses(answer: Answer) -> dict[str, str]:
    return {step["name"]: step["status"] for step in answer.json["steps"]}


def test_every_step_passes_where_all_is_ready(verify: Verify) -> None:
    answer = verify(Account(), "--json")
    assert (answer.code, statuses(answer)) == (0, dict.fromkeys(STEPS, "pass"))


def test_every_question_goes_to_the_account_of_the_clusters_profile(verify: Verify) -> None:
    account = Account()
    answer = verify(
        account, "--json", text=STACK.replace("region: us-east-1\n", "region: us-east-1\n      profile: prod\n")
    )
    assert statuses(answer) == dict.fromkeys(STEPS, "pass")
    assert [command for command in account.ran if command.startswith("aws ") and "--profile prod" not in command] == []


ROLE = "arn:aws:iam::444455556666:role/deployer"


@pytest.mark.parametrize("profile", ["", "prod"])
def test_every_question_is_asked_as_the_clusters_role(verify: Verify, profile: str) -> None:
    account = Account(role=ROLE, profile=profile)
    described = f"      profile: {profile}\n" if profile else ""
    text = STACK.replace("region: us-east-1\n", f"region: us-east-1\n{described}      roleArn: {ROLE}\n")
    answer = verify(account, "--json", text=text)
    assert statuses(answer) == dict.fromkeys(STEPS, "pass")
    assert [command for command in account.ran if "hush" in command] == []
    assert "hush" not in answer.out
    assert len([command for command in account.ran if "assume-role" in command]) == 1


def test_a_role_that_cannot_be_assumed_leaves_the_steps_of_aws_unknown(verify: Verify) -> None:
    text = STACK.replace("region: us-east-1\n", f"region: us-east-1\n      roleArn: {ROLE}\n")
    answer = verify(Account(role=ROLE.replace("deployer", "other")), "--json", text=text)
    assert statuses(answer) == {**dict.fromkeys(STEPS[:7], "unknown"), **dict.fromkeys(STEPS[7:], "pass")}
    assert answer.json["steps"][0]["got"] == (
        "not asked: aws: An error occurred (AccessDenied) when calling the AssumeRole operation: not authorized"
    )


def test_nothing_is_changed(verify: Verify) -> None:
    account = Account()
    verify(account)
    verbs = {command.split()[1 if command.startswith("kubectl") else 2].split("-")[0] for command in account.ran}
    assert verbs == {"get", "describe", "list"}


@pytest.mark.parametrize(
    ("changes", "step", "status", "got"),
    [
        ({"cluster": {"status": "UPDATING", "version": "1.33"}}, "cluster", "fail", "the cluster is UPDATING"),
        ({"cluster": {"status": "ACTIVE", "version": "1.33"}}, "cluster", "fail",
         "authenticationMode is CONFIG_MAP: another tool may remove the nodes' entry"),
        ({"addon": {"configurationValues": '{"enableNetworkPolicy": "true"}'}}, "network plugin", "fail",
         "aws-node has no role of its own, and a pool lacks cniPolicy: true"),
        ({"addon": {"serviceAccountRoleArn": "arn:aws:iam::111122223333:role/cni"}}, "network plugin", "fail",
         "enableNetworkPolicy is not true, so network policies have no effect"),
        ({"addon": {"configurationValues": "enableNetworkPolicy: true"}}, "network plugin", "unknown",
         "not asked: the configuration of vpc-cni is not JSON"),
        ({"quotas": {"L-3819A6DF": 8}}, "quotas", "fail", "got 8, expected "),
        ({"quotas": {}}, "quotas", "unknown", "All G and VT Spot Instance Requests"),
        ({"roles": {"AWSServiceRoleForAmazonEKSNodegroup", "AWSServiceRoleForAutoScaling"}}, "roles", "fail",
         "AWSServiceRoleForEC2Spot (aws iam create-service-linked-role --aws-service-name spot.amazonaws.com)"),
        ({"routes": [{"DestinationCidrBlock": "0.0.0.0/0", "GatewayId": "igw-1"}]}, "subnets", "fail",
         "subnet-0123456789abcdef1 has no default route to a NAT gateway or a transit gateway"),
        ({"issues": [{"code": "AsgInstanceLaunchFailures", "message": "no capacity"}]}, "node groups", "fail",
         "a10g: AsgInstanceLaunchFailures"),
    ],
)  # fmt: skip
def test_what_is_missing_fails_its_own_step_alone(
    verify: Verify, changes: dict[str, Any], step: str, status: str, got: str
) -> None:
    answer = verify(Account(**changes), "--json")
    assert answer.code == 1
    assert statuses(answer) == {**dict.fromkeys(STEPS, "pass"), step: status}
    [found] = [each["got"] for each in answer.json["steps"] if each["name"] == step]
    assert got in found


PLUGIN = "nvcr.io/nvidia/k8s-device-plugin:v0.17.1"
ELSEWHERE = {"key": "gpu-ci-pool", "operator": "DoesNotExist"}
TERMS = {"nodeSelectorTerms": [{"matchExpressions": [ELSEWHERE]}]}


@pytest.mark.parametrize(
    ("found", "status"),
    [
        (daemon("gpu-operator", PLUGIN, GPU_TAINT), "unknown"),
        (daemon("gpu-operator", PLUGIN, {"operator": "Exists"}), "unknown"),
        (daemon("gpu-operator", PLUGIN), "pass"),
        (daemon("gpu-operator", PLUGIN, GPU_TAINT, affinity={"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": TERMS}}), "pass"),
        (daemon("kube-system", "amazon-k8s-cni:v1.20", {"operator": "Exists"}), "pass"),
    ],
)  # fmt: skip
def test_a_second_device_plugin_for_the_nodes_of_pools_is_found(
    verify: Verify, found: dict[str, Any], status: str
) -> None:
    account = Account()
    account.objects["daemonsets"].append(found)
    answer = verify(account, "--json")
    assert statuses(answer) == {**dict.fromkeys(STEPS, "pass"), "device plugins": status}


def gpu_node(**labels: str) -> dict[str, Any]:
    dotted = {f"nvidia.com/gpu.{name.replace('__', '.').replace('_', '-')}": value for name, value in labels.items()}
    return {"metadata": {"name": "gpu-1", "labels": {"gpu-ci-pool": "a10g", **dotted}}, "spec": {"taints": [GPU_TAINT]}}


OFF = {"present": "true", "deploy__operands": "false"}


@pytest.mark.parametrize(
    ("labels", "status", "got"),
    [
        (OFF, "pass", "none of 2 DaemonSets assigns GPUs of the pools' nodes"),
        ({"present": "true"}, "unknown",
         "gpu-operator/plugin tolerates the taint of the pools' nodes, and would assign their GPUs, too"),
        ({"present": "true", "deploy__device_plugin": "true", "deploy__container_toolkit": "true",
          "deploy__dcgm": "true", "deploy__driver": "pre-installed"}, "fail",
         "the GPU Operator places its container-toolkit, device-plugin on gpu-1, which already has this software"),
        ({**OFF, "present": "false"}, "fail",
         "gpu-1 has nvidia.com/gpu.present=false, so the device plugin does not run there"),
    ],
)  # fmt: skip
def test_the_gpu_operator_is_known_by_the_labels_of_the_pools_nodes(
    verify: Verify, labels: dict[str, str], status: str, got: str
) -> None:
    account = Account()
    operand = {"nodeSelector": {"nvidia.com/gpu.deploy.device-plugin": "true"}}
    account.objects["daemonsets"].append(daemon("gpu-operator", PLUGIN, GPU_TAINT, **operand))
    account.objects["nodes"].append(gpu_node(**labels))
    answer = verify(account, "--json")
    assert statuses(answer) == {**dict.fromkeys(STEPS, "pass"), "device plugins": status}
    [step] = [each for each in answer.json["steps"] if each["name"] == "device plugins"]
    assert step["got"] == got


NO_ROLE = {"configurationValues": '{"enableNetworkPolicy": "true"}'}


def test_a_role_of_the_cni_by_pod_identity_or_by_an_annotation_counts(verify: Verify) -> None:
    by_identity = Account(addon=NO_ROLE, pod_identities=[{"associationId": "a-1", "serviceAccount": "aws-node"}])
    assert statuses(verify(by_identity, "--json"))["network plugin"] == "pass"
    by_annotation = Account(addon=NO_ROLE)
    role = {"eks.amazonaws.com/role-arn": "arn:aws:iam::111122223333:role/cni"}
    by_annotation.objects["serviceaccounts"] = [{"metadata": {"name": "aws-node", "annotations": role}}]
    assert statuses(verify(by_annotation, "--json"))["network plugin"] == "pass"


@pytest.mark.parametrize(
    ("pod", "status", "got"),
    [
        (listener("Running", waiting={"reason": "CrashLoopBackOff"}), "fail", "a10g-listener is CrashLoopBackOff"),
        (listener("Failed", terminated={"reason": "Error", "exitCode": 1}), "fail", "a10g-listener is Error"),
        (listener("Running", since="2999-01-01T00:00:00Z"), "unknown",
         "started within the last 60 s: a10g-listener; run this command again in a minute"),
    ],
)  # fmt: skip
def test_a_listener_that_github_refuses_is_never_one_that_runs(
    verify: Verify, pod: dict[str, Any], status: str, got: str
) -> None:
    account = Account()
    account.objects["pods"] = [pod]
    [step] = [each for each in verify(account, "--json").json["steps"] if each["name"] == "listeners"]
    assert (step["status"], step["got"]) == (status, got)


@pytest.mark.parametrize("pods", [[], [listener("Running")]])
def test_a_scale_set_that_is_outdated_fails_whether_other_listeners_run_or_not(
    verify: Verify, pods: list[dict[str, Any]]
) -> None:
    account = Account()
    account.objects["pods"] = pods
    account.objects["autoscalingrunnersets"].append({"metadata": {"name": "t4"}, "status": {"phase": "Outdated"}})
    answer = verify(account, "--json")
    assert statuses(answer) == {**dict.fromkeys(STEPS, "pass"), "listeners": "fail"}
    assert answer.json["steps"][-1]["got"] == "the scale set t4 is Outdated: its runner is too old for GitHub"


def test_before_the_first_up_there_are_neither_listeners_nor_definitions_of_scale_sets(verify: Verify) -> None:
    account = Account()
    account.objects["pods"] = []
    del account.objects["autoscalingrunnersets"]
    step = verify(account, "--json").json["steps"][-1]
    assert (step["status"], step["got"]) == ("unknown", "no listener exists; run this command again after `pulumi up`")


def test_a_pool_with_the_cni_policy_needs_no_role_of_the_plugin(verify: Verify) -> None:
    account = Account(addon={"configurationValues": '{"enableNetworkPolicy": "true"}'})
    text = STACK.replace("market: spot", "cniPolicy: true\n      market: spot")
    assert statuses(verify(account, "--json", text=text))["network plugin"] == "pass"


@pytest.mark.parametrize(
    ("kind", "objects", "step", "status"),
    [
        ("deployments", [], "autoscaler", "fail"),
        ("deployments", [{"metadata": {"name": "cluster-autoscaler"}, "status": {}}], "autoscaler", "fail"),
        ("nodes", [], "other nodes", "fail"),
        ("nodes", [{"metadata": {"name": "g"}, "spec": {"taints": [{"key": "nvidia.com/gpu"}]},
                    "status": {"conditions": [{"type": "Ready", "status": "True"}]}}], "other nodes", "fail"),
        ("pods", [], "listeners", "unknown"),
        ("pods", [listener("Pending", waiting={"reason": "ContainerCreating"})], "listeners", "fail"),
    ],
)  # fmt: skip
def test_what_the_cluster_lacks_fails_its_own_step_alone(
    verify: Verify, kind: str, objects: list[Any], step: str, status: str
) -> None:
    account = Account()
    account.objects[kind] = objects
    assert statuses(verify(account, "--json")) == {**dict.fromkeys(STEPS, "pass"), step: status}


def test_a_missing_program_leaves_its_steps_unknown_and_the_others_asked(verify: Verify) -> None:
    answer = verify(Account(missing={"kubectl"}), "--json")
    unknown = [name for name, status in statuses(answer).items() if status == "unknown"]
    assert (answer.code, unknown) == (1, ["autoscaler", "other nodes", "device plugins", "listeners"])


def test_the_file_has_no_account_number(verify: Verify, tmp_path: Path) -> None:
    verify(Account())
    written = (tmp_path / "gpu-ci-verify-eks.md").read_text()
    assert "account [account]" in written
    assert "111122223333" not in written


def test_a_cluster_that_the_file_lacks_is_refused_with_those_it_has(verify: Verify) -> None:
    answer = verify(Account(), "--cluster", "cj")
    assert (answer.code, answer.out) == (2, "")
    assert "expected: ci" in answer.err
