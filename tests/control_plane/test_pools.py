"""The pools of staging on EKS and GKE run on a real cluster, and their objects do not run after one mistake."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import pytest
from gpu_ci.kubernetes import kueue_labels
from gpu_smoke.nodes.command import Api as ProverApi
from gpu_smoke.nodes.command import RefusedError
from gpu_smoke.nodes.decision import FAILURE as FAILURE_KEY
from gpu_smoke.nodes.decision import Step

from tests.control_plane import charts
from tests.control_plane.actions_service import ActionsService
from tests.control_plane.api import Api, until
from tests.control_plane.cluster_state import add_nodes
from tests.control_plane.pools import BROKEN, FAILURE, KUEUE, QUEUE, Pools, deployment, node
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


def test_of_two_waiting_runners_the_one_with_the_higher_class_runs_first(pools: Pools, proved: Proved) -> None:
    for number, name in enumerate(("night", "merge")):
        given = {"apiVersion": KUEUE, "kind": "WorkloadPriorityClass", "metadata": {"name": name}, "value": number}
        pools.api.apply(given)

    def of_class(name: str) -> AbstractContextManager[list[dict[str, Any]]]:
        return pools.runners(name, metadata={"labels": {kueue_labels.QUEUE: QUEUE, kueue_labels.PRIORITY_CLASS: name}})

    with ExitStack() as waiting:
        with pools.runners() as [first]:
            until(lambda: pools.state(first) == "gpu", "the first runner runs")
            [night], [merge] = (waiting.enter_context(of_class(name)) for name in ("night", "merge"))
            until(lambda: "insufficient" in pools.state(night) and "insufficient" in pools.state(merge), "both wait")
        until(lambda: "gpu" in (pools.state(night), pools.state(merge)), "one runs")
        assert pools.state(merge) == "gpu"
    proved("runner of a higher class, also waiting", "runs before an older one", "Kueue")


def test_no_runner_runs_on_a_node_before_the_node_has_passed_a_check(pools: Pools, proved: Proved) -> None:
    before, after = pools.first_runner
    assert UNTOLERATED in before
    assert after == "gpu"
    proved("runner, new node", f"{UNTOLERATED}, until its check has passed", "scheduler, prover")


def test_the_prover_runs_on_a_node_without_gpus(pools: Pools, proved: Proved) -> None:
    [one] = pools.api.get("apps/v1", "Deployment", *pools.prover)
    assert until(lambda: _nodes(pools, one["spec"]["selector"]["matchLabels"]), "its pod runs") == ["system"]
    proved("prover", "runs on a node without GPUs", "Deployment controller, scheduler, KWOK")


def test_a_node_with_a_broken_gpu_takes_no_job(pools: Pools, proved: Proved) -> None:
    def cordoned() -> str | None:
        """Return the UID of the failed Job of the broken node, which is cordoned."""
        found = pools.node(BROKEN)
        if pools.taints(BROKEN) != ["gpu-ci-failed", "unschedulable"]:
            return None
        assert found["spec"]["unschedulable"]
        assert found["metadata"]["annotations"][FAILURE_KEY] == FAILURE
        return "".join(one["metadata"]["uid"] for one in _checks(pools, found["metadata"]["uid"]))

    # The node starts while a runner waits for one.
    with pools.runners("two", count=2, **UNQUEUED) as pods:
        until(lambda: "gpu" in map(pools.state, pods), "one runner runs")
        add_nodes(pools.api, node(*pools.group, name=BROKEN))
        first = until(cordoned, "the broken node is cordoned")
        [waits] = [pod for pod in pods if pools.state(pod) != "gpu"]
        until(lambda: "1 node(s) were unschedulable" in pools.state(waits), "the other one waits")
        # A person asks for another check, and no runner comes before it has ended.
        pools.api.merge("v1", "Node", None, BROKEN, {"spec": {"unschedulable": False}})
        until(lambda: cordoned() not in (None, first), "the node has failed again")
        assert pools.state(waits) not in ("gpu", BROKEN)
        uid = pools.node(BROKEN)["metadata"]["uid"]
        pools.api.delete("v1", "Node", BROKEN)
        until(lambda: not _checks(pools, uid), "its Job is deleted with it")
    proved("runner, node with a broken GPU", "1 node(s) were unschedulable", "prover, scheduler")


def test_a_node_is_checked_after_an_xid_when_its_jobs_have_ended(pools: Pools, proved: Proved) -> None:
    fault = {"type": "XidCriticalError", "status": "True", "reason": '{"79":true}', "message": ""}
    with pools.runners("busy", **UNQUEUED) as [busy]:
        until(lambda: pools.state(busy) == "gpu", "a job runs")
        pools.api.patch_status("v1", "Node", "gpu", {"conditions": [fault]})
        until(lambda: pools.taints("gpu") == ["gpu-ci-unproven"], "the node takes no more jobs")
        uid = pools.node("gpu")["metadata"]["uid"]
        [check] = until(lambda: _checks(pools, uid), "the node has a Job")
        [pod] = until(lambda: pools.pods("job-name", check["metadata"]["name"]), "the Job has a pod")
        assert "1 Insufficient nvidia.com/gpu" in until(lambda: pools.state(pod), "a reason")
        with pools.runners("next", **UNQUEUED) as [other]:
            assert UNTOLERATED in until(lambda: pools.state(other), "a reason")
        assert pools.state(busy) == "gpu"
    until(lambda: pools.taints("gpu") == [] and not _checks(pools, uid), "the node has passed another check")
    proved("check after an Xid", "waits for the running job, and the next runner for the check", "prover, scheduler")


def _checks(pools: Pools, node_uid: str) -> list[dict[str, Any]]:
    found = pools.api.get("batch/v1", "Job")
    return [one for one in found if one["metadata"].get("labels", {}).get("gpu-ci-node") == node_uid]


REFUSED: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "node of no pool": ("PATCH", "system", {"spec": {"unschedulable": True}}, "the node is not in the pool"),
    "label": ("PATCH", "gpu", {"metadata": {"labels": {"gpu-ci-pool": "other"}}}, "labels must stay"),
    "taint": ("PATCH", "gpu", {"spec": {"taints": []}}, "other taints must stay"),
    "annotation": ("PATCH", "gpu", {"metadata": {"annotations": {"other": "true"}}}, "other annotations must stay"),
    "status": ("PATCH", "gpu/status", {"status": {"phase": "Running"}}, "403"),
    "deletion": ("DELETE", "gpu", {}, "403"),
}


@pytest.mark.parametrize(("method", "name", "body", "message"), REFUSED.values(), ids=REFUSED)
def test_the_prover_may_only_close_and_open_nodes_of_its_pool(
    pools: Pools, method: str, name: str, body: dict[str, Any], message: str
) -> None:
    api = ProverApi(pools.plane.url, pools.account_of_prover)
    with pytest.raises(RefusedError, match=message):
        api.send(Step("", method, f"/api/v1/nodes/{name}", body))


def test_the_prover_reads_no_secret_and_creates_no_pod(pools: Pools) -> None:
    api, space = ProverApi(pools.plane.url, pools.account_of_prover), pools.job["metadata"]["namespace"]
    with pytest.raises(RefusedError, match="403"):
        api.items(f"/api/v1/namespaces/{space}/secrets")
    with pytest.raises(RefusedError, match="403"):
        api.send(Step("", "POST", f"/api/v1/namespaces/{space}/pods", {"metadata": {"name": "it"}}))


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
