"""A Cloud Build pool in a stack file: its place, its outputs, and its kind."""

from __future__ import annotations

from typing import Any

from gpu_ci.stack.parse import Stack

from tests.gpu_ci.program.stack import L4, config, load, site

BUILDS: dict[str, Any] = {"kind": "cloud-build", "region": "europe-west4", "publicEgress": True}


def test_it_needs_no_subnetwork_in_its_region() -> None:
    builds, l4 = load(config({"l4": L4, "builds": BUILDS}, **site(labels={"team": "ml"}))).specs
    assert (builds.kind, l4.kind) == ("cloud-build", "gce-runners")
    wiring = builds.args.model_dump(include={"project", "labels", "region"})
    assert wiring == {"project": "example-ci", "labels": {"team": "ml"}, "region": "europe-west4"}


def test_its_region_is_the_one_it_chooses() -> None:
    stack = Stack("", "dev", {"gpu-ci:pools": {"builds": BUILDS, "wrong": BUILDS | {"region": 4}}})
    assert [spec.region for spec in stack.specs] == ["europe-west4", ""]
