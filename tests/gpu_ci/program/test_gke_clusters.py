"""Pools on GKE clusters: what a stack file says of them, what they share, and what they get from the look-up."""

from __future__ import annotations

import copy
import json
from functools import cache
from typing import Any

import pytest
from gpu_ci.stack import clusters
from gpu_ci.stack.warnings import stack_warnings as stack_warnings_of

from tests.gpu_ci.harness import Deployment
from tests.gpu_ci.program import gke
from tests.gpu_ci.program.stack import ON_CLUSTER, ROOT, load, texts
from tests.gpu_ci.program.test_clusters import A10G
from tests.gpu_ci.program.test_program import GET_CLUSTER, KEY, STACK, gke_cluster
from tests.gpu_ci.support import COMPUTED
from tests.gpu_ci.test_imports import loaded

pytestmark = pytest.mark.usefixtures("short_definitions")

NAME = "gke_example-ci_us-central1_gpu"
WITHOUT_POLICIES = {"datapathProvider": "LEGACY_DATAPATH"}


@cache
def deployed() -> Deployment:
    return gke.deployed(gke.stack())


def test_the_kubeconfig_has_the_names_of_gcloud_and_no_credential() -> None:
    kubeconfig = json.loads(deployed().one("pulumi:providers:kubernetes").inputs["kubeconfig"])
    assert kubeconfig == {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": NAME,
                "cluster": {"server": "https://203.0.113.10", "certificate-authority-data": "Q0E="},
            }
        ],
        "users": [
            {
                "name": NAME,
                "user": {
                    "exec": {
                        "apiVersion": "client.authentication.k8s.io/v1beta1",
                        "command": "gke-gcloud-auth-plugin",
                        "args": ["--use_application_default_credentials"],
                        "installHint": "install gke-gcloud-auth-plugin: docs.cloud.google.com/kubernetes-engine/docs/"
                        "how-to/cluster-access-for-kubectl",
                        "provideClusterInfo": True,
                    }
                },
            }
        ],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME}}],
        "current-context": NAME,
    }


def test_the_pool_is_in_the_project_and_at_the_location_of_its_cluster() -> None:
    nodes = deployed().one(":NodePool").inputs
    assert (nodes["project"], nodes["cluster"], nodes["location"]) == ("example-ci", "gpu", "us-central1")
    found = gke.deployed(gke.stack(cluster={"project": "acme-clusters", "location": "us-central1-a"}))
    nodes = found.one(":NodePool").inputs
    assert (nodes["project"], nodes["location"]) == ("acme-clusters", "us-central1-a")
    assert found.one(":Account").inputs["project"] == "acme-clusters"
    kubeconfig = json.loads(found.one("pulumi:providers:kubernetes").inputs["kubeconfig"])
    assert kubeconfig["current-context"] == "gke_acme-clusters_us-central1-a_gpu"


def test_nodes_are_in_the_subnetwork_of_the_cluster_whatever_networks_the_site_has() -> None:
    other = "projects/example-ci/regions/us-central1/subnetworks/other"
    around = ON_CLUSTER["gpu-ci:site"]
    for site in (
        around,
        {**around, "subnetworks": {"us-central1": other}},
        {**around, "networks": {"us-central1": {"ipRange": "10.10.0.0/20"}}},
    ):
        assert "subnetwork" not in gke.deployed(gke.stack(site=site)).one(":NodePool").inputs["networkConfig"]
    own = gke.deployed(gke.stack({"subnetwork": other})).one(":NodePool").inputs["networkConfig"]
    assert own == {"enablePrivateNodes": True, "subnetwork": other}


