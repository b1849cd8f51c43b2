"""The Job that is the gate of a pool of nodes: its resources, and ways in which it could pass without a check."""

from __future__ import annotations

import base64
import io
import zipfile
from collections.abc import Callable
from typing import Any

import pulumi
import pytest
from gpu_ci.kubernetes import gpu_nodes, smoke_job
from gpu_ci.kubernetes.smoke_job import SmokeJob, SmokeJobArgs
from gpu_smoke import options

from tests.gpu_ci import harness

JOB = "kubernetes:batch/v1:Job"
CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
MADE = {CONFIG_MAP: {"metadata": {"name": "l4-check-1a2b3c4d"}}}
DONE = {**MADE, JOB: {"status": {"succeeded": 1}}}
NODES = {"gpu-ci-pool": "l4-nodes", "nvidia.com/gpu.present": "true"}
IMAGE = f"docker.io/pytorch/pytorch:2.10.0-cuda13.0-cudnn9-runtime@sha256:{'0' * 64}"


def args(**changes: Any) -> SmokeJobArgs:
    return SmokeJobArgs(**{"namespace": "gpu-ci", "pool": "l4-nodes", "image": IMAGE, "gpu": "NVIDIA L4", **changes})


def job(**changes: Any) -> dict[str, Any]:
    deployment = harness.deploy(lambda: SmokeJob("l4", args(**changes)), computed=DONE)
    [row] = [row for row in deployment.rows if row.type == JOB]
    return row.inputs


def pod(**changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = job(**changes)["spec"]["template"]["spec"]
    return found


def test_it_runs_on_the_nodes_it_is_given_and_nowhere_else() -> None:
    spec = pod()
    assert spec["nodeSelector"] == NODES
    assert spec["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Equal", "value": "present", "effect": "NoSchedule"}
    ]
    assert "affinity" not in spec


def test_it_also_selects_the_nodes_by_labels_of_the_caller_but_never_those_of_another_pool() -> None:
    more = {"cloud.google.com/gke-nodepool": "l4-new", "gpu-ci-pool": "another"}
    assert pod(nodeLabels=more)["nodeSelector"] == NODES | {"cloud.google.com/gke-nodepool": "l4-new"}


@pytest.mark.parametrize("gpus", [1, 8])
def test_it_takes_every_gpu_of_the_node_and_expects_as_many(gpus: int) -> None:
    [container, unasked] = pod(gpus=gpus)["containers"]
    assert gpu_nodes.RESOURCE not in unasked["resources"]["requests"] | unasked["resources"]["limits"]
    for side in ("requests", "limits"):
        assert container["resources"][side][gpu_nodes.RESOURCE] == str(gpus)
    words = container["command"]
    assert words[words.index("--expect-gpus") + 1] == str(gpus)


def test_the_check_reads_its_own_words() -> None:
    [container, _] = pod(gpus=4, minComputeCapability="8.9")["containers"]
    chosen = options.parse(container["command"][2:], {})
    assert (chosen.device, chosen.expect_gpus, chosen.expect_gpu) == ("cuda", 4, "NVIDIA L4")
    assert (chosen.min_compute_capability, chosen.pool) == ("8.9", "l4-nodes")
    assert chosen.termination_log == container["terminationMessagePath"]


def test_beside_it_runs_one_that_asked_for_no_gpu_in_an_image_that_would_have_all() -> None:
    [check, unasked] = pod()["containers"]
    assert (unasked["image"], unasked["env"]) == (check["image"], [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}])
    chosen = options.parse(unasked["command"][2:], {})
    assert (chosen.no_gpu_in, chosen.pool) == ("/dev", "l4-nodes")
    assert chosen.termination_log == unasked["terminationMessagePath"]
    assert unasked["resources"] == {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "128Mi"}}


def test_it_also_tries_the_clusters_api_server_where_policies_are_to_close_it() -> None:
    [_, container] = pod(closedToCluster=True)["containers"]
    variables = {"$(KUBERNETES_SERVICE_HOST)": "10.100.0.1", "$(KUBERNETES_SERVICE_PORT)": "443"}
    words = list(container["command"][2:])
    for name, value in variables.items():
        words = [word.replace(name, value) for word in words]
    assert options.parse(words, {}).closed_to == ("10.100.0.1", 443)
    assert "--closed-to" not in pod()["containers"][1]["command"]


