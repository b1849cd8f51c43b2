"""Fixtures: Tekton on a control plane with two nodes, the sandbox with the same objects, and an emulated GitHub."""

from __future__ import annotations

import contextlib
import http.client
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pulumi
import pytest
from gpu_ci.kubernetes.notebook_pipeline import SINK_PORT, NotebookPipeline
from gpu_ci.kubernetes.notebooks.args import NotebookPipelineArgs
from pulumi_sandbox.providers.github.actions.runs_api import StatusesApi
from pulumi_sandbox.providers.github.app_api import GithubAppApi
from pulumi_sandbox.providers.github.organizations import Organizations
from pulumi_sandbox.providers.github.repositories import Repository
from pulumi_sandbox.providers.kubernetes.tekton.listener import Delivery, Listener
from pulumi_sandbox.providers.machines.local_server import Answer, as_json
from pulumi_sandbox.providers.machines.local_services import Call, LocalServices
from pulumi_sandbox.providers.rsa_key import private_key
from pulumi_sandbox.world.store import World

from tests.conftest import ROOT
from tests.control_plane.api import Api, until
from tests.control_plane.cluster_state import SIZE, add_nodes, gpu_node
from tests.control_plane.objects import as_sent, declared
from tests.control_plane.processes import ControlPlane
from tests.tekton.kubelet import Kubelet
from tests.tekton.processes import LISTENER_METRICS_PORT, LISTENER_PORT, Tekton
from tests.tekton.twins import Executor, Real
from tools.notebook import NAME, OWNER, POOL, REPOSITORY

APP = "470011"
WEBHOOK_KEY = "the secret of the webhook"
NODES = [{"name": "cpu-node", "labels": {}, "taints": [], "allocatable": SIZE}, gpu_node(pool=POOL)]
IMAGE = ROOT / ".venv-notebook"
LIMIT_SEC = 30
"""The limit of a notebook here. A stack file gives it in minutes."""
GIVEN: dict[str, Any] = {
    "owner": OWNER,
    "pool": POOL,
    "repositories": [REPOSITORY],
    "image": f"ghcr.io/{OWNER}/notebook:1@sha256:{'a1' * 32}",
    "storage": {"kind": "claim", "storageClass": "shared"},
    # The node has one GPU, so the scheduler makes notebooks wait. After a quota, Tekton waits for a minute.
    "maxGpus": 2,
}