def test_dns_queries_to_cloud_dns_and_to_the_cache_are_allowed_and_nothing_else_of_the_metadata_server() -> None:
    policies = {row.inputs["metadata"]["name"]: row.inputs["spec"] for row in deployed().of(":NetworkPolicy")}
    [rule] = policies["dns"]["egress"]
    assert [each["ipBlock"]["cidr"] for each in rule["to"] if "ipBlock" in each] == [
        "169.254.20.10/32",
        "169.254.169.254/32",
    ]
    assert {each["port"] for each in rule["ports"]} == {53}
    elsewhere = [
        each["ipBlock"]["cidr"]
        for name, spec in policies.items()
        if name != "dns"
        for rule in spec.get("egress", [])
        for each in rule["to"]
        if "ipBlock" in each
    ]
    assert sorted(elsewhere) == ["0.0.0.0/0", "::/0"]


CALICO = {"networkPolicies": [{"enabled": True, "provider": "CALICO"}], "servicesIpv4Cidr": "34.118.224.0/20"}
CACHE = {"addonsConfigs": [{"dnsCacheConfigs": [{"enabled": True}]}]}


@pytest.mark.parametrize(
    ("found", "address"),
    [
        ({**WITHOUT_POLICIES, **CALICO, **CACHE}, "34.118.224.10"),
        ({**WITHOUT_POLICIES, **CALICO, **CACHE, "servicesIpv4Cidr": "10.4.16.0/20"}, "10.4.16.10"),
        ({**WITHOUT_POLICIES, **CALICO}, ""),
        ({**WITHOUT_POLICIES, **CALICO, "addonsConfigs": [{"dnsCacheConfigs": [{"enabled": False}]}]}, ""),
        (CACHE, ""),
    ],
)
def test_with_calico_the_cache_of_the_node_answers_at_the_address_of_the_dns_service(
    found: dict[str, Any], address: str
) -> None:
    rows = gke.deployed(gke.stack(), **found).of(":NetworkPolicy")
    [spec] = [row.inputs["spec"] for row in rows if row.inputs["metadata"]["name"] == "dns"]
    asked = [each["ipBlock"]["cidr"] for each in spec["egress"][0]["to"] if "ipBlock" in each]
    assert asked == ["169.254.20.10/32", "169.254.169.254/32", *([f"{address}/32"] if address else [])]
    # The kernel does not track these queries, so a pod must also accept the answers.
    sources = [each["ipBlock"]["cidr"] for rule in spec.get("ingress", []) for each in rule["from"]]
    assert sources == (["169.254.20.10/32", f"{address}/32"] if address else [])
    assert spec["policyTypes"] == (["Egress", "Ingress"] if address else ["Egress"])


def test_every_container_with_gpus_finds_the_libraries_of_the_driver() -> None:
    libraries = {"name": "LD_LIBRARY_PATH", "value": "/usr/local/nvidia/lib64"}
    smoke = deployed().one(":Job").inputs["spec"]["template"]["spec"]["containers"][0]
    [runner] = gke.row(deployed(), "l4-runners-release").inputs["values"]["template"]["spec"]["containers"]
    assert [container["env"][0] for container in (smoke, runner)] == [libraries, libraries]


def test_the_check_runs_only_on_nodes_of_the_current_node_pool() -> None:
    selector = deployed().one(":Job").inputs["spec"]["template"]["spec"]["nodeSelector"]
    assert selector == {
        "cloud.google.com/gke-nodepool": "pool-nodes-1",
        "gpu-ci-pool": "l4",
        "nvidia.com/gpu.present": "true",
    }


def test_nodes_with_arm_cpus_are_tolerated() -> None:
    arm = {"key": "kubernetes.io/arch", "operator": "Equal", "value": "arm64"}
    gb200 = {
        "machineType": "a4x-highgpu-4g",
        "zones": ["us-central1-a"],
        "market": "reservation",
        "reservation": "gb200",
    }
    for pool, tolerated in ((None, []), (gb200, [arm])):
        spec = gke.deployed(gke.stack(pool)).one(":Job").inputs["spec"]["template"]["spec"]
        assert spec["tolerations"][1:] == tolerated


L4_8 = {"machineType": "g2-standard-96"}
NARROW_MEMORY, NARROW_CPUS = {"gpus": 2, "memoryGib": 100}, {"cpus": 12}


