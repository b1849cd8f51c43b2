"""Pools with several mistakes: one report has all of them, also those of fields that depend on an invalid field."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_ci.gcp.runner_pool import RunnerPool
from gpu_ci.stack import pools

from tests.gpu_ci.gcp.build_choices import MAIN, pool
from tests.gpu_ci.gcp.machine.test_boot import CONTAINER, COS, PLAIN
from tests.gpu_ci.gcp.machine.test_impossible_pools import ACCELERATOR, DEEP_LEARNING, OWN, n1

ARM = ACCELERATOR.format("arm64-with-nvidia-580")


def gpus(**changes: Any) -> dict[str, Any]:
    return {"kind": "gce-runners", **RunnerPool.EXAMPLE, **changes}


def v100(**changes: Any) -> dict[str, Any]:
    return gpus(**n1("n1-standard-8", "v100", 1), **changes)


# What is wrong -> the choices, and every place that has to be told.
SEVERAL: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a branch the installer has not, an image with a driver and a torch without kernels": (
        v100() | {"driver": {"source": "installer", "branch": 570}, "image": ARM, "torch": "2.15.0"},
        ["driver.branch", "image", "torch"],
    ),
    "a branch the GPU has no driver in, a system the installer does not know and a torch without kernels": (
        v100()
        | {
            "driver": {"source": "installer", "branch": 595},
            "image": "projects/debian-cloud/global/images/family/debian-11",
            "torch": "2.15.0",
        },
        ["driver", "image", "torch"],
    ),
    "a branch the installer has not, and the default torch on a GPU it has no kernels for": (
        v100() | {"driver": {"source": "installer", "branch": 570}, "image": PLAIN},
        ["driver.branch", "torch"],
    ),
    "an unknown key of the driver, and an image for the other processor": (
        gpus(driver={"source": "image", "branch": 580}, image=ARM),
        ["driver.branch", "image"],
    ),
    "no container for the check, a system that is not COS, and a torch that is not chosen": (
        gpus(driver={"source": "cos"}, image=PLAIN, torch="2.9.1"),
        ["driver.checkImage", "image", "torch"],
    ),
    "a plain image where the image contains the driver, and a torch without kernels": (
        v100() | {"image": PLAIN, "torch": "2.15.0"},
        ["image", "torch"],
    ),
    "a machine type misspelt, and an image without a driver": (
        gpus(machineType="g2-standrd-8", image=PLAIN),
        ["machineType", "image"],
    ),
    "a machine type misspelt, and a torch beside the one the image has": (
        gpus(
            machineType="g2-standrd-8",
            image=DEEP_LEARNING.format("pytorch-2-9-cu129-ubuntu-2204-nvidia-580"),
            torch="2.9.1",
        ),
        ["machineType", "torch"],
    ),
    "a GPU attached to a machine that has its own, and all that is not available for that machine": (
        gpus(
            guestAccelerator={"type": "nvidia-tesla-t4", "count": 1},
            zones=["us-central1-f"],
            market="reservation",
            reservation="l4s",
            diskType="pd-standard",
            localSsdCount=2,
            nicType="IDPF",
            image=ARM,
        ),
        ["guestAccelerator", "zones[0]", "market", "image", "diskType", "localSsdCount", "nicType"],
    ),
    "a driver of no kind, and a torch without kernels": (
        v100() | {"driver": {"source": "ubuntu"}, "image": PLAIN, "torch": "2.15.0"},
        ["driver.source", "torch"],
    ),
    "a label in a wrong form, and another twice": (
        gpus(runnerLabels=["a b", "gpu", "GPU"]),
        ["runnerLabels[0]", "runnerLabels[2]"],
    ),
    "a secret in a wrong form, and another twice": (
        gpus(secrets=["x", "projects/acme-ci/secrets/a", "projects/acme-ci/secrets/a"]),
        ["secrets[0]", "secrets[2]"],
    ),
    "a trigger's name beside a mistake inside a trigger": (
        pool(triggers={"Main": MAIN, "two": {**MAIN, "repository": "kernels"}, "Three": {**MAIN, "repository": "k"}}),
        ["triggers.Main", "triggers.two.repository", "triggers.Three", "triggers.Three.repository"],
    ),
    "a substitution's name and its value": (
        pool(triggers={"main": {**MAIN, "substitutions": {"python": 3, "_POOL": "mine"}}}),
        [
            "triggers.main.substitutions.python",
            "triggers.main.substitutions.python",
            "triggers.main.substitutions._POOL",
        ],
    ),
}


@pytest.mark.parametrize("what", SEVERAL)
def test_all_of_them_are_in_one_report(what: str) -> None:
    choices, places = SEVERAL[what]
    found = pools.check({"l4": choices})[1]
    paths = [problem.path.removeprefix("gpu-ci:pools.l4.") for problem in found]
    assert paths == places, [problem.render("pool") for problem in found]
    assert all(problem.hint for problem in found)


def test_consequences_of_a_mistake_are_not_reported() -> None:
    """The required torch depends on the driver and the image. A torch that supports the GPU may be valid."""
    chosen = v100() | {"driver": {"source": "installer", "branch": 570}, "image": ARM, "torch": "2.14.0+cu126"}
    assert [each.path for each in RunnerPool.ARGS.choice_problems(without_kind(chosen))] == ["driver.branch", "image"]
    of_container = gpus(driver={"source": "cos", "checkImage": CONTAINER, "branch": 1}, image=COS)
    assert [each.path for each in RunnerPool.ARGS.choice_problems(without_kind(of_container))] == ["driver.branch"]
    own = v100() | {"driver": {"source": "image", "x": 1}, "image": OWN}
    assert [each.path for each in RunnerPool.ARGS.choice_problems(without_kind(own))] == ["driver.x"]


def without_kind(choices: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in choices.items() if key != "kind"}
