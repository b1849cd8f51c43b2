"""The pods of a scale set: the runner, the listener, and the pod of a job.

With the container modes kubernetes and kubernetes-novolume, each job runs in a separate pod. GitHub's container hooks
(actions/runner-container-hooks), which run in the runner, create this pod and add the settings of `job_pod`. With the
other container modes, the job runs in the runner's container.
"""

from __future__ import annotations

import json
from typing import Any

import pulumi

from .. import gpu_nodes, kueue_labels
from ..name_types import CONTAINER_SECURITY, POD_SECURITY, environment, pull_secrets, tolerations
from . import storage
from .args import KubernetesNovolume, KubernetesVolume, OwnImage, RunnerScaleSetArgs

# The image actions/runner creates the user `runner` with this id (images/Dockerfile); a custom runner image must do the
# same.
RUNNER_UID = 1001
# This command succeeds while the runner runs a job.
_HAS_JOB = "grep -qsx Runner.Worker /proc/[0-9]*/comm"
# The time in which the runner cancels its job and reports this to GitHub, before its pod is killed. It is an estimate
# of this project.
_CANCEL_SEC = 15
_FOLDER = "/opt/gpu-ci"
_STARTED, _COMPLETED, _JOB_POD = "job-started.sh", "job-completed.sh", "job-pod.json"
_SHM = {"name": "shm", "mountPath": "/dev/shm"}  # noqa: S108 - where CUDA programs share memory between processes
_FILES = {"name": "files", "mountPath": _FOLDER, "readOnly": True}

# With these annotations of a pod, Cluster Autoscaler and Karpenter do not remove its node (FAQ of Cluster Autoscaler,
# "What types of pods can prevent CA from removing a node?"; karpenter.sh/docs/concepts/disruption, "Pod-Level
# Controls").
ANNOTATIONS = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "karpenter.sh/do-not-disrupt": "true"}


def files(args: RunnerScaleSetArgs) -> dict[str, str]:
    """Return the files that are mounted into the runner: its hooks, and the additions to the pod of a job."""
    texts = {_STARTED: args.job_started_hook, _COMPLETED: args.job_completed_hook}
    if args.jobs_in_pods:
        texts[_JOB_POD] = json.dumps(job_pod(args), indent=2, sort_keys=True)
    return {file: text for file, text in texts.items() if text}


def template(args: RunnerScaleSetArgs, files_name: pulumi.Output[str] | None) -> dict[str, Any]:
    """Return the runner's pod. `files_name` is the ConfigMap with the files of the runner, or None without files."""
    jobs_in_pods = args.jobs_in_pods
    spec: dict[str, Any] = {
        # Container hooks create pods with the runner's token. Other runners have no token.
        "automountServiceAccountToken": jobs_in_pods,
        "terminationGracePeriodSeconds": args.termination_grace_sec,
        **pull_secrets(args.image_pull_secrets),
        "securityContext": {
            **POD_SECURITY,
            "fsGroup": RUNNER_UID,
            **({} if jobs_in_pods else storage.ownership(args.cache, RUNNER_UID)),
        },
        "containers": [_container(args, files_name is not None)],
        "volumes": [
            *([] if jobs_in_pods else _job_volumes(args)),
            *([_files_volume(files_name)] if files_name is not None else []),
        ],
    }
    # With kubernetes-novolume, the runner needs no GPU and runs on another node. With kubernetes, it shares a volume
    # with its job, so both must be on the same node.
    spec |= (
        {"affinity": gpu_nodes.off_gpu_nodes()}
        if isinstance(args.container_mode, KubernetesNovolume)
        else _on_gpu_nodes(args)
    )
    spec |= _priority(args) if not jobs_in_pods else {}
    return {"metadata": _metadata(args, has_gpus=not jobs_in_pods), "spec": spec}