@pytest.mark.parametrize(
    ("pool", "runner", "field", "room", "used", "hint"),
    [
        (L4_8, {}, "ephemeralStorageGib", "4 of 8", "4 of its 8", "ephemeralStorageGib, or a larger diskGib"),
        (
            {**L4_8, "localSsdCount": 8},
            {"scratch": {"sizeGib": 500}},
            "ephemeralStorageGib",
            "5 of 8",
            "5 of its 8",
            "ephemeralStorageGib or scratch, or more local SSDs",
        ),
        (
            {**L4_8, "diskGib": 300},
            NARROW_MEMORY,
            "memoryGib",
            "3 of 4",
            "6 of its 8",
            "memoryGib, or another machine type",
        ),
        (
            {"machineType": "g2-standard-24"},
            NARROW_CPUS,
            "cpus",
            "1 of 2",
            "1 of its 2",
            "cpus, or another machine type",
        ),
    ],
    ids=["disk", "scratch", "memory", "cpus"],
)
def test_nodes_with_gpus_that_no_job_can_use_are_warned_about(
    pool: dict[str, Any], runner: dict[str, Any], field: str, room: str, used: str, hint: str
) -> None:
    [warning] = warned(pool, runner)
    assert warning == (
        f"gpu-ci:pools.l4.runner.{field}: a node has room for {room} runners, so jobs use {used} GPUs; hint: a smaller "
        f"{hint}"
    )


def test_nodes_whose_runners_use_all_gpus_are_not_warned_about() -> None:
    assert warned({**L4_8, "diskGib": 300}, {}) == []
    assert warned(L4_8, {"gpus": 8}) == []
    assert warned({}, {"memoryGib": 27}) == []


def warned(pool: dict[str, Any], runner: dict[str, Any]) -> list[str]:
    """The warnings about a stack with this pool and its runner."""
    return stack_warnings_of(load(gke.stack({**pool, "runner": {"image": gke.IMAGE, **runner}})))


def test_another_driver_repeats_the_check() -> None:
    def command(driver: str) -> Any:
        return gke.deployed(gke.stack({"driver": driver})).one(":Job").inputs

    assert command("LATEST") != command("DEFAULT") == deployed().one(":Job").inputs


def test_workload_identity_is_that_of_the_cluster() -> None:
    def mode(configs: list[Any]) -> str:
        found = gke.deployed(gke.stack(), workloadIdentityConfigs=configs)
        return str(found.one(":NodePool").inputs["nodeConfig"]["workloadMetadataConfig"]["mode"])

    assert mode([]) == mode([{"workloadPool": ""}]) == "GCE_METADATA"
    assert mode([{"workloadPool": "example-ci.svc.id.goog"}]) == "GKE_METADATA"


@pytest.mark.parametrize(
    ("found", "cluster", "passes"),
    [
        ({}, {}, True),
        (WITHOUT_POLICIES, {}, False),
        ({"datapathProvider": ""}, {}, False),
        ({**WITHOUT_POLICIES, "networkPolicies": [{"enabled": True, "provider": "CALICO"}]}, {}, True),
        ({**WITHOUT_POLICIES, "networkPolicies": [{"enabled": False, "provider": ""}]}, {}, False),
        (WITHOUT_POLICIES, {"networkPolicies": False}, True),
    ],
)
def test_a_cluster_that_enforces_no_network_policies_is_refused(
    found: dict[str, Any], cluster: dict[str, Any], passes: bool
) -> None:
    values = gke.stack(cluster=cluster)
    if passes:
        assert gke.deployed(values, **found).one(":NodePool").name == "l4-nodes-nodes"
        return
    with pytest.raises(Exception, match="networkPolicies: the cluster gpu enforces no network policies"):
        gke.deployed(values, **found)


