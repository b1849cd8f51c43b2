"""`gpu-ci verify gke`: a cluster on which everything is ready, and each thing that may be missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from gpu_ci.cli.verify import google, programs
from gpu_common import google_permissions

from tests.gpu_ci.cli.conftest import Answer, Ask
from tests.gpu_ci.cli.verify.google_apis import CLUSTER, Google
from tests.gpu_ci.cli.verify.programs import GPU_TAINT, Account, daemon, listener

Verify = Callable[..., Answer]
STACK = """\
config:
  gcp:project: acme-ci
  gpu-ci:site: {}
  gpu-ci:clusters:
    gpu: {kind: gke, location: us-central1}
  gpu-ci:pools:
    l4:
      kind: gke-runners
      clusterName: gpu
      machineType: g2-standard-8
      zones: [us-central1-a, us-central1-b]
      market: spot
      max: 4
      runner:
        image: ghcr.io/acme/runner@sha256:1111111111111111111111111111111111111111111111111111111111111111
"""
OF_GOOGLE = [
    "apis", "permissions", "cluster", "network policies", "machines", "quotas", "networks", "node pools"
]  # fmt: skip
OF_KUBECTL = ["other nodes", "device plugins", "listeners"]
STEPS = [*OF_GOOGLE[:2], "plugin", *OF_GOOGLE[2:], *OF_KUBECTL]


def on_gke(**changes: Any) -> Account:
    """Return kubectl of a cluster with the device plugin of GKE."""
    account = Account(**changes)
    account.objects["daemonsets"] = [daemon("kube-system", "gke.gcr.io/nvidia-gpu-device-plugin", GPU_TAINT)]
    return account


@pytest.fixture
def verify(ask: Ask, stack: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> Verify:
    def call(cloud: Google, *words: str, account: Account | None = None, text: str = STACK) -> Answer:
        cloud.apis.add("container.googleapis.com")
        monkeypatch.setattr(google, "connect", lambda: google.calls_over(cloud))
        monkeypatch.setattr(programs, "run", (account or on_gke()).run)
        return ask("verify", "gke", stack(text=text), *words)

    return call


def statuses(answer: Answer) -> dict[str, str]:
    return {step["name"]: step["status"] for step in answer.json["steps"]}


def got(answer: Answer, name: str) -> str:
    [found] = [step["got"] for step in answer.json["steps"] if step["name"] == name]
    return str(found)


def test_every_step_passes_where_all_is_ready(verify: Verify) -> None:
    cloud, account = Google(), on_gke()
    answer = verify(cloud, "--json", account=account)
    assert (answer.code, statuses(answer)) == (0, dict.fromkeys(STEPS, "pass"))
    assert got(answer, "cluster") == "RUNNING, version 1.34.1-gke.3720000"
    posts = [asked for asked in cloud.asked if not asked.startswith("GET ")]
    assert posts == ["POST cloudresourcemanager /v3/projects/acme-ci:testIamPermissions"]
    assert {command.split()[1] for command in account.ran} == {"get", "--version"}


def test_the_permissions_are_those_of_node_pools_alone(verify: Verify) -> None:
    needed = {
        *google_permissions.of_type("gcp:container/nodePool:NodePool"),
        *google_permissions.of_type("gcp:serviceaccount/account:Account"),
        *google_permissions.of_type("gcp:projects/iAMMember:IAMMember"),
    }
    assert statuses(verify(Google(permissions=needed), "--json")) == dict.fromkeys(STEPS, "pass")
    for permission in needed:
        answer = verify(Google(permissions=needed - {permission}), "--json")
        assert got(answer, "permissions") == f"missing: {permission}"


def cluster(**changes: Any) -> dict[str, Any]:
    return {"cluster": {**CLUSTER, **changes}}


OPEN = {"subnetwork": CLUSTER["networkConfig"]["subnetwork"]}
NO_CAPACITY = [{"canonicalCode": "RESOURCE_EXHAUSTED", "message": "the zone has no capacity"}]


@pytest.mark.parametrize(
    ("changes", "step", "status", "text"),
    [
        ({"permissions": set(google_permissions.deployer()) - {"container.clusters.update"}},
         "permissions", "fail", "missing: container.clusters.update"),
        (cluster(status="PROVISIONING"), "cluster", "fail", "the cluster is PROVISIONING"),
        (cluster(autopilot={"enabled": True}), "cluster", "fail",
         "l4: autopilot: the cluster is an Autopilot cluster, which has no node pools"),
        (cluster(currentMasterVersion="1.29.9-gke.1000000"), "cluster", "fail",
         "l4: controlPlaneVersion: does not install the NVIDIA driver on nodes"),
        (cluster(networkConfig=OPEN), "network policies", "fail", "the cluster enforces no network policies"),
        (cluster(networkConfig={**OPEN, "datapathProvider": "LEGACY_DATAPATH"},
                 networkPolicy={"provider": "CALICO", "enabled": False}),
         "network policies", "fail", "the cluster enforces no network policies"),
        ({"machine_types": {"us-central1-a/g2-standard-8"}}, "machines", "fail",
         "not offered: g2-standard-8 in us-central1-b"),
        ({"quotas": {"PREEMPTIBLE_NVIDIA_L4_GPUS": 3, "SSD_TOTAL_GB": 500, "GPUS_ALL_REGIONS": 5}}, "quotas", "fail",
         "PREEMPTIBLE_NVIDIA_L4_GPUS (us-central1): got 3, 0 of it in use now, expected 4 GPUs or more (l4 4)"),
        ({"nats": []}, "networks", "fail", "no Cloud NAT on the network of ci in us-central1"),
        ({"private_access": False}, "networks", "fail", "ci lacks Private Google Access"),
        (cluster(networkConfig={"datapathProvider": "ADVANCED_DATAPATH"}), "networks", "unknown",
         "the answer names no subnetwork of the cluster"),
        (cluster(nodePools=[{"name": "l4-a1", "status": "ERROR", "conditions": NO_CAPACITY}]), "node pools", "fail",
         "l4-a1: the zone has no capacity"),
    ],
)  # fmt: skip
def test_what_is_missing_fails_its_own_step_alone(
    verify: Verify, changes: dict[str, Any], step: str, status: str, text: str
) -> None:
    answer = verify(Google(**changes), "--json")
    assert (answer.code, statuses(answer)) == (1, {**dict.fromkeys(STEPS, "pass"), step: status})
    assert text in got(answer, step)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (cluster(networkConfig=OPEN, networkPolicy={"provider": "CALICO", "enabled": True}), STACK),
        (cluster(networkConfig=OPEN), STACK.replace("us-central1}", "us-central1, networkPolicies: false}")),
    ],
)
def test_network_policy_enforcement_or_a_stack_without_it_passes(
    verify: Verify, changes: dict[str, Any], text: str
) -> None:
    assert statuses(verify(Google(**changes), "--json", text=text)) == dict.fromkeys(STEPS, "pass")


def test_a_disabled_api_fails_and_leaves_what_asks_it_unknown(verify: Verify) -> None:
    cloud = Google()
    cloud.apis -= {"compute.googleapis.com"}
    answer = verify(cloud, "--json")
    assert got(answer, "apis") == "not enabled: compute.googleapis.com"
    changed = {"apis": "fail", "machines": "unknown", "quotas": "unknown", "networks": "unknown"}
    assert statuses(answer) == {**dict.fromkeys(STEPS, "pass"), **changed}


def test_a_cluster_that_does_not_exist_fails_once_and_names_its_place(verify: Verify) -> None:
    answer = verify(Google(cluster=None), "--json")
    unknown = dict.fromkeys(("network policies", "networks", "node pools"), "unknown")
    assert statuses(answer) == {**dict.fromkeys(STEPS, "pass"), **unknown, "cluster": "fail"}
    assert got(answer, "cluster") == "gpu does not exist in us-central1 of acme-ci"
    assert {got(answer, name) for name in unknown} == {"not asked: the cluster does not exist"}


def test_a_pool_in_a_subnetwork_of_its_own_is_asked_about_this_one(verify: Verify) -> None:
    own = STACK.replace("market:", "subnetwork: projects/acme-ci/regions/us-central1/subnetworks/ci\n      market:")
    changes = cluster(networkConfig={"datapathProvider": "ADVANCED_DATAPATH"})
    answer = verify(Google(**changes), "--json", text=own)
    assert (statuses(answer)["networks"], got(answer, "networks")) == ("pass", "ci can reach the internet")


PLUGIN = "nvcr.io/nvidia/k8s-device-plugin:v0.17.1"


@pytest.mark.parametrize(
    ("kind", "objects", "step", "status"),
    [
        ("nodes", [], "other nodes", "fail"),
        ("daemonsets", [daemon("gpu-operator", PLUGIN, GPU_TAINT)], "device plugins", "unknown"),
        ("pods", [], "listeners", "unknown"),
        ("pods", [listener("Pending", waiting={"reason": "ContainerCreating"})], "listeners", "fail"),
    ],
)  # fmt: skip
def test_what_the_cluster_lacks_fails_its_own_step_alone(
    verify: Verify, kind: str, objects: list[Any], step: str, status: str
) -> None:
    account = on_gke()
    account.objects[kind] = objects
    assert statuses(verify(Google(), "--json", account=account)) == {**dict.fromkeys(STEPS, "pass"), step: status}


def test_missing_programs_name_what_to_install(verify: Verify) -> None:
    answer = verify(Google(), "--json", account=on_gke(missing={"kubectl", "gke-gcloud-auth-plugin"}))
    assert statuses(answer) == {
        **dict.fromkeys(OF_GOOGLE, "pass"),
        "plugin": "fail",
        **dict.fromkeys(OF_KUBECTL, "unknown"),
    }


def test_a_stack_without_a_gke_cluster_is_refused(verify: Verify) -> None:
    pool = "{kind: cloud-build, region: us-central1, machineType: e2-standard-2}"
    text = f"config:\n  gcp:project: acme-ci\n  gpu-ci:pools:\n    builds: {pool}\n"
    answer = verify(Google(), text=text)
    assert (answer.code, answer.out) == (2, "")
    assert "Pulumi.dev.yaml: describes no GKE cluster" in answer.err
