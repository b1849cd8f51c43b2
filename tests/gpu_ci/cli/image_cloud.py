"""Artifact Registry with the images of a pipeline, and the sandbox's Cloud Build, for tests of the commands."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import httplib2  # type: ignore[import-untyped]
from gpu_ci.cli.google_api import Call as GoogleCall
from gpu_ci.cli.google_api import calls_over
from gpu_ci.gcp.build import image_names
from pulumi_sandbox.providers.gcp.builds import Builds
from pulumi_sandbox.providers.machines.local_services import Call
from pulumi_sandbox.providers.machines.metadata import operator, token_of
from pulumi_sandbox.world.store import World

from tests.gpu_ci.cli.doctor.google_apis import compare

PROJECT = "acme-ci"
PLACE = f"projects/{PROJECT}/locations/us-central1"
REPOSITORY = f"{PLACE}/repositories/images-runner-stack"
IMAGE = f"us-central1-docker.pkg.dev/{PROJECT}/images-runner-stack/gpu-runner"
OWNER = f"Bearer {token_of(operator(PROJECT))}"
START = datetime(2026, 11, 1, tzinfo=UTC)


class ImageCloud:
    """Google with one pipeline. `now` is the time of builds."""

    def __init__(self, world: World) -> None:
        self.now = START
        self.images: list[dict[str, Any]] = []
        self.builds = Builds(world, clock=lambda: self.now)

    def build(self, *, commit: str = "c" * 40, passes: bool = True) -> str:
        """Add the image of a build, a day after the last one, and return its digest."""
        self.now += timedelta(days=1)
        number = len(self.images)
        digest = f"sha256:{hashlib.sha256(str(number).encode()).hexdigest()}"
        states = (image_names.BUILT, image_names.CANDIDATE) if passes else (image_names.BUILT,)
        build = f"8d1ab0d2-0000-4000-8000-{number:012}"
        image = {
            "name": f"{REPOSITORY}/dockerImages/gpu-runner@{digest}",
            "uri": f"{IMAGE}@{digest}",
            "tags": [image_names.tag(each, commit, build) for each in states],
            "uploadTime": self.now.isoformat(),
            "mediaType": "application/vnd.oci.image.index.v1+json",
        }
        self.images.append(image)
        return digest

    def connect(self) -> GoogleCall:
        return calls_over(_Http(self))


class _Http:
    """The connection of Google's client."""

    def __init__(self, cloud: ImageCloud) -> None:
        self._cloud = cloud

    def request(self, uri: str, method: str = "GET", body: Any = None, **_: Any) -> Any:
        url, query = urlsplit(uri), parse_qs(urlsplit(uri).query)
        if url.netloc.startswith("cloudbuild."):
            answer = self._cloud.builds.answer(Call(method, unquote(url.path), query, OWNER, body))
            return _reply(answer.status, answer.body)
        if url.path != f"/v1/{REPOSITORY}/dockerImages":
            return _reply(404, json.dumps({"error": {"code": 404, "message": "Requested entity was not found."}}))
        at = int(query.get("pageToken", ["0"])[-1])  # one image on each page
        more = {"nextPageToken": str(at + 1)} if at + 1 < len(self._cloud.images) else {}
        found = {"dockerImages": self._cloud.images[at : at + 1], **more}
        compare(found, "artifactregistry", "ListDockerImagesResponse")
        return _reply(200, json.dumps(found))

    close = partial(lambda: None)


def _reply(status: int, body: str) -> tuple[Any, bytes]:
    return httplib2.Response({"status": status, "content-type": "application/json"}), body.encode()
