"""Runners that have a job, while their scale set changes, ends, or meets a controller of another version."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from pulumi_sandbox.providers.kubernetes.helm.charts import CONTROLLER, RUNNER_SET
from pulumi_sandbox.providers.kubernetes.scheduling.scheduler import POD
from pulumi_sandbox.providers.kubernetes.workloads.runners import RUNNER
from pulumi_sandbox.providers.resource import Refused, Resource

from tests.sandbox.providers.kubernetes.conftest import Cluster, changed
from tests.sandbox.providers.kubernetes.helm.test_charts import RELEASE, release, scale_set

SETTINGS = """
values:
  kubernetes:
    namespaces: [ci, arc-systems]
    secrets: [ci/github-app]
    nodes: [{name: one, allocatable: {cpu: 8, memory: 32Gi, pods: 20}}]
"""


@pytest.fixture
def busy(cluster: Cluster) -> tuple[Cluster, Resource, Resource]:
    """A controller, and a scale set with two runners that wait for jobs."""
    cluster.settings(SETTINGS)
    arc = cluster.up(RELEASE, "arc", release(CONTROLLER, {}, name="arc", namespace="arc-systems"))
    return cluster, arc, cluster.up(RELEASE, "gpu-t4", given())


def given(**fields: Any) -> dict[str, Any]:
    return {**scale_set(minRunners=2), "timeout": 60, **fields}


def runners(cluster: Cluster) -> list[str]:
    found = [row.id for row in cluster.world.find(RUNNER)]
    # Each is an object of ARC's and its pod, of one name.
    assert found == [row.id for row in cluster.world.find(POD)]
    return found


def sets(cluster: Cluster) -> list[str]:
    return [row.id for row in cluster.world.find(RUNNER_SET)]


def status(cluster: Cluster, runner: str, **fields: Any) -> None:
    row = cluster.world.get(RUNNER, runner)
    assert row is not None
    cluster.world.update(RUNNER, runner, outputs={**row.outputs, "status": {**row.outputs["status"], **fields}})


def test_a_controller_of_another_minor_lets_a_running_job_end(busy: tuple[Cluster, Resource, Resource]) -> None:
    cluster, arc, _ = busy
    working, _idle = runners(cluster)
    status(cluster, working, jobId="17")
    cluster.change(arc, changed(arc.inputs, "version", "0.15.0"))
    assert (runners(cluster), sets(cluster)) == ([working], ["ci/gpu-t4"])
    start = "the controller 0.15.0 deletes the runner set ci/gpu-t4, which has another minor version; "
    assert cluster.messages[-1] == ("warning", f"{start}the set waits for 1 of its runners, which have jobs")


def test_a_release_is_gone_once_its_jobs_have_ended(busy: tuple[Cluster, Resource, Resource]) -> None:
    cluster, _, pool = busy
    working, _idle = runners(cluster)
    status(cluster, working, jobId="17")
    ends = threading.Thread(target=cluster.lifecycle.delete, args=(pool,))
    ends.start()
    until = time.monotonic() + 10
    while len(cluster.world.find(RUNNER)) > 1 and time.monotonic() < until:
        time.sleep(0.05)
    assert (runners(cluster), sets(cluster), ends.is_alive()) == ([working], ["ci/gpu-t4"], True)
    status(cluster, working, phase="Succeeded")
    ends.join(10)
    assert (runners(cluster), sets(cluster), ends.is_alive()) == ([], [], False)


def test_a_job_that_outlasts_the_wait_goes_on(
    busy: tuple[Cluster, Resource, Resource],
) -> None:
    cluster, _, pool = busy
    working, _idle = runners(cluster)
    status(cluster, working, jobId="17")
    pool.inputs["timeout"] = 0.3
    with pytest.raises(Refused) as caught:
        cluster.lifecycle.delete(pool)
    assert str(caught.value) == (
        "uninstallation completed with 1 error(s): context deadline exceeded\n"
        f"  got: {working.removeprefix('ci/')} has job 17 after 0.3 s\n"
        "  hint: the controller deletes the set once its jobs have ended; then run pulumi refresh, and pulumi up again"
    )
    status(cluster, working, phase="Succeeded")
    cluster.lifecycle.delete(pool)
    assert (runners(cluster), cluster.world.get(RELEASE, "ci/gpu-t4")) == ([], None)


def test_a_changed_scale_set_renews_the_runners_that_wait_and_leaves_one_with_a_job(
    busy: tuple[Cluster, Resource, Resource],
) -> None:
    cluster, _, pool = busy
    working, idle = runners(cluster)
    status(cluster, working, jobId="17")
    cluster.change(pool, given(version="0.14.1"))
    found = runners(cluster)
    assert (len(found), working in found, idle in found) == (3, True, False)
