"""The pools of staging on EKS and GKE run on a real cluster, and their objects do not run after one mistake."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.control_plane import charts
from tests.control_plane.actions_service import ActionsService
from tests.control_plane.api import Api, until
from tests.control_plane.pools import KUEUE, QUEUE, Pools, deployment
from tests.control_plane.processes import ControlPlane

NO_TOLERATION = {"tolerations": []}
OTHER_POOL = {"nodeSelector": {"gpu-ci-pool": "other"}}
OTHER_LOGIN = {"imagePullSecrets": [{"name": "other"}]}
UNQUEUED = {"metadata": {"labels": {}}}
UNTOLERATED = "1 node(s) had untolerated taint(s)"
UNMATCHED = "2 node(s) didn't match Pod's node affinity/selector"
NO_LOGIN = "ImagePullBackOff: no basic auth credentials"
NO_QUOTA = "insufficient quota for nvidia.com/gpu in flavor gpu-ci"
Proved = Callable[[str, str, str], None]


@pytest.fixture(scope="module", params=["example-ci", "gke-ci"], ids=["eks", "gke"])
def pools(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pools]:
    folder, service = tmp_path_factory.mktemp(request.param), ActionsService()
    plane = ControlPlane(folder)
    try:
        api = Api(plane.start())
        until(lambda: api.get("v1", "ServiceAccount", "default", "default"), "the controllers run")
        found = Pools(plane, api, service)
        found.deploy(deployment(request.param, folder))
        yield found
    finally:
        plane.stop()
        service.server.close()


def test_the_check_runs_on_the_node_of_the_pool(pools: Pools, proved: Proved) -> None:
    assert pools.check_states() == ["gpu"]
    proved("smoke check", "runs on a GPU node", "scheduler, Job controller, KWOK")


def test_images_are_pulled_on_the_node_of_the_pool(pools: Pools, proved: Proved) -> None:
    [one] = pools.api.get("apps/v1", "DaemonSet")
    assert until(lambda: _nodes(pools, one["spec"]["selector"]["matchLabels"]), "its pods run") == ["gpu"]
    proved("image pre-pull", "runs on GPU nodes only", "DaemonSet controller, scheduler, KWOK")


def _nodes(pools: Pools, labels: dict[str, str]) -> list[str] | None:
    """Return the nodes of the pods with these labels, if all of them run."""
    found = [one for one in pools.api.get("v1", "Pod") if labels.items() <= one["metadata"].get("labels", {}).items()]
    nodes = [one["spec"].get("nodeName", "") for one in found if one["status"]["phase"] == "Running"]
    return nodes if len(nodes) == len(found) else None


@charts.needs_arc
def test_the_listener_runs_on_a_node_without_gpus(pools: Pools, proved: Proved) -> None:
    labels = {
        "actions.github.com/scale-set-name": pools.release["name"],
        "app.kubernetes.io/component": "runner-scale-set-listener",
    }
    assert until(lambda: _nodes(pools, labels), "its pod runs") == ["system"]
    proved("listener", "runs on a node without GPUs", "ARC, scheduler, KWOK")


def test_a_runner_in_the_quota_runs_and_the_next_one_waits(pools: Pools, proved: Proved) -> None:
    with pools.runners(count=2) as pods:

        def found() -> list[str] | None:
            states = sorted(map(pools.state, pods))
            return states if "gpu" in states and all(states) else None

        waits, runs = sorted(until(found, "one runner runs"), key="gpu".__eq__)
    assert (runs, "insufficient unused quota for nvidia.com/gpu in flavor gpu-ci, 1 more needed" in waits) == (
        "gpu",
        True,
    )
    creator = "ARC, " if charts.ARC else ""
    proved("runner within the quota", "runs on a GPU node", f"{creator}Kueue, scheduler, KWOK")
    proved("next runner", waits, "Kueue")


JOB_MISTAKES = {
    "no toleration": (NO_TOLERATION, UNTOLERATED, "scheduler"),
    "label of another pool": (OTHER_POOL, UNMATCHED, "scheduler"),
    "other pull secret": (OTHER_LOGIN, NO_LOGIN, "stage of KWOK"),
}


@pytest.mark.parametrize(("change", "reason", "judge"), JOB_MISTAKES.values(), ids=JOB_MISTAKES)
def test_a_check_with_a_mistake_does_not_run(
    pools: Pools, proved: Proved, request: pytest.FixtureRequest, change: dict[str, Any], reason: str, judge: str
) -> None:
    job = copy.deepcopy(pools.job)
    job["metadata"]["name"] = name = "mistake"
    job["spec"]["template"]["spec"] |= change
    pools.api.apply(job)
    try:
        [pod] = until(lambda: pools.pods("job-name", name), "the Job has a pod")
        assert reason in until(lambda: pools.state(pod), "a reason")
    finally:
        pools.api.delete("batch/v1", "Job", name, job["metadata"]["namespace"])
        until(lambda: not pools.pods("job-name", name), "its pod has ended")
    proved(f"smoke check, {request.node.callspec.id.partition('-')[2]}", reason, judge)


RUNNER_MISTAKES = {
    "no toleration and no queue": (NO_TOLERATION | UNQUEUED, UNTOLERATED, "scheduler"),
    "label of another pool": (OTHER_POOL, UNMATCHED, "scheduler"),
    "other pull secret": (OTHER_LOGIN, NO_LOGIN, "stage of KWOK"),
}


@pytest.mark.parametrize(("change", "reason", "judge"), RUNNER_MISTAKES.values(), ids=RUNNER_MISTAKES)
def test_a_runner_with_a_mistake_does_not_run(
    pools: Pools, proved: Proved, request: pytest.FixtureRequest, change: dict[str, Any], reason: str, judge: str
) -> None:
    mistake = request.node.callspec.id.partition("-")[2]
    with pools.runners(mistake.replace(" ", "-"), **copy.deepcopy(change)) as [pod]:
        assert reason in until(lambda: _settled(pools, pod), "a reason")
    proved(f"runner, {mistake}", reason, judge)


def _settled(pools: Pools, pod: Any) -> str:
    """Return the state of a pod after Kueue has decided."""
    [found] = pools.api.get("v1", "Pod", pod["metadata"]["namespace"], pod["metadata"]["name"])
    return "" if found["spec"].get("schedulingGates") else pools.state(pod)


def test_a_runner_with_a_quota_of_0_does_not_run(pools: Pools, proved: Proved) -> None:
    [queue] = pools.api.get(KUEUE, "ClusterQueue", name=QUEUE)
    groups = copy.deepcopy(queue["spec"]["resourceGroups"])
    groups[0]["flavors"][0]["resources"][0]["nominalQuota"] = "0"
    pools.api.merge(KUEUE, "ClusterQueue", None, QUEUE, {"spec": {"resourceGroups": groups}})
    try:
        with pools.runners() as [pod]:
            assert NO_QUOTA in until(lambda: pools.state(pod), "a reason")
    finally:
        pools.api.merge(
            KUEUE, "ClusterQueue", None, QUEUE, {"spec": {"resourceGroups": queue["spec"]["resourceGroups"]}}
        )
    proved("runner, quota of 0", NO_QUOTA, "Kueue")
