"""The values of the controller's chart."""

from __future__ import annotations

import json
import re

import pytest
from gpu_ci import versions
from gpu_ci.kubernetes import arc_controller
from gpu_ci.kubernetes.arc_controller import ArcController, ArcControllerArgs

from tests.gpu_ci.harness import UNKNOWN, deploy
from tests.gpu_ci.kubernetes.clusters import build

# One test reads the definitions in a deployment, which takes most of its time; the others need none of it.
short = pytest.mark.usefixtures("short_definitions")

DEFINED = ("autoscalinglisteners", "autoscalingrunnersets", "ephemeralrunners", "ephemeralrunnersets")


def test_the_definitions_of_the_pinned_chart_come_before_the_release_and_stay_when_all_goes() -> None:
    made = build(ArcController, "arc")
    found = [row for row in made.rows if row.type.endswith(":CustomResourceDefinitionPatch")]
    rows = sorted(found, key=lambda row: row.name)
    assert [row.name for row in rows] == [f"arc-{kind}" for kind in DEFINED]
    assert [row.inputs["metadata"] for row in rows] == [
        {
            "name": f"{kind}.actions.github.com",
            "annotations": {"controller-gen.kubebuilder.io/version": "v0.20.1", "pulumi.com/patchForce": "true"},
        }
        for kind in DEFINED
    ]
    assert [row.request.retainOnDelete for row in rows] == [True] * 4
    assert {row.urn for row in rows} <= set(made.one(":Release").request.dependencies)
    assert arc_controller.definitions_version() == versions.ARC_CHARTS == "0.14.2"


def test_the_definitions_are_whole_but_for_their_descriptions_and_have_the_names_of_the_sdk() -> None:
    found = {one["spec"]["names"]["kind"]: one["spec"]["versions"] for one in arc_controller.definitions()}
    [of_sets], [of_runners] = found["AutoscalingRunnerSet"], found["EphemeralRunner"]
    fields = of_sets["schema"]["openAPIV3Schema"]["properties"]
    # What came with 0.14, and would be lost in a cluster that has the definitions of 0.13.
    assert fields["spec"]["properties"]["runnerScaleSetLabels"] == {"items": {"type": "string"}, "type": "array"}
    assert fields["status"]["properties"]["phase"] == {"type": "string"}
    assert (of_sets["name"], of_sets["served"], of_sets["storage"]) == ("v1alpha1", True, True)
    assert of_runners["subresources"] == {"status": {}}
    text = json.dumps(found)
    assert (text.count('"x-kubernetes-'), text.count('"x_kubernetes_') > 300) == (0, True)
    # A field of that name is no description.
    assert set(re.findall(r'"description": (.)', text)) <= {"{"}


@short
def test_its_version_is_known_in_a_preview_and_its_account_only_once_it_runs() -> None:
    def program() -> None:
        ArcController("arc", ArcControllerArgs())

    [preview, done] = [deploy(program, preview=each) for each in (True, False)]
    assert preview.outputs[preview.rows[0].urn] == {
        "namespace": "arc-systems",
        "serviceAccountName": UNKNOWN,
        "version": "0.14.2",
    }
    assert done.outputs[done.rows[0].urn]["serviceAccountName"] == "arc"
