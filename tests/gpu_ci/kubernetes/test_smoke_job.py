"""The Job that is the gate of a pool of nodes: its resources, and ways in which it could pass without a check."""

from __future__ import annotations

import base64
import io
import zipfile
from collections.abc import Callable
from typing import Any

import pulumi
import pytest
from gpu_ci.kubernetes import smoke_job
from gpu_ci.kubernetes.smoke_job import SmokeJob, SmokeJobArgs
from gpu_smoke import options

from tests.gpu_ci import harness

JOB = "kubernetes:batch/v1:Job"
CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
MADE = {CONFIG_MAP: {"metadata": {"name": "l4-check-1a2b3c4d"}}}
DONE = {**MADE, JOB: {"status": {"succeeded": 1}}}
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


def test_it_asks_again_when_what_the_nodes_are_made_of_changes() -> None:
    def mark(*rerun_on: str) -> str:
        return str(job(rerunOn=list(rerun_on))["spec"]["template"]["metadata"]["annotations"]["gpu-ci-proves"])

    assert mark("7", "1.36.1-20260714") == mark("7", "1.36.1-20260714")
    assert len({mark("7", "1.36.1-20260714"), mark("8", "1.36.1-20260714"), mark("7", "1.36.2"), mark()}) == 4


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
