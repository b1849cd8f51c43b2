"""The volumes of a job: a cache, and scratch space on the disk of the node.

A volume that several pods share must have an access mode for several nodes. Kubernetes does not check that when the pod
is created: the pod stays Pending, or waits for the volume of another node without an end.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from ...args import Args, Integer, StrictBool
from ...errors import invalid
from ..name_types import ResourceName

# The folders of an image with its programs, its users' files and the kernel's files. With separate pods, the container
# hooks mount the job's files at the last three (actions/runner-container-hooks@cf62bcc: packages/k8s/src/k8s/utils.ts,
# containerVolumes).
_SYSTEM = frozenset(
    (
        *("bin", "boot", "dev", "etc", "home", "lib", "lib32", "lib64", "libx32", "proc", "root", "run", "sbin", "sys"),
        *("usr", "var", "__e", "__w", "github"),
    )
)
_FILES = "/opt/gpu-ci"
"""The folder of the runner's hooks (pod.py)."""

_ONE_NODE = ("ReadWriteOnce", "ReadWriteOncePod")


def _mount_path(path: str) -> str:
    if any(part in (".", "..") for part in path.split("/")):
        raise invalid(
            "has a part that is a dot or two dots",
            "wrong-mount-path",
            safe_hint="write the path without it, such as /mnt/cache",
        )
    if path.split("/")[1] in _SYSTEM:
        raise invalid(
            "is in a folder of the image or of the runner, whose files the volume would hide",
            "wrong-mount-path",
            safe_hint="such as /mnt/cache; set variables such as HF_HOME to this path in the workflow",
        )
    if overlap(path, _FILES):
        raise invalid(
            f"would hide {_FILES}, which has the runner's hooks", "wrong-mount-path", safe_hint="such as /mnt/cache"
        )
    return path


def overlap(one: str, other: str) -> bool:
    """Return True if one of the paths is in the other, or both are equal."""
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")


MountPath = Annotated[str, Field(pattern=r"^(/[A-Za-z0-9._-]+)+$", max_length=255), AfterValidator(_mount_path)]
SizeGib = Annotated[Integer, Field(ge=1, le=65536)]


class PerRunnerCache(Args):
    """A new volume for each runner, which is deleted with the runner's job. It can start as a copy of a snapshot."""

    kind: Literal["per-runner"] = Field(
        description="each runner gets a new volume, which is deleted after its job; with snapshot, the volume starts "
        "as a copy of it, so that the job finds the files"
    )
    mount_path: MountPath = Field(default="/mnt/cache", description="the folder of the volume in the job")
    storage_class: ResourceName = Field(
        examples=["gp3"],
        description="storage class of the volume, such as gp3 or hyperdisk-balanced, with volumeBindingMode "
        "WaitForFirstConsumer: else the volume can be in another zone than the node",
    )
    size_gib: SizeGib = Field(examples=[100], description="size of the volume in GiB, 1 to 65536")
    snapshot: ResourceName | None = Field(
        default=None,
        examples=["models"],
        description="a VolumeSnapshot of the namespace, such as models, which is not larger than sizeGib; by default "
        "the volume is empty",
    )


class SharedCache(Args):
    """An existing volume that all runners mount, such as EFS or Filestore."""

    kind: Literal["shared"] = Field(
        description="all runners mount one existing volume, such as EFS or Filestore, at the same time"
    )
    mount_path: MountPath = Field(default="/mnt/cache", description="the folder of the volume in the job")
    claim: ResourceName = Field(
        examples=["models"], description="the PersistentVolumeClaim of the namespace, such as models; it must exist"
    )
    access_mode: Literal["ReadWriteMany", "ReadOnlyMany", "ReadWriteOnce", "ReadWriteOncePod"] = Field(
        default="ReadWriteMany",
        description="the access mode of the claim; ReadWriteOnce and ReadWriteOncePod are only for one runner",
    )
    read_only: StrictBool = Field(
        default=True,
        validate_default=True,
        description="whether jobs can only read the volume; if false, a job can change files that later jobs of any "
        "repository use",
    )

    @field_validator("read_only")
    @classmethod
    def _read_only(cls, value: bool, info: ValidationInfo) -> bool:
        if not value and info.data.get("access_mode") == "ReadOnlyMany":
            raise invalid(
                "is not possible with accessMode ReadOnlyMany",
                "read-only-volume",
                safe_hint="readOnly: true, or a ReadWriteMany claim",
            )
        return value