def test_all_of_it_is_found_by_the_label_of_the_pool_it_proves() -> None:
    rows = harness.deploy(lambda: SmokeJob("l4", args()), computed=DONE).rows
    made = [row.inputs for row in rows if row.type in (CONFIG_MAP, JOB)]
    labelled = [given["metadata"] for given in made] + [made[1]["spec"]["template"]["metadata"]]
    assert [meta["labels"] for meta in labelled] == [{"gpu-ci-pool": "l4-nodes"}] * 3


def test_the_check_it_carries_is_the_check() -> None:
    rows = harness.deploy(lambda: SmokeJob("l4", args()), computed=DONE).rows
    [given] = [row.inputs for row in rows if row.type == CONFIG_MAP]
    assert given["immutable"] is True
    archive = base64.b64decode(given["binaryData"]["gpu_smoke.pyz"])
    assert "gpu_smoke/checks.py" in zipfile.ZipFile(io.BytesIO(archive)).namelist()
    # kubernetes.io/docs/concepts/configuration/configmap: "The data stored in a ConfigMap cannot exceed 1 MiB."
    assert len(given["binaryData"]["gpu_smoke.pyz"]) < 1_048_576


def test_it_never_ends_in_a_way_that_pulumi_waits_on() -> None:
    """podFailurePolicy and backoffLimitPerIndex end a Job for reasons that Pulumi's await does not know."""
    spec = job()["spec"]
    assert {"podFailurePolicy", "backoffLimitPerIndex", "maxFailedIndexes"} & set(spec) == set()
    assert spec["backoffLimit"] == 0
    assert spec["template"]["spec"]["restartPolicy"] == "Never"


def test_the_jobs_own_deadline_comes_before_pulumis_which_starts_anew_at_every_event() -> None:
    rows = harness.deploy(lambda: SmokeJob("l4", args(deadlineSec=900)), computed=DONE).rows
    [row] = [row for row in rows if row.type == JOB]
    assert row.inputs["spec"]["activeDeadlineSeconds"] == 900
    assert row.request.customTimeouts.create == "1200s"


def test_a_job_that_failed_is_made_anew_and_one_that_ended_stays_to_be_read() -> None:
    given = job()
    assert given["metadata"]["annotations"]["pulumi.com/replaceUnready"] == "true"
    assert "ttlSecondsAfterFinished" not in given["spec"]
    assert "name" not in given["metadata"]


def test_nothing_takes_its_node_away_while_it_runs_and_its_last_words_are_kept() -> None:
    spec = job()["spec"]
    kept = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "karpenter.sh/do-not-disrupt": "true"}
    assert kept.items() <= spec["template"]["metadata"]["annotations"].items()
    policies = [container["terminationMessagePolicy"] for container in spec["template"]["spec"]["containers"]]
    assert policies == ["FallbackToLogsOnError"] * 2


@pytest.mark.parametrize(("gpus", "memory"), [(1, "6Gi"), (8, "34Gi")])
def test_it_has_room_for_a_process_a_gpu_and_for_what_they_share(gpus: int, memory: str) -> None:
    spec = pod(gpus=gpus)
    assert spec["containers"][0]["resources"]["requests"]["ephemeral-storage"] == "2Gi"
    assert [spec["containers"][0]["resources"][side]["memory"] for side in ("requests", "limits")] == [memory] * 2
    assert spec["volumes"][2] == {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}


def test_the_check_gives_up_long_before_the_shortest_deadline_of_its_job() -> None:
    words = pod(deadlineSec=600)["containers"][0]["command"]
    assert words[words.index("--deadline-sec") + 1] == "300"


def test_it_asks_again_when_what_the_nodes_are_made_of_changes() -> None:
    def mark(*rerun_on: str) -> str:
        return str(job(rerunOn=list(rerun_on))["spec"]["template"]["metadata"]["annotations"]["gpu-ci-proves"])

    assert mark("7", "1.36.1-20260714") == mark("7", "1.36.1-20260714")
    assert len({mark("7", "1.36.1-20260714"), mark("8", "1.36.1-20260714"), mark("7", "1.36.2"), mark()}) == 4


