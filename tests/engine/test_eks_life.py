"""Tests of a pool on EKS with the real engine: the order of its creation, changes and deletion, and its outputs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import BroughtUp, bring_up, copied
from tests.engine import eks
from tests.gpu_ci.program import stack
from tests.sandbox_runner import SandboxRunner

pytestmark = pytest.mark.engine

JOB, RELEASE = "a10g-smoke-job", "a10g-runners-release"
NODES, TEMPLATE, LIMITS = "a10g-nodes-nodes", "a10g-nodes-template", "a10g-nodes-limits"
RUNNER_SET = "kubernetes:actions.github.com/v1alpha1:AutoscalingRunnerSet"
NAMESPACE = "kubernetes:core/v1:Namespace"
EPHEMERAL = "a10g-nodes-asg-resources-ephemeral-storage"
NEW_CHECK = [("create-replacement", JOB), ("replace", JOB)]
GROWS, OLD_CHECK = ("update", RELEASE), ("delete-replaced", JOB)


@pytest.fixture(scope="session")
def one_pool_on_eks(shared: Path) -> Path:
    return eks.project(shared)


@pytest.fixture(scope="session")
def up_on_eks(one_pool_on_eks: Path) -> BroughtUp:
    return bring_up(one_pool_on_eks)


@pytest.fixture
def pool(up_on_eks: BroughtUp, one_pool_on_eks: Path, tmp_path: Path) -> Iterator[SandboxRunner]:
    """Yield a sandbox of this test, in which the pool is deployed."""
    runner = copied(one_pool_on_eks, up_on_eks, tmp_path / "a sandbox")
    yield runner
    runner.close()


def changed(pool: SandboxRunner, **fields: Any) -> tuple[str, ...]:
    """Return the arguments of an `up` with other fields of the pool."""
    paths: dict[tuple[str, ...], Any] = {("gpu-ci:pools", "a10g", name): value for name, value in fields.items()}
    return (*eks.UP, "--config-file", str(pool.stack_file("Pulumi.staging.yaml", paths)))


def idle(pool: SandboxRunner) -> int:
    """Return the number of runners of the scale set that wait for a job."""
    [row] = [row for row in pool.world() if row["name"] == RELEASE]
    return int(row["inputs"]["values"]["minRunners"])


@pytest.mark.slow
def test_nodes_come_first_then_their_check_then_the_runners(up_on_eks: BroughtUp) -> None:
    names = [name for operation, name in up_on_eks.done if operation == "create"]
    assert len(names) == len(up_on_eks.done) == 44
    order = [
        TEMPLATE,
        NODES,
        "a10g-nodes-asg-resources-nvidia-com-gpu-171bc4",
        JOB,
        "a10g-runners-app",
        RELEASE,
    ]
    assert sorted(order, key=names.index) == order
    # What tells of GPUs comes before who waits for them, and who looks after runners before these.
    assert names.index("example-ci-plugin-release") < names.index(JOB)
    assert names.index("example-ci-arc-release") < names.index(RELEASE)


@pytest.mark.slow
def test_a_stack_on_aws_alone_needs_nothing_of_google(shared: Path, tmp_path: Path) -> None:
    with closing(SandboxRunner(project=eks.project_on_aws_alone(shared), folder=tmp_path / "a sandbox")) as runner:
        _, done = runner.steps(*eks.UP)
        assert [name for _, name in done].index(JOB) < [name for _, name in done].index(RELEASE)
        assert [row["type"] for row in runner.world() if row["type"].startswith("gcp:")] == []
        assert [row["name"] for row in runner.world() if row["name"] == "a10g-runners-app"]


@pytest.mark.slow
def test_a_second_up_changes_nothing_not_even_a_size_that_others_set(pool: SandboxRunner) -> None:
    pool.run("world", "edit", NODES, "scalingConfig.desiredSize=1")
    _, done = pool.steps(*eks.UP, "--refresh")
    assert done == []
    [row] = [row for row in pool.world() if row["name"] == NODES]
    assert row["outputs"]["scalingConfig"] == {"minSize": 0, "maxSize": 2, "desiredSize": 1}


@pytest.mark.slow
def test_a_lower_maximum_leaves_the_nodes_that_run(pool: SandboxRunner) -> None:
    """Runs without --refresh, as most users do."""
    pool.run("world", "edit", NODES, "scalingConfig.desiredSize=2")
    _, done = pool.steps(*changed(pool, max=3))
    assert ("update", LIMITS) in done
    assert NODES not in [name for _, name in done]
    assert limits(pool) == {"minSize": 0, "desiredSize": 2, "maxSize": 3}
    lowered, _ = pool.steps(*changed(pool, max=1))
    assert lowered.has("has 2 nodes, so its maximum is 2 and not 1; no running node was terminated")
    assert limits(pool) == {"minSize": 0, "desiredSize": 2, "maxSize": 2}


def limits(pool: SandboxRunner) -> dict[str, int]:
    """Return the sizes of the group in EKS."""
    return dict(next(row for row in pool.world() if row["name"] == NODES)["outputs"]["scalingConfig"])


@pytest.mark.slow
def test_another_template_is_proven_before_the_scale_set_changes_which_a_failed_check_leaves_as_it_is(
    pool: SandboxRunner,
) -> None:
    larger = changed(pool, diskGib=150, minIdle=1)
    wrong = eks.torch(faults=[{"kind": "raise", "text": "CUDA error: uncorrectable ECC error encountered"}])
    pool.run("world", "break", "guest", "--set", f"FAKE_TORCH={wrong}")
    failed, done = pool.steps(*larger, ok=False)
    assert done[:2] == [("update", TEMPLATE), ("update", NODES)]
    assert sorted(done[2:]) == sorted([("update", EPHEMERAL), ("update", LIMITS)])
    assert failed.has("[Error] a10g: GPU 0: multiplying float32 matrices failed: CUDA error: uncorrectable ECC error")
    assert idle(pool) == 0

    # The failed one goes with the one that passed before.
    _, done = pool.steps(*larger)
    assert done == [*NEW_CHECK, GROWS, OLD_CHECK, OLD_CHECK]
    assert idle(pool) == 1


@pytest.mark.slow
def test_a_pool_whose_jobs_get_pods_moves_to_a_namespace_of_its_own_with_only_its_own_secrets(
    pool: SandboxRunner,
) -> None:
    runner = {**stack.on_eks()["gpu-ci:pools"]["a10g"]["runner"], "containerMode": {"kind": "kubernetes-novolume"}}
    moved = changed(pool, runner=runner)
    _, done = pool.steps(*moved)
    names = [name for operation, name in done if operation in ("create", "create-replacement", "delete-replaced")]
    order = ["a10g-pods-namespace", JOB, RELEASE]
    assert sorted(order, key=names.index) == order
    assert ("delete", "example-ci-runners-namespace") in done
    secrets = {row["id"] for row in pool.world() if row["type"] == "kubernetes:core/v1:Secret"}
    assert [secret.partition("-runners-app")[0] for secret in secrets] == ["gpu-ci-a10g/a10g"]
    placed = {row["id"].partition("/")[0] for row in pool.world() if row["type"] in (RUNNER_SET, NAMESPACE)}
    assert placed == {"gpu-ci-a10g", "arc-systems", "nvidia-device-plugin"}
    assert pool.steps(*moved)[1] == []


@pytest.mark.slow
def test_all_of_it_goes_and_the_scale_set_before_its_controller(pool: SandboxRunner) -> None:
    _, done = pool.steps("destroy", "--stack", "staging", "--yes")
    names = [name for operation, name in done if operation == "delete"]
    assert len(names) == len(done) == 44
    assert names.index(RELEASE) < names.index("example-ci-arc-release")
    assert names.index(JOB) < names.index(NODES)
    # Without its definition, the cluster would lose every scale set, also those of other programs.
    kinds = ("autoscalinglisteners", "autoscalingrunnersets", "ephemeralrunners", "ephemeralrunnersets")
    assert sorted(row["id"] for row in pool.world()) == [f"{kind}.actions.github.com" for kind in kinds]
    assert pool.gone() == {}


@pytest.mark.slow
def test_no_key_is_in_plain_text_no_right_is_a_wildcard_and_nothing_comes_in(pool: SandboxRunner) -> None:
    exported = pool.json("stack", "export", "--stack", "staging")
    assert eks.APP_KEY in json.dumps(pool.json("stack", "export", "--stack", "staging", "--show-secrets"))
    assert eks.APP_KEY not in json.dumps(exported)
    kept = [file for file in pool.folder.rglob("*") if file.is_file()]
    assert [str(file) for file in kept if eks.APP_KEY.encode() in file.read_bytes()] == []

    resources = exported["deployment"]["resources"]
    documents = [
        json.loads(value)
        for resource in resources
        for key, value in resource.get("inputs", {}).items()
        if key in ("policy", "assumeRolePolicy")
    ]
    rights = [statement for document in documents for statement in document["Statement"]]
    assert rights == [
        {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "ec2.amazonaws.com"}},
    ]
    walls = {
        resource["inputs"]["metadata"]["name"]: resource["inputs"]["spec"]
        for resource in resources
        if resource["type"].endswith(":NetworkPolicy")
    }
    assert [name for name, spec in walls.items() if "ingress" in spec] == []
    assert walls["deny"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    assert [resource["type"] for resource in resources if "ecurityGroup" in resource["type"]] == []
