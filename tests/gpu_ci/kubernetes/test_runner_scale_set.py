"""The resources of a runner scale set, and the values of its chart."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pulumi_kubernetes as kubernetes
import pytest
from google.protobuf import json_format
from gpu_ci import versions
from gpu_ci.kubernetes.runner_scale_set import RunnerScaleSet, RunnerScaleSetArgs
from gpu_ci.monitoring.kubernetes import listener_metrics
from gpu_common import pulumi_wire

from tests.gpu_ci.harness import deploy
from tests.gpu_ci.kubernetes.clusters import scale_set, values
from tests.gpu_ci.kubernetes.test_arc_controller import OFF_GPU_NODES
from tests.gpu_ci.support import COMPUTED, CONTROLLER, scale_set_wiring

IMAGE = RunnerScaleSet.EXAMPLE["image"]
SHM = {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "2Gi"}}
SHM_MOUNT = {"name": "shm", "mountPath": "/dev/shm"}  # noqa: S108 - as the component says it
FILES = {"name": "files", "configMap": {"name": "files-1", "defaultMode": 0o555}}
FILES_MOUNT = {"name": "files", "mountPath": "/opt/gpu-ci", "readOnly": True}
KEPT = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "karpenter.sh/do-not-disrupt": "true"}
PLACE = {
    "nodeSelector": {"gpu-ci-pool": "l4", "nvidia.com/gpu.present": "true"},
    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Equal", "value": "present", "effect": "NoSchedule"}],
}
STRICT = {"runAsNonRoot": True, "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
SECCOMP = {"seccompProfile": {"type": "RuntimeDefault"}}
JOB_RESOURCES = {
    "requests": {"cpu": "4", "memory": "16Gi", "ephemeral-storage": "10Gi", "nvidia.com/gpu": "1"},
    "limits": {"memory": "16Gi", "nvidia.com/gpu": "1"},
}
WAIT = "end=$((SECONDS+75)); while [ $SECONDS -lt $end ] && grep -qsx Runner.Worker /proc/[0-9]*/comm; do sleep 1; done"
TRAP = {"name": "RUNNER_MANUALLY_TRAP_SIG", "value": "1"}
NOVOLUME = {"kind": "kubernetes-novolume"}
VOLUME = {"kind": "kubernetes", "storageClass": "gp3", "workGib": 50, "prepareTimeoutSec": 900}


def environment(**changes: Any) -> dict[str, str]:
    [container] = values(scale_set(**changes))["template"]["spec"]["containers"]
    return {each["name"]: each["value"] for each in container["env"]}


def test_the_release_is_the_pinned_chart_named_as_jobs_name_the_set() -> None:
    made = scale_set()
    release = made.one(":Release")
    assert {key: value for key, value in release.inputs.items() if key != "values"} == {
        "name": "gpu",
        "namespace": "gpu-ci",
        "chart": "oci://ghcr.io/actions/actions-runner-controller-charts/gha-runner-scale-set"
        "@sha256:579e3a1bdf4032b3c3de3e9b0880a4a6d3c1989a67c06010f680c1cc49524d11",
        "version": "0.14.2",
        "timeout": 3600,
        "compat": "true",
    }
    assert made.outputs[made.rows[0].urn] == {"scaleSetName": "gpu"}


def test_its_values_are_these_and_no_others() -> None:
    found = values(scale_set())
    assert found.pop("listenerMetrics") == listener_metrics()
    assert found == {
        "githubConfigUrl": "https://github.com/acme",
        "githubConfigSecret": "app-1",
        "runnerGroup": "gpu",
        "runnerScaleSetName": "gpu",
        "maxRunners": 4,
        "minRunners": 0,
        "controllerServiceAccount": {"name": "arc", "namespace": "arc-systems"},
        "listenerTemplate": {
            "spec": {
                "affinity": OFF_GPU_NODES,
                "terminationGracePeriodSeconds": 60,
                "securityContext": SECCOMP,
                "containers": [{"name": "listener", "securityContext": STRICT}],
            }
        },
        "template": {
            "metadata": {"annotations": KEPT},
            "spec": {
                **PLACE,
                "automountServiceAccountToken": False,
                "terminationGracePeriodSeconds": 90,
                "securityContext": {**SECCOMP, "fsGroup": 1001},
                "containers": [
                    {
                        "name": "runner",
                        "image": IMAGE,
                        "command": ["/home/runner/run.sh"],
                        "lifecycle": {"preStop": {"exec": {"command": ["bash", "-c", WAIT]}}},
                        "env": [
                            TRAP,
                            {"name": "ACTIONS_RUNNER_HOOK_JOB_STARTED", "value": "/opt/gpu-ci/job-started.sh"},
                        ],
                        "resources": JOB_RESOURCES,
                        "volumeMounts": [SHM_MOUNT, FILES_MOUNT],
                        "securityContext": {**STRICT, "runAsUser": 1001, "runAsGroup": 1001},
                    }
                ],
                "volumes": [SHM, FILES],
            },
        },
    }


def test_without_hooks_there_is_nothing_to_mount() -> None:
    made = scale_set(jobStartedHook=None)
    spec = values(made)["template"]["spec"]
    assert made.of(":ConfigMap") == []
    assert spec["volumes"] == [SHM]
    assert spec["containers"][0]["volumeMounts"] == [SHM_MOUNT]
    assert spec["containers"][0]["env"] == [TRAP]


def test_hooks_are_files_the_runner_runs_before_and_after_a_job() -> None:
    done = "#!/bin/sh\ndocker system prune\n"
    made = scale_set(jobCompletedHook=done)
    assert made.one(":ConfigMap").inputs["data"] == {
        "job-started.sh": "#!/usr/bin/env bash\nnvidia-smi\n",
        "job-completed.sh": done,
    }
    assert environment(jobCompletedHook=done) == {
        "ACTIONS_RUNNER_HOOK_JOB_STARTED": "/opt/gpu-ci/job-started.sh",
        "ACTIONS_RUNNER_HOOK_JOB_COMPLETED": "/opt/gpu-ci/job-completed.sh",
        "RUNNER_MANUALLY_TRAP_SIG": "1",
    }


def test_private_images_are_pulled_with_the_named_secrets_by_runners_and_by_pods_of_jobs() -> None:
    made = scale_set(imagePullSecrets=["ghcr", "nvcr.io"], containerMode=VOLUME)
    named = [{"name": "ghcr"}, {"name": "nvcr.io"}]
    assert values(made)["template"]["spec"]["imagePullSecrets"] == named
    job = json.loads(made.one(":ConfigMap").inputs["data"]["job-pod.json"])
    assert job["spec"]["imagePullSecrets"] == named


@pytest.mark.parametrize(("worker", "waited"), [("Runner.Worker", True), ("Runner.Listener", False)])
def test_a_runner_with_a_job_has_its_grace_period_and_an_idle_one_ends_at_once(
    tmp_path: Path, worker: str, waited: bool
) -> None:
    """Runs the hook in bash over a folder like /proc, whose process ends while the hook sleeps for the first time."""
    [container] = values(scale_set(terminationGraceSec=90))["template"]["spec"]["containers"]
    *bash, script = container["lifecycle"]["preStop"]["exec"]["command"]
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "comm").write_text(f"{worker}\n")
    slept = f"sleep() {{ echo slept; echo bash > {tmp_path}/7/comm; }}; "
    found = subprocess.run([*bash, slept + script.replace("/proc", str(tmp_path))], capture_output=True, text=True)
    assert (found.stdout, found.stderr) == ("slept\n" if waited else "", "")


def test_a_job_that_outlives_its_grace_period_is_cancelled_before_its_runner_is_killed() -> None:
    [container] = values(scale_set(terminationGraceSec=16))["template"]["spec"]["containers"]
    assert "SECONDS+1)" in container["lifecycle"]["preStop"]["exec"]["command"][2]
    [container] = values(scale_set(terminationGraceSec=15))["template"]["spec"]["containers"]
    assert "lifecycle" not in container


def test_sizes_and_gpus_are_as_asked_for() -> None:
    sizes = {"gpus": 8, "cpus": 90, "memoryGib": 1000, "ephemeralStorageGib": 400, "shmGib": 64}
    spec = values(scale_set(**sizes, gpuResource="nvidia.com/mig-1g.10gb"))
    assert spec["template"]["spec"]["containers"][0]["resources"] == {
        "requests": {
            "cpu": "90",
            "memory": "1000Gi",
            "ephemeral-storage": "400Gi",
            "nvidia.com/mig-1g.10gb": "8",
        },
        "limits": {"memory": "1000Gi", "nvidia.com/mig-1g.10gb": "8"},
    }
    assert spec["template"]["spec"]["volumes"][0]["emptyDir"] == {"medium": "Memory", "sizeLimit": "64Gi"}


def test_sudo_takes_back_no_more_than_it_needs() -> None:
    [container] = values(scale_set(allowSudo=True))["template"]["spec"]["containers"]
    assert container["securityContext"] == {"runAsNonRoot": True, "runAsUser": 1001, "runAsGroup": 1001}


@pytest.mark.parametrize("mode", [NOVOLUME, VOLUME], ids=["novolume", "volume"])
def test_jobs_in_pods_of_their_own_have_the_gpus_and_their_runner_has_none(mode: dict[str, Any]) -> None:
    made = scale_set(containerMode=mode)
    spec = values(made)["template"]["spec"]
    [container] = spec["containers"]
    assert container["resources"] == {"requests": {"cpu": "750m", "memory": "1Gi"}, "limits": {"memory": "1Gi"}}
    assert (spec["automountServiceAccountToken"], spec["volumes"]) == (True, [FILES])
    assert json.loads(made.one(":ConfigMap").inputs["data"]["job-pod.json"]) == {
        "metadata": {"annotations": KEPT},
        "spec": {
            **PLACE,
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 90,
            "containers": [{"name": "$job", "resources": JOB_RESOURCES, "volumeMounts": [SHM_MOUNT]}],
            "volumes": [SHM],
        },
    }


def test_the_chart_and_the_hooks_get_each_container_mode() -> None:
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "gp3",
        "resources": {"requests": {"storage": "50Gi"}},
    }
    trap = {TRAP["name"]: TRAP["value"]}
    hook = {"ACTIONS_RUNNER_CONTAINER_HOOK_TEMPLATE": "/opt/gpu-ci/job-pod.json"}
    found = {
        mode["kind"]: (
            values(scale_set(containerMode=mode, jobStartedHook=None)).get("containerMode"),
            environment(containerMode=mode, jobStartedHook=None),
        )
        for mode in ({"kind": "none"}, NOVOLUME, VOLUME, {"kind": "dind", "nodeGpus": 1})
    }
    assert found == {
        "none": (None, trap),
        "kubernetes-novolume": (
            {"type": "kubernetes-novolume"},
            hook | trap | {"ACTIONS_RUNNER_PREPARE_JOB_TIMEOUT_SECONDS": "1800"},
        ),
        "kubernetes": (
            {"type": "kubernetes", "kubernetesModeWorkVolumeClaim": claim},
            hook
            | trap
            | {"ACTIONS_RUNNER_PREPARE_JOB_TIMEOUT_SECONDS": "900", "ACTIONS_RUNNER_USE_KUBE_SCHEDULER": "true"},
        ),
        "dind": ({"type": "dind"}, trap),
    }


def test_the_app_is_in_a_secret_and_nowhere_in_plain() -> None:
    made = scale_set()
    assert made.one(":Secret").inputs["stringData"] == {
        pulumi_wire.SIGNATURE: pulumi_wire.SECRET,
        "value": {
            "github_app_id": "1234567",
            "github_app_installation_id": "7654321",
            "github_app_private_key": "-----BEGIN RSA PRIVATE KEY-----\nhush-hush\n-----END RSA PRIVATE KEY-----\n",
        },
    }
    others = [json_format.MessageToJson(row.request) for row in made.rows if not row.type.endswith(":Secret")]
    assert [word for word in ("hush-hush", "1234567", "7654321") if any(word in text for text in others)] == []


def test_what_the_chart_cannot_change_in_place_makes_the_set_anew_and_deletes_it_first() -> None:
    def trigger(**changes: Any) -> Any:
        request = scale_set(**changes).one(":Release").request
        assert request.deleteBeforeReplace is True
        return json_format.MessageToDict(request.replacement_trigger)

    assert trigger() == ["https://github.com/acme", "gpu", [], "0.14"]
    assert trigger(scaleSetLabels=["l4"], runnerGroup="slow", max=9) == [
        "https://github.com/acme",
        "slow",
        ["l4"],
        "0.14",
    ]
    assert trigger(githubConfigUrl="https://github.com/acme/web", runnerGroup=None)[:2] == [
        "https://github.com/acme/web",
        "",
    ]
    patched = {**CONTROLLER, "version": f"{versions.ARC_CHARTS.rpartition('.')[0]}.9"}
    assert trigger(controller=patched) == trigger()


def test_its_name_is_known_once_the_controller_has_the_id_that_github_gave_the_set() -> None:
    """Brackets, as the path is one of RFC 9535, whose short names have no dash."""
    made = scale_set()
    patch = made.one(":AutoscalingRunnerSetPatch")
    assert patch.inputs["metadata"] == {
        "name": "gpu",
        "namespace": "gpu-ci",
        "annotations": {"pulumi.com/waitFor": 'jsonpath={.metadata.annotations["runner-scale-set-id"]}'},
    }
    assert patch.request.customTimeouts.create == "180s"
    assert made.one(":Release").urn in patch.request.dependencies


def test_what_takes_its_name_waits_for_the_registration() -> None:
    def program() -> None:
        made = RunnerScaleSet("gpu", RunnerScaleSetArgs(**RunnerScaleSet.EXAMPLE, **scale_set_wiring()))
        kubernetes.core.v1.ConfigMap("user", data={"runs-on": made.scale_set_name})

    made = deploy(program, computed=COMPUTED)
    [user] = [row for row in made.rows if row.urn.endswith("::user")]
    assert made.one(":AutoscalingRunnerSetPatch").urn in user.request.dependencies
