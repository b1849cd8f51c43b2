"""The pods of a scale set in the API's own words: the runner, the pod of a job, and the listener."""

from __future__ import annotations

import json
from typing import Any

import pulumi

from .. import gpu_nodes
from ..name_types import CONTAINER_SECURITY, POD_SECURITY, pull_secrets
from .args import KubernetesNovolume, KubernetesVolume, OwnImage, RunnerScaleSetArgs

# actions/runner: images/Dockerfile makes the user `runner` so; a runner image of one's own has to do the same.
RUNNER_UID = 1001
_HAS_JOB = "grep -qsx Runner.Worker /proc/[0-9]*/comm"
# What the runner has to cancel a job and report that to GitHub, before it is killed. Ours.
_CANCEL_SEC = 15
_FOLDER = "/opt/gpu-ci"
_STARTED, _COMPLETED, _JOB_POD = "job-started.sh", "job-completed.sh", "job-pod.json"
_SHM = {"name": "shm", "mountPath": "/dev/shm"}  # noqa: S108 - where CUDA programs share memory between processes
_FILES = {"name": "files", "mountPath": _FOLDER, "readOnly": True}

# A node is not taken away under a job: by the Cluster Autoscaler (its FAQ, "What types of pods can prevent CA from
# removing a node?") nor by Karpenter (karpenter.sh/docs/concepts/disruption, "Pod-Level Controls").
ANNOTATIONS = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "karpenter.sh/do-not-disrupt": "true"}


def in_pods_of_their_own(args: RunnerScaleSetArgs) -> bool:
    """Whether jobs have pods beside the runner's, which then needs no GPU."""
    return isinstance(args.container_mode, KubernetesNovolume | KubernetesVolume)


def files(args: RunnerScaleSetArgs) -> dict[str, str]:
    """What is mounted into the runner: its hooks, and what a job's pod adds to what the workflow says."""
    found = {_STARTED: args.job_started_hook, _COMPLETED: args.job_completed_hook}
    if in_pods_of_their_own(args):
        found[_JOB_POD] = json.dumps(job_pod(args), indent=2, sort_keys=True)
    return {key: text for key, text in found.items() if text}


def template(args: RunnerScaleSetArgs, mounted: pulumi.Output[str] | None) -> dict[str, Any]:
    """The runner's pod; `mounted` is the name of the ConfigMap with its files."""
    own_pods = in_pods_of_their_own(args)
    spec: dict[str, Any] = {
        # Container hooks make pods with the runner's token; no other runner has one.
        "automountServiceAccountToken": own_pods,
        "terminationGracePeriodSeconds": args.termination_grace_sec,
        **pull_secrets(args.image_pull_secrets),
        "securityContext": {**POD_SECURITY, "fsGroup": RUNNER_UID},
        "containers": [_container(args, mounted is not None)],
        "volumes": [
            *([] if own_pods else [_shm_volume(args)]),
            *([_files_volume(mounted)] if mounted is not None else []),
        ],
    }
    # A volume of one node binds the job to the runner's; without one, the runner needs no GPU node's room.
    spec |= {"affinity": gpu_nodes.elsewhere()} if isinstance(args.container_mode, KubernetesNovolume) else _place(args)
    return {"metadata": {"annotations": ANNOTATIONS}, "spec": spec}


def job_pod(args: RunnerScaleSetArgs) -> dict[str, Any]:
    """What the container hooks add to a job's pod (actions/runner-container-hooks: docs/adrs/0134-hook-extensions.md):
    `$job` is the container of the job itself."""
    job = {"name": "$job", "resources": _resources(args, gpus=True), "volumeMounts": [_SHM]}
    spec = {
        **_place(args),
        # mergePodSpecWithOptions lets this list replace that of the workflow's container.credentials
        # (actions/runner-container-hooks@cf62bcc: packages/k8s/src/k8s/utils.ts).
        **pull_secrets(args.image_pull_secrets),
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": args.termination_grace_sec,
        "containers": [job],
        "volumes": [_shm_volume(args)],
    }
    return {"metadata": {"annotations": ANNOTATIONS}, "spec": spec}


def listener() -> dict[str, Any]:
    """The listener's pod, which waits on GitHub for as long as the set is there. Its template replaces all that the
    controller would say of the pod (mergeListenerPodWithTemplate in actions/actions-runner-controller@9bb16ae:
    controllers/actions.github.com/resourcebuilder.go), so its minute to end is said again."""
    return {
        "spec": {
            "affinity": gpu_nodes.elsewhere(),
            "terminationGracePeriodSeconds": 60,
            "securityContext": POD_SECURITY,
            "containers": [{"name": "listener", "securityContext": CONTAINER_SECURITY}],
        }
    }


