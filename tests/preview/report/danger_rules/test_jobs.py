"""Tests of the rules `interrupts-jobs`, `keeps-jobs` and `gate-removed`."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_preview.model import Operation, Severity
from gpu_preview.report.danger_rules import find

from ...danger_cases import CREATE, DELETE, REPLACE, SAME, UNKNOWN, UPDATE, found, resource, state, texts, urn

GROUP = "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager"
TEMPLATE = "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate"
NODE_POOL = "gcp:container/nodePool:NodePool"
NODES = "aws:eks/nodeGroup:NodeGroup"
RELEASE = "kubernetes:helm.sh/v3:Release"
GATE = "gpu-ci:gcp:SmokeGate"
JOB = "kubernetes:batch/v1:Job"


@pytest.mark.parametrize("operation", [DELETE, REPLACE])
@pytest.mark.parametrize(
    ("type_", "inputs", "text"),
    [
        (GROUP, {}, "all its machines are deleted with it, and the jobs on them end without a result"),
        ("gcp:compute/instance:Instance", {}, "the machine is deleted, and a job on it ends without a result"),
        ("gcp:container/nodePool:NodePool", {},
         "its nodes are deleted, and the jobs in their pods end when the pods are evicted"),
        (NODES, {}, ("its nodes are drained and terminated one by one, and pods that have not ended after 15 minutes "
         "are deleted with their jobs")),
        ("aws:autoscaling/group:Group", {}, "its machines are terminated, and the jobs on them end without a result"),
        (RELEASE, {"chart": "oci://ghcr.io/actions/actions-runner-controller-charts/gha-runner-scale-set"},
         ("idle runners are deleted; busy runners finish their job if the controller and the secret stay; waiting "
          "jobs get no runner until another scale set exists")),
        (RELEASE, {"chart": "oci://registry.k8s.io/kueue/charts/kueue"},
         ("Helm deletes the definitions of Kueue, and with them every queue of the cluster, also those of other "
          "programs; runners that wait for quota do not start")),
        (RELEASE, {"chart": "gha-runner-scale-set-controller"},
         "no controller starts or deletes runners any more, and the runner scale sets stay"),
        ("gcp:cloudbuild/workerPool:WorkerPool", {},
         "no source says what happens to running jobs, so assume that they are lost"),
    ],
)  # fmt: skip
def test_a_resource_that_runs_jobs_is_reported_if_it_is_deleted_or_replaced(
    type_: str, inputs: dict[str, Any], text: str, operation: Operation
) -> None:
    [finding] = found(type_, operation, inputs, inputs)
    ends = "is deleted" if operation == DELETE else "is replaced"
    assert finding.rule == "interrupts-jobs"
    assert finding.severity == Severity.DANGER
    assert finding.text == f"{type_.rpartition(':')[2]} x {ends}: {text}"
    assert (finding.urn, finding.component) == (urn(type_, "x"), "l4")


@pytest.mark.parametrize(
    ("type_", "operation", "inputs"),
    [
        (GROUP, CREATE, {}),
        (GROUP, SAME, {}),
        (GROUP, UPDATE, {}),
        (TEMPLATE, REPLACE, {}),
        (RELEASE, DELETE, {"chart": "nvidia-device-plugin"}),
        ("kubernetes:apps/v1:Deployment", DELETE, {}),
    ],
)
def test_a_resource_without_jobs_or_one_that_stays_is_no_danger(
    type_: str, operation: Operation, inputs: dict[str, Any]
) -> None:
    assert found(type_, operation, inputs, inputs) == []


def group(template: str, kind: str, size: Any = 3) -> dict[str, Any]:
    return {"updatePolicy": {"type": kind}, "versions": [{"instanceTemplate": template}], "targetSize": size}


def test_a_group_that_replaces_its_machines_at_once_interrupts_them() -> None:
    text = "changes versions, and updatePolicy.type is PROACTIVE"
    assert texts(found(GROUP, UPDATE, group("a", "OPPORTUNISTIC"), group(UNKNOWN, "PROACTIVE"))) == [
        f"interrupts-jobs: RegionInstanceGroupManager x {text}: it replaces its machines at once, also busy ones"
    ]
    assert found(GROUP, UPDATE, group("a", "OPPORTUNISTIC"), group("a", "PROACTIVE")) == []


def test_an_opportunistic_update_of_a_group_is_reported_to_interrupt_no_job() -> None:
    [finding] = found(GROUP, UPDATE, group("a", "OPPORTUNISTIC"), group(UNKNOWN, "OPPORTUNISTIC"))
    text = "gets another template: existing machines keep the old template, and no job is interrupted"
    assert (finding.severity, finding.text) == (Severity.NOTE, f"RegionInstanceGroupManager x {text}")
    assert found(GROUP, UPDATE, group("a", "OPPORTUNISTIC"), group("a", "OPPORTUNISTIC")) == []


def test_a_group_that_shrinks_picks_machines_that_may_be_busy() -> None:
    before = group("a", "OPPORTUNISTIC")
    assert texts(found(GROUP, UPDATE, before, {**before, "targetSize": 2})) == [
        (
            "interrupts-jobs: RegionInstanceGroupManager x shrinks from 3 to 2 machines: Google chooses which machines "
            "to delete, also busy ones"
        )
    ]
    for size in (3, 4, UNKNOWN, None, True):
        assert found(GROUP, UPDATE, before, {**before, "targetSize": size}) == []


def test_a_node_group_with_another_version_or_launch_template_drains_its_nodes() -> None:
    before = {"releaseVersion": "1.34.1-20260801", "launchTemplate": {"id": "lt", "version": "1"}}
    after = {"releaseVersion": "1.35.0-20260901", "launchTemplate": {"id": "lt", "version": UNKNOWN}}
    [text] = texts(found(NODES, UPDATE, before, after))
    assert text == (
        "interrupts-jobs: NodeGroup x changes launchTemplate and releaseVersion: new nodes replace the old nodes, and "
        "the pods on the old nodes are evicted with their jobs"
    )


SURGE = {"upgradeSettings": {"strategy": "SURGE"}}
WAITS = {"upgradeSettings": {"strategy": "BLUE_GREEN", "blueGreenSettings": {"autoscaledRolloutPolicy": {}}}}
STANDARD = {"upgradeSettings": {"strategy": "BLUE_GREEN", "blueGreenSettings": {"standardRolloutPolicy": {}}}}
MACHINE, DISK = {"machineType": "g2-standard-8", "labels": {"a": "b"}}, {"diskSizeGb": 100}


@pytest.mark.parametrize(
    ("settings", "before", "after", "changed"),
    [
        (SURGE, MACHINE, {**MACHINE, "machineType": "g2-standard-16"}, "nodeConfig.machineType"),
        (STANDARD, MACHINE, {**MACHINE, "machineType": "g2-standard-16"}, "nodeConfig.machineType"),
        ({}, {**MACHINE, **DISK}, {"machineType": "n1", "diskSizeGb": 50},
         "nodeConfig.diskSizeGb and nodeConfig.machineType"),
        ({}, {"gcfsConfig": {"enabled": False}}, {"gcfsConfig": {"enabled": True}}, "nodeConfig.gcfsConfig"),
    ],
)  # fmt: skip
def test_a_node_pool_that_does_not_wait_for_jobs_interrupts_them_when_its_nodes_are_replaced(
    settings: dict[str, Any], before: dict[str, Any], after: dict[str, Any], changed: str
) -> None:
    assert texts(found(NODE_POOL, UPDATE, {**settings, "nodeConfig": before}, {**settings, "nodeConfig": after})) == [
        (
            f"interrupts-jobs: NodePool x changes {changed}: GKE replaces the nodes, and ends a job one hour after the "
            "replacement of its node began"
        )
    ]


def test_a_node_pool_that_waits_for_jobs_or_only_scales_or_is_labelled_anew_interrupts_no_job() -> None:
    bigger = {**MACHINE, "machineType": "g2-standard-16"}
    assert found(NODE_POOL, UPDATE, {**WAITS, "nodeConfig": MACHINE}, {**WAITS, "nodeConfig": bigger}) == []
    labelled = {**MACHINE, "labels": {"a": "c"}, "resourceLabels": {"team": "web"}}
    sizes = [{"nodeConfig": MACHINE, "autoscaling": {"totalMaxNodeCount": most}} for most in (2, 4)]
    assert found(NODE_POOL, UPDATE, sizes[0], {**sizes[1], "nodeConfig": labelled}) == []


def test_a_node_pool_that_loses_a_zone_interrupts_the_jobs_there() -> None:
    zones = ["us-central1-a", "us-central1-b", "us-central1-c"]
    assert texts(
        found(NODE_POOL, UPDATE, {**WAITS, "nodeLocations": zones}, {**WAITS, "nodeLocations": zones[1:2]})
    ) == [
        (
            "interrupts-jobs: NodePool x loses us-central1-a and us-central1-c: GKE deletes the nodes there with the "
            "jobs on them"
        )
    ]
    assert found(NODE_POOL, UPDATE, {"nodeLocations": zones[:1]}, {"nodeLocations": zones}) == []
    assert found(NODE_POOL, UPDATE, {"nodeLocations": zones}, {"nodeLocations": UNKNOWN}) == []


def gated(depends: tuple[str, ...], *, gate: bool = True) -> dict[str, Any]:
    """Return a group that depends on `depends`, a resource that depends on a gate, and the gate unless it is False."""
    between = state("gcp:x/y:Y", "between", dependencies=(urn(GATE, "gate"),) if gate else ())
    states = [state(GROUP, "group", dependencies=depends), between, *([state(GATE, "gate")] if gate else [])]
    return {each.urn: each for each in states}


BETWEEN = (urn("gcp:x/y:Y", "between"),)


def pool(gate: Operation | None, group: Operation = SAME) -> list[Any]:
    gates = [resource(GATE, gate, "gate")] if gate else []
    return [resource(GROUP, group, "group"), resource("gcp:x/y:Y", SAME, "between"), *gates]


def test_a_pool_that_no_longer_waits_for_a_gate_is_reported() -> None:
    before, after = gated(BETWEEN), gated(())
    assert texts(find(before, after, pool(SAME))) == [
        "gate-removed: RegionInstanceGroupManager group no longer waits for a check of its GPUs"
    ]
    assert find(before, before, pool(SAME)) == []
    assert find(before, before, pool(REPLACE)) == []
    assert find(after, after, pool(SAME)) == []


def test_a_gate_that_is_deleted_is_reported_once() -> None:
    assert texts(find(gated(BETWEEN), gated(BETWEEN, gate=False), pool(DELETE))) == [
        "gate-removed: RegionInstanceGroupManager group no longer waits for a check of its GPUs"
    ]
    assert texts(find(gated(()), gated((), gate=False), pool(DELETE))) == [
        "gate-removed: SmokeGate gate is deleted, but the pool l4 stays: its GPUs are no longer checked"
    ]


@pytest.mark.parametrize(("template", "count"), [(SAME, 1), (DELETE, 0)])
def test_a_gate_of_a_template_without_a_group_is_reported_if_the_template_stays(
    template: Operation, count: int
) -> None:
    """Steps of Cloud Build start machines from such a template."""
    before = {each.urn: each for each in (state(TEMPLATE, "template"), state(GATE, "gate"))}
    after = {urn(TEMPLATE, "template"): state(TEMPLATE, "template")} if template == SAME else {}
    found_texts = texts(find(before, after, [resource(TEMPLATE, template, "template"), resource(GATE, DELETE, "gate")]))
    text = "gate-removed: SmokeGate gate is deleted, but the pool l4 stays: its GPUs are no longer checked"
    assert found_texts == [text] * count


def test_a_gate_that_is_deleted_with_its_pool_or_has_a_successor_is_no_danger() -> None:
    rules = [finding.rule for finding in find(gated(BETWEEN), {}, pool(DELETE, DELETE))]
    assert rules == ["interrupts-jobs"]
    other = state(GATE, "other")
    after = gated((other.urn,), gate=False) | {other.urn: other}
    assert find(gated(BETWEEN), after, [*pool(DELETE), resource(GATE, CREATE, "other")]) == []


def test_a_job_is_a_gate_only_if_its_parent_is_the_component_of_the_check() -> None:
    release = state(RELEASE, "runners", {"chart": "gha-runner-scale-set"}, dependencies=(urn(JOB, "job"),))
    after = {release.urn: state(RELEASE, "runners", {"chart": "gha-runner-scale-set"})}
    resources = [resource(RELEASE, SAME, "runners"), resource(JOB, DELETE, "job")]
    check = urn("gpu-ci:kubernetes:SmokeJob", "smoke", "gpu-ci:aws:EksRunnerPool$")
    for parent, expected in ((check, ["gate-removed"]), (urn("my:own:Component", "c"), []), ("", [])):
        job = state(JOB, "job", parent=parent)
        found = find({release.urn: release, job.urn: job}, after, resources)
        assert [finding.rule for finding in found] == expected
