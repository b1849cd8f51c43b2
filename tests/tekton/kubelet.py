"""A kubelet without containers: each container of a pod is a bubblewrap process with a file system of its own.

Files, variables, order, user, termination message, exit code and the signals of an end are those of a container. Images
are not: a program of Tekton stands for its image, and the environment of notebook tools for every other one. Limits,
probes and capabilities have no effect. All containers share the network of the kubelet.
"""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
from kubernetes import client
from kubernetes.dynamic.exceptions import NotFoundError
from pulumi_sandbox.providers.kubernetes.workloads.containers import contents

from tests.control_plane.api import Api
from tests.tekton.processes import program

POLL_SEC = 0.2
RESTART_SEC = 1.0
_IMAGE = "/opt/image"
"""The folder of the environment in a container. A volume cannot hide it."""


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass
class Kubelet:
    """The kubelets of all nodes, with the host and port of their API server, and a folder for volumes and logs."""

    api: Api
    server: tuple[str, str]
    folder: Path
    image: Path
    """The environment that stands for images, with `bin/python3`."""
    visible: list[Path]
    """Further folders of this computer that containers can read."""
    environment: dict[str, str]
    """Variables that replace those of containers, such as addresses of services."""
    flags: dict[str, str]
    """Arguments that replace those of containers."""
    pods: dict[str, Pod] = field(default_factory=dict)
    _stopped: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        self._thread = threading.Thread(target=self._loop, name="kubelet")
        self._thread.start()

    def stop(self) -> None:
        """Kill all containers."""
        self._stopped.set()
        self._thread.join()
        for each in self.pods.values():
            each.end(grace_sec=0)

    def named(self, beginning: str) -> Pod:
        """Return the running pod whose name begins like this."""
        [found] = [each for each in self.pods.values() if each.name.startswith(beginning) and not each.is_ended]
        return found

    def _loop(self) -> None:
        while not self._stopped.wait(POLL_SEC):
            try:
                self._poll()
            except Exception:
                traceback.print_exc()

    def _poll(self) -> None:
        # Not as objects of the client, which take ten times as long to make.
        answer = client.CoreV1Api(self.api.client.client).list_pod_for_all_namespaces(_preload_content=False)
        listed = {each["metadata"]["uid"]: each for each in json.loads(answer.data)["items"]}
        for uid, given in listed.items():
            if uid not in self.pods and given["spec"].get("nodeName") and given["status"]["phase"] == "Pending":
                self.pods[uid] = Pod(self, given)
                threading.Thread(target=self.pods[uid].run, name=given["metadata"]["name"]).start()
            elif pod := self.pods.get(uid):
                pod.given = given
                pod.write_annotations()
                if given["metadata"].get("deletionTimestamp") and not pod.is_deleted:
                    pod.is_deleted = True
                    grace_sec = given["metadata"].get("deletionGracePeriodSeconds", 30)
                    threading.Thread(target=pod.delete, args=(grace_sec,)).start()
        for uid in self.pods.keys() - listed.keys():
            self.pods.pop(uid).end(grace_sec=0)
        self._provide_volumes()

    def _provide_volumes(self) -> None:
        """Provide a folder for each new claim, as a provisioner does."""
        for each in self.api.get("v1", "PersistentVolumeClaim"):
            meta, spec = each["metadata"], each["spec"]
            if each["status"]["phase"] != "Pending" or spec.get("volumeName"):
                continue
            claim = {"namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}
            path = self.claim(meta["namespace"], meta["name"])
            path.mkdir(parents=True, exist_ok=True)
            volume = {
                "capacity": spec["resources"]["requests"], "accessModes": spec["accessModes"],
                "storageClassName": spec["storageClassName"], "hostPath": {"path": str(path)}, "claimRef": claim,
            }  # fmt: skip
            name = f"pv-{meta['uid']}"
            self.api.apply({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": volume})

    def claim(self, namespace: str, name: str) -> Path:
        """Return the folder of a claim."""
        return self.folder / "claims" / namespace / name


class Pod:
    """One pod, from its assignment to a node to its end."""

    def __init__(self, kubelet: Kubelet, given: dict[str, Any]) -> None:
        self.kubelet, self.given = kubelet, given
        meta = given["metadata"]
        self.name, self.namespace = str(meta["name"]), str(meta["namespace"])
        self.folder = kubelet.folder / "pods" / str(meta["uid"])
        self.states: dict[str, Any] = {}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.is_ended = self.is_deleted = False
        self._annotations: dict[Path, str] = {}
        self._lock = threading.Lock()

    def run(self) -> None:
        """Run the init containers one after the other, then all containers at once."""
        spec = self.given["spec"]
        try:
            volumes = {each["name"]: self._volume(each) for each in spec.get("volumes", ())}
            self.write_annotations()
            self._report("Pending")
            for each in spec.get("initContainers", ()):
                if self._run(each, volumes):
                    return self._report("Failed")
            threads = [threading.Thread(target=self._keep, args=(each, volumes)) for each in spec["containers"]]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            codes = [self.states[each["name"]]["terminated"]["exitCode"] for each in spec["containers"]]
            self._report("Failed" if any(codes) else "Succeeded")
        except Exception:
            traceback.print_exc()
        finally:
            self.is_ended = True
            shutil.rmtree(self.folder / "volumes", ignore_errors=True)

    def _keep(self, container: Mapping[str, Any], volumes: Mapping[str, Path]) -> None:
        while True:
            self._run(container, volumes)
            if self.given["spec"]["restartPolicy"] != "Always" or self.is_ended:
                return
            time.sleep(RESTART_SEC)

    def end(self, grace_sec: float, **status: Any) -> None:
        """End the containers: SIGTERM to the first process of each, and SIGKILL after the grace period."""
        if status and not self.is_ended:  # before the ends of the containers are reported
            self._report("Failed", **status)
        self.is_ended = True
        alive = [each for each in self.processes.values() if each.poll() is None]
        for each in alive if grace_sec else ():
            with contextlib.suppress(psutil.NoSuchProcess):
                for first in psutil.Process(each.pid).children():
                    first.send_signal(signal.SIGTERM)
        last = time.monotonic() + grace_sec
        for each in alive:
            try:
                each.wait(max(0.0, last - time.monotonic()))
            except subprocess.TimeoutExpired:
                each.kill()
                each.wait()

    def delete(self, grace_sec: float) -> None:
        """End the pod, and delete its object."""
        self.end(grace_sec)
        self.kubelet.api.delete("v1", "Pod", self.name, self.namespace)

    def evict(self) -> None:
        """End the pod as the kubelet of a node with too little memory does."""
        self.end(0, reason="Evicted", message="The node was low on resource: memory.")

    def kill(self, container: str) -> None:
        """Kill the first process of a container, as `kill -9` on the node does."""
        [first] = psutil.Process(self.processes[container].pid).children()
        first.kill()

    def _report(self, phase: str, **more: Any) -> None:
        def listed(key: str) -> list[dict[str, Any]]:
            found = []
            for each in self.given["spec"].get(key, ()):
                state = self.states.get(each["name"], {"waiting": {"reason": "PodInitializing"}})
                about = {"name": each["name"], "image": each["image"], "imageID": each["image"], "restartCount": 0}
                found.append({**about, "ready": "running" in state, "state": state})
            return found

        ready = {"type": "Ready", "status": str(phase == "Running"), "lastTransitionTime": now()}
        status = {"phase": phase, "podIP": "127.0.0.1", "startTime": now(), "conditions": [ready], **more}
        status |= {"containerStatuses": listed("containers"), "initContainerStatuses": listed("initContainers")}
        with self._lock:
            if self.is_ended:
                return
            try:
                self.kubelet.api.patch_status("v1", "Pod", self.name, status, self.namespace)
            except NotFoundError:
                return

    def _run(self, container: Mapping[str, Any], volumes: Mapping[str, Path]) -> int:
        """Run one container to its end, and return its exit code. 128 and more is the number of a signal."""
        name, began = str(container["name"]), now()
        message = self.folder / name / "message"
        message.parent.mkdir(parents=True, exist_ok=True)
        message.write_bytes(b"")
        command = [*self._box(container, volumes, message), *self._command(container)]
        with (message.parent / "log").open("ab") as log:
            if self.is_ended:
                return 128
            self.processes[name] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            self.states[name] = {"running": {"startedAt": began}}
            self._report("Running" if container in self.given["spec"]["containers"] else "Pending")
            code = self.processes[name].wait()
        code = code if code >= 0 else 128 - code
        text = message.read_bytes()[:4096].decode(errors="replace")
        end = {"exitCode": code, "reason": "Error" if code else "Completed", "startedAt": began, "finishedAt": now()}
        self.states[name] = {"terminated": {**end, **({"message": text} if text else {})}}
        self._report("Running" if container in self.given["spec"]["containers"] else "Pending")
        return code

    def _command(self, container: Mapping[str, Any]) -> list[str]:
        own = program(container["image"])
        given = [*(container.get("command") or [f"/ko-app/{own.name if own else ''}"]), *container.get("args", ())]
        return [self.kubelet.flags.get(each, each) for each in given]

    def _box(self, container: Mapping[str, Any], volumes: Mapping[str, Path], message: Path) -> Iterator[str]:
        """Yield the command that gives a process the file system, the variables and the user of a container."""
        kubelet, own = self.kubelet, program(container["image"])
        yield from ("bwrap", "--die-with-parent", "--as-pid-1", "--unshare-pid", "--unshare-user", "--tmpfs", "/")
        context = {**(self.given["spec"].get("securityContext") or {}), **(container.get("securityContext") or {})}
        for key in ("user", "group"):
            yield from (f"--{key[0]}id", str(context.get(f"runAs{key.title()}", 0)))
        yield from ("--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--ro-bind", str(kubelet.image), _IMAGE)  # noqa: S108
        for path in ("/usr", "/etc", sys.base_prefix, *map(str, kubelet.visible)):
            yield from ("--ro-bind", path, path)
        for path in ("bin", "lib", "lib64", "sbin"):
            yield from ("--symlink", f"usr/{path}", f"/{path}")
        if own:
            yield from ("--ro-bind", str(own), f"/ko-app/{own.name}")
        for mount in sorted(container.get("volumeMounts", ()), key=lambda each: len(each["mountPath"])):
            how = "--ro-bind" if mount.get("readOnly") else "--bind"
            yield from (how, str(volumes[mount["name"]] / mount.get("subPath", "")), mount["mountPath"])
        yield from ("--bind", str(message), container.get("terminationMessagePath") or "/dev/termination-log")
        if context.get("readOnlyRootFilesystem"):
            yield from ("--remount-ro", "/")
        yield "--clearenv"
        for key, value in self._variables(container).items():
            yield from ("--setenv", key, value)
        yield from ("--chdir", container.get("workingDir") or "/", "--")

    def _variables(self, container: Mapping[str, Any]) -> dict[str, str]:
        host, port = self.kubelet.server
        found = {"PATH": f"{_IMAGE}/bin:/usr/local/bin:/usr/bin:/bin", "HOSTNAME": self.name}
        found |= {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
        for each in container.get("env", ()):
            source = each.get("valueFrom") or {}
            if "fieldRef" in source:
                found[each["name"]] = self._field(source["fieldRef"]["fieldPath"])
            elif "secretKeyRef" in source:
                keys = self._data("Secret", source["secretKeyRef"]["name"])
                found[each["name"]] = keys[source["secretKeyRef"]["key"]].decode()
            else:
                found[each["name"]] = each.get("value") or ""
        return {**found, **{key: each for key, each in self.kubelet.environment.items() if key in found}}

    def _field(self, path: str) -> str:
        first, _, rest = path.partition("['")
        value: Any = self.given
        for key in first.split("."):
            value = value.get(key) or {}
        return str((value.get(rest.removesuffix("']")) if rest else value) or "")

    def _data(self, kind: str, name: str) -> dict[str, bytes]:
        [found] = self.kubelet.api.get("v1", kind, self.namespace, name)
        if kind == "Secret":
            return {key: base64.b64decode(each) for key, each in (found.get("data") or {}).items()}
        return contents(found)

    def _volume(self, volume: Mapping[str, Any]) -> Path:
        """Return the folder of a volume, with its files."""
        if "persistentVolumeClaim" in volume:
            return self.kubelet.claim(self.namespace, volume["persistentVolumeClaim"]["claimName"])
        folder = self.folder / "volumes" / str(volume["name"])
        folder.mkdir(parents=True)
        sources: list[Any] = (volume.get("projected") or {}).get("sources") or [volume]
        for source in sources:
            for path, content in self._files(source, folder):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
        return folder

    def _files(self, source: Mapping[str, Any], folder: Path) -> Iterator[tuple[Path, bytes]]:
        for key, kind, name in (("configMap", "ConfigMap", "name"), ("secret", "Secret", "secretName")):
            if key in source:
                data = self._data(kind, source[key].get(name) or source[key]["name"])
                paths = {each["key"]: each["path"] for each in source[key].get("items", ())} or {k: k for k in data}
                yield from ((folder / path, data[key]) for key, path in paths.items())
        for each in (source.get("downwardAPI") or {}).get("items", ()):
            self._annotations[folder / each["path"]] = each["fieldRef"]["fieldPath"]
        if "serviceAccountToken" in source:
            account = self.given["spec"]["serviceAccountName"]
            token = self.kubelet.api.token(self.namespace, account)
            yield folder / source["serviceAccountToken"]["path"], token.encode()

    def write_annotations(self) -> None:
        """Write the files with fields of the pod again, which Tekton changes while it runs."""
        for path, of in list(self._annotations.items()):
            text = self._field(of)
            if path.parent.exists() and (not path.exists() or path.read_text() != text):
                path.write_text(text)
