"""Starts and ends etcd and Kubernetes' own API server, controllers and scheduler on this computer.

There is no kubelet: nodes are only objects, and a pod that is assigned to a node runs nothing. Without KWOK, it stays
there as it is.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import time
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from kubernetes import client
from kubernetes.dynamic import DynamicClient
from kubernetes.dynamic.exceptions import DynamicApiError
from pulumi_sandbox.processes import Guarded
from pulumi_sandbox.workspace import free_port
from urllib3.exceptions import HTTPError

from tests.conftest import ROOT

PROGRAMS = ROOT / ".control-plane"
PATIENCE_SEC = 60
ADDRESS = "127.0.0.1"
# The first argument is the file of standard output and error.
INTO_A_FILE = ["sh", "-c", 'exec "$@" > "$0" 2>&1']


class ControlPlane:
    """One cluster in a folder, on free ports."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"https://{ADDRESS}:{free_port()}"
        self.token = secrets.token_urlsafe()
        self.authority = folder / "apiserver.crt"
        self.running: dict[str, Guarded] = {}
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        (folder / "accounts.key").write_bytes(key.private_bytes(*form))
        (folder / "tokens.csv").write_text(f"{self.token},admin,admin,system:masters\n")

    def start(self) -> DynamicClient:
        etcd = f"http://{ADDRESS}:{free_port()}"
        peers = f"http://{ADDRESS}:{free_port()}"
        self.run(
            "etcd", f"--data-dir={self.folder / 'etcd'}", f"--listen-client-urls={etcd}",
            f"--advertise-client-urls={etcd}", f"--listen-peer-urls={peers}", f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}", "--unsafe-no-fsync",
        )  # fmt: skip
        self.run(
            "kube-apiserver", f"--etcd-servers={etcd}", f"--bind-address={ADDRESS}",
            "--advertise-address=192.0.2.1",  # unused; without it, a network with a default route is needed
            f"--secure-port={self.url.rpartition(':')[2]}", f"--cert-dir={self.folder}",
            f"--token-auth-file={self.folder / 'tokens.csv'}", "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-signing-key-file={self.folder / 'accounts.key'}",
            f"--service-account-key-file={self.folder / 'accounts.key'}",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--allow-privileged=true",  # as clusters with device plugins
        )  # fmt: skip
        found = self._client()
        settings = self.kubeconfig("admin", self.token)
        self.run("kube-scheduler", f"--kubeconfig={settings}", "--leader-elect=false", "--secure-port=0")
        self.run(
            "kube-controller-manager", f"--kubeconfig={settings}", "--leader-elect=false", "--secure-port=0",
            f"--service-account-private-key-file={self.folder / 'accounts.key'}",
            f"--root-ca-file={self.authority}",
            # No kubelet reports that a node is alive.
            "--node-monitor-grace-period=24h",
        )  # fmt: skip
        return found

    def stop(self) -> None:
        """End the processes in reverse order, so that no process waits for another one that has already ended."""
        for one in reversed(self.running.values()):
            one.cancel()
            one.ended.wait(PATIENCE_SEC)

    def run(self, program: str, *flags: str, programs: Path = PROGRAMS, **environment: str) -> None:
        path = programs / program
        assert path.exists(), f"{program} is not built; run: make test-kubernetes"
        command = [*INTO_A_FILE, str(self.folder / f"{program}.log"), str(path), *flags]
        self.running[program] = Guarded(command, cwd=str(self.folder), environment={**os.environ, **environment})

    def _client(self) -> DynamicClient:
        """Return a client after the API server reports that it is ready."""
        settings = client.Configuration(host=self.url, api_key={"authorization": f"Bearer {self.token}"})
        settings.ssl_ca_cert, settings.proxy = str(self.authority), None
        until = time.monotonic() + PATIENCE_SEC
        while time.monotonic() < until:
            # The API server creates this certificate at its start.
            with contextlib.suppress(DynamicApiError, client.ApiException, HTTPError, OSError):
                found = DynamicClient(client.ApiClient(settings))
                found.request("get", "/readyz")
                return found
            for name, one in self.running.items():
                assert one.process.poll() is None, f"{name} ended:\n{self._last_lines(name)}"
            time.sleep(0.2)
        raise AssertionError(f"not ready after {PATIENCE_SEC} s:\n{self._last_lines('kube-apiserver')}")

    def kubeconfig(self, name: str, token: str) -> Path:
        """Write the kubeconfig for a token."""
        path = self.folder / f"{name}.kubeconfig"
        path.write_text(json.dumps(self.access(token)))
        return path

    def access(self, token: str) -> dict[str, Any]:
        """Return a kubeconfig for a token."""
        cluster = {"server": self.url, "certificate-authority": str(self.authority)}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "it",
            "clusters": [{"name": "it", "cluster": cluster}],
            "users": [{"name": "it", "user": {"token": token}}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        }

    def _last_lines(self, program: str) -> str:
        path = self.folder / f"{program}.log"
        return "\n".join(path.read_text(errors="replace").splitlines()[-15:]) if path.exists() else ""
