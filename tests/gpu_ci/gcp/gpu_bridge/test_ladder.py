"""The ladder of a bridge in virtual time: the places that steps try, and what they remember about capacity."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gpu_ci.gcp.gate.compute_api import ApiError, QuotaInfo
from gpu_ci.gcp.gpu_bridge.ladder import MEMORY, Memory, parse

from tests.gpu_ci.gcp.gpu_bridge.cloud import EXHAUSTED, SETTINGS, TEMPLATE, UNAVAILABLE, Cloud, Step

EAST = TEMPLATE.replace("us-central1", "us-east1")
L4 = {"machine_type": "g2-standard-8", "gpu": "nvidia-l4"}
RUNGS = [
    {"zone": "us-central1-a", "market": "spot", **L4},
    {"zone": "us-central1-b", "market": "spot", **L4},
    {"zone": "us-east1-b", "market": "spot", "template": EAST, **L4},
    {"zone": "us-central1-a", "market": "standard", **L4},
]
LADDER = replace(SETTINGS, rungs=RUNGS)
QUOTA = ApiError("QUOTA_EXCEEDED", "Quota 'PREEMPTIBLE_NVIDIA_L4_GPUS' exceeded.", 403, quota=QuotaInfo("L4"))
NAMES_C = ApiError("ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", "no", 503, ("us-central1-b", "us-central1-c"))


@pytest.fixture
def cloud() -> Cloud:
    return Cloud()


def run(cloud: Cloud, folder: Path, number: int = 1, **options: Any) -> Step:
    """Run a step to its end."""
    step = Step(cloud, folder, number=number, settings=LADDER, **options)
    cloud.time.advance(1000)
    assert step.is_over
    return step


def tried(step: Step) -> list[str]:
    return [line.rpartition(" ")[2] for line in step.log if line.startswith("starting a build machine in ")]


def memory(cloud: Cloud) -> Memory:
    return parse(cloud.objects[MEMORY][1])


def test_a_step_goes_down_the_ladder_to_another_region_with_its_template(cloud: Cloud, folder: Path) -> None:
    cloud.zones = {"us-central1-a": EXHAUSTED, "us-central1-b": EXHAUSTED}
    step = run(cloud, folder)
    assert (step.code, tried(step)) == (0, ["us-central1-a", "us-central1-b", "us-east1-b"])
    assert cloud.inserts == [("us-east1-b", EAST, "SPOT")]


def test_the_last_rung_overrides_the_market_of_its_template(cloud: Cloud, folder: Path) -> None:
    class SpotOnly(dict[str, ApiError]):
        """No zone has a Spot machine."""

        def __contains__(self, zone: object) -> bool:
            return len(cloud_inserts) < 4

        def get(self, zone: str, default: Any = None) -> Any:
            return EXHAUSTED if zone in self else None

    cloud_inserts: list[int] = []

    def insert(*given: Any) -> str:
        cloud_inserts.append(1)
        return str(create(*given))

    cloud.zones = SpotOnly()
    step = Step(cloud, folder, settings=LADDER)
    create = step.client.insert
    step.client.insert = insert  # type: ignore[method-assign]
    cloud.time.advance(1000)
    assert (step.code, cloud.inserts) == (0, [("us-central1-a", TEMPLATE, "STANDARD")])


def test_the_next_step_begins_with_a_place_that_had_capacity(cloud: Cloud, folder: Path) -> None:
    cloud.zones = {"us-central1-a": EXHAUSTED}
    assert tried(run(cloud, folder)) == ["us-central1-a", "us-central1-b"]
    cloud.zones = {}
    assert tried(run(cloud, folder, number=2)) == ["us-central1-b"]
    # A step has taken 1000 s. An hour after the end of its pause, the stockout is forgotten.
    cloud.time.advance(3600)
    assert tried(run(cloud, folder, number=3)) == ["us-central1-a"]


def test_a_zone_that_google_names_comes_first(cloud: Cloud, folder: Path) -> None:
    rungs = [*RUNGS[:2], {"zone": "us-central1-c", "market": "spot", **L4}]
    cloud.zones = {"us-central1-a": replace(NAMES_C, zones_available=("us-central1-c",))}
    step = Step(cloud, folder, settings=replace(SETTINGS, rungs=rungs))
    cloud.time.advance(1000)
    assert (step.code, tried(step)) == (0, ["us-central1-a", "us-central1-c"])


def test_each_place_is_tried_once_and_then_the_step_names_all_of_them(cloud: Cloud, folder: Path) -> None:
    cloud.zones = dict.fromkeys(("us-central1-a", "us-east1-b"), EXHAUSTED) | {"us-central1-b": NAMES_C}
    for number in (1, 2):
        step = run(cloud, folder, number=number)
        assert (step.code, sorted(tried(step))) == (
            201,
            ["us-central1-a", "us-central1-a", "us-central1-b", "us-east1-b"],
        )
        assert step.error
        assert "us-east1-b g2-standard-8 spot" in step.error.detail
        assert step.error.detail.endswith("; Google suggests us-central1-c")
        assert "other regions" in str(step.error)
    assert {key: each.stockouts for key, each in memory(cloud).cooldowns.items()} == {
        "us-central1-a g2-standard-8 spot": 2,
        "us-central1-b g2-standard-8 spot": 2,
        "us-east1-b g2-standard-8 spot": 2,
        "us-central1-a g2-standard-8 standard": 2,
    }


def test_a_used_up_quota_of_one_region_leads_to_another_region(cloud: Cloud, folder: Path) -> None:
    cloud.zones = {"us-central1-a": QUOTA, "us-central1-b": QUOTA}
    step = run(cloud, folder)
    # The quota is of the region, so its other zone with the same GPU and market is not tried.
    assert (step.code, tried(step)) == (0, ["us-central1-a", "us-east1-b"])
    assert memory(cloud).closed_quotas.keys() == {"us-central1 nvidia-l4 spot"}


def test_used_up_quotas_everywhere_are_the_failure_of_the_step(cloud: Cloud, folder: Path) -> None:
    cloud.zones = dict.fromkeys(("us-central1-a", "us-central1-b", "us-east1-b"), QUOTA)
    step = run(cloud, folder)
    assert (step.code, len(tried(step))) == (202, 4)
    assert step.error
    assert "PREEMPTIBLE_NVIDIA_L4_GPUS" in step.error.detail


def test_after_two_preemptions_a_step_avoids_spot_machines_of_the_region(cloud: Cloud, folder: Path) -> None:
    for number in (1, 2):
        step = Step(cloud, folder, number=number, lines=500, settings=LADDER)
        cloud.time.advance(100)
        [name] = cloud.machines
        cloud.preempt(name)
        cloud.time.advance(100)
        assert step.code == 203
    assert tried(run(cloud, folder, number=3)) == ["us-east1-b"]


def test_a_preempted_command_runs_again_on_the_first_rung_without_spot(cloud: Cloud, folder: Path) -> None:
    step = Step(cloud, folder, lines=100, settings=LADDER, retries_preempted=True)
    cloud.time.advance(100)
    [name] = cloud.machines
    cloud.preempt(name)
    cloud.time.advance(1000)
    assert step.code == 0
    assert cloud.inserts == [("us-central1-a", TEMPLATE, "SPOT"), ("us-central1-a", TEMPLATE, "STANDARD")]


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{}", b'{"cooldowns": 1}', b"\xff", json.dumps({**vars(Memory()), "preferred": {"a": "b"}}).encode()],
)
def test_a_memory_of_another_form_is_replaced(cloud: Cloud, folder: Path, content: bytes) -> None:
    cloud.put(MEMORY, content)
    cloud.zones = {"us-central1-a": EXHAUSTED}
    assert run(cloud, folder).code == 0
    assert memory(cloud).cooldowns.keys() == {"us-central1-a g2-standard-8 spot"}


def test_a_step_does_not_need_the_memory(cloud: Cloud, folder: Path) -> None:
    step = Step(cloud, folder, settings=LADDER)
    find = step.client.find

    def failing(name: str, **options: Any) -> Any:
        if name == MEMORY:
            raise UNAVAILABLE
        return find(name, **options)

    step.client.find = failing  # type: ignore[method-assign]
    cloud.zones = {"us-central1-a": EXHAUSTED}
    cloud.time.advance(1000)
    assert (step.code, tried(step)) == (0, ["us-central1-a", "us-central1-b"])


def test_a_machine_at_a_place_ends_the_memory_of_its_stockout(cloud: Cloud, folder: Path) -> None:
    settings = replace(SETTINGS, rungs=RUNGS[:1])
    cloud.zones = {"us-central1-a": EXHAUSTED}
    codes = []
    for number in (1, 2):
        step = Step(cloud, folder, number=number, settings=settings)
        cloud.time.advance(1000)
        codes.append((step.code, len(memory(cloud).cooldowns)))
        cloud.zones = {}
    assert codes == [(201, 1), (0, 0)]
