"""Releases of known charts look up objects in the world, and create objects there."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi_sandbox.providers.kubernetes.helm.charts import (
    ARC_VERSION,
    CONTROLLER,
    DAEMON_SET,
    PLUGIN,
    RUNNER_SET,
    SCALE_SET,
)
from pulumi_sandbox.providers.readiness import NotReady
from pulumi_sandbox.providers.resource import Refused, Resource

from tests.sandbox.providers.kubernetes.conftest import Cluster, changed

RELEASE = "kubernetes:helm.sh/v3:Release"
ARC = "oci://ghcr.io/actions/actions-runner-controller-charts"


def release(chart: str, values: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"chart": chart, "name": "it", "namespace": "ci", "values": values, **more}


def scale_set(**values: Any) -> dict[str, Any]:
    given = {"githubConfigUrl": "https://github.com/example-org", "githubConfigSecret": "github-app", **values}
    return {**release(SCALE_SET, given, version=ARC_VERSION), "chart": f"{ARC}/{SCALE_SET}@sha256:0", "name": "gpu-t4"}


@pytest.fixture
def ready(cluster: Cluster) -> Cluster:
    """A cluster with a namespace and the Secret of a GitHub App."""
    cluster.settings("values: {kubernetes: {namespaces: [ci, arc-systems], secrets: [ci/github-app]}}\n")
    return cluster


def controller(cluster: Cluster, name: str = "arc", **values: Any) -> Resource:
    return cluster.up(RELEASE, name, release(CONTROLLER, values, name=name, namespace="arc-systems"))


def names(cluster: Cluster, token: str) -> list[str]:
    return [row.id for row in cluster.world.find(token)]


def test_a_scale_set_of_another_minor_version_than_its_controller_gets_no_id(ready: Cluster) -> None:
    controller(ready)
    pool = ready.up(RELEASE, "gpu-t4", changed(scale_set(), "version", "0.13.1"))
    assert ids(ready) == [None]
    severity, text = ready.messages[-1]
    assert severity == "warning"
    assert "\n  got: autoscalingRunnerSetVersion 0.13, buildVersion 0.14\n" in text
    ready.change(pool, changed(scale_set(), "version", "0.14.1"))
    assert ids(ready) == ["1"]


def test_a_scale_set_without_its_secret_gets_no_id_until_the_secret_exists(ready: Cluster) -> None:
    controller(ready)
    pool = ready.up(RELEASE, "gpu-t4", scale_set(githubConfigSecret="elsewhere"))
    assert ids(ready) == [None]
    assert ready.messages[-1][1].splitlines()[0] == 'secrets "elsewhere" not found'
    secret = {"metadata": {"name": "elsewhere", "namespace": "ci"}, "stringData": {"github_token": "x"}}
    ready.up("kubernetes:core/v1:Secret", "elsewhere", secret)
    ready.change(pool, scale_set(githubConfigSecret="elsewhere"))
    assert ids(ready) == ["1"]


def test_a_release_needs_its_namespace_unless_it_makes_it(cluster: Cluster) -> None:
    with pytest.raises(Refused, match=r'^create: failed to create: namespaces "ci" not found\n'):
        cluster.up(RELEASE, "redis", release("redis", {}))
    cluster.up(RELEASE, "redis", release("redis", {}, createNamespace=True))
    assert cluster.messages == [
        (
            "info",
            "the sandbox does not know the chart redis, so it does not check its objects",
        )
    ]


def test_what_a_chart_makes_comes_changes_and_goes_with_its_release(ready: Cluster) -> None:
    arc = controller(ready)
    plugin = ready.up(RELEASE, "plugin", release(PLUGIN, {}, name="plugin"))
    pool = ready.up(RELEASE, "gpu-t4", scale_set(minRunners=1))
    assert names(ready, DAEMON_SET) == ["ci/plugin-nvidia-device-plugin"]
    (row,) = ready.world.find(RUNNER_SET)
    assert (row.origin, row.inputs["spec"]["minRunners"]) == ("controller", 1)
    assert row.inputs["spec"]["template"]["spec"]["containers"][0]["name"] == "runner"
    ready.change(pool, scale_set(minRunners=3))
    (row,) = ready.world.find(RUNNER_SET)
    assert row.inputs["spec"]["minRunners"] == 3
    status = next(row.outputs["status"] for row in ready.world.find(RELEASE) if row.name == "gpu-t4")
    assert (status["namespace"], status["status"], status["revision"]) == ("ci", "deployed", 2)
    for one in (pool, plugin, arc):
        ready.lifecycle.delete(one)
    assert [names(ready, token) for token in (DAEMON_SET, RUNNER_SET)] == [[], []]


def test_a_secret_in_the_values_does_not_reach_the_world(ready: Cluster) -> None:
    controller(ready)
    runner = {"name": "runner", "image": "x", "env": [{"name": "TOKEN", "value": "hush-hush"}]}
    given = scale_set(template={"spec": {"containers": [runner]}})
    path = ("values", "template", "spec", "containers", 0, "env", 0, "value")
    ready.up(RELEASE, "gpu-t4", given, secrets=frozenset({path}))
    assert [file.name for file in ready.folder.glob("world.db*") if b"hush-hush" in file.read_bytes()] == []
    (row,) = ready.world.find(RUNNER_SET)
    kept = row.inputs["spec"]["template"]["spec"]["containers"][0]["env"][0]
    assert kept["value"]["secret"].startswith("hmac-sha256:")


def registration(condition: str = 'jsonpath={.metadata.annotations["runner-scale-set-id"]}') -> dict[str, Any]:
    """A patch of the runner set that waits until GitHub has registered it."""
    return {"metadata": {"name": "gpu-t4", "namespace": "ci", "annotations": {"pulumi.com/waitFor": condition}}}


def ids(cluster: Cluster) -> list[Any]:
    rows = cluster.world.find(RUNNER_SET)
    return [row.outputs["metadata"]["annotations"].get("runner-scale-set-id") for row in rows]


def test_a_release_is_deployed_although_no_scale_set_is_registered_and_what_waits_for_that_fails(
    ready: Cluster,
) -> None:
    """Helm waits for no custom resource, so the release alone says nothing."""
    ready.up(RELEASE, "gpu-t4", scale_set())
    assert ids(ready) == [None]
    with pytest.raises(NotReady) as caught:
        ready.up(f"{RUNNER_SET}Patch", "gpu-t4-registered", registration())
    assert str(caught.value).endswith("become live: timed out waiting for the condition")
    controller(ready)
    row = ready.world.find(f"{RUNNER_SET}Patch")[0]
    ready.change(ready.resource(row.type, row.name, row.inputs, id=row.id, outputs=row.outputs), registration())
    assert ids(ready) == ["1"]


@pytest.mark.parametrize(("namespace", "registered"), [("ci", ["1"]), ("other", [None])])
def test_only_a_controller_that_watches_the_namespace_registers_a_scale_set(
    ready: Cluster, namespace: str, registered: list[Any]
) -> None:
    controller(ready, flags={"watchSingleNamespace": namespace})
    ready.up(RELEASE, "gpu-t4", scale_set())
    assert ids(ready) == registered


def test_a_release_without_a_name_gets_one_and_keeps_it(cluster: Cluster) -> None:
    first = cluster.checked(RELEASE, "arc", {"chart": "c"})
    assert first.inputs["name"].startswith("arc-")
    assert len(first.inputs["name"]) == 12
    assert first.inputs["namespace"] == "default"
    again = cluster.checked(RELEASE, "arc", {"chart": "c"}, old_inputs=dict(first.inputs))
    assert again.inputs == first.inputs
