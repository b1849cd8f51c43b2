"""Tests of the rules on jobs and gates, and of all rules together: order, hostile values, and the generated page."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import pytest
from gpu_ci.kubernetes.gpu_nodes import UNPROVEN_KEY
from gpu_preview.engine.states import State
from gpu_preview.model import Operation, Severity
from gpu_preview.report.danger_rules import data_loss, exposure, find, jobs, secrecy
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ...danger_cases import CREATE, DELETE, REPLACE, SAME, SECRET, UNKNOWN, UPDATE, found, resource, state, texts, urn

GROUP = "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager"
TEMPLATE = "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate"
NODE_POOL = "gcp:container/nodePool:NodePool"
NODES = "aws:eks/nodeGroup:NodeGroup"
RELEASE = "kubernetes:helm.sh/v3:Release"
GATE = "gpu-ci:gcp:SmokeGate"
JOB = "kubernetes:batch/v1:Job"


def test_a_pool_that_begins_to_reuse_hosts_is_reported_once() -> None:
    object_ = "gcp:storage/bucketObject:BucketObject"
    plain, reuses = (
        {"source": {"text": f'{{"config": {{"pool": "h100"{more}}}}}'}} for more in ("", ', "reuse": true')
    )
    for before, after, operation in ((None, reuses, CREATE), (plain, reuses, REPLACE)):
        [finding] = found(object_, operation, before, after)
        assert (finding.rule, finding.severity) == ("reuses-hosts", Severity.DANGER)
        assert finding.text.endswith("runs several jobs on one host: a job can change it for later jobs")
    for before, after, operation in ((reuses, reuses, REPLACE), (reuses, plain, REPLACE), (None, plain, CREATE)):
        assert found(object_, operation, before, after) == []


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
        (RELEASE, {"chart": "oci://ghcr.io/actions/actions-runner-controller-charts/gha-runner-scale-set@sha256:0"},
         ("idle runners are deleted; busy runners finish their job if the controller and the secret stay; waiting "
          "jobs get no runner until another scale set exists")),
        (RELEASE, {"chart": "oci://registry.k8s.io/kueue/charts/kueue"},
         ("Helm deletes the definitions of Kueue, and with them every queue of the cluster, also those of other "
          "programs; runners that wait for quota do not start")),
        (RELEASE, {"chart": "gha-runner-scale-set-controller"},
         "no controller starts or deletes runners any more, and the runner scale sets stay"),
        ("kubernetes:operator.tekton.dev/v1alpha1:TektonConfig", {},
         "Tekton is deleted, and runs of every program of the cluster end without a result"),
        (RELEASE, {"chart": "oci://ghcr.io/tektoncd/operator/charts/tekton-operator"},
         "no operator repairs or updates Tekton any more, and a TektonConfig cannot be deleted"),
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


@pytest.mark.parametrize("operation", [DELETE, REPLACE])
def test_the_runner_manager_creates_its_machines_outside_the_group(operation: Operation) -> None:
    def rules(registered_by: str, parent: str) -> list[str]:
        metadata = {"gpu-agent-config": json.dumps({"registered_by": registered_by})}
        template = state(TEMPLATE, "template", {"metadata": metadata}, parent=parent)
        groups = {urn(GROUP, "x"): state(GROUP, "x", group("a", "OPPORTUNISTIC", 0), parent="l4")}
        after = groups if operation == REPLACE else {}
        return [each.rule for each in find({**groups, template.urn: template}, after, [resource(GROUP, operation)])]

    assert rules("manager", "l4") == []
    # Without the manager, the size of the group is changed outside Pulumi, and is 0 in the state.
    assert rules("machine", "l4") == rules("manager", "t4") == ["interrupts-jobs"]


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


@pytest.mark.parametrize("type_", [NODES, NODE_POOL])
def test_new_nodes_that_no_longer_start_with_the_taint_of_unproven_nodes_are_reported(type_: str) -> None:
    gpu, unproven = ({"key": key, "value": "true"} for key in ("nvidia.com/gpu", UNPROVEN_KEY))
    without, with_ = (
        {"taints": each} if type_ == NODES else {"nodeConfig": {"taints": each}} for each in ([gpu], [gpu, unproven])
    )
    text = f"gate-removed: {type_.rpartition(':')[2]} x no longer checks each new node before jobs use it"
    assert texts(found(type_, UPDATE, with_, without)) == [text]
    assert found(type_, UPDATE, without, with_) == []
    assert found(type_, UPDATE, {**with_, "labels": {}}, {**with_, "labels": {"a": "b"}}) == []


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


GOOGLE_DISK = "gcp:compute/disk:Disk"

# Whatever any rule looks at, so that hostile values reach every branch.
TYPES = sorted(
    {
        *jobs.BY_TYPE,
        *data_loss.HOLDS,
        *exposure.FIREWALLS,
        *secrecy.ENCRYPTS,
        "pulumi:pulumi:Stack",
        "gpu-ci:gcp:SmokeGate",
        "kubernetes:helm.sh/v3:Release",
        "kubernetes:batch/v1:Job",
        "aws:iam/role:Role",
        "aws:s3/bucketPolicy:BucketPolicy",
        "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock",
        "gcp:iam/workloadIdentityPoolProvider:WorkloadIdentityPoolProvider",
        "gcp:projects/iAMMember:IAMMember",
        "github:index/actionsRunnerGroup:ActionsRunnerGroup",
        "github:index/repositoryRuleset:RepositoryRuleset",
        "kubernetes:rbac.authorization.k8s.io/v1:ClusterRole",
        "kubernetes:rbac.authorization.k8s.io/v1:ClusterRoleBinding",
        "kubernetes:core/v1:Service",
        "",
    }
)
OTHERS = [
    "version", "image", "sourceImage", "torch", "branch", "policy", "assumeRolePolicy", "Statement", "Effect",
    "Principal", "Action", "Condition", "Resource", "Federated", "StringLike", "role", "member", "members",
    "roleRef", "name", "rules", "verbs", "resources", "updatePolicy", "type", "versions", "targetSize",
    "chart", "spec", "metadata", "annotations", "ingress", "cidr", "vpcConfig", "publicAccessCidrs",
    "sourceRanges", "allows", "ports", "direction", "match", "srcIpRanges", "attributeCondition", "oidc",
    "visibility", "selectedRepositoryIds", "enforcement",
]  # fmt: skip
KEYS = sorted(
    {rule.key for rule in exposure.EXPOSES} | secrecy.ENCRYPTION_SETTINGS | secrecy.ENCRYPTION_SWITCHES | set(OTHERS)
)
WORDS = ["", SECRET, UNKNOWN, "*", "Allow", "all", "0.0.0.0/0", "allUsers", "1.2", "R580", "a/b:1@sha256:0", "{", "[[["]
TEXTS = st.sampled_from(WORDS) | st.text(max_size=20)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS
VALUES = st.recursive(
    LEAVES,
    lambda inside: (
        st.lists(inside, max_size=3)
        | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=5), inside, max_size=4)
        | inside.map(lambda value: json.dumps(value))
    ),
    max_leaves=12,
)
INPUTS = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6)


@settings(max_examples=150)
@given(type_=st.sampled_from(TYPES), operation=st.sampled_from(Operation), before=INPUTS, after=INPUTS)
def test_no_value_whatever_ends_the_search(type_: str, operation: Operation, before: Any, after: Any) -> None:
    for finding in found(type_, operation, before, after):
        assert 0 < len(finding.text) <= 600


@settings(max_examples=200)
@given(digest=VALUES)
@example(digest={"urn": 1, "inputs": [], "dependencies": "x", "protect": 1})
def test_a_state_of_any_form_is_read(digest: Any) -> None:
    read = State.of(digest)
    assert isinstance(read.urn, str)
    assert find({read.urn: read}, {read.urn: read}, []) == []


def test_a_value_of_any_depth_is_handled() -> None:
    deep: Any = "x"
    for _ in range(5000):
        deep = {"bypassActors": [deep]}
    github = "github:index/repositoryRuleset:RepositoryRuleset"
    assert found(github, UPDATE, {"bypassActors": []}, deep)[0].text.endswith("allows 1 more in bypassActors")


def test_the_worst_comes_first_and_nothing_comes_twice() -> None:
    before = [state(GROUP, "b"), state(GOOGLE_DISK, "a"), state(GOOGLE_DISK, "c", protect=True)]
    after = [state(GOOGLE_DISK, "c")]
    resources = [resource(GOOGLE_DISK, UPDATE, "c"), resource(GOOGLE_DISK, DELETE, "a"), resource(GROUP, DELETE, "b")]
    found = find({each.urn: each for each in before}, {each.urn: each for each in after}, [*resources, resources[0]])
    assert [each.rule for each in found] == ["interrupts-jobs", "loses-data", "protected"]


def test_a_resource_that_moved_is_compared_with_what_it_was() -> None:
    old, new = state(GROUP, "old", {"targetSize": 3}), state(GROUP, "new", {"targetSize": 1})
    moved = resource(GROUP, UPDATE, "new", moved_from=old.urn)
    assert [each.urn for each in find({old.urn: old}, {new.urn: new}, [moved])] == [urn(GROUP, "new")]


def test_a_text_that_looks_like_a_secret_is_redacted() -> None:
    token = "ghp_" + "a" * 36
    member = {"role": "roles/owner", "member": f"user:{token}"}
    [finding] = found("gcp:projects/iAMMember:IAMMember", CREATE, after=member)
    assert finding.text == "IAMMember x grants roles/owner to user:[secret]"


def test_a_long_name_is_shortened() -> None:
    [finding] = find(
        {urn(GOOGLE_DISK, "n" * 5000): state(GOOGLE_DISK, "n" * 5000)}, {}, [resource(GOOGLE_DISK, DELETE, "n" * 5000)]
    )
    assert len(finding.text) == 600
    assert finding.text.endswith("…")


@pytest.mark.parametrize("operation", [DELETE, REPLACE])
def test_a_resource_without_its_state_is_no_danger(operation: Operation) -> None:
    assert find({}, {}, [resource(GROUP, operation), resource(GOOGLE_DISK, operation)]) == []


def test_every_type_of_the_tables_exists() -> None:
    """Compares the types with those that the packages register, because a misspelt type would never match."""
    packages = ("aws", "gcp", "github", "kubernetes")
    sources = {name: files(f"pulumi_{name}").joinpath("__init__.py").read_text() for name in packages}
    custom = ("kubernetes:actions.", "kubernetes:operator.tekton.dev")  # which no package has
    named = {*jobs.BY_TYPE, *data_loss.HOLDS, *exposure.FIREWALLS, *secrecy.ENCRYPTS}
    known = {each for each in named if f'"{each}"' in sources[each.partition(":")[0]]}
    assert [each for each in sorted(named - known) if not each.startswith(custom)] == []