def test_its_pod_may_do_nothing_but_compute() -> None:
    spec = pod()
    assert (spec["automountServiceAccountToken"], spec["enableServiceLinks"]) == (False, False)
    assert spec["securityContext"] == {
        "runAsUser": 1000,
        "runAsGroup": 1000,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    nothing = {
        "runAsNonRoot": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    assert [container["securityContext"] for container in spec["containers"]] == [
        nothing,
        {**nothing, "readOnlyRootFilesystem": True},
    ]
    assert [sorted(set(volume) - {"name"}) for volume in spec["volumes"]] == [["configMap"], ["emptyDir"], ["emptyDir"]]


CACHES = ["TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "CUDA_CACHE_PATH", "XDG_CACHE_HOME"]


def test_it_runs_as_the_images_own_user_in_that_users_home_and_writes_caches_to_tmp() -> None:
    spec = pod(runAsUser=1001)
    assert (spec["securityContext"]["runAsUser"], spec["securityContext"]["runAsGroup"]) == (1001, 1001)
    own = spec["containers"][0]["env"]
    assert [one["name"] for one in own] == CACHES
    assert {one["value"].startswith("/tmp/") for one in own} == {True}  # noqa: S108 - the pod's own
    other = pod()["containers"][0]["env"]
    assert other == [{"name": "HOME", "value": "/tmp"}, *own]  # noqa: S108


def test_its_image_is_pulled_with_the_named_secrets() -> None:
    assert pod(imagePullSecrets=["ghcr"])["imagePullSecrets"] == [{"name": "ghcr"}]
    assert "imagePullSecrets" not in pod()


def test_its_verdict_is_there_once_the_job_has_succeeded() -> None:
    deployment = harness.deploy(lambda: SmokeJob("l4", args()), computed=DONE)
    assert deployment.outputs[deployment.rows[0].urn] == {"verdict": "pass", "provenNodes": 1}


@pytest.mark.parametrize("status", [{}, {"active": 1}, {"failed": 1}, {"succeeded": 0}])
def test_a_job_that_nobody_waited_for_is_no_pass(status: dict[str, Any]) -> None:
    with pytest.raises(pulumi.RunError, match="the smoke Job has not succeeded, so it does not prove the GPUs"):
        harness.deploy(lambda: SmokeJob("l4", args()), computed={**MADE, JOB: {"status": status}})


def test_after_a_failed_check_a_warning_has_the_consequence_and_a_hint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Pulumi's report of the Job says neither."""
    hooks: dict[str, Callable[[Any], Any]] = {}
    said: list[str] = []
    monkeypatch.setattr(smoke_job, "monitor_supports_feature", lambda _: True)
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: False)
    monkeypatch.setattr(pulumi, "ErrorHook", lambda name, told: hooks.setdefault(name, told))
    monkeypatch.setattr(pulumi.log, "warn", lambda text, _: said.append(text))
    owner = pulumi.Resource.__new__(pulumi.Resource)
    options = smoke_job.after_failure(
        owner, "l4-job-failed", lambda failed: smoke_job._failure_warning("l4", failed), ("create",)
    )
    assert options["hooks"].on_error == [hooks["l4-job-failed"]]
    inputs = {"metadata": {"namespace": "gpu-ci"}}
    removed, made = (
        pulumi.ErrorHookArgs("", "", "l4-job", JOB, new_inputs=inputs, failed_operation=word)
        for word in ("delete", "create")
    )
    assert (hooks["l4-job-failed"](removed), said) == (False, [])
    assert hooks["l4-job-failed"](made) is False, "it would be tried again at once"
    assert said == [
        (
            "l4: the check did not pass, so no dependent resource was created or changed: an existing "
            "scale set keeps its image and settings, and a new scale set is not created. The nodes are already "
            "changed\n"
            "  hint: kubectl get events --namespace gpu-ci shows why a pod did not start; fix the cause, or revert "
            "the change; the next pulumi up repeats the check"
        )
    ]


def test_an_engine_that_knows_no_such_hooks_is_not_asked_for_one() -> None:
    owner = pulumi.Resource.__new__(pulumi.Resource)
    assert smoke_job.after_failure(owner, "l4-job-failed", lambda _: "l4", ("create",)) == {}
