"""Jarvis Labs for `pulumi-sandbox serve --jarvislabs`: the API, at the vendor's own addresses, and VMs with SSH.

The vendor has no reference of its API. Its SDK is the judge (jarvislabs 0.2.19: constants.py, instances.py, models.py).
A proxy answers for the vendor's hosts, with a certificate that clients trust by SSL_CERT_FILE. VMs run as processes of
this computer. A program `ssh` sends them their script (machines/ssh.py). The state ends with the command; the world has
the VMs.
"""

from __future__ import annotations

import datetime
import json
import os
import secrets
import shutil
import signal
import ssl
import sys
import threading
import time
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import gpu_catalog
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from pulumi_sandbox.engine.model import write_whole
from pulumi_sandbox.providers.machines import settings, ssh
from pulumi_sandbox.providers.machines.local_server import Answer, LocalServer, Request, is_own_user
from pulumi_sandbox.providers.machines.vm_processes import Boot, VmProcesses, soft_off
from pulumi_sandbox.providers.resource import Refused
from pulumi_sandbox.workspace import Workspace
from pulumi_sandbox.world.store import Record, World

REGIONS = {"IN1": "india-chennai-01", "IN2": "india-noida-01", "EU1": "europe-01"}
HOSTS = {"backendc.jarvislabs.net": "IN1", "backendn.jarvislabs.net": "IN2", "backendeu.jarvislabs.net": "EU1"}
INSTANCE, CONSOLE = "jarvislabs:vm/instance:Instance", "serialPortOutput"
_KEPT = ("gpu_type", "num_gpus", "hdd", "region", "instance_name")


class Account:
    """The VMs of one account. It checks what the SDK checks, and otherwise does what the SDK expects.

    Requests about one machine go to the address of its region, names are not unique, and a resume gives the machine
    another number.
    """

    user_id = "user-17"
    boot_sec = 0.05
    price_per_hour, pays_in_inr = 2.5, False

    def __init__(self) -> None:
        self.machines: dict[int, dict[str, Any]] = {}
        self.free: dict[tuple[str, str], int] = {}
        """The number of free GPUs by type and region."""
        self._last = 430

    def refusal(self, row: dict[str, Any], zone: str) -> str:
        """Return why the machine cannot be created there, or ""."""
        return ""

    def created(self, row: dict[str, Any]) -> None:
        """Called with each new machine, also with one that resumes."""

    def ended(self, row: dict[str, Any]) -> None:
        """Called with each machine that is paused or destroyed."""

    def add(self, **fields: Any) -> dict[str, Any]:
        self._last += 1
        row = {
            "machine_id": self._last, "framework": "vm", "num_gpus": 1, "is_spot": False, "since": time.monotonic(),
            "status": "Creating", "ssh_str": f"ssh -o StrictHostKeyChecking=no -p {self._last} ubuntu@127.0.0.1",
        }  # fmt: skip
        self.machines[self._last] = row | fields
        self.created(self.machines[self._last])
        return self.machines[self._last]

    def rows(self) -> list[dict[str, Any]]:
        for row in self.machines.values():
            if row["status"] in ("Creating", "Resuming") and time.monotonic() - row["since"] > self.boot_sec:
                row["status"] = "Running"
        return list(self.machines.values())

    def answer(self, zone: str, method: str, target: str, body: Any) -> tuple[int, Any]:
        """Return the status and the value of the answer to a request at the address of a region."""
        path, query = urlsplit(target).path.strip("/"), parse_qs(urlsplit(target).query)
        rows = self.rows()
        if method == "GET" and path == "users/fetch":
            return 200, {"success": True, "instances": rows}
        if method == "GET" and path.startswith("users/fetch/"):
            found = [row for row in rows if path.endswith(f"/{row['machine_id']}")]
            return (200, {"success": True, "instance": found[0]}) if found else (404, {"detail": "not found"})
        if method == "GET" and path == "misc/server_meta":
            return 200, {
                "server_meta": [
                    {
                        "gpu_type": gpu,
                        "region": REGIONS[at],
                        "num_free_devices": count,
                        "workload_type": "vm",
                        "price_per_hour": self.price_per_hour,
                    }
                    for (gpu, at), count in self.free.items()
                ]
            }
        if method == "GET" and path == "misc":
            return 200, {"success": self.pays_in_inr}
        if method == "GET" and path in ("ssh", "users/user_info"):
            key = {"ssh_key": "ssh-ed25519 AAAA", "key_name": "gpu-ci", "key_id": "1"}
            return 200, [key] if path == "ssh" else {"user_id": self.user_id}
        if method == "POST" and path == "templates/vm/create":
            fields = {key: body[key] for key in _KEPT[:4]} | {"instance_name": body["name"]}
            if REGIONS[zone] != body["region"]:
                return 400, {"message": "another region"}
            if refusal := self.refusal(fields, zone):
                return 400, {"message": refusal}
            return 200, {"success": True, "machine_id": self.add(**fields)["machine_id"]}
        return self._of_machine(zone, path, int((body or {}).get("machine_id") or query.get("machine_id", ["0"])[0]))

    def _of_machine(self, zone: str, path: str, number: int) -> tuple[int, Any]:
        row = self.machines.get(number)
        if row is None:
            return 404, {"detail": "not found"}
        if REGIONS[zone] != row["region"]:
            return 400, {"message": "another region"}
        if path == "misc/status":
            return 200, {"status": row["status"], "error": None}
        if path == "templates/vm/pause":
            row["status"] = "Paused"
            self.ended(row)
        elif path == "templates/vm/destroy":
            self.ended(self.machines.pop(number))
        elif path == "templates/vm/resume" and row["status"] == "Paused":
            del self.machines[number]
            again = self.add(**{key: row[key] for key in _KEPT}, status="Resuming")
            return 200, {"success": True, "machine_id": again["machine_id"]}
        else:
            return 400, {"detail": f"{path} of a machine that is {row['status']}"}
        return 200, {"sucess": "true"}  # one of the forms that the SDK reads