@pytest.mark.parametrize(
    ("mode", "passes"),
    [
        ("PROJECT_SINGLETON_POLICY_ENFORCE", True),
        ("POLICY_BINDINGS_AND_PROJECT_SINGLETON_POLICY_ENFORCE", True),
        ("POLICY_BINDINGS", False),
        ("DISABLED", False),
        ("", False),
    ],
)
def test_a_cluster_that_must_check_images_and_does_not_is_refused(mode: str, passes: bool) -> None:
    found = {"binaryAuthorizations": [{"enabled": False, "evaluationMode": mode}]}
    assert gke.deployed(gke.stack(), **found).one(":NodePool")
    values = gke.stack(cluster={"binaryAuthorization": True})
    if passes:
        assert gke.deployed(values, **found).one(":NodePool")
        return
    with pytest.raises(Exception, match="binaryAuthorization: the cluster gpu starts images that"):
        gke.deployed(values, **found)


@pytest.mark.parametrize(
    ("found", "cluster", "warns"),
    [
        ({}, {"networkPolicies": False}, True),
        ({"workloadIdentityConfigs": [{"workloadPool": ""}]}, {"networkPolicies": False}, True),
        ({"workloadIdentityConfigs": [{"workloadPool": "example-ci.svc.id.goog"}]}, {"networkPolicies": False}, False),
        ({}, {}, False),
    ],
)
def test_a_cluster_on_which_jobs_reach_the_credentials_of_nodes_is_warned_about(
    monkeypatch: pytest.MonkeyPatch, found: dict[str, Any], cluster: dict[str, Any], warns: bool
) -> None:
    texts: list[str] = []
    monkeypatch.setattr("pulumi.log.warn", lambda text, *_: texts.append(text))
    gke.deployed(gke.stack(cluster=cluster), **found)
    of_policies = [text for text in texts if text.startswith("gpu-ci:clusters.gpu.networkPolicies: ")]
    assert [("token of the nodes' service account" in text) for text in of_policies] == [True] * warns


@pytest.mark.parametrize(
    ("found", "pool", "text"),
    [
        ({"enableAutopilot": True}, {}, "autopilot: the cluster is an Autopilot cluster, which has no node pools"),
        (
            {"masterVersion": "1.29.8-gke.1031000"},
            {},
            "controlPlaneVersion: does not install the NVIDIA driver on nodes",
        ),
        (
            {"masterVersion": "1.33.5-gke.1080000"},
            {"machineType": "a4-highgpu-8g", "zones": ["us-central1-b"]},
            "driver: driver branch 535 does not support the B200",
        ),
        (
            {"masterVersion": "1.31.9-gke.1044000"},
            {"market": "flex-start", "maxRunDurationSec": 3600},
            "market: the control plane has 1.31.9-gke.1044000, but flex-start with GPUs requires",
        ),
        (
            {"masterVersion": "1.33.5-gke.1080000"},
            {"upgradeStrategy": "BLUE_GREEN"},
            "upgradeStrategy: the control plane has 1.33.5-gke.1080000, but an autoscaled blue-green upgrade requires",
        ),
        (
            {"masterVersion": "1.33.5-gke.1080000"},
            {"torch": "2.15.0"},
            "torch: torch 2.15.0\\+cu132 needs driver branch 580 or newer",
        ),
    ],
    ids=["autopilot", "old", "driver", "flex-start", "upgrade", "torch"],
)
def test_what_the_look_up_finds_is_checked_with_the_fields_of_the_pool(
    found: dict[str, Any], pool: dict[str, Any], text: str
) -> None:
    with pytest.raises(Exception, match=text):
        gke.deployed(gke.stack(pool), **found)


