"""Valid and invalid fields of a gce-runners pool in a stack file, with the messages."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_ci.errors import Problem
from gpu_ci.kinds.gce.args import RunnerPoolArgs
from gpu_ci.kinds.gce.component import RunnerPool
from gpu_ci.machines.rules import default_runner_labels

from tests.gpu_ci.support import WIRING

T4 = {"type": "nvidia-tesla-t4", "count": 1}


def problems(**changes: Any) -> list[Problem]:
    """Return the problems of the example after these changes. None removes a key."""
    choices = {key: value for key, value in {**RunnerPool.EXAMPLE, **changes}.items() if value is not None}
    return RunnerPoolArgs.choice_problems(choices)


def test_a_check_longer_than_its_machine_is_reported_with_the_other_mistakes() -> None:
    found = problems(market="x", max=0, maxRunDurationSec=900, smoke={"deadlineSec": 900})
    assert [problem.path for problem in found] == ["market", "max", "smoke.deadlineSec"]
    assert found[2].hint == "raise maxRunDurationSec, or lower smoke.deadlineSec"
    assert problems(maxRunDurationSec=901, smoke={"deadlineSec": 900}) == []


def test_a_problem_of_the_default_images_driver_names_the_default_image(monkeypatch: pytest.MonkeyPatch) -> None:
    old = "projects/deeplearning-platform-release/global/images/family/common-cu129-ubuntu-2204-nvidia-550"
    text = "driver branch 550 does not support the RTX PRO 6000: the first branch that does is 575"
    changes = {"machineType": "g4-standard-48", "zones": ["us-central1-b"], "image": old}
    assert [each.text for each in problems(**changes)] == [text]
    monkeypatch.setattr("gpu_ci.versions.GCE_IMAGE", old)
    assert [each.text for each in problems(**changes)] == [f"the default image: {text}"]


def test_an_image_of_ones_own_may_bring_another_torch() -> None:
    v100 = {"type": "nvidia-tesla-v100", "count": 1}
    assert problems(machineType="n1-standard-8", guestAccelerator=v100, image="projects/p/global/images/mine") == []


@pytest.mark.parametrize("parent", ["", "https://www.googleapis.com/compute/v1/"])
def test_links_may_be_paths_or_whole(parent: str) -> None:
    network, subnetwork = f"{parent}projects/example.com:ci/global/networks/n", f"{parent}{WIRING['subnetwork']}"
    args = RunnerPoolArgs(**{**RunnerPool.EXAMPLE, **WIRING, "network": network, "subnetwork": subnetwork})
    assert (args.network, args.subnetwork) == (network, subnetwork)


def test_defaults_cost_nothing_and_name_the_pool() -> None:
    args = RunnerPoolArgs(**RunnerPool.EXAMPLE, **WIRING)
    assert args.runner_labels_of("l4") == default_runner_labels("l4") == ["self-hosted", "gpu", "l4"]
    assert (args.region, args.disk_gib, args.market, args.smoke.on_no_capacity) == ("us-central1", 100, "spot", "fail")
    assert (args.run_limit_sec, args.smoke.deadline_sec) == (14400, 1200)


def test_a_pool_asks_for_its_machines_and_one_more_for_a_check_and_for_their_disks() -> None:
    chosen = {"max": 2, "diskGib": 250, "maxRunDurationSec": 3600, "market": "standard"}
    asked = RunnerPoolArgs(**{**RunnerPool.EXAMPLE, **WIRING, **chosen, "smoke": {"deadlineSec": 600}}).demand("l4")
    assert (asked.pool, asked.machine.machine_type, asked.market, asked.region) == (
        "l4",
        "g2-standard-8",
        "standard",
        "us-central1",
    )
    assert (asked.machines_at_rest, asked.max_machines, asked.most_machines) == (0, 2, 3)
    assert (asked.boot_disk, asked.boot_disk_gib, asked.max_run_sec) == ("pd-balanced", 250, 3600)


def test_a_pool_asks_for_its_local_disks_by_their_size_and_for_the_time_machines_have_when_none_is_said() -> None:
    chosen = {**RunnerPool.EXAMPLE, **WIRING, "machineType": "g2-standard-24", "localSsdCount": 2}
    asked = RunnerPoolArgs(**chosen).demand("l4")
    assert (asked.local_ssd_gib, asked.max_run_sec, asked.stopped_machines) == (750, 14400, 0)


def test_a_pool_asks_for_the_machines_that_wait_stopped() -> None:
    chosen = {**RunnerPool.EXAMPLE, **WIRING, "market": "standard", "standby": {"stoppedSize": 3}}
    assert RunnerPoolArgs(**chosen).demand("l4").stopped_machines == 3


def test_machines_that_wait_cost_in_their_times_and_keep_the_whole_time_limit_for_their_job() -> None:
    warm = {"size": 2, "schedule": {"days": ["mon", "tue"], "start": "22:00", "end": "04:00"}, "mostWaitSec": 3600}
    github = {"owner": "acme", "runnerGroup": "gpus"}
    args = RunnerPoolArgs(**RunnerPool.EXAMPLE, **WIRING, github=github, maxRunDurationSec=7200, warm=warm)
    demand, registration = args.demand("l4"), args.registration_of("l4")
    assert (demand.machines_at_rest, demand.max_run_sec) == (2 * 12 / 168, 10800)
    assert registration is not None
    assert registration.warm_sec == 3600
    entry = args.managed_entry("l4")["warm"]
    assert entry == {**warm, "schedule": {**warm["schedule"], "timeZone": "UTC"}}  # type: ignore[dict-item]


def test_a_market_google_does_not_document_for_a_machine_is_left_to_google() -> None:
    chosen = {"machineType": "n1-standard-8", "guestAccelerator": T4}
    assert problems(**chosen, market="flex-start", maxRunDurationSec=3600) == []