def container_mode(args: RunnerScaleSetArgs) -> dict[str, Any]:
    """The chart's `containerMode`; nothing where the runner's own container is all there is."""
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


def _container(args: RunnerScaleSetArgs, has_files: bool) -> dict[str, Any]:
    own_pods = in_pods_of_their_own(args)
    rights = {**CONTAINER_SECURITY, "runAsUser": RUNNER_UID, "runAsGroup": RUNNER_UID}
    if args.allow_sudo:  # it needs what the level `restricted` takes away
        rights = {key: rights[key] for key in ("runAsNonRoot", "runAsUser", "runAsGroup")}
    return {
        "name": "runner",  # by this name the chart and the controller find it
        "image": args.image,
        "command": ["/home/runner/run.sh"],
        **_wait_for_job(args.termination_grace_sec),
        "env": [{"name": name, "value": value} for name, value in _environment(args).items()],
        "resources": _runner_resources() if own_pods else _resources(args, gpus=True),
        "volumeMounts": [*([] if own_pods else [_SHM]), *([_FILES] if has_files else [])],
        "securityContext": rights,
    }


def _wait_for_job(grace_sec: int) -> dict[str, Any]:
    """A hook before the signal to end: it waits while a job runs, so that the job has the grace period.

    With RUNNER_MANUALLY_TRAP_SIG, run.sh hands SIGTERM on as SIGINT, at which the runner cancels its job at once
    (actions/runner@258d6c8: src/Misc/layoutroot/run.sh). The kubelet runs the hook first, within the grace period.
    A runner that has a job has a process Runner.Worker.
    """
    wait_sec = grace_sec - _CANCEL_SEC
    if wait_sec <= 0:
        return {}
    script = f"end=$((SECONDS+{wait_sec})); while [ $SECONDS -lt $end ] && {_HAS_JOB}; do sleep 1; done"
    return {"lifecycle": {"preStop": {"exec": {"command": ["bash", "-c", script]}}}}


def _environment(args: RunnerScaleSetArgs) -> dict[str, str]:
    # GitHub's image sets it. Without it, bash as the first process ignores SIGTERM, and an idle runner is killed late.
    found = {"RUNNER_MANUALLY_TRAP_SIG": "1"}
    if args.job_started_hook:
        found["ACTIONS_RUNNER_HOOK_JOB_STARTED"] = f"{_FOLDER}/{_STARTED}"
    if args.job_completed_hook:
        found["ACTIONS_RUNNER_HOOK_JOB_COMPLETED"] = f"{_FOLDER}/{_COMPLETED}"
    mode = args.container_mode
    if isinstance(mode, KubernetesNovolume | KubernetesVolume):
        found["ACTIONS_RUNNER_CONTAINER_HOOK_TEMPLATE"] = f"{_FOLDER}/{_JOB_POD}"
        found["ACTIONS_RUNNER_PREPARE_JOB_TIMEOUT_SECONDS"] = str(mode.prepare_timeout_sec)
    if isinstance(mode, KubernetesVolume):
        # Else the hooks name the node themselves, past the scheduler, and a job without a free GPU fails there.
        found["ACTIONS_RUNNER_USE_KUBE_SCHEDULER"] = "true"
    return found


def _resources(args: RunnerScaleSetArgs, *, gpus: bool) -> dict[str, Any]:
    """CPU and disk have no limit: what is idle may be used. Memory has, or one job's leak ends another's.

    Where a disk is full, the kubelet ends pods first that use more of it than they request
    (kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction, "Pod selection for kubelet eviction").
    """
    requests = {
        "cpu": str(args.cpus),
        "memory": f"{args.memory_gib}Gi",
        "ephemeral-storage": f"{args.ephemeral_storage_gib}Gi",
    }
    devices = gpu_nodes.gpus(args.gpus, args.gpu_resource) if gpus else {"requests": {}, "limits": {}}
    return {
        "requests": {**requests, **devices["requests"]},
        "limits": {"memory": requests["memory"], **devices["limits"]},
    }


def _runner_resources() -> dict[str, Any]:
    """A runner that only hands its job on (pytorch/ci-infra gives it the same)."""
    return {"requests": {"cpu": "750m", "memory": "1Gi"}, "limits": {"memory": "1Gi"}}


def _place(args: RunnerScaleSetArgs) -> dict[str, Any]:
    return {"nodeSelector": gpu_nodes.labels(args.pool), "tolerations": [gpu_nodes.toleration()]}


def _shm_volume(args: RunnerScaleSetArgs) -> dict[str, Any]:
    """Containers get 64 MB of it otherwise, at which data loaders of torch fail."""
    return {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": f"{args.shm_gib}Gi"}}


def _files_volume(name: pulumi.Output[str]) -> dict[str, Any]:
    return {"name": "files", "configMap": {"name": name, "defaultMode": 0o555}}
