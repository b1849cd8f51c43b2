"""The resources of a runner pool on Compute Engine."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest
from gpu_ci import versions
from gpu_ci.errors import ArgsError
from gpu_ci.kinds.gce.args import RunnerPoolArgs
from gpu_ci.kinds.gce.component import RunnerPool
from gpu_common import pulumi_wire

from tests.gpu_ci.harness import UNKNOWN, Deployment, deploy
from tests.gpu_ci.support import COMPUTED, TEMPLATE

PROJECT = "example-ci"
SUBNETWORK = "projects/example-ci/regions/us-central1/subnetworks/s"


def pool(name: str = "l4", **changes: Any) -> Deployment:
    choices = {**RunnerPool.EXAMPLE, "project": PROJECT, "subnetwork": SUBNETWORK, **changes}
    return deploy(lambda: RunnerPool(name, RunnerPoolArgs(**choices)), computed=COMPUTED)


def test_the_group_takes_only_a_template_that_has_passed_the_gate() -> None:
    computed = {**COMPUTED, "gpu-ci:gcp:SmokeGate": {"checkedTemplate": "checked", "verdict": "pass", "summary": "s"}}
    choices = {**RunnerPool.EXAMPLE, "project": PROJECT, "subnetwork": SUBNETWORK}
    deployment = deploy(lambda: RunnerPool("l4", RunnerPoolArgs(**choices)), computed=computed)
    assert deployment.one(":SmokeGate").inputs["template"] == TEMPLATE
    assert deployment.one(":RegionInstanceGroupManager").inputs["versions"] == [{"instanceTemplate": "checked"}]


def test_the_gate_asks_for_the_plugin_of_this_version() -> None:
    assert pool().one(":SmokeGate").request.version == versions.PACKAGE


def test_a_pool_of_sixty_labels_has_room_for_those_of_the_pool_and_of_its_check() -> None:
    labels = {f"label-{number}": "" for number in range(60)}
    assert pool(labels=labels).one(":SmokeGate").inputs["labels"] == {**labels, "gpu-ci-pool": "l4"}


def test_in_a_preview_the_group_waits_for_an_unknown_template() -> None:
    choices = {**RunnerPool.EXAMPLE, "project": PROJECT, "subnetwork": SUBNETWORK}
    deployment = deploy(lambda: RunnerPool("l4", RunnerPoolArgs(**choices)), computed=COMPUTED, preview=True)
    assert deployment.one(":RegionInstanceGroupManager").inputs["versions"] == [{"instanceTemplate": UNKNOWN}]


def test_a_secret_wiring_stays_secret() -> None:
    def program() -> None:
        project = pulumi.Output.secret(PROJECT)
        RunnerPool("l4", RunnerPoolArgs(**RunnerPool.EXAMPLE, project=project, subnetwork=SUBNETWORK))

    account = deploy(program, computed=COMPUTED).one(":Account")
    assert account.inputs["project"] == {
        pulumi_wire.SIGNATURE: pulumi_wire.SECRET,
        "value": PROJECT,
    }


def test_a_name_google_could_not_carry_is_refused_before_anything_is_made() -> None:
    with pytest.raises(ArgsError, match="RunnerPool: name: has a form that is not accepted"):
        pool("L4_pool")
