"""Jobs that really run, and what `pulumi up` says of one that does not succeed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from gpu_ci.kubernetes.smoke_job import SmokeJob, SmokeJobArgs
from gpu_ci.payload import smoke_archive
from pulumi_sandbox.providers.kubernetes.scheduling.scheduler import POD
from pulumi_sandbox.providers.kubernetes.workloads import jobs
from pulumi_sandbox.providers.readiness import NotReady
from pulumi_sandbox.providers.resource import Refused, Resource
from pulumi_sandbox.providers.values import Decoded

from tests.gpu_ci.harness import deploy
from tests.sandbox.providers.kubernetes.conftest import JOB, Cluster, archive, changed, check_job, job

NODE = "{name: own, allocatable: {nvidia.com/gpu: 1}}"
BACKOFF = "[BackoffLimitExceeded] Job has reached the specified backoff limit"
DEADLINE = "[DeadlineExceeded] Job was active longer than specified deadline"
UP = (
    f'resource "urn:pulumi:dev::test::{JOB}::smoke" was successfully created, but the Kubernetes API server reported '
    "that it failed to fully initialize or become live: "
)
FAILED = f"{UP}Resource 'smoke' was created but failed to initialize"
TIMED_OUT = f"{UP}'smoke' timed out waiting to be Ready"
HINT = "the sandbox does not wait for the 600 s after which the provider gives up"


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "NEW_NODE_SEC", 0.0)


@pytest.fixture
def ready(cluster: Cluster) -> Cluster:
    """A cluster of one node with a GPU, and the program."""
    cluster.settings(f"guest: {{}}\nvalues: {{kubernetes: {{nodes: [{NODE}]}}}}\n")
    meta = {"name": "check", "namespace": "default"}
    cluster.up("kubernetes:core/v1:ConfigMap", "check", {"metadata": meta, "binaryData": {"check.pyz": archive()}})
    return cluster


def run(cluster: Cluster, inputs: dict[str, Any], **more: Any) -> Resource:
    return cluster.up(JOB, "smoke", inputs, **more)


def unready(cluster: Cluster, inputs: dict[str, Any]) -> list[str]:
    with pytest.raises(NotReady) as caught:
        run(cluster, inputs)
    assert caught.value.id == "default/smoke"
    return caught.value.reasons


def pods(cluster: Cluster) -> list[str]:
    return [row.outputs["status"]["phase"] for row in cluster.world.find(POD)]


def name(cluster: Cluster) -> str:
    return cluster.world.find(POD)[0].name


def test_a_job_runs_its_program_on_the_node_it_was_given(ready: Cluster) -> None:
    run(ready, check_job())
    (row,) = ready.world.find(JOB)
    status = row.outputs["status"]
    assert (status["succeeded"], status["conditions"]) == (1, [{"type": "Complete", "status": "True"}])
    (pod,) = ready.world.find(POD)
    terminated = {"exitCode": 0, "reason": "Completed", "message": "pass"}
    assert pod.outputs["status"]["containerStatuses"] == [{"name": "smoke", "state": {"terminated": terminated}}]
    assert pod.name.startswith("smoke-")
    assert ready.messages == [
        ("status", 'Waiting for Job "smoke" to succeed (Active: 1 | Succeeded: 0 | Failed: 0)'),
        ("status", "on own index None"),
        ("status", 'Waiting for Job "smoke" to succeed (Active: 0 | Succeeded: 1 | Failed: 0)'),
    ]
    ready.lifecycle.delete(ready.resource(JOB, "smoke", row.inputs, id=row.id))
    assert ready.world.find(POD) == []


def test_what_a_program_wrote_last_is_the_reason_of_the_failure(ready: Cluster) -> None:
    assert unready(ready, check_job({"CODE": "1"})) == [
        FAILED,
        f"[Pod {name(ready)}]: [Error] GPU 0 computes wrong",
        BACKOFF,
    ]
    assert ready.world.find(JOB)[0].outputs["status"]["failed"] == 1


def test_without_a_termination_message_only_the_exit_code_or_the_log_is_reported(ready: Cluster) -> None:
    silent = changed(
        check_job({"CODE": "3"}), "spec/template/spec/containers/0/command", ["python3", "/opt/check/check.pyz"]
    )
    assert unready(ready, silent)[1] == f'[Pod {name(ready)}]: container "smoke" completed with exit code 3'
    ready.lifecycle.delete(ready.resource(JOB, "smoke", silent, id="default/smoke"))
    logged = changed(silent, "spec/template/spec/containers/0/terminationMessagePolicy", "FallbackToLogsOnError")
    assert unready(ready, logged)[1] == f"[Pod {name(ready)}]: [Error] on own index None"


def test_a_job_past_its_deadline_is_ended(ready: Cluster) -> None:
    assert unready(ready, check_job({"SLEEP": "60"}, activeDeadlineSeconds=1)) == [FAILED, DEADLINE]
    assert pods(ready) == []


def test_a_pod_that_fits_nowhere_times_out_without_a_reason_as_it_does_for_pulumi(ready: Cluster) -> None:
    given = changed(job(), "spec/template/spec/nodeSelector", {"gpu": "l4"})
    assert unready(ready, given) == [TIMED_OUT]
    assert pods(ready) == ["Pending"]
    expected = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
    assert ready.messages[1:] == [
        ("info", f"{name(ready)}: FailedScheduling: {expected}"),
        ("info", HINT),
        ("status", 'Waiting for Job "smoke" to succeed (Active: 1 | Succeeded: 0 | Failed: 0)'),
    ]


@pytest.mark.parametrize(
    ("deadline", "timeout", "expected", "left"),
    [
        (600, 0.0, [FAILED, DEADLINE], []),
        (601, 0.0, [TIMED_OUT], ["Pending"]),
        (900, 1800.0, [FAILED, DEADLINE], []),
    ],
)
def test_a_pending_job_meets_its_deadline_which_deletes_its_pod_or_the_patience_of_the_provider(
    ready: Cluster, deadline: int, timeout: float, expected: list[str], left: list[str]
) -> None:
    given = changed(job(activeDeadlineSeconds=deadline), "spec/template/spec/nodeSelector", {"gpu": "l4"})
    with pytest.raises(NotReady) as caught:
        run(ready, given, timeout=timeout)
    assert caught.value.reasons == expected
    assert pods(ready) == left


def test_a_container_of_an_image_alone_succeeds_and_says_that_it_was_not_run(ready: Cluster) -> None:
    run(ready, job())
    assert ready.messages[1] == (
        "info",
        "the sandbox assumes that the container smoke succeeds: it runs only programs in a zip of a ConfigMap",
    )


def test_a_failed_job_stays_failed_at_the_next_up_and_at_a_refresh(ready: Cluster) -> None:
    given = check_job({"CODE": "1"})
    unready(ready, given)
    (row,) = ready.world.find(JOB)
    res = ready.resource(JOB, "smoke", given, id=row.id, old_inputs=given, outputs=row.outputs)
    with pytest.raises(NotReady) as caught:
        ready.cloud.await_ready(res)
    assert caught.value.reasons == [
        (
            'the Kubernetes API server reported that "default/smoke" failed to fully initialize or become live: '
            "Resource 'smoke' was created but failed to initialize"
        ),
        f"[Pod {name(ready)}]: [Error] GPU 0 computes wrong",
        BACKOFF,
    ]
    with pytest.raises(NotReady) as caught:
        ready.lifecycle.read(JOB, row.id, [Decoded({}), Decoded({})])
    assert caught.value.reasons[0] == "Resource 'smoke' was created but failed to initialize"


@pytest.mark.parametrize(("code", "replaces"), [("0", False), ("1", True)])
def test_a_job_that_is_not_ready_is_replaced_where_its_annotation_says_so(
    ready: Cluster, code: str, replaces: bool
) -> None:
    given = changed(check_job({"CODE": code}), "metadata/annotations", {"pulumi.com/replaceUnready": "true"})
    if replaces:
        unready(ready, given)
    else:
        run(ready, given)
    res = ready.resource(JOB, "smoke", given, id="default/smoke", old_inputs=given)
    assert [(one.text, one.replacing) for one in ready.cloud.forced_changes(res)] == (
        [('metadata.annotations["pulumi.com/replaceUnready"]', True)] if replaces else []
    )


def test_a_program_runs_only_where_the_project_says_that_it_may(ready: Cluster) -> None:
    ready.settings("values: {}\n")
    with pytest.raises(Refused) as caught:
        run(ready, check_job())
    text, hint = str(caught.value).split("\n")
    assert text == (
        "the sandbox runs the program of the container smoke on this computer as your user, and sandbox.yaml does not "
        "allow that"
    )
    assert hint.startswith("  hint: add `guest: {}` to sandbox.yaml")
    assert "`environment`, such as GPU_SMOKE_DEVICE: cpu" in hint
    ready.settings("guest: {path: [nowhere]}\n")
    with pytest.raises(Refused) as caught:
        run(ready, check_job())
    assert str(caught.value).splitlines()[0] == "sandbox.yaml: guest.path: folder does not exist"
    assert ready.world.find(JOB) == []


def test_a_secret_of_the_environment_reaches_the_program_and_not_the_world(ready: Cluster) -> None:
    given = check_job({"CODE": "1", "WORDS": "hush-hush"})
    path = ("spec", "template", "spec", "containers", 0, "env", 2, "value")
    with pytest.raises(NotReady) as caught:
        run(ready, given, secrets=frozenset({path}))
    assert caught.value.reasons[1].endswith("hush-hush")
    (pod,) = ready.world.find(POD)
    assert pod.inputs["spec"]["containers"][0]["env"][2]["value"]["secret"].startswith("hmac-sha256:")


def test_the_smoke_check_itself_runs_as_a_program(ready: Cluster, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    # The environment of the tests has no torch, which the check says in its own words.
    python = tmp_path / "bin" / "python3"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I "$@"\n')
    python.chmod(0o755)
    ready.settings(f"guest: {{path: ['{python.parent}'], environment: {{GPU_SMOKE_DEVICE: cpu}}}}\n")
    data = {"check.pyz": smoke_archive()}
    meta = {"name": "smoke", "namespace": "default"}
    ready.up("kubernetes:core/v1:ConfigMap", "smoke", {"metadata": meta, "binaryData": data})
    given = changed(check_job(), "spec/template/spec/volumes/0/configMap/name", "smoke")
    reasons = unready(ready, given)
    assert reasons[1].splitlines()[0] == (
        f"[Pod {name(ready)}]: [Error] importing torch failed: No module named 'torch'"
    )
    state = ready.world.find(POD)[0].outputs["status"]["containerStatuses"][0]["state"]
    assert state["terminated"]["exitCode"] == 2


def test_a_smoke_job_finds_its_containers_separated_from_gpus_and_the_cluster(ready: Cluster) -> None:
    ready.settings("guest: {}\nvalues: {kubernetes: {namespaces: [ci]}}\n")
    config_map = {"metadata": {"name": "check", "namespace": "ci"}, "binaryData": {"gpu_smoke.pyz": smoke_archive()}}
    ready.up("kubernetes:core/v1:ConfigMap", "files", config_map)
    image = f"docker.io/pytorch/pytorch:2.10.0@sha256:{'0' * 64}"
    args = SmokeJobArgs(namespace="ci", pool="l4", image=image, closedToCluster=True)
    computed = {"kubernetes:core/v1:ConfigMap": {"metadata": {"name": "check"}}, JOB: {"status": {"succeeded": 1}}}
    inputs = deploy(lambda: SmokeJob("l4", args), computed=computed).one(":Job").inputs
    pod = inputs["spec"]["template"]["spec"]
    del pod["containers"][0]  # it computes on a GPU
    run(ready, {**inputs, "metadata": {"name": "smoke", "namespace": "ci"}})
    assert ("status", "gpu-smoke: l4: pass: a container that requested no GPU has none") in ready.messages
    pod["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": 2}}
    with pytest.raises(NotReady) as caught:
        run(ready, {**inputs, "metadata": {"name": "with-gpus", "namespace": "ci"}})
    assert "l4: a container that requested no GPU has 2: nvidia0, nvidia1" in "\n".join(caught.value.reasons)