def job_pod(args: RunnerScaleSetArgs) -> dict[str, Any]:
    """Return the settings that the container hooks add to a job's pod. `$job` is the container of the job itself.

    Source: actions/runner-container-hooks: docs/adrs/0134-hook-extensions.md.
    """
    job = {
        "name": "$job",
        # The hooks append these variables to those of the workflow (the same page).
        **({"env": environment(args.environment, [])} if args.environment else {}),
        "resources": _resources(args, gpus=True),
        "volumeMounts": _job_mounts(args),
    }
    owner = storage.ownership(args.cache, RUNNER_UID)
    spec = {
        **_on_gpu_nodes(args),
        **_priority(args),
        # This list replaces the Secret that the hooks create from the workflow's container.credentials
        # (mergePodSpecWithOptions in actions/runner-container-hooks@cf62bcc: packages/k8s/src/k8s/utils.ts).
        **pull_secrets(args.image_pull_secrets),
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": args.termination_grace_sec,
        # The user of the job's image is unknown. Every user of the pod is in this group.
        **({"securityContext": owner} if owner else {}),
        "containers": [job],
        "volumes": _job_volumes(args),
    }
    return {"metadata": _metadata(args, has_gpus=True), "spec": spec}


def listener() -> dict[str, Any]:
    """Return the pod of the listener, which gets jobs from GitHub as long as the set exists.

    This template replaces all settings of the controller for the pod. So it repeats the grace period of one minute
    (mergeListenerPodWithTemplate in actions/actions-runner-controller@9bb16ae:
    controllers/actions.github.com/resourcebuilder.go).
    """
    return {
        "spec": {
            "affinity": gpu_nodes.off_gpu_nodes(),
            "terminationGracePeriodSeconds": 60,
            "securityContext": POD_SECURITY,
            "containers": [{"name": "listener", "securityContext": CONTAINER_SECURITY}],
        }
    }


def container_mode(args: RunnerScaleSetArgs) -> dict[str, Any]:
    """Return the chart's `containerMode`, or an empty dict if jobs run in the runner's own container."""
    mode = args.container_mode
    if isinstance(mode, OwnImage):
        return {}
    claim = {}
    if isinstance(mode, KubernetesVolume):
        claim["kubernetesModeWorkVolumeClaim"] = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": mode.storage_class,
            "resources": {"requests": {"storage": f"{mode.work_gib}Gi"}},
        }
    return {"containerMode": {"type": mode.kind, **claim}}


def _metadata(args: RunnerScaleSetArgs, *, has_gpus: bool) -> dict[str, Any]:
    """Return the metadata of a pod. Only pods with GPUs wait in a queue of Kueue, which counts nothing else."""
    labels = {kueue_labels.QUEUE: args.queue} if args.queue and has_gpus else {}
    if labels and args.priority_class_name:
        labels[kueue_labels.PRIORITY_CLASS] = args.priority_class_name
    return {**({"labels": labels} if labels else {}), "annotations": ANNOTATIONS}


def _container(args: RunnerScaleSetArgs, has_files: bool) -> dict[str, Any]:
    jobs_in_pods = args.jobs_in_pods
    security = {**CONTAINER_SECURITY, "runAsUser": RUNNER_UID, "runAsGroup": RUNNER_UID}
    if args.allow_sudo:  # sudo needs privileges that the level `restricted` does not allow
        security = {key: security[key] for key in ("runAsNonRoot", "runAsUser", "runAsGroup")}
    return {
        "name": "runner",  # the chart and the controller find the container by this name
        "image": args.image,
        "command": ["/home/runner/run.sh"],
        **_wait_for_job(args.termination_grace_sec),
        "env": environment({} if jobs_in_pods else args.environment, _environment(args)),
        "resources": _runner_resources() if jobs_in_pods else _resources(args, gpus=True),
        "volumeMounts": [*([] if jobs_in_pods else _job_mounts(args)), *([_FILES] if has_files else [])],
        "securityContext": security,
    }


def _wait_for_job(grace_sec: int) -> dict[str, Any]:
    """Return a preStop hook that waits while a job runs, so that the job can use the grace period.

    The kubelet first runs the hook and then sends SIGTERM, both within the grace period. After SIGTERM, the runner
    cancels its job at once: with RUNNER_MANUALLY_TRAP_SIG, run.sh passes SIGTERM on as SIGINT (actions/runner@258d6c8:
    src/Misc/layoutroot/run.sh). While a job runs, the runner has a process Runner.Worker.
    """
    wait_sec = grace_sec - _CANCEL_SEC
    if wait_sec <= 0:
        return {}
    script = f"end=$((SECONDS+{wait_sec})); while [ $SECONDS -lt $end ] && {_HAS_JOB}; do sleep 1; done"
    return {"lifecycle": {"preStop": {"exec": {"command": ["bash", "-c", script]}}}}


