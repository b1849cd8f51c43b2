"""Pools on GKE clusters: what a stack file says of them, what they share, and what they get from the look-up."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from gpu_ci.stack import clusters
from gpu_ci.stack.warnings import stack_warnings as stack_warnings_of

from tests.gpu_ci.harness import Deployment
from tests.gpu_ci.program import gke
from tests.gpu_ci.program.stack import ROOT, load, texts
from tests.gpu_ci.program.test_program import GET_CLUSTER, KEY, gke_cluster
from tests.gpu_ci.support import COMPUTED
from tests.gpu_ci.test_imports import loaded

pytestmark = pytest.mark.usefixtures("short_definitions")

WITHOUT_POLICIES = {"datapathProvider": "LEGACY_DATAPATH"}


@cache
def deployed() -> Deployment:
    return gke.deployed(gke.stack())


CALICO = {"networkPolicies": [{"enabled": True, "provider": "CALICO"}], "servicesIpv4Cidr": "34.118.224.0/20"}
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
    names = ("gpu_ci.aws.eks_cluster", "pulumi_aws", "botocore", "boto3", "gpu_ci.kinds.gke.component")
    assert loaded(statement, *names) == ["gpu_ci.kinds.gke.component"]
