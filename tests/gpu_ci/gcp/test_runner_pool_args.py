"""Valid and invalid fields of a gce-runners pool in a stack file, with the messages."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest
from gpu_ci.errors import ArgsError, Problem, report
from gpu_ci.gcp.pool.rules import default_runner_labels
from gpu_ci.gcp.runner_pool import RunnerPool, RunnerPoolArgs

from tests.gpu_ci.support import WIRING, run

T4 = {"type": "nvidia-tesla-t4", "count": 1}


def problems(**changes: Any) -> list[Problem]:
    """Return the problems of the example after these changes. None removes a key."""
    choices = {key: value for key, value in {**RunnerPool.EXAMPLE, **changes}.items() if value is not None}
    return RunnerPoolArgs.choice_problems(choices)


def test_the_example_is_right() -> None:
    assert problems() == []


def test_a_mistake_is_reported_with_got_expected_and_hint() -> None:
    found = [problem.under("gpu-ci:pools.l4") for problem in problems(machineType="g2-standrad-8")]
    assert report("Pulumi.staging.yaml", found) == (
        "Pulumi.staging.yaml: gpu-ci:pools.l4.machineType: is not a machine type with a GPU\n"
        "  got: 'g2-standrad-8'\n"
        "  expected: a Compute Engine machine type with a GPU, such as g2-standard-8\n"
        "  hint: did you mean g2-standard-8"
    )


ATTACH_T4 = "guestAccelerator: {type: nvidia-tesla-t4}"


@pytest.mark.parametrize(
    ("machine_type", "hint"),
    [
        ("n2-standard-8", f"such as g2-standard-8, which has a GPU, or n1-standard-8 with {ATTACH_T4}"),
        ("n2d-standard-96", "such as g2-standard-96, which has a GPU"),
        ("n1-standrd-8", "did you mean n1-standard-8"),
        ("G2-STANDARD-8", "did you mean g2-standard-8"),
        ("l4", "such as g2-standard-4: L4 is a GPU"),
        ("nvidia-tesla-t4", f"such as n1-standard-4 with {ATTACH_T4}: T4 is a GPU"),
        ("g5.2xlarge", "an EC2 instance type belongs in instanceTypes of a pool of the kind eks-runners"),
        ("x", "a2, a3, a4, g2 and g4 types have GPUs, and n1 types can have GPUs attached"),
    ],
)
def test_the_hint_for_a_machine_type_without_gpus_is_one_with_gpus(machine_type: str, hint: str) -> None:
    assert [problem.hint for problem in problems(machineType=machine_type)] == [hint]


@pytest.mark.parametrize(
    ("changes", "path", "text"),
    [
        ({"machineType": None}, "machineType", "is missing"),
        ({"machineType": "e2-standard-8"}, "machineType", "is not a machine type with a GPU"),
        (
            {"machineType": "g4-standard-6", "zones": ["us-central1-b"]},
            "driver",
            "g4-standard-6 has a fraction of a GPU, which needs the vGPU guest driver; no image contains that driver",
        ),
        ({"zones": "us-central1-a"}, "zones", "must be a list"),
        ({"zones": []}, "zones", "needs at least one"),
        ({"zones": ["us-central1"]}, "zones[0]", "is a region, not a zone"),
        ({"zones": ["us-central1-a", "us-central1-a"]}, "zones[1]", "is a duplicate"),
        (
            {"zones": ["us-central1-a", "us-east1-b"]},
            "zones[1]",
            "is in another region; all zones of a pool must be in one region",
        ),
        ({"zones": ["us-central1-f"]}, "zones[0]", "has no nvidia-l4"),
        ({"max": 0}, "max", "must be at least 1"),
        ({"max": 1001}, "max", "must be at most 1000"),
        ({"max": "four"}, "max", "must be a whole number"),
        ({"market": "preemptible"}, "market", "must be one of 'spot', 'standard', 'flex-start' or 'reservation'"),
        (
            {"machineType": "a3-highgpu-1g", "market": "standard", "zones": ["us-central1-a"]},
            "market",
            "a3-highgpu-1g is not available for this market",
        ),
        ({"diskType": "pd-standard"}, "diskType", "g2-standard-8 cannot boot from it"),
        ({"diskType": "floppy"}, "diskType", None),
        ({"diskGib": 10}, "diskGib", "must be at least 30"),
        ({"image": "ubuntu"}, "image", "has a form that is not accepted"),
        ({"runnerLabels": ["gpu", "GPU"]}, "runnerLabels[1]", "is a duplicate; labels are case-insensitive"),
        ({"runnerLabels": ["a b"]}, "runnerLabels[0]", "has a form that is not accepted"),
        ({"maxRunDurationSec": 60}, "maxRunDurationSec", "must be at least 600"),
        ({"smoke": {"deadlineSec": 30}}, "smoke.deadlineSec", "must be at least 120"),
        ({"smoke": {"onNoCapacity": "ignore"}}, "smoke.onNoCapacity", "must be one of 'fail' or 'unproven'"),
        (
            {"maxRunDurationSec": 1200},
            "smoke.deadlineSec",
            "is too long: Google deletes the machine before, after maxRunDurationSec",
        ),
        ({"guestAccelerator": T4}, "guestAccelerator", "is only for n1 machine types: g2-standard-8 has built-in GPUs"),
        (
            {"machineType": "n1-standard-8"},
            "guestAccelerator",
            "is missing: n1-standard-8 has no GPU of its own",
        ),
        (
            {"machineType": "n1-standard-8", "guestAccelerator": {"type": "nvidia-tesla-t5"}},
            "guestAccelerator.type",
            "is not an accelerator for n1 machine types",
        ),
        (
            {"machineType": "n1-standard-8", "guestAccelerator": {**T4, "count": 3}},
            "guestAccelerator.count",
            "no machine has this many nvidia-tesla-t4",
        ),
        (
            {"machineType": "n1-standard-96", "guestAccelerator": T4},
            "guestAccelerator",
            "is not available for n1-standard-96",
        ),
        ({"labels": {}}, "labels", "is set by gpu-ci, not in a stack file"),
        ({"maxx": 3}, "maxx", "unknown key"),
    ],
)
def test_one_mistake_is_one_problem_at_its_path(changes: dict[str, Any], path: str, text: str | None) -> None:
    (found,) = problems(**changes)
    assert found.path == path
    assert text is None or found.text == text


def test_independent_mistakes_are_reported_together() -> None:
    found = problems(machineType="n1-standard-8", zones=["us-central1"], market="x", max=0, diskGib="big", smoke=3)
    assert [problem.path for problem in found] == ["guestAccelerator", "zones[0]", "market", "diskGib", "max", "smoke"]


def test_a_check_longer_than_its_machine_is_reported_with_the_other_mistakes() -> None:
    found = problems(market="x", max=0, maxRunDurationSec=900, smoke={"deadlineSec": 900})
    assert [problem.path for problem in found] == ["market", "max", "smoke.deadlineSec"]
    assert found[2].hint == "raise maxRunDurationSec, or lower smoke.deadlineSec"
    assert problems(maxRunDurationSec=901, smoke={"deadlineSec": 900}) == []


def test_what_is_no_zone_has_no_region_that_the_others_would_have_to_be_in() -> None:
    found = problems(zones=["us-central1", "us-central1-q", "us-east1-b"])
    assert [(each.path, each.text) for each in found] == [
        ("zones[0]", "is a region, not a zone"),
        ("zones[1]", "has no nvidia-l4"),
        ("zones[2]", "is in another region; all zones of a pool must be in one region"),
    ]
    assert found[2].expected == "a zone of us-central1"


def test_a_zone_of_no_region_is_not_the_region_of_the_others() -> None:
    found = problems(zones=["us-cental1-a", "us-central1-a", "mars-east1-a"])
    assert [(each.path, each.text, each.hint) for each in found] == [
        ("zones[0]", "is not in a region of Google Cloud", "did you mean us-central1-a"),
        ("zones[2]", "is not in a region of Google Cloud", ""),
    ]


def test_a_hint_has_a_few_of_many_zones() -> None:
    (found,) = problems(zones=["europe-central2-a"])
    assert found.hint == (
        "zones that have it: europe-west1-b, europe-west1-c, europe-west2-a, europe-west2-b, europe-west3-a; gpu-ci "
        "catalog show g2-standard-8 lists all"
    )


def test_a_zone_without_the_gpu_is_reported_with_zones_that_have_it() -> None:
    (found,) = problems(zones=["us-central1-f"])
    assert found.hint == "zones that have it: us-central1-a, us-central1-b, us-central1-c"


def test_a_zone_with_these_gpus_only_for_smaller_machines_is_reported() -> None:
    p100 = {"type": "nvidia-tesla-p100", "count": 4}
    choices = {
        "guestAccelerator": p100,
        "zones": ["us-east1-b", "us-east1-c"],
        "image": "projects/p/global/images/mine",
    }
    assert problems(machineType="n1-standard-32", **choices) == []
    (found,) = problems(machineType="n1-standard-96", **choices)
    assert (found.path, found.text) == ("zones[1]", "has no n1-standard-96 with these GPUs")
    assert found.expected == "4 x nvidia-tesla-p100 takes at most 64 vCPUs and 208 GB; n1-standard-96 has 96 and 360"
    assert found.hint == "zones that have it: us-east1-b"


def test_a_region_google_has_withdrawn_the_gpu_from_is_refused() -> None:
    choices = {"machineType": "a3-ultragpu-8g", "diskType": "hyperdisk-balanced"}
    (found,) = problems(zones=["us-east1-d"], **choices)
    assert (found.path, found.text) == ("zones[0]", "has no nvidia-h200-141gb")


def test_a_gpu_our_torch_has_no_kernels_for_is_refused_with_the_torch_that_has() -> None:
    v100 = {"type": "nvidia-tesla-v100", "count": 1}
    (found,) = problems(machineType="n1-standard-8", guestAccelerator=v100)
    assert (found.path, found.hint) == ("torch", "torch: 2.14.0+cu126")
    assert found.text == (
        "torch 2.15.0+cu132 has no kernels for compute capability 7.0: it has sm_75 sm_80 sm_86 sm_90 sm_100 sm_120"
    )
    assert problems(machineType="n1-standard-8", guestAccelerator=v100, torch="2.14.0+cu126") == []


@pytest.mark.parametrize(
    ("image", "machine", "path", "text", "expected"),
    [
        (
            "projects/ubuntu-os-accelerator-images/global/images/family/ubuntu-accelerator-2404-amd64-with-nvidia-570",
            "g2-standard-8",
            "torch",
            "torch 2.15.0+cu132 needs driver branch 580 or newer for CUDA 13.2, not 570",
            "the publisher's image with driver 580",
        ),
        (
            "projects/deeplearning-platform-release/global/images/family/pytorch-2-9-cu129-ubuntu-2204-nvidia-550",
            "g4-standard-48",
            "image",
            "driver branch 550 does not support the RTX PRO 6000: the first branch that does is 575",
            "an image with driver branch 580",
        ),
    ],
)
def test_a_public_image_is_known_by_its_name(image: str, machine: str, path: str, text: str, expected: str) -> None:
    (found,) = problems(machineType=machine, image=image, zones=["us-central1-b"])
    assert (found.path, found.text, found.expected) == (path, text, expected)


GB200 = {"machineType": "a4x-highgpu-4g", "zones": ["us-central1-a"], "market": "reservation", "reservation": "gb200s"}
DEEP_LEARNING = "projects/deeplearning-platform-release/global/images/family/common-cu129-ubuntu-2204-nvidia-580"


@pytest.mark.parametrize(
    ("changes", "own", "text"),
    [
        ({"driver": {"source": "installer"}}, DEEP_LEARNING, "contains a driver, but driver.source is installer"),
        (GB200, DEEP_LEARNING, "is for x86_64, but a4x-highgpu-4g is arm64"),
    ],
)
def test_a_problem_of_the_default_image_names_it_because_the_file_does_not(
    changes: dict[str, Any], own: str, text: str
) -> None:
    (of_default,) = problems(**changes)
    assert (of_default.path, of_default.text) == ("image", f"the default image {text}")
    (of_own,) = problems(**changes, image=own)
    assert (of_own.path, of_own.text) == ("image", text)


def test_a_problem_of_the_default_images_driver_names_the_default_image(monkeypatch: pytest.MonkeyPatch) -> None:
    old = "projects/deeplearning-platform-release/global/images/family/common-cu129-ubuntu-2204-nvidia-550"
    text = "driver branch 550 does not support the RTX PRO 6000: the first branch that does is 575"
    changes = {"machineType": "g4-standard-48", "zones": ["us-central1-b"], "image": old}
    assert [each.text for each in problems(**changes)] == [text]
    monkeypatch.setattr("gpu_ci.versions.GCE_IMAGE", old)
    assert [each.text for each in problems(**changes)] == [f"the default image: {text}"]


@pytest.mark.parametrize(
    "name",
    [
        "projects/ubuntu-os-accelerator-images/global/images/ubuntu-accelerator-2404-amd64-with-nvidia-580-v20260820",
        "projects/deeplearning-platform-release/global/images/family/common-cu129-ubuntu-2204-nvidia-580",
        "projects/deeplearning-platform-release/global/images/family/pytorch-2-9-cu129-ubuntu-2204-nvidia-580",
        "projects/mine/global/images/ubuntu-accelerator-2404-amd64-with-nvidia-470",
    ],
)
def test_an_image_that_fits_and_one_of_ones_own_pass(name: str) -> None:
    assert problems(image=name) == []


def test_an_image_of_ones_own_may_bring_another_torch() -> None:
    v100 = {"type": "nvidia-tesla-v100", "count": 1}
    assert problems(machineType="n1-standard-8", guestAccelerator=v100, image="projects/p/global/images/mine") == []


@pytest.mark.parametrize("machine", ["a4x-highgpu-4g", "a4x-maxgpu-4g-metal"])
def test_what_is_sold_by_reservation_alone_is_refused_with_the_reason(machine: str) -> None:
    found = [problem for problem in problems(machineType=machine, zones=["us-central1-a"]) if problem.path == "market"]
    assert [problem.hint for problem in found] == ["use reservation"]


NO_LINKS = ("", "not a link", "s", "projects/example-ci/global/instanceTemplates/t")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("project", ""),
        ("project", "Example"),
        ("project", "123456789"),
        *((field, value) for field in ("subnetwork", "network") for value in NO_LINKS),
    ],
)
def test_wiring_that_names_nothing_is_refused_now_or_when_it_resolves(field: str, value: str) -> None:
    with pytest.raises(ArgsError) as caught:
        RunnerPoolArgs(**{**RunnerPool.EXAMPLE, **WIRING, field: value})
    assert [(found.path, found.text) for found in caught.value.problems] == [(field, "has a form that is not accepted")]

    async def late() -> None:
        await RunnerPoolArgs(**{**RunnerPool.EXAMPLE, **WIRING, field: pulumi.Output.from_input(value)}).settle()

    with pytest.raises(ArgsError, match="has a form that is not accepted"):
        run(late())


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


def test_as_many_machines_may_wait_as_there_may_be() -> None:
    assert problems(market="standard", max=4, standby={"stoppedSize": 4}) == []


def test_a_market_google_does_not_document_for_a_machine_is_left_to_google() -> None:
    chosen = {"machineType": "n1-standard-8", "guestAccelerator": T4}
    assert problems(**chosen, market="flex-start", maxRunDurationSec=3600) == []