def test_the_outputs_have_the_pool_its_cost_and_what_a_check_of_its_gpus_needs() -> None:
    exported = deployed().outputs[STACK]
    assert exported["pools"] == {
        "l4": {
            "kind": "gke-runners",
            "machineType": "g2-standard-8",
            "clusterName": "gpu",
            "zones": ["us-central1-a", "us-central1-b"],
            "market": "spot",
            "max": 2,
            "cost": {
                "usdPerHourAtRest": 0,
                "usdPerHourAtMax": 1.0242,
                "usdWorstMonth": 747.666,
                "priceDate": "2026-10-04",
            },
            "scaleSetName": "l4",
            "nodePoolName": "pool-nodes-1",
            "serviceAccountEmail": "gpu-l4@p.iam.gserviceaccount.com",
            "verdict": "pass",
            "smokeSummary": ("l4: the check passed on 1 node; its report is in the log of the Job gpu-ci/smoke-job-1"),
            "provenNodes": 1,
        }
    }
    assert exported["smokeTargets"] == [
        {
            "pool": "l4",
            "cloud": "gcp",
            "machineType": "g2-standard-8",
            "gpu": "NVIDIA L4",
            "gpuCount": 1,
            "zones": ["us-central1-a", "us-central1-b"],
            "template": None,
        }
    ]


def test_clusters_of_two_clouds_are_in_one_stack() -> None:
    values = gke.stack()
    values["gpu-ci:clusters"]["ci"] = copy.deepcopy(ON_CLUSTER["gpu-ci:clusters"]["ci"])
    values["gpu-ci:pools"]["a10g"] = A10G
    found = gke.deployed(values)
    providers = {row.name: f"{row.urn}::{row.name}-id" for row in found.of("pulumi:providers:kubernetes")}
    assert sorted(providers) == ["ci-cluster", "gpu-cluster"]
    used = {name: gke.row(found, name).request.provider for name in ("a10g-smoke-job", "l4-smoke-job")}
    assert used == {"a10g-smoke-job": providers["ci-cluster"], "l4-smoke-job": providers["gpu-cluster"]}
    assert [row.name for row in found.rows if row.type == "gpu-ci:kubernetes:DevicePlugin"] == ["ci-plugin"]
    # Only GKE answers DNS queries at the address of the metadata server.
    dns = {
        row.parent_name: "169.254.169.254/32" in json.dumps(row.inputs)
        for row in found.of(":NetworkPolicy")
        if row.inputs["metadata"]["name"] == "dns"
    }
    assert dns == {"ci-runners": False, "gpu-runners": True}


def test_the_location_of_the_cluster_is_known_before_the_deployment() -> None:
    assert clusters.known({"gpu": gke.GKE})["gpu"].wiring == {"location": "us-central1"}
    assert clusters.known({"gpu": {"kind": "gke", "location": 3}})["gpu"].wiring == {}
    assert clusters.known({"gpu": {"kind": "gke", "location": "mars"}})["gpu"].wiring == {}
    assert [pool.name for pool in load(gke.stack()).specs] == ["l4"]


@pytest.mark.slow
def test_a_stack_on_gke_alone_imports_nothing_of_aws() -> None:
    values = texts(gke.stack())
    computed = {token: outputs for token, outputs in COMPUTED.items() if not token.startswith("aws:")}
    answers = {
        GET_CLUSTER: gke_cluster({"name": "gpu", "location": "us-central1", "project": "example-ci"}),
        "gcp:secretmanager/getSecretVersionAccess:getSecretVersionAccess": {"secretData": KEY},
        "github:index/getRepository:getRepository": {"name": "kernels", "repoId": 102, "visibility": "private"},
    }
    statement = (
        "import runpy\n"
        "from tests.gpu_ci import harness\n"
        f"calls = {{token: lambda _, answer=answer: answer for token, answer in {answers!r}.items()}}\n"
        "found = harness.deploy(\n"
        f"    lambda: runpy.run_path({str(ROOT / 'infra' / '__main__.py')!r}, run_name='__main__'),\n"
        f"    computed={computed!r}, calls=calls, config={values!r},\n"
        ")\n"
        "assert found.one(':NodePool').name == 'l4-nodes-nodes'"
    )
    names = ("gpu_ci.aws", "pulumi_aws", "botocore", "boto3", "gpu_ci.kinds.gke.component")
    assert loaded(statement, *names) == ["gpu_ci.kinds.gke.component"]