class Github:
    """The parts of GitHub that a run uses, and the receiver of its notifications."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.received = folder, list[Any]()
        self.world = World(folder / "github.db")
        permissions = {"contents": "read", "statuses": "write"}
        api = GithubAppApi(self.world, (f"{OWNER}/*",), Organizations(apps={APP: permissions}))
        self.services = LocalServices({"github": api.answer, "notify": self._notify})
        found = api.repositories.get(f"{OWNER}/{REPOSITORY}")
        assert found is not None
        self.repository: Repository = found
        self.statuses = StatusesApi(self.world)
        self.key = private_key(self.world, APP)

    def _notify(self, call: Call) -> Answer:
        self.received.append(call.body)
        return as_json(200, {})

    def environment(self) -> dict[str, str]:
        """Return the variables of tasks that have an address of GitHub, and the limit that is too long here."""
        return {
            "GITHUB_API": self.services.url("github"),
            "GITHUB_URL": (self.folder / "git").as_uri(),
            "NOTEBOOK_LIMIT_SEC": str(LIMIT_SEC),
        }

    def args(self, **changes: Any) -> NotebookPipelineArgs:
        secret = pulumi.Output.secret
        app = {"id": APP, "installationId": APP, "privateKey": secret(self.key)}
        address = self.services.url("notify").replace("http://", "json://")
        notify = {"url": secret(address), "on": ["success", "failure"]}
        given = {**GIVEN, "webhookSecret": secret(WEBHOOK_KEY), "github": app, "notify": notify}
        return NotebookPipelineArgs(**{**given, **changes})

    def objects(self, **changes: Any) -> list[tuple[str, dict[str, Any]]]:
        """Return the objects of a pipeline as pulumi-kubernetes sends them, by their types."""
        made = declared(lambda: NotebookPipeline(NAME, self.args(**changes)))
        return [(kind, as_sent(given)) for kind, given in made]


@dataclass
class Tier:
    """Everything that runs."""

    api: Api
    tekton: Tekton
    kubelet: Kubelet
    github: Github
    made: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """The objects of the pipeline that receives pushes."""

    def deliver(self, delivery: Delivery) -> int:
        """Send a delivery to the listener, and return the status of the answer. Wait for a listener that starts."""

        def send() -> int:
            with contextlib.closing(http.client.HTTPConnection("127.0.0.1", LISTENER_PORT, timeout=30)) as connection:
                try:
                    connection.request("POST", "/", delivery.content, dict(delivery.headers))
                except ConnectionRefusedError:
                    return 0
                return connection.getresponse().status

        return until(send, "the listener answers")

    def is_ready(self) -> bool:
        """Return True if the listener has the condition for which Pulumi waits."""
        [found] = self.api.get("triggers.tekton.dev/v1beta1", "EventListener", NAME, NAME)
        conditions = found.get("status", {}).get("conditions") or []
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


@pytest.fixture(scope="session")
def github(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Github]:
    found = Github(tmp_path_factory.mktemp("github"))
    yield found
    found.services.close()
    found.world.close()


@pytest.fixture(scope="session")
def tier(tmp_path_factory: pytest.TempPathFactory, github: Github) -> Iterator[Tier]:
    """Start everything. The whole tier has a network of its own (Makefile), so ports are free."""
    plane = ControlPlane(tmp_path_factory.mktemp("control-plane"))
    api: Api | None = None
    tekton: Tekton | None = None
    kubelet: Kubelet | None = None
    try:
        api = Api(plane.start())
        until(lambda: api.get("v1", "ServiceAccount", "default", "default"), "the controllers run")
        add_nodes(api, *NODES)
        tekton = Tekton(plane, api)
        tekton.start()
        host, _, port = plane.url.removeprefix("https://").partition(":")
        folder = tmp_path_factory.mktemp("kubelet")
        environment = {**github.environment(), "METRICS_PROMETHEUS_PORT": str(LISTENER_METRICS_PORT)}
        flags = {f"--port={SINK_PORT}": f"--port={LISTENER_PORT}"}
        kubelet = Kubelet(api, (host, port), folder, IMAGE, [github.folder], environment, flags)
        kubelet.start()
        yield Tier(api, tekton, kubelet, github)
    finally:
        for each in (kubelet, tekton, plane):
            if each is not None:
                each.stop()


@pytest.fixture(scope="session")
def pipeline(tier: Tier) -> Tier:
    """Return the tier with the pipeline that receives pushes."""
    tier.made = tier.github.objects()
    for _, each in tier.made:
        tier.api.apply(each)
        if each["kind"] == "Namespace":
            tier.api.ensure_account(each["metadata"]["name"])
    until(tier.is_ready, "the listener is ready")
    return tier


@pytest.fixture(scope="session")
def real(tier: Tier) -> Real:
    return Real(tier.api, tier.kubelet)


@pytest.fixture(scope="session")
def executor(tmp_path_factory: pytest.TempPathFactory, github: Github) -> Iterator[Executor]:
    found = Executor(tmp_path_factory.mktemp("sandbox"), NODES, IMAGE / "bin", github.environment())
    yield found
    found.close()


@pytest.fixture(scope="session")
def listener(pipeline: Tier, executor: Executor) -> Listener:
    """Return the listener of the sandbox, with the objects of the pipeline."""
    for kind, each in pipeline.made:
        executor.add(kind, each)
    return Listener(executor.runs, NAME, NAME)
