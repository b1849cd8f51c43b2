"""Known charts refuse some names and pods."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi_sandbox.providers.kubernetes.helm.charts import ARC_VERSION, PLUGIN, SCALE_SET
from pulumi_sandbox.providers.values import UNKNOWN

from tests.sandbox.providers.kubernetes.conftest import Cluster, changed

RELEASE = "kubernetes:helm.sh/v3:Release"
ARC = "oci://ghcr.io/actions/actions-runner-controller-charts"


def release(chart: str, values: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"chart": chart, "name": "it", "namespace": "ci", "values": values, **more}


def scale_set(**values: Any) -> dict[str, Any]:
    given = {"githubConfigUrl": "https://github.com/example-org", "githubConfigSecret": "github-app", **values}
    return {**release(SCALE_SET, given, version=ARC_VERSION), "chart": f"{ARC}/{SCALE_SET}@sha256:0", "name": "gpu-t4"}


def problems_of(cluster: Cluster, inputs: dict[str, Any]) -> list[str]:
    return [f"{one.path}: {one}" for one in cluster.cloud.rules(cluster.resource(RELEASE, "it", inputs))]


def test_helm_accepts_values_that_a_chart_does_not_read(cluster: Cluster) -> None:
    assert problems_of(cluster, scale_set(minRunners=0, maxRunner=4)) == []
    assert problems_of(cluster, release(PLUGIN, {"gfd": {"enabled": True}})) == []


def test_the_pod_of_a_scale_set_is_checked_as_a_pod(cluster: Cluster) -> None:
    claim = {"spec": {"resources": {"requests": None, "storage": "1Gi"}}}
    volumes = [{"name": "work", "ephemeral": {"volumeClaimTemplate": claim}}]
    runner = {"name": "runner", "resources": {"limits": {"nvidia.com/gpu": "one"}}, "envs": []}
    inputs = scale_set(template={"spec": {"containers": [runner], "volumes": volumes}})
    assert sorted(one.partition(": ")[0] for one in problems_of(cluster, inputs)) == [
        "values.template.spec.containers[0].envs",
        "values.template.spec.containers[0].resources.limits.nvidia.com/gpu",
        "values.template.spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources.storage",
    ]
    # The chart has a container of its own.
    assert problems_of(cluster, scale_set(template={"spec": {"nodeSelector": {"pool": UNKNOWN}}})) == []


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (scale_set(runnerScaleSetName="x" * 46), "values.runnerScaleSetName: Name must have up to 45 characters"),
        (changed(scale_set(), "name", "x" * 46), "name: Name must have up to 45 characters"),
        (
            changed(release(PLUGIN, {}), "name", "x" * 54),
            "name: invalid release name: the length must not be longer than 53",
        ),
    ],
)
def test_a_chart_fails_in_its_own_words(cluster: Cluster, given: dict[str, Any], expected: str) -> None:
    assert problems_of(cluster, given) == [expected]


def test_what_a_preview_does_not_know_fails_no_chart(cluster: Cluster) -> None:
    assert (
        problems_of(cluster, scale_set(githubConfigUrl=UNKNOWN, githubConfigSecret=UNKNOWN, minRunners=UNKNOWN)) == []
    )
    assert problems_of(cluster, changed(scale_set(), "values", UNKNOWN)) == []


def test_a_release_without_a_name_gets_one_and_keeps_it(cluster: Cluster) -> None:
    first = cluster.checked(RELEASE, "arc", {"chart": "c"})
    assert first.inputs["name"].startswith("arc-")
    assert len(first.inputs["name"]) == 12
    assert first.inputs["namespace"] == "default"
    again = cluster.checked(RELEASE, "arc", {"chart": "c"}, old_inputs=dict(first.inputs))
    assert again.inputs == first.inputs
