"""Fixtures: one control plane with Tekton and a kubelet for all tests of this folder, and a pipeline on it."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.control_plane.api import Api, until
from tests.control_plane.processes import ControlPlane
from tests.tekton.kubelet import Kubelet
from tests.tekton.processes import TektonProcesses

NOTEBOOK_TOOLS = Path(__file__).parents[2] / ".notebook"
"""The environment with papermill, which stands for the pipeline's image."""
NODES = {"cpu": 0, "gpu": 1}
"""The nodes, with their number of GPUs."""
POOL = "l4"


@dataclass
class Requests:
    """A local server for commit statuses and notifications. It keeps what it gets."""

    url: str = ""
    got: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def of(self, part: str) -> list[dict[str, Any]]:
        return [body for path, body in self.got if part in path]


@pytest.fixture(scope="session")
def requests() -> Iterator[Requests]:
    found = Requests()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"] or 0))
            found.got.append((self.path, json.loads(body or b"{}")))
            answer = json.dumps({"token": "of-the-installation", "expires_at": "2099-01-01T00:00:00Z"}).encode()
            self.send_response(201)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    found.url = f"http://127.0.0.1:{server.server_address[1]}"
    yield found
    server.shutdown()


@dataclass
class Tekton:
    """Tekton on a control plane, with the folders of its kubelet."""

    api: Api
    processes: TektonProcesses
    kubelet: Kubelet
    store: Path
    """The folder that stands for the bucket."""
    repositories: Path
    """The folder with the git repositories, by owner/name.git."""


@pytest.fixture(scope="session")
def tekton(tmp_path_factory: pytest.TempPathFactory, requests: Requests) -> Iterator[Tekton]:
    folder = tmp_path_factory.mktemp("tekton")
    (plane_folder := folder / "plane").mkdir()
    plane = ControlPlane(plane_folder)
    store, repositories = folder / "store", folder / "repositories"
    store.mkdir()
    repositories.mkdir()
    stopping = [plane.stop]
    try:
        api = Api(plane.start())
        until(lambda: api.get("v1", "ServiceAccount", "default", "default"), "the controllers run")
        processes = TektonProcesses(plane, api)
        stopping.append(processes.stop)
        processes.start()
        overrides = {"STORE": f"file://{store}", "GITHUB_URL": f"file://{repositories}", "GITHUB_API": requests.url}
        kubelet = Kubelet(api, folder / "kubelet", overrides, _readable(), [store, repositories])
        for name, gpus in NODES.items():
            kubelet.add_node(name, gpus, {"gpu-ci-pool": POOL, "nvidia.com/gpu.present": "true"} if gpus else {})
        kubelet.start()
        stopping.append(kubelet.stop)
        yield Tekton(api, processes, kubelet, store, repositories)
    finally:
        for stop in reversed(stopping):
            stop()


def _readable() -> list[Path]:
    """Return the environment of the notebooks' tools, and the installation of Python that it names."""
    program = NOTEBOOK_TOOLS / "bin" / "python3"
    assert program.exists(), "the notebooks' tools are not installed; run: make test-tekton"
    command = [str(program), "-c", "import sys; print(sys.base_prefix)"]
    base = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    return [NOTEBOOK_TOOLS, *([] if base.startswith("/usr") and not base.startswith("/usr/local") else [Path(base)])]
