"""A Job needs a node for which AWS has no machine."""

from __future__ import annotations

import pytest
from pulumi_sandbox.providers.kubernetes.workloads import jobs
from pulumi_sandbox.providers.readiness import NotReady
from pulumi_sandbox.world.faults import Fault

from tests.sandbox.providers.kubernetes.conftest import JOB, Cluster, job
from tests.sandbox.providers.kubernetes.scheduling.test_scheduler import SPEC, group

SOLD_OUT = "UnfulfillableCapacity - Unable to fulfill capacity due to your request configuration."
NONE = ("info", f"the cluster autoscaler gets no node for t4: {SOLD_OUT}")
LATER = ("info", "the cluster autoscaler tries again after 5 minutes; the sandbox tries again at once")
STARTED = ("info", "the cluster autoscaler starts t4-0 in the group t4")


def check(cluster: Cluster, name: str = "smoke") -> None:
    given = job(activeDeadlineSeconds=600)
    given["metadata"]["name"] = name
    given["spec"]["template"]["spec"] |= SPEC
    cluster.up(JOB, name, given)


@pytest.fixture
def empty(cluster: Cluster) -> Cluster:
    """A cluster whose one group has no node yet."""
    group(
        cluster, desired=0, max_nodes=2, amiType="BOTTLEROCKET_x86_64_NVIDIA", capacityType="SPOT", region="us-east-1"
    )
    return cluster


def test_a_job_ends_at_its_deadline_where_no_machine_is_to_be_had_and_the_next_one_passes(
    empty: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "NEW_NODE_SEC", 0.0)
    number = empty.world.add_fault(Fault("stockout", on="*NodeGroup", times=0))
    with pytest.raises(NotReady) as unready:
        check(empty)
    assert unready.value.reasons[1:] == ["[DeadlineExceeded] Job was active longer than specified deadline"]
    infos = [line for line in empty.messages if line[0] == "info"]
    assert infos[0] == NONE
    assert infos[1][1].endswith("FailedScheduling: no nodes available to schedule pods")
    assert len(infos) == 3
    assert [event.verb for event in empty.world.events()].count("fault stockout") == 1
    empty.world.clear_faults(number)
    check(empty, "again")
    assert STARTED in empty.messages


def test_a_machine_that_is_sold_out_once_is_there_at_the_next_try(empty: Cluster) -> None:
    empty.world.add_fault(Fault("stockout"))
    check(empty)
    lines = [line for line in empty.messages if line[0] == "info"]
    assert lines[:3] == [NONE, LATER, STARTED]
    assert empty.world.faults() == []
