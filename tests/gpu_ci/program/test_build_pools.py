"""A Cloud Build pool in a stack file: its place, its outputs, and its kind."""

from __future__ import annotations

from typing import Any

from gpu_ci.stack.parse import Stack

from tests.gpu_ci.program.stack import L4, config, load, site
from tests.gpu_ci.program.test_program import STACK, run

BUILDS: dict[str, Any] = {"kind": "cloud-build", "region": "europe-west4", "publicEgress": True}


def test_it_needs_no_subnetwork_in_its_region() -> None:
    builds, l4 = load(config({"l4": L4, "builds": BUILDS}, **site(labels={"team": "ml"}))).specs
    assert (builds.kind, l4.kind) == ("cloud-build", "gce-runners")
    wiring = builds.args.model_dump(include={"project", "labels", "region"})
    assert wiring == {"project": "example-ci", "labels": {"team": "ml"}, "region": "europe-west4"}


def test_its_region_is_the_one_it_chooses() -> None:
    stack = Stack("", "dev", {"gpu-ci:pools": {"builds": BUILDS, "wrong": BUILDS | {"region": 4}}})
    assert [spec.region for spec in stack.specs] == ["europe-west4", ""]


def test_it_is_exported_with_its_choices_and_an_unknown_cost_and_is_no_target_of_a_check() -> None:
    exported = run(config({"l4": L4, "builds": BUILDS})).outputs[STACK]
    builds = exported["pools"]["builds"]
    assert {name: builds[name] for name in ("kind", "region", "machineType", "publicEgress", "cost")} == {
        "kind": "cloud-build",
        "region": "europe-west4",
        "machineType": "e2-standard-2",
        "publicEgress": True,
        "cost": {
            "usdPerHourAtRest": 0,
            "usdPerHourAtMax": "unknown",
            "usdWorstMonth": "unknown",
            "priceDate": "unknown",
            "billedBy": "build-minute",
        },
    }
    assert builds["registry"] == "europe-west4-docker.pkg.dev/example-ci/build-builds-stack"
    assert [target["pool"] for target in exported["smokeTargets"]] == ["l4"]
    assert exported["cost"]["atLeast"] is True
    assert "unknown for builds (by the build-minute)" in exported["cost"]["summary"]
