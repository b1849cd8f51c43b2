"""A kubelet without containers: runs the containers of scheduled pods as processes of this machine, in bubblewrap.

Tekton's own entrypoint runs in each container, so the order of steps, results and exit codes are those of Tekton. The
kubelet ignores images, limits and security contexts, and it mounts what pods of Tekton mount: empty folders,
ConfigMaps, downward API files, and claims.
"""

from __future__ import annotations

import base64
import contextlib
import shutil
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kubernetes.dynamic.exceptions import DynamicApiError

from tests.control_plane.api import Api
from tests.tekton.processes import PROGRAMS

ENTRYPOINT, NOP = "local/entrypoint", "local/nop"
"""The images with which the controller starts pods."""
_PAUSE_SEC = 0.15


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Kubelet:
    """Runs the pods of every node until `stop`.

    Args:
        api: The API server.
        folder: The folder for the volumes and logs of pods.
        overrides: Values for variables that a container has, such as the address of GitHub.
        paths: Folders of this machine that each container can read, and the search path of programs.
        writable: Folders of this machine that each container can write.
    """

    def __init__(
        self, api: Api, folder: Path, overrides: Mapping[str, str], paths: Sequence[Path], writable: Sequence[Path]
    ) -> None:
        self.api, self.folder, self.overrides, self.paths, self.writable = api, folder, overrides, paths, writable
        self._pods: dict[str, _Pod] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._loop, daemon=True)

    def add_node(self, name: str, gpus: int, labels: Mapping[str, str]) -> None:
        taints = [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}] if gpus else []
        metadata = {"name": name, "labels": {"kubernetes.io/os": "linux", "kubernetes.io/hostname": name, **labels}}
        self.api.apply({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"taints": taints}})
        size = {"cpu": "16", "memory": "64Gi", "pods": "100", "ephemeral-storage": "200Gi"}
        size |= {"nvidia.com/gpu": str(gpus)} if gpus else {}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": _now()}
        status = {"capacity": size, "allocatable": size, "conditions": [{**ready, "lastTransitionTime": _now()}]}
        self.api.patch_status("v1", "Node", name, status)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join(10)
        for pod in self._pods.values():
            pod.kill()

    def running(self) -> list[str]:
        """Return the names of pods with a process."""
        return [pod.name for pod in self._pods.values() if any(each.poll() is None for each in pod.processes)]

    def _loop(self) -> None:
        while not self._ended.wait(_PAUSE_SEC):
            # The API server may be busy, or an object may be gone. The next round sees the pods again.
            with contextlib.suppress(DynamicApiError, OSError):
                self._round(self.api.get("v1", "Pod"))

    def _round(self, pods: list[Any]) -> None:
        for pod in pods:
            metadata = pod["metadata"]
            known = self._pods.get(metadata["uid"])
            if metadata.get("deletionTimestamp"):
                if known:
                    known.kill()
                self.api.delete("v1", "Pod", metadata["name"], metadata["namespace"])
            elif known:
                known.spec = pod
            # The listener is a process of its own (processes.py).
            elif (
                pod["spec"].get("nodeName")
                and pod["status"].get("phase") == "Pending"
                and "eventlistener" not in (metadata.get("labels") or {})
            ):
                self._pods[metadata["uid"]] = found = _Pod(self, pod)
                threading.Thread(target=found.run, daemon=True).start()
        gone = self._pods.keys() - {each["metadata"]["uid"] for each in pods}
        for uid in gone:
            self._pods[uid].kill()