class JarvisLabs(Account):
    """The server of an account whose VMs run on this computer."""

    boot_sec = 1.0

    def __init__(self, world: World, guests: VmProcesses, workspace: Workspace, user_id: str) -> None:
        """Start the server. Raises Refused."""
        super().__init__()
        if not guests.settings.runs:
            raise Refused(f"serve: --jarvislabs: sandbox.yaml lets no machine run on this computer\n  {settings.HINT}")
        self.user_id, self._world, self._guests, self._disks = user_id, world, guests, workspace.disks
        self._ssh: dict[int, LocalServer] = {}
        # What a VM finds at 169.254.169.254, where the agent tests that it blocks the address.
        self._metadata = LocalServer("metadata", lambda _: Answer(404, "Not Found", "text/plain"), ("GET", "PUT"))
        self._processes: dict[int, dict[str, Any]] = {}
        for row in world.find(INSTANCE):  # of a server that was killed
            world.delete(INSTANCE, row.id)
        for machine in gpu_catalog.machines(cloud="jarvislabs"):
            for region in machine.regions:
                self.free[machine.family, region] = 8
        self._folder, self._token, self._lock = workspace.root / "jarvislabs", secrets.token_hex(16), threading.RLock()
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        key, certificate = _certificate(list(HOSTS))
        for name, content in {"token": self._token, "key.pem": key, "ca.pem": certificate}.items():
            write_whole(self._folder / name, content, 0o600)
        program = f'#!/bin/sh\nexec "{sys.executable}" -I -S "{ssh.__file__}" "$@"\n'
        write_whole(self._folder / "ssh", program, 0o700)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(self._folder / "ca.pem", self._folder / "key.pem")
        self._proxy = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Proxy,), {"account": self, "tls": tls}))
        self._proxy.daemon_threads = True
        threading.Thread(target=self._proxy.serve_forever, args=(0.1,), name="jarvislabs", daemon=True).start()

    def environment(self) -> dict[str, str]:
        """Return the variables of clients: the proxy and its certificate, the API key, and the program `ssh`."""
        return {
            "HTTPS_PROXY": f"http://127.0.0.1:{self._proxy.server_port}",
            "SSL_CERT_FILE": str(self._folder / "ca.pem"),
            "GPU_CI_JARVISLABS_TOKEN_FILE": str(self._folder / "token"),
            "GPU_CI_JARVISLABS_SSH_KEY_FILE": str(self._folder / "key.pem"),
            "PATH": f"{self._folder}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        }

    def close(self) -> None:
        """Stop the servers. The VMs end with their VmProcesses."""
        self._proxy.shutdown()
        self._proxy.server_close()
        for server in (self._metadata, *self._ssh.values()):
            server.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def authorized(self, authorization: str, zone: str, method: str, target: str, body: Any) -> tuple[int, Any]:
        """Return the answer to a request with this header."""
        if authorization != f"Bearer {self._token}":
            return 401, {"detail": "Invalid API key"}
        with self._lock:
            return self.answer(zone, method, target, body)

    def refusal(self, row: dict[str, Any], zone: str) -> str:
        fault = self._world.take_fault("stockout", INSTANCE, row["instance_name"], zone=zone)
        return (fault.message or "No capacity available for this GPU") if fault else ""

    def created(self, row: dict[str, Any]) -> None:
        number = row["machine_id"]
        server = self._ssh[number] = LocalServer("ssh", partial(self._receive, number), ("POST",))
        row["ssh_str"] = f"ssh -o StrictHostKeyChecking=no -p {server.port} ubuntu@127.0.0.1"
        outputs = {"name": row["instance_name"], "region": row["region"], "gpuType": row["gpu_type"], CONSOLE: ""}
        self._world.insert(Record(INSTANCE, str(number), row["instance_name"], "", {}, outputs, "api"))

    def ended(self, row: dict[str, Any]) -> None:
        number = row["machine_id"]
        self._ssh.pop(number).close()
        if self._guests.runs(f"jarvislabs-{number}"):
            process = self._processes[number]
            soft_off(int(process["pid"]), str(process["started"]), signal.SIGTERM)
        else:
            self._off(number)

    def _receive(self, number: int, request: Request) -> Answer:
        """Boot the VM with the script. A second script finds the first one running, and does nothing (boot.sh)."""
        with self._lock:
            if number not in self.machines:
                return Answer(404, "no VM", "text/plain")
            if number not in self._processes:
                disk = self._disks / f"jarvislabs-{number}"
                boot = Boot(
                    id=f"jarvislabs-{number}",
                    script=request.content.decode(),
                    machine=None,
                    environment={
                        "GPU_AGENT_BOOT": str(disk / "boot.json"),
                        "GPU_AGENT_IMDS": f"http://{self._metadata.address}",
                    },
                    limit_sec=None,
                    disk=disk,
                    serial=partial(self._print, str(number)),
                    ended=lambda _: self._off(number),
                )
                self._processes[number] = self._guests.boot(boot)
        return Answer(200, "", "text/plain")

    def _print(self, number: str, text: str) -> None:
        with self._world.transaction():
            if row := self._world.get(INSTANCE, number):
                outputs = {**row.outputs, CONSOLE: row.outputs[CONSOLE] + text}
                self._world.update(INSTANCE, number, outputs=outputs, quiet=True)

    def _off(self, number: int) -> None:
        """Forget a VM without power. One that has switched itself off is still on for the vendor, and is billed."""
        if number not in self.machines:
            self._world.delete(INSTANCE, str(number))
            shutil.rmtree(self._disks / f"jarvislabs-{number}", ignore_errors=True)


class _Proxy(BaseHTTPRequestHandler):
    """Answers CONNECT for the vendor's hosts, and then the requests in the connection."""

    protocol_version = "HTTP/1.1"
    server: ThreadingHTTPServer
    account: JarvisLabs
    tls: ssl.SSLContext
    zone = ""

    def do_CONNECT(self) -> None:
        host, port = self.path.rpartition(":")[0], self.server.server_port
        if host not in HOSTS or self.zone or not is_own_user(self.client_address[1], port):
            self.send_error(403, f"the sandbox has no {host}")
            return
        self.zone = HOSTS[host]
        self.send_response_only(200)
        self.end_headers()
        self.connection = self.tls.wrap_socket(self.connection, server_side=True)
        self.rfile, self.wfile = self.connection.makefile("rb"), self.connection.makefile("wb")

    def _do(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = json.loads(content) if content else None
        authorization = self.headers.get("Authorization", "") if self.zone else ""
        status, value = self.account.authorized(authorization, self.zone, self.command, self.path, body)
        answer = json.dumps(value).encode()
        self.send_response_only(status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST = _do  # noqa: N815 - names of http.server

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


def _certificate(hosts: list[str]) -> tuple[str, str]:
    """Return a private key and a certificate for these hosts, as PEM. They are valid for a day."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(each) for each in hosts]), critical=True)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return private.decode(), certificate.public_bytes(pem).decode()
