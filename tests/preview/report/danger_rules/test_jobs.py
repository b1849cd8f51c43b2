"""`interrupts-jobs` and `gate-removed`."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_preview.model import Operation, Severity
from gpu_preview.report.dangers import find

from ...danger_cases import CREATE, DELETE, REPLACE, SAME, UNKNOWN, UPDATE, found, resource, state, texts, urn

GROUP = "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager"
TEMPLATE = "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate"
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
         ("idle runners are deleted, one with a job ends it first while controller and secret stay, and jobs that "
          "wait find nobody until another set comes")),
        (RELEASE, {"chart": "gha-runner-scale-set-controller"},
         "nothing starts runners or ends them any more, and the sets it kept stay behind without it"),
        ("gcp:cloudbuild/workerPool:WorkerPool", {},
         "no source tells what becomes of what runs in it, so take that for lost"),
    ],
)  # fmt: skip
def test_what_runs_jobs_is_told_when_it_goes(
    type_: str, inputs: dict[str, Any], text: str, operation: Operation
) -> None:
    [finding] = found(type_, operation, inputs, inputs)
    how = "is deleted" if operation == DELETE else "is replaced"
    assert finding.rule == "interrupts-jobs"
    assert finding.severity == Severity.DANGER
    assert finding.text == f"{type_.rpartition(':')[2]} x {how}: {text}"
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
def test_what_runs_no_jobs_or_stays_is_no_danger(type_: str, operation: Operation, inputs: dict[str, Any]) -> None:
    assert found(type_, operation, inputs, inputs) == []


def test_what_stays_in_the_cloud_interrupts_nothing() -> None:
    assert found(GROUP, DELETE, retained=True) == []


def group(template: str, kind: str, size: Any = 3) -> dict[str, Any]:
    return {"updatePolicy": {"type": kind}, "versions": [{"instanceTemplate": template}], "targetSize": size}


def test_a_group_that_replaces_its_machines_at_once_interrupts_them() -> None:
    text = "gets other versions, and updatePolicy.type is PROACTIVE"
    assert texts(found(GROUP, UPDATE, group("a", "OPPORTUNISTIC"), group(UNKNOWN, "PROACTIVE"))) == [
        f"interrupts-jobs: RegionInstanceGroupManager x {text}: it replaces its machines at once, whatever runs on them"
    ]
    assert found(GROUP, UPDATE, group("a", "OPPORTUNISTIC"), group("a", "PROACTIVE")) == []


def test_a_group_that_gives_new_machines_another_template_is_said_to_interrupt_nothing() -> None:
    [told] = found(GROUP, UPDATE, group("a", "OPPORTUNISTIC"), group(UNKNOWN, "OPPORTUNISTIC"))
    text = "gets another template: machines that are there keep theirs, and no job is interrupted"
    assert (told.severity, told.text) == (Severity.NOTE, f"RegionInstanceGroupManager x {text}")
    assert found(GROUP, UPDATE, group("a", "OPPORTUNISTIC"), group("a", "OPPORTUNISTIC")) == []


def test_a_group_whose_machines_are_all_to_be_another_way_at_once_interrupts_them() -> None:
    before, after = ({"allInstancesConfig": {"metadata": {"a": each}}} for each in "xy")
    policy = {"updatePolicy": {"type": "PROACTIVE"}}
    [finding] = found(GROUP, UPDATE, {**policy, **before}, {**policy, **after})
    assert finding.text.startswith(
        "RegionInstanceGroupManager x gets other allInstancesConfig, and updatePolicy.type is"
    )


def test_a_release_runs_what_it_ran_until_its_chart_is_another() -> None:
    before, after = ({"chart": each} for each in ("gha-runner-scale-set-controller", "nvidia-device-plugin"))
    assert [each.rule for each in found(RELEASE, REPLACE, before, after)] == ["interrupts-jobs"]
    assert found(RELEASE, REPLACE, after, before) == []


def test_a_group_that_shrinks_picks_machines_that_may_be_busy() -> None:
    before = group("a", "OPPORTUNISTIC")
    assert texts(found(GROUP, UPDATE, before, {**before, "targetSize": 2})) == [
        (
            "interrupts-jobs: RegionInstanceGroupManager x shrinks from 3 to 2 machines: it picks those to "
            "delete itself, busy or not"
        )
    ]
    for size in (3, 4, UNKNOWN, None, True):
        assert found(GROUP, UPDATE, before, {**before, "targetSize": size}) == []


@pytest.mark.parametrize(
    ("before", "after", "what"),
    [
        ({"version": "1.34"}, {"version": "1.35"}, "version"),
        ({"launchTemplate": {"id": "lt", "version": "1"}}, {"launchTemplate": {"id": "lt", "version": UNKNOWN}},
         "launchTemplate"),
        ({"releaseVersion": "1.34.1-20260801", "version": "1.34"},
         {"releaseVersion": "1.35.0-20260901", "version": "1.35"}, "releaseVersion and version"),
    ],
)  # fmt: skip
def test_a_node_group_that_takes_another_image_drains_its_nodes(before: Any, after: Any, what: str) -> None:
    assert texts(found(NODES, UPDATE, before, after)) == [
        (
            f"interrupts-jobs: NodeGroup x gets another {what}: nodes of the new sort take the place of the old ones, "
            "whose pods are evicted with their jobs"
        )
    ]


def test_a_node_group_that_only_scales_or_is_labelled_anew_keeps_its_nodes() -> None:
    before = {"version": "1.34", "scalingConfig": {"maxSize": 2}, "labels": {"a": "b"}}
    assert found(NODES, UPDATE, before, {**before, "scalingConfig": {"maxSize": 4}, "labels": {}}) == []


def gated(depends: tuple[str, ...], *, gate: bool = True) -> dict[str, Any]:
    """A group behind a gate, by way of another resource; or beside one."""
    between = state("gcp:x/y:Y", "between", dependencies=(urn(GATE, "gate"),) if gate else ())
    states = [state(GROUP, "group", dependencies=depends), between, *([state(GATE, "gate")] if gate else [])]
    return {each.urn: each for each in states}


BETWEEN = (urn("gcp:x/y:Y", "between"),)


def pool(gate: Operation | None, group: Operation = SAME) -> list[Any]:
    gates = [resource(GATE, gate, "gate")] if gate else []
    return [resource(GROUP, group, "group"), resource("gcp:x/y:Y", SAME, "between"), *gates]


def test_a_pool_that_waits_for_no_gate_any_more_is_told() -> None:
    before, after = gated(BETWEEN), gated(())
    assert texts(find(before, after, pool(SAME))) == [
        "gate-removed: RegionInstanceGroupManager group no longer waits for a check of its GPUs"
    ]
    assert find(before, before, pool(SAME)) == []
    assert find(before, before, pool(REPLACE)) == []
    assert find(after, after, pool(SAME)) == []


def test_a_gate_that_is_deleted_is_told_once() -> None:
    assert texts(find(gated(BETWEEN), gated(BETWEEN, gate=False), pool(DELETE))) == [
        "gate-removed: RegionInstanceGroupManager group no longer waits for a check of its GPUs"
    ]
    assert texts(find(gated(()), gated((), gate=False), pool(DELETE))) == [
        "gate-removed: SmokeGate gate is deleted, but the pool l4 stays: its GPUs are no longer checked"
    ]


def test_a_gate_that_goes_with_its_pool_or_is_followed_by_another_is_no_danger() -> None:
    gone = [finding.rule for finding in find(gated(BETWEEN), {}, pool(DELETE, DELETE))]
    assert gone == ["interrupts-jobs"]
    other = state(GATE, "other")
    after = gated((other.urn,), gate=False) | {other.urn: other}
    assert find(gated(BETWEEN), after, [*pool(DELETE), resource(GATE, CREATE, "other")]) == []


def test_the_gate_of_another_pool_is_not_enough() -> None:
    other = state(GATE, "other")
    after = gated((), gate=False) | {other.urn: other}
    found = find(gated(()), after, [*pool(DELETE), resource(GATE, CREATE, "other", component="t4")])
    assert [finding.rule for finding in found] == ["gate-removed"]


def test_a_job_is_a_gate_below_the_component_of_the_check_alone() -> None:
    release = state(RELEASE, "runners", {"chart": "gha-runner-scale-set"}, dependencies=(urn(JOB, "job"),))
    after = {release.urn: state(RELEASE, "runners", {"chart": "gha-runner-scale-set"})}
    resources = [resource(RELEASE, SAME, "runners"), resource(JOB, DELETE, "job")]
    check = urn("gpu-ci:kubernetes:SmokeJob", "smoke", "gpu-ci:aws:EksRunnerPool$")
    for parent, expected in ((check, ["gate-removed"]), (urn("my:own:Component", "c"), []), ("", [])):
        job = state(JOB, "job", parent=parent)
        found = find({release.urn: release, job.urn: job}, after, resources)
        assert [finding.rule for finding in found] == expected


def test_a_group_that_is_deleted_waits_for_nothing_and_keeps_no_gate_also_where_the_digest_still_has_it() -> None:
    assert [each.rule for each in find(gated(BETWEEN), gated(()), pool(SAME, DELETE))] == ["interrupts-jobs"]
    gone = find(gated(()), gated((), gate=False), pool(DELETE, DELETE))
    assert [each.rule for each in gone] == ["interrupts-jobs"]


def test_dependencies_in_a_circle_end() -> None:
    circle = gated(BETWEEN, gate=False)
    between = state("gcp:x/y:Y", "between", dependencies=(urn(GROUP, "group"),))
    assert find({**circle, between.urn: between}, {**circle, between.urn: between}, pool(None)) == []


@pytest.mark.parametrize(
    ("type_", "name", "sizes"),
    [
        ("aws:ec2/instance:Instance", "instanceType", ("g5.xlarge", "g5.2xlarge")),
        ("gcp:compute/instance:Instance", "machineType", ("g2-standard-4", "g2-standard-8")),
    ],
)
def test_a_machine_that_becomes_another_size_is_stopped_for_it(type_: str, name: str, sizes: tuple[str, str]) -> None:
    before, after = ({name: each, "zone": "a"} for each in sizes)
    [told] = found(type_, UPDATE, before, after)
    stopped = "the machine is stopped for that, and a job on it ends without a result"
    assert (told.rule, told.text) == ("interrupts-jobs", f"Instance x gets another {name}: {stopped}")
    assert found(type_, UPDATE, before, {**before, "tags": {"a": "b"}}) == []
