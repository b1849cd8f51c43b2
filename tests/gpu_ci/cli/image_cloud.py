"""A pipeline of the stack `stack` in the sandbox's Cloud Build and Artifact Registry, for tests of the commands."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import httplib2  # type: ignore[import-untyped]
from gpu_ci.cli.google_api import Call as GoogleCall
from gpu_ci.cli.google_api import calls_over
from gpu_ci.gcp.container_image_pipeline import ContainerImagePipeline, ContainerImagePipelineArgs
from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.gcp.builds import Builds
from pulumi_sandbox.providers.gcp.project_apis import ProjectApis
from pulumi_sandbox.providers.gcp.registry import Registry
from pulumi_sandbox.providers.gcp.restrictions import Restrictions
from pulumi_sandbox.providers.machines.local_services import Call
from pulumi_sandbox.providers.machines.metadata import operator, token_of
from pulumi_sandbox.world.store import Record, World

from tests.gpu_ci.harness import deploy
from tests.gpu_ci.support import COMPUTED

PROJECT = "acme-ci"
PLACE = f"projects/{PROJECT}/locations/us-central1"
REPOSITORY = f"{PLACE}/repositories/images-runner-stack"
IMAGE = f"us-central1-docker.pkg.dev/{PROJECT}/images-runner-stack/gpu-runner"
TRIGGER = f"{PLACE}/triggers/8d1ab0d2-0000-4000-8000-000000000000"
EMAIL = "image-runner-stack@acme-ci.iam.gserviceaccount.com"
ACCOUNT = f"projects/{PROJECT}/serviceAccounts/{EMAIL}"
OWNER = f"Bearer {token_of(operator(PROJECT))}"
START = datetime(2026, 11, 1, tzinfo=UTC)


class ImageCloud:
    """Google with one pipeline. `now` is the time of builds and of the clean-up."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.now = START
        projects = ProjectApis(world, Restrictions())
        self.registry = Registry(world, projects, lambda: self.now)
        self.builds = Builds(world, projects, self.registry)

    def deploy(self, **choices: Any) -> None:
        """Create or update the resources of the pipeline."""
        args = ContainerImagePipelineArgs(**{**ContainerImagePipeline.EXAMPLE, "project": PROJECT, **choices})
        computed = {**COMPUTED, types.ACCOUNT: {"email": EMAIL, "name": ACCOUNT}}
        rows = deploy(lambda: ContainerImagePipeline("runner", args), computed=computed)
        ids = {types.REPOSITORY: REPOSITORY, types.TRIGGER: TRIGGER, types.REPOSITORY_MEMBER: f"{REPOSITORY}/writer"}
        for token, path in ids.items():
            inputs = rows.one(token).inputs
            if token == types.REPOSITORY_MEMBER:
                inputs = inputs | {"repository": REPOSITORY.rpartition("/")[2]}
            if not self.world.update(token, path, inputs=inputs):
                self.world.insert(Record(token, path, "runner-trigger", "", inputs, {}))
        for row in rows.of(":CryptoKeyIAMMember"):
            self.world.insert(Record(row.type, f"{row.inputs['cryptoKeyId']}/{row.name}", row.name, "", row.inputs, {}))

    def build(self, *, after_days: float = 1, commit: str = "c" * 40) -> dict[str, Any]:
        """Run the trigger some days after the last build, and return the build."""
        self.now += timedelta(days=after_days)
        call = Call("POST", f"/v1/{TRIGGER}:run", {}, OWNER, {"source": {"commitSha": commit}})
        started = json.loads(self.builds.answer(call).body)["metadata"]["build"]
        self.builds.wait(60)
        get = Call("GET", f"/v1/{started['name']}", {}, OWNER, None)
        build: dict[str, Any] = json.loads(self.builds.answer(get).body)
        return build

    def digests(self) -> list[str]:
        """Return the digests of the images that have a tag, oldest first."""
        repository = self.world.get(types.REPOSITORY, REPOSITORY)
        assert repository
        return [each.digest for each in self.registry.images(repository) if each.tags]

    def connect(self) -> GoogleCall:
        return calls_over(_Http(self))


class _Http:
    """The connection of Google's client. The sandbox answers the requests."""

    def __init__(self, cloud: ImageCloud) -> None:
        self._cloud = cloud

    def request(self, uri: str, method: str = "GET", body: Any = None, **_: Any) -> Any:
        url = urlsplit(uri)
        services = {"artifactregistry": self._cloud.registry.answer, "cloudbuild": self._cloud.builds.answer}
        answer = services[url.netloc.removesuffix(".googleapis.com")](
            Call(method, unquote(url.path), parse_qs(url.query), OWNER, body)
        )
        reply = httplib2.Response({"status": answer.status, "content-type": "application/json"})
        return reply, answer.body.encode()

    close = partial(lambda: None)
