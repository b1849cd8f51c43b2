"""The candidates of pipelines of kind container, from Artifact Registry. The tags of an image say what was checked."""

from __future__ import annotations

import re
from datetime import datetime
from functools import partial
from typing import Any

from gpu_ci.cli import google_api
from gpu_ci.cli.images.pipelines import MISSING, PASSED, Candidate, Pipeline, PoolPin
from gpu_ci.cli.output import InputError
from gpu_ci.cli.programs import NotAskedError
from gpu_ci.gcp.build import image_names

_PAGE_SIZE = 1000  # Google's limit (discovery document artifactregistry v1, dockerImages.list)
connect = google_api.connect
"""Tests replace this function."""


def candidates(pipeline: Pipeline) -> list[Candidate]:
    """Return the images of all builds. An image without the tag of a build, such as one pushed by hand, is left out."""
    found = (_candidate(pipeline, each) for each in _docker_images(pipeline))
    return [each for each in found if each]


def owns(pipeline: Pipeline, reference: str) -> bool:
    """Return True for any tag or digest of the pipeline's image."""
    return re.split("[@:]", reference)[0] == _image(pipeline)


def keep_hint(pipeline: Pipeline, pin: PoolPin) -> str:
    """Return what keeps the image, or "" for a digest in the file of the pipeline or in keepDigests, which is kept."""
    digest = pin.reference.partition("@")[2]
    own = pin.file.path == pipeline.file.path or digest in (pipeline.spec.choices.get("keepDigests") or ())
    if digest and own:
        return ""
    return f"add {digest or pin.reference} to keepDigests of {pipeline.spec.path} in {pipeline.file.name}"


def _repository(pipeline: Pipeline) -> str:
    return image_names.repository_id(pipeline.name, pipeline.file.stack)


def _image(pipeline: Pipeline) -> str:
    registry = image_names.address(pipeline.spec.region, pipeline.file.project, _repository(pipeline))
    return f"{registry}/{pipeline.spec.choices['build']['image']}"


def _candidate(pipeline: Pipeline, image: dict[str, Any]) -> Candidate | None:
    name, _, digest = str(image.get("uri", "")).partition("@")
    tags = [parsed for tag in image.get("tags", []) if (parsed := image_names.parse_tag(str(tag)))]
    if name != _image(pipeline) or not tags or not re.fullmatch(image_names.DIGEST, digest):
        return None
    states = {state for state, _, _ in tags}
    _, commit, _ = tags[0]
    return Candidate(
        digest,
        f"{name}@{digest}",
        f"commit {commit}",
        PASSED if image_names.CANDIDATE in states else MISSING,
        datetime.fromisoformat(str(image["uploadTime"])),
    )


def _docker_images(pipeline: Pipeline) -> list[dict[str, Any]]:
    """Return all images of the pipeline's repository.

    Raises:
        InputError: Google refuses the request or cannot be reached.
    """
    place = f"projects/{pipeline.file.project}/locations/{pipeline.spec.region}"
    parent = f"{place}/repositories/{_repository(pipeline)}"
    where = f"{pipeline.file.name}: {pipeline.spec.path}"
    images: list[dict[str, Any]] = []
    token = ""
    try:
        call = connect()
        while True:
            answer = call("artifactregistry", "v1", partial(_list, parent=parent, token=token))
            images += answer.get("dockerImages", [])
            if not (token := answer.get("nextPageToken", "")):
                return images
    except NotAskedError as error:
        hint = error.fix[0] if error.fix else ""
        raise InputError(
            f"{where}: Artifact Registry did not list the images",
            got=str(error),
            expected="credentials with roles/artifactregistry.reader on the repository of the pipeline",
            hint=hint,
        ) from None
    except google_api.GoogleError as error:
        raise InputError(
            f"{where}: Artifact Registry refused to list the images",
            got=f"{error.status}: {error}",
            expected="roles/artifactregistry.reader on the repository of the pipeline",
            hint="deploy the pipeline first: pulumi up" if error.status == 404 else f"grant the role on {parent}",
        ) from None


def _list(api: Any, parent: str, token: str) -> Any:
    images = api.projects().locations().repositories().dockerImages()
    return images.list(parent=parent, pageSize=_PAGE_SIZE, pageToken=token or None)