Cache: TypeAlias = Annotated[PerRunnerCache | SharedCache, Field(discriminator="kind")]


class Scratch(Args):
    """An empty folder on the disk that the node uses for pods. It is deleted after the job."""

    mount_path: MountPath = Field(default="/scratch", description="the folder in the job, such as /scratch or /tmp")
    size_gib: SizeGib = Field(
        examples=[200],
        description="maximum size in GiB, 1 to 65536, which the job requests in addition to ephemeralStorageGib; the "
        "kubelet evicts a job that writes more",
    )


def several_runners(cache: Any, runners: int) -> str:
    """Return why this number of runners cannot share the cache. Return "" if they can, or if the cache is invalid."""
    if not isinstance(cache, SharedCache) or cache.access_mode not in _ONE_NODE or runners == 1:
        return ""
    can_mount = "pods of one node" if cache.access_mode == "ReadWriteOnce" else "one pod"
    return f"is only for {can_mount}, but there can be {runners} runners: all but the first would wait for the volume"


SEVERAL_RUNNERS_HINT = "use a claim with ReadWriteMany, such as one of EFS or Filestore, or cache: {kind: per-runner}"


def requested_disk_gib(ephemeral_storage_gib: int, scratch: Scratch | None) -> int:
    """Return the disk of the node that a job requests. The kubelet counts the files in scratch, too.

    Source: kubernetes.io/docs/concepts/storage/ephemeral-storage, "Local ephemeral storage".
    """
    return ephemeral_storage_gib + (scratch.size_gib if scratch else 0)


def volumes(cache: PerRunnerCache | SharedCache | None, scratch: Scratch | None) -> list[dict[str, Any]]:
    """Return the volumes of the pod in which the job runs."""
    found: list[dict[str, Any]] = []
    if isinstance(cache, PerRunnerCache):
        found.append({"name": "cache", "ephemeral": {"volumeClaimTemplate": {"spec": _claim(cache)}}})
    if isinstance(cache, SharedCache):
        source = {"claimName": cache.claim, "readOnly": cache.read_only}
        found.append({"name": "cache", "persistentVolumeClaim": source})
    if scratch:
        found.append({"name": "scratch", "emptyDir": {"sizeLimit": f"{scratch.size_gib}Gi"}})
    return found


def mounts(cache: PerRunnerCache | SharedCache | None, scratch: Scratch | None) -> list[dict[str, Any]]:
    """Return the mounts of these volumes in the container of the job."""
    found: list[dict[str, Any]] = []
    if cache:
        read_only = {"readOnly": True} if isinstance(cache, SharedCache) and cache.read_only else {}
        found.append({"name": "cache", "mountPath": cache.mount_path, **read_only})
    if scratch:
        found.append({"name": "scratch", "mountPath": scratch.mount_path})
    return found


def ownership(cache: PerRunnerCache | SharedCache | None, group: int) -> dict[str, Any]:
    """Return the pod's security settings with which a group may write to a new volume.

    With the default of fsGroupChangePolicy, the kubelet changes every file of a snapshot's copy before the job starts
    (kubernetes.io/docs/tasks/configure-pod-container/security-context, "Configure volume permission and ownership
    change policy for Pods").
    """
    return {"fsGroup": group, "fsGroupChangePolicy": "OnRootMismatch"} if isinstance(cache, PerRunnerCache) else {}


def _claim(cache: PerRunnerCache) -> dict[str, Any]:
    snapshot = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": cache.snapshot}
    return {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": cache.storage_class,
        "resources": {"requests": {"storage": f"{cache.size_gib}Gi"}},
        **({"dataSource": snapshot} if cache.snapshot else {}),
    }