def _environment(args: RunnerScaleSetArgs) -> list[dict[str, str]]:
    # GitHub's image sets this variable, but a custom image may not. Without it, bash ignores SIGTERM as the first
    # process of the container, so an idle runner would end only after the grace period.
    values = {"RUNNER_MANUALLY_TRAP_SIG": "1"}
    if args.job_started_hook:
        values["ACTIONS_RUNNER_HOOK_JOB_STARTED"] = f"{_FOLDER}/{_STARTED}"
    if args.job_completed_hook:
        values["ACTIONS_RUNNER_HOOK_JOB_COMPLETED"] = f"{_FOLDER}/{_COMPLETED}"
    mode = args.container_mode
    if isinstance(mode, KubernetesNovolume | KubernetesVolume):
        values["ACTIONS_RUNNER_CONTAINER_HOOK_TEMPLATE"] = f"{_FOLDER}/{_JOB_POD}"
        values["ACTIONS_RUNNER_PREPARE_JOB_TIMEOUT_SECONDS"] = str(mode.prepare_timeout_sec)
    if isinstance(mode, KubernetesVolume):
        # Without this variable, the hooks choose the node of a job themselves. They do not check that its GPUs are
        # free, so the job may fail.
        values["ACTIONS_RUNNER_USE_KUBE_SCHEDULER"] = "true"
    return [{"name": name, "value": value} for name, value in values.items()]


def _resources(args: RunnerScaleSetArgs, *, gpus: bool) -> dict[str, Any]:
    """Return the resources of a job. CPU and disk have no limit, so that jobs can use idle capacity.

    Memory has a limit, because a memory leak of one job could otherwise end another job. If a disk is full, the kubelet
    first evicts pods that use more than they request
    (kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction, "Pod selection for kubelet eviction").
    """
    requests = {
        "cpu": str(args.cpus),
        "memory": f"{args.memory_gib}Gi",
        "ephemeral-storage": f"{storage.requested_disk_gib(args.ephemeral_storage_gib, args.scratch)}Gi",
    }
    devices = gpu_nodes.gpus(args.gpus, args.gpu_resource) if gpus else {"requests": {}, "limits": {}}
    return {
        "requests": {**requests, **devices["requests"]},
        "limits": {"memory": requests["memory"], **devices["limits"]},
    }


def _runner_resources() -> dict[str, Any]:
    """Return the resources of a runner whose jobs run in separate pods. pytorch/ci-infra uses the same values."""
    return {"requests": {"cpu": "750m", "memory": "1Gi"}, "limits": {"memory": "1Gi"}}


def _priority(args: RunnerScaleSetArgs) -> dict[str, Any]:
    """Return the class of a pod with GPUs that is in no queue. Kueue sorts its queues by a label instead."""
    return {"priorityClassName": args.priority_class_name} if args.priority_class_name and not args.queue else {}


def _on_gpu_nodes(args: RunnerScaleSetArgs) -> dict[str, Any]:
    return {"nodeSelector": gpu_nodes.labels(args.pool), "tolerations": tolerations(args.tolerations)}


def _job_volumes(args: RunnerScaleSetArgs) -> list[dict[str, Any]]:
    return [_shm_volume(args), *storage.volumes(args.cache, args.scratch)]


def _job_mounts(args: RunnerScaleSetArgs) -> list[dict[str, Any]]:
    return [_SHM, *storage.mounts(args.cache, args.scratch)]


def _shm_volume(args: RunnerScaleSetArgs) -> dict[str, Any]:
    """Return the volume for shared memory. The default of 64 MB is too small for torch's data loaders."""
    return {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": f"{args.shm_gib}Gi"}}


def _files_volume(name: pulumi.Output[str]) -> dict[str, Any]:
    return {"name": "files", "configMap": {"name": name, "defaultMode": 0o555}}