class _Pod:
    def __init__(self, kubelet: Kubelet, spec: Mapping[str, Any]) -> None:
        self.kubelet, self.spec = kubelet, spec
        self.name, self.namespace = spec["metadata"]["name"], spec["metadata"]["namespace"]
        self.folder = kubelet.folder / spec["metadata"]["uid"]
        self.processes: list[subprocess.Popen[bytes]] = []
        self.states: dict[str, dict[str, Any]] = {}
        self.killed = False
        self.began = _now()

    def run(self) -> None:
        spec = self.spec["spec"]
        with contextlib.suppress(DynamicApiError):
            mounts = {each["name"]: self._volume(each) for each in spec.get("volumes") or ()}
            self._report("Pending")
            for container in spec.get("initContainers") or ():
                if self._run(container, mounts):
                    self._report("Failed")
                    return
            threads = [
                threading.Thread(target=self._run, args=(each, mounts), daemon=True) for each in spec["containers"]
            ]
            for thread in threads:
                thread.start()
            self._report("Running")
            while any(thread.is_alive() for thread in threads):
                self._refresh(mounts)
                time.sleep(_PAUSE_SEC)
            codes = [self.states[each["name"]]["terminated"]["exitCode"] for each in spec["containers"]]
            self._report("Failed" if any(codes) else "Succeeded")
            # The entrypoint was copied into each pod.
            shutil.rmtree(self.folder / "volumes" / "tekton-internal-bin", ignore_errors=True)

    def kill(self) -> None:
        self.killed = True
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()

    def _volume(self, volume: Mapping[str, Any]) -> Path:
        folder = self.folder / "volumes" / volume["name"]
        if claim := volume.get("persistentVolumeClaim"):
            folder = self.kubelet.folder / "claims" / claim["claimName"]
        folder.mkdir(parents=True, exist_ok=True)
        if config := volume.get("configMap"):
            for found in self.kubelet.api.get("v1", "ConfigMap", self.namespace, config["name"]):
                for key, text in (found.get("data") or {}).items():
                    (folder / key).write_text(text)
        return folder

    def _refresh(self, mounts: Mapping[str, Path]) -> None:
        """Write the annotations of the pod that the downward API shows. The controller signals with them."""
        annotations = self.spec["metadata"].get("annotations") or {}
        for volume in self.spec["spec"].get("volumes") or ():
            for item in (volume.get("downwardAPI") or {}).get("items") or ():
                key = item["fieldRef"]["fieldPath"].removeprefix("metadata.annotations['").removesuffix("']")
                (mounts[volume["name"]] / item["path"]).write_text(annotations.get(key, ""))

    def _environment(self, container: Mapping[str, Any]) -> dict[str, str]:
        path = ":".join([*(str(each / "bin") for each in self.kubelet.paths), "/usr/local/bin:/usr/bin:/bin"])
        found = {"PATH": path, "HOSTNAME": self.name}
        for each in container.get("env") or ():
            secret = (each.get("valueFrom") or {}).get("secretKeyRef")
            if secret:
                [stored] = self.kubelet.api.get("v1", "Secret", self.namespace, secret["name"])
                found[each["name"]] = base64.b64decode(stored["data"][secret["key"]]).decode()
            else:
                found[each["name"]] = self.kubelet.overrides.get(each["name"], each.get("value") or "")
        return found

    def _run(self, container: Mapping[str, Any], mounts: Mapping[str, Path]) -> int:
        own = self.folder / "containers" / container["name"]
        own.mkdir(parents=True)
        message = own / "message"
        message.touch()
        command = ["bwrap", "--die-with-parent", "--unshare-pid", "--tmpfs", "/", "--dev", "/dev", "--proc", "/proc"]
        command += ["--tmpfs", "/tmp"]  # noqa: S108 - of the container
        for folder in ("/usr", "/etc", *map(str, self.kubelet.paths)):
            command += ["--ro-bind", folder, folder]
        for folder in ("bin", "lib", "lib64", "sbin"):
            command += ["--symlink", f"usr/{folder}", f"/{folder}"]
        for each in self.kubelet.writable:
            command += ["--bind", str(each), str(each)]
        if container["image"] == ENTRYPOINT:
            command += ["--ro-bind", str(PROGRAMS / "entrypoint"), "/ko-app/entrypoint"]
        for mount in sorted(container.get("volumeMounts") or (), key=lambda each: len(each["mountPath"])):
            if mount["name"] in mounts:
                kind = "--ro-bind" if mount.get("readOnly") else "--bind"
                command += [kind, str(mounts[mount["name"]]), mount["mountPath"]]
        command += ["--bind", str(message), container.get("terminationMessagePath") or "/dev/termination-log"]
        command += ["--clearenv"]
        for name, value in self._environment(container).items():
            command += ["--setenv", name, value]
        if container.get("workingDir"):
            command += ["--chdir", container["workingDir"]]
        command += ["--", *(container.get("command") or ()), *(container.get("args") or ())]
        began = _now()
        with (own / "log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
            self.processes.append(process)
            if self.killed:
                process.kill()
            self.states[container["name"]] = {"running": {"startedAt": began}}
            self._report("Pending" if container in (self.spec["spec"].get("initContainers") or ()) else "Running")
            code = process.wait()
        code = code if code >= 0 else 128 - code
        text = message.read_bytes()[:4096].decode(errors="replace")
        ended = {"exitCode": code, "reason": "Error" if code else "Completed", "startedAt": began, "finishedAt": _now()}
        self.states[container["name"]] = {"terminated": {**ended, **({"message": text} if text else {})}}
        return code

    def _report(self, phase: str) -> None:
        if self.killed:
            return
        spec = self.spec["spec"]
        ready = [{"type": "Ready", "status": "True" if phase == "Running" else "False"}]
        status = {
            "phase": phase,
            "startTime": self.began,
            "conditions": [*ready, {"type": "PodScheduled", "status": "True"}],
            "initContainerStatuses": [self._state(each) for each in spec.get("initContainers") or ()],
            "containerStatuses": [self._state(each) for each in spec["containers"]],
        }
        with contextlib.suppress(DynamicApiError):  # it was deleted
            self.kubelet.api.patch_status("v1", "Pod", self.name, status, self.namespace)

    def _state(self, container: Mapping[str, Any]) -> dict[str, Any]:
        state = self.states.get(container["name"], {"waiting": {"reason": "PodInitializing"}})
        image = {"image": container["image"], "imageID": container["image"]}
        return {"name": container["name"], **image, "ready": "running" in state, "restartCount": 0, "state": state}
