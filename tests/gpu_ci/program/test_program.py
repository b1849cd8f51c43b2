"""The whole program, as the engine would run it, against the recorder."""

from __future__ import annotations

import json
import runpy
import signal
from collections.abc import Mapping
from datetime import date
from typing import Any

import pytest

from tests.gpu_ci import harness
from tests.gpu_ci.harness import Calls, Computed, Deployment, deploy
from tests.gpu_ci.program.stack import ROOT, config, config_of, one_pool, texts
from tests.gpu_ci.program.test_settings import SIX_MISTAKES
from tests.gpu_ci.support import CALLS, COMPUTED, TEMPLATE

KEY = "-----BEGIN PRIVATE KEY-----\nhush-hush\n-----END PRIVATE KEY-----\n"


def secret(asked: Mapping[str, Any]) -> dict[str, Any]:
    name = asked["secret"]
    return {"secretData": KEY if name.endswith("/github-app-key") else f"what {name} holds"}


def cluster(asked: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": asked["name"],
        "version": "1.35",
        "endpoint": "https://example.eks",
        "certificateAuthorities": [{"data": "Q0E="}],
        "kubernetesNetworkConfigs": [{"serviceIpv4Cidr": "172.20.0.0/16", "serviceIpv6Cidr": ""}],
        "vpcConfig": {"vpcId": "vpc-0123456789abcdef0", "clusterSecurityGroupId": "sg-0123456789abcdef0"},
    }


