"""A bridge in the sandbox: real steps and real boots, with Google's own clients, Compute Engine and Cloud Storage."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from threading import Event
from typing import Any

from gpu_ci.gcp.gate.compute_api import GoogleCompute
from gpu_ci.gcp.gpu_bridge.build import BridgeBuild, Options
from gpu_ci.gcp.gpu_bridge.protocol import Settings
from gpu_ci.gcp.gpu_bridge.steps import PROGRAM
from gpu_ci.gcp.gpu_bridge.storage import GoogleStorage
from gpu_ci.payload import pack
from pulumi_sandbox.providers.gcp.object_storage import ObjectStorage, StorageServer, StoredObject

from tests.agent.fakes.boot import ROOT, SCRIPT, config, packed, says
from tests.sandbox.providers.gcp.api import Api
from tests.sandbox.providers.gcp.conftest import Google

ACCOUNT = "builds@ci-project.iam.gserviceaccount.com"
BUCKET = "acme-gpu-bridge"
BUILD = "7f2c1d3e-0000-4000-8000-000000000001"
SYSTEM = ROOT / "agent" / "gpu_agent_sandbox" / "system.py"
SETTINGS = """
guest:
  path: [{root}/.venv-torch/bin]
  scriptOutput: serial-port
  environment:
    GPU_SMOKE_DEVICE: cpu
    GPU_AGENT_PAUSE_SEC: "0"
    GPU_AGENT_STORAGE_URL: {storage}
    GPU_AGENT_LOGGING_URL: ${{logging}}
    GPU_AGENT_CONSOLE: ${{serialPort}}
    GPU_AGENT_SYSTEM: {system}
"""


class Bridge:
    """A bridge with its template and its bucket."""

    def __init__(self, google: Google, objects: ObjectStorage) -> None:
        self.google, self.objects, self.api = google, objects, Api(google)
        google.cloud.configure(google.config)
        google.make("gcp:serviceaccount/account:Account", "one", {"accountId": "builds"})
        machine = config(check_args=["--pool", "l4", "--expect-gpus", "1"])
        self.body: dict[str, Any] = {
            "serviceAccount": {"email": ACCOUNT, "scopes": ["cloud-platform"]},
            "metadata": {
                "enable-guest-attributes": "TRUE",
                "startup-script": SCRIPT.read_text(),
                "gpu-agent-pyz": base64.b64encode(pack(ROOT / "agent" / "gpu_agent")).decode(),
                "gpu-smoke-pyz": packed(says("1 x NVIDIA L4 computes")),
                "gpu-agent-config": json.dumps(machine),
            },
        }
        self.template = google.template(**self.body).id
        rungs = [{"zone": "us-central1-a", "market": "standard", "machine_type": "g2-standard-8"}]
        self.settings = Settings("ci-project", "l4", self.template, rungs, BUCKET, max=2, check_sec=90)
        self.lines: list[str] = []
        self.clients: list[GoogleCompute | GoogleStorage] = []
        self.printed = io.BytesIO()
        self.cancel = Event()

    def build(self, folder: Path, *command: str, **options: Any) -> BridgeBuild:
        """Return a step that is not started."""
        made = Options(list(command), BUILD, folder=folder, **{"timeout_sec": 60, **options})
        log: Callable[[str], None] = self.lines.append
        compute, storage = GoogleCompute(), GoogleStorage(BUCKET)
        self.clients += [compute, storage]
        return BridgeBuild(self.settings, made, compute, storage, log, self.printed.write, self.cancel)

    def save_settings(self) -> None:
        """Write the settings of the bridge into its bucket, as a deployment does."""
        content = json.dumps(asdict(self.settings)).encode()
        self.objects.buckets[BUCKET]["bridge.json"] = StoredObject(content, 1)

    def start_program(self, folder: Path, *arguments: str) -> subprocess.Popen[str]:
        """Start the program as a worker of Cloud Build does: from its own files, without pydantic and pulumi."""
        root = folder.parent / "program"
        for path, text in PROGRAM.files().items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        (root / "sitecustomize.py").write_text("import sys\nsys.modules['pydantic'] = sys.modules['pulumi'] = None\n")
        return subprocess.Popen(
            [sys.executable, "-m", "gpu_ci.gcp.gpu_bridge", *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(root), "BUILD_ID": BUILD},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def close(self) -> None:
        """Close the connections of all steps."""
        for client in self.clients:
            client.close()

    def machines(self) -> list[str]:
        """Return the names of all machines."""
        answer = self.api.ok("GET", "aggregated/instances")
        return [row["name"] for scope in answer["items"].values() for row in scope.get("instances", [])]

    def names(self, start: str) -> list[str]:
        """Return the names of the objects that begin with this text."""
        return sorted(name for name in self.objects.buckets[BUCKET] if name.startswith(start))


@contextlib.contextmanager
def serving(storage: StorageServer, setenv: Callable[[str, str], object]) -> Iterator[Bridge]:
    """Serve the APIs of a bridge."""
    # A short path: the sockets of a machine are below it.
    with tempfile.TemporaryDirectory(prefix="vm") as folder:
        setenv("TMPDIR", folder)
        settings = SETTINGS.format(root=ROOT, storage=storage.address, system=SYSTEM)
        google = Google(Path(folder), settings=settings)
        made = Bridge(google, storage.storage)
        port = google.workspace.compute_port
        setenv("GOOGLE_COMPUTE_CUSTOM_ENDPOINT", f"http://127.0.0.1:{port}/compute/v1/")
        yield made
        made.close()
        google.cloud.stop()
        google.world.close()
