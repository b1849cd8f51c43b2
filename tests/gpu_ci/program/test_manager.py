"""The output `manager` of a stack: what the runner manager reads as its configuration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gpu_manager.budgets import Team
from gpu_manager.config import read
from gpu_manager.model import Offer

from tests.gpu_ci.program.stack import L4, SUBNETWORK, config, site
from tests.gpu_ci.program.test_github_apps import GROUP, RUNNERS
from tests.gpu_ci.program.test_program import STACK, run
from tests.gpu_ci.support import TEMPLATE

MANAGER = {"id": 37, "installationId": 38, "privateKey": "projects/example-ci/secrets/manager-key"}


def stack(**github: Any) -> dict[str, Any]:
    pools = {"l4": {**L4, "market": "spot", "zones": ["us-central1-a", "us-central1-b"]}}
    owner = {"owner": "acme", "runnerApp": RUNNERS, **github}
    return config(pools, **site(github=owner)) | {"gpu-ci:github": GROUP}


def test_the_output_is_a_configuration_that_the_manager_takes(tmp_path: Path) -> None:
    found = run(stack(managerApp=MANAGER)).outputs[STACK]["manager"]
    file = tmp_path / "manager.json"
    file.write_text(json.dumps(found))
    config = read(file)
    assert (config.name, config.github.owner) == ("stack", "acme")
    assert (config.github.app_id, config.github.installation_id) == (37, 38)
    [pool] = config.pools
    assert (pool.name, pool.max, pool.labels) == ("l4", 4, frozenset({"self-hosted", "gpu", "l4"}))
    assert [(rung.zone, rung.machine_type, rung.market, rung.gpu) for rung in pool.rungs] == [
        ("us-central1-a", "g2-standard-8", "spot", "nvidia-l4"),
        ("us-central1-b", "g2-standard-8", "spot", "nvidia-l4"),
    ]
    assert all(isinstance(rung, Offer) and (rung.usd_per_hour or 0) > 0 for rung in pool.rungs)
    assert pool.registered_by == "manager"
    # The check, fetching the runner, and the wait for its registration.
    assert pool.boot_sec == 1200 + 300 + 300
    assert pool.template


def test_the_configuration_has_the_teams_with_a_budget(tmp_path: Path) -> None:
    teams = {
        "vision": {"repositories": ["Kernels", "detector"], "usdPerMonth": 300, "onBudget": "stop"},
        "speech": {"repositories": ["audio"], "usdPerMonth": 12.5},
        "free": {"repositories": ["docs"]},
    }
    found = run(stack(managerApp=MANAGER) | {"gpu-ci:teams": teams}).outputs[STACK]["manager"]
    file = tmp_path / "manager.json"
    file.write_text(json.dumps(found))
    assert read(file).teams == [
        Team("vision", frozenset({"acme/kernels", "acme/detector"}), 300.0, "stop"),
        Team("speech", frozenset({"acme/audio"}), 12.5, "warn"),
    ]


IMAGE = f"us-central1-docker.pkg.dev/example-ci/builds/runner-manager@sha256:{'ab' * 32}"
ON_GOOGLE_CLOUD = {"gpu-ci:manager": {"image": IMAGE, "region": "us-central1"}}


def test_no_part_of_the_deployed_manager_has_a_key() -> None:
    found = run(stack(managerApp=MANAGER) | ON_GOOGLE_CLOUD)
    readers = [row for row in found.of(":SecretIamMember") if row.name == "manager-app-key-reader"]
    assert [row.inputs["secretId"] for row in readers] == [MANAGER["privateKey"]]
    pool = found.one("cloudrunv2/workerPool:WorkerPool").inputs
    assert [volume["secret"]["secret"] for volume in pool["template"]["volumes"]] == ["manager-key"]
    assert "envs" not in pool["template"]["containers"][0]


def test_a_second_manager_serves_the_pools_of_its_list(tmp_path: Path) -> None:
    two = stack(managerApp=MANAGER)
    two["gpu-ci:pools"]["t4"] = {**two["gpu-ci:pools"]["l4"], "standby": {"stoppedSize": 2}}
    two["gpu-ci:pools"]["l4"] |= {"priorities": {"order": ["push"]}}
    wanted = {"gpu-ci:manager": {**ON_GOOGLE_CLOUD["gpu-ci:manager"], "others": {"batch": ["t4"]}}}
    found = run(two | wanted)
    outputs = found.outputs[STACK]
    configs = []
    for value in (outputs["manager"], outputs["otherManagers"]["batch"]["manager"]):
        (tmp_path / "manager.json").write_text(json.dumps(value))
        configs.append(read(tmp_path / "manager.json"))
    assert [(each.name, [pool.name for pool in each.pools]) for each in configs] == [
        ("stack", ["l4"]),
        ("stack-batch", ["t4"]),
    ]
    assert [[(other.manager, other.priorities) for other in each.other_pools] for each in configs] == [
        [("stack-batch", False)],
        [("stack", True)],
    ]
    # Each process may send half of the requests that GitHub allows.
    assert [each.managers for each in configs] == [2, 2]
    assert [row.name for row in found.of("gpu-ci:gcp:RunnerManager")] == ["manager", "manager-batch"]
    assert [row.name for row in found.of("storage/bucket:Bucket")] == ["manager-state", "manager-batch-state"]
    users = {row.name for row in found.of("serviceaccount/iAMMember:IAMMember") if row.name.startswith("manager")}
    assert users == {"manager-l4-user", "manager-batch-t4-user"}
    assert [row.name for row in found.of(":StoppedMachines")] == ["manager-batch-stopped"]


def test_the_configuration_says_how_the_manager_finds_jobs(tmp_path: Path) -> None:
    values = stack(managerApp=MANAGER)
    values["gpu-ci:pools"]["l4"] |= {"runnerLabels": ["gpu", "l4"]}
    values["gpu-ci:manager"] = {**ON_GOOGLE_CLOUD["gpu-ci:manager"], "demand": "scaleSets"}
    (tmp_path / "manager.json").write_text(json.dumps(run(values).outputs[STACK]["manager"]))
    assert read(tmp_path / "manager.json").demand == "scaleSets"


EAST = "projects/example-ci/regions/us-east1/subnetworks/ci"
LADDER = [{"zones": ["us-central1-a"], "market": "standard"}, {"zones": ["us-east1-b"]}]


def with_ladder(**site_keys: Any) -> dict[str, Any]:
    values = stack(managerApp=MANAGER)
    values["gpu-ci:pools"]["l4"] |= {"ladder": LADDER, "priceCeilingUsd": 2}
    values["gpu-ci:site"] |= site_keys
    return values


def test_the_output_has_the_rungs_of_a_ladder_with_their_templates_and_prices(tmp_path: Path) -> None:
    found = run(with_ladder(subnetworks={"us-central1": SUBNETWORK, "us-east1": EAST}))
    file = tmp_path / "manager.json"
    file.write_text(json.dumps(found.outputs[STACK]["manager"]))
    [pool] = read(file).pools
    assert [(rung.zone, rung.market) for rung in pool.rungs] == [
        ("us-central1-a", "spot"),
        ("us-central1-b", "spot"),
        ("us-central1-a", "standard"),
        ("us-east1-b", "spot"),
    ]
    # The gate of the template in the other region, and none for another market.
    assert [rung.template for rung in pool.rungs] == ["", "", "", TEMPLATE]
    assert {row.name for row in found.of(":SmokeGate")} == {"l4-gate", "l4-us-east1-g2-standard-8-gate"}
    spot, _, standard, _ = (rung.usd_per_hour or 0 for rung in pool.rungs)
    assert 0 < spot < standard
    assert pool.price_ceiling_usd == 2
    assert found.outputs[STACK]["pools"]["l4"]["ladder"] == LADDER


def test_a_ladder_is_in_the_network_that_is_made_for_its_region() -> None:
    found = run(with_ladder(networks={"us-east1": {"ipRange": "10.10.0.0/20"}}))
    interfaces = {row.name: row.inputs["networkInterfaces"] for row in found.of(":RegionInstanceTemplate")}
    assert [each["subnetwork"] for each in interfaces["l4-us-east1-g2-standard-8-template"]] == [
        "runners-us-east1-subnetwork-id"
    ]
    assert [each["subnetwork"] for each in interfaces["l4-template"]] == [SUBNETWORK]