def offerings(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Each type in two zones of the region, as two lists of equal length."""
    [wanted] = asked["filters"]
    found = [(f"{asked['region']}{zone}", name) for name in wanted["values"] for zone in "ab"]
    return {"locations": [zone for zone, _ in found], "instanceTypes": [name for _, name in found]}


def gke_cluster(asked: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    """A Standard cluster with Dataplane V2 and without Workload Identity."""
    return {
        "name": asked["name"],
        "location": asked["location"],
        "project": asked["project"],
        "endpoint": "203.0.113.10",
        "masterVersion": "1.34.1-gke.3720000",
        "masterAuths": [{"clusterCaCertificate": "Q0E="}],
        "enableAutopilot": False,
        "datapathProvider": "ADVANCED_DATAPATH",
        "networkPolicies": [],
        "binaryAuthorizations": [],
        "workloadIdentityConfigs": [],
        **changes,
    }


GET_CLUSTER = "gcp:container/getCluster:getCluster"
ALL_CALLS = CALLS | {
    GET_CLUSTER: gke_cluster,
    "gcp:secretmanager/getSecretVersionAccess:getSecretVersionAccess": secret,
    "aws:eks/getCluster:getCluster": cluster,
    "aws:ec2/getInstanceTypeOfferings:getInstanceTypeOfferings": offerings,
}

STACK = "urn:pulumi:stack::project::pulumi:pulumi:Stack::project-stack"


def run(
    values: Mapping[str, Any], *, preview: bool = False, calls: Calls = ALL_CALLS, computed: Computed = COMPUTED
) -> Deployment:
    program = str(ROOT / "infra" / "__main__.py")
    ours = signal.getsignal(signal.SIGINT)  # the program changes it for its whole process, which is this test's here
    try:
        return deploy(
            lambda: runpy.run_path(program, run_name="__main__"),
            computed=computed,
            calls=calls,
            preview=preview,
            config=texts(values),
        )
    finally:
        signal.signal(signal.SIGINT, ours)


def test_machines_that_public_repositories_may_use_accept_one_run() -> None:
    made = run(config_of("Pulumi.public.yaml"))
    [pool] = made.outputs[STACK]["manager"]["pools"]
    assert (pool["public"], pool["registeredBy"], pool["runnerGroup"]) == (True, "manager", "gpu-stack")
    agent = json.loads(made.one(":RegionInstanceTemplate").inputs["metadata"]["gpu-agent-config"])
    assert agent["runner"]["public"] is True
    assert made.one(":ActionsRunnerGroup").inputs["allowsPublicRepositories"] is True


def test_an_interrupted_program_ends_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pulumi's own language host interrupts a program once one of its resources has failed."""
    seen: list[object] = []
    monkeypatch.setattr(signal, "signal", lambda number, handler: seen.append((number, handler)))
    run(one_pool())
    assert seen[0] == (signal.SIGINT, signal.SIG_DFL)


def test_the_pools_are_exported_with_their_choices_and_outputs() -> None:
    exported = run(one_pool()).outputs[STACK]
    assert set(exported) == {"pools", "smokeTargets", "cost"}
    assert exported["pools"] == {
        "l4": {
            "kind": "gce-runners",
            "machineType": "g2-standard-8",
            "zones": ["us-central1-a", "us-central1-b", "us-central1-c"],
            "market": "spot",
            "max": 4,
            "runnerLabels": ["self-hosted", "gpu", "l4"],
            "registersRunners": False,
            "cost": {
                "usdPerHourAtRest": 0,
                "usdPerHourAtMax": 2.0484,
                "usdWorstMonth": 1495.332,
                "priceDate": "2026-10-04",
            },
            "instanceGroup": "group-1",
            "template": TEMPLATE,
            "serviceAccountEmail": "gpu-l4@p.iam.gserviceaccount.com",
            "verdict": "pass",
            "smokeSummary": "pass",
        }
    }


def test_the_cost_of_several_pools_is_their_sum_by_market_too() -> None:
    exported = run(config_of("Pulumi.prod.yaml"), preview=True).outputs[STACK]
    months = {name: pool["cost"]["usdWorstMonth"] for name, pool in exported["pools"].items()}
    assert exported["cost"]["usdWorstMonth"] == pytest.approx(sum(months.values()))
    assert exported["cost"]["byMarket"]["standard"]["usdWorstMonth"] == months["a100"]
    assert set(exported["cost"]["byMarket"]) == {"spot", "standard"}


def test_what_has_grown_old_is_one_warning_for_the_whole_stack(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(
        "gpu_ci.program.stack_warnings.warnings", lambda settings, today: [f"{len(settings.pools)} pools, {today:%Y}"]
    )
    run(config_of("Pulumi.prod.yaml"), preview=True)
    [told] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert told == f"4 pools, {date.today():%Y}"


def test_the_smoke_targets_say_what_a_check_has_to_find_in_the_order_of_the_names() -> None:
    exported = run(config_of("Pulumi.prod.yaml")).outputs[STACK]
    targets = {each["pool"]: each for each in exported["smokeTargets"]}
    assert [each["pool"] for each in exported["smokeTargets"]] == ["a100", "h100", "l4", "t4"]
    assert targets["t4"] == {
        "pool": "t4",
        "cloud": "gcp",
        "machineType": "n1-standard-8",
        "gpu": "Tesla T4",
        "gpuCount": 1,
        "zones": ["us-central1-a", "us-central1-b", "us-central1-c", "us-central1-f"],
        "template": TEMPLATE,
    }
    assert {name: each["gpu"] for name, each in targets.items()} == {
        "a100": "NVIDIA A100",
        "h100": "NVIDIA H100",
        "l4": "NVIDIA L4",
        "t4": "Tesla T4",
    }


def test_a_preview_of_a_new_stack_registers_the_same() -> None:
    values = config_of("Pulumi.prod.yaml")
    assert sorted(row.urn for row in run(values, preview=True).rows) == sorted(row.urn for row in run(values).rows)


def test_one_mistake_in_one_pool_and_nothing_is_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    register = harness.Recorder.RegisterResource
    monkeypatch.setattr(
        harness.Recorder, "RegisterResource", lambda self, request: seen.append(request.type) or register(self, request)
    )
    good = config_of("Pulumi.prod.yaml")
    with pytest.raises(SystemExit, match="32"):
        run(good | {"gpu-ci:pools": good["gpu-ci:pools"] | SIX_MISTAKES})
    assert seen == ["pulumi:pulumi:Stack"], "the SDK registers the stack itself before it runs the program"
    run(config())
    assert len(seen) > 5, "the same recorder sees what is registered"
