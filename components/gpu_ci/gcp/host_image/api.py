"""The calls of the Compute Engine API for images, in addition to those of the smoke gate."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from ..gate.compute_api import GoogleCompute

IMAGE_LABEL, CHECK_LABEL = "gpu-ci-image", "gpu-ci-check"
"""The labels of an image: the pipeline that built it, and the result of its check."""
PASSED, FAILED = "passed", "failed"
"""The values of CHECK_LABEL. An image without the label was not checked."""


class GoogleImages(GoogleCompute):
    """The API through Google's Python client."""

    def images(self, project: str, pipeline: str) -> list[dict[str, Any]]:
        """Return the images of a pipeline, the newest first."""
        found: list[dict[str, Any]] = []
        images = self._service.images()
        call = images.list(project=project, filter=f"labels.{IMAGE_LABEL}={pipeline}")
        while call is not None:
            page = self._run(call)
            found += page.get("items", [])
            call = images.list_next(call, page)
        return sorted(found, key=lambda image: str(image["creationTimestamp"]), reverse=True)

    def insert_image(self, project: str, body: dict[str, Any]) -> str:
        """Request an image, and return the name of the global operation."""
        call = self._service.images().insert(project=project, body=body, requestId=str(uuid.uuid4()))
        return str(self._run(call)["name"])

    def label_image(self, project: str, name: str, fingerprint: str, labels: Mapping[str, str]) -> str:
        """Replace the labels that have this fingerprint, and return the name of the global operation."""
        body = {"labels": dict(labels), "labelFingerprint": fingerprint}
        call = self._service.images().setLabels(project=project, resource=name, body=body)
        # The method has no requestId. A repeated request would fail, because the first one changes the fingerprint.
        return str(self._run(call, retries=0)["name"])

    def delete_image(self, project: str, name: str) -> str:
        """Request the deletion of an image, and return the name of the global operation."""
        call = self._service.images().delete(project=project, image=name, requestId=str(uuid.uuid4()))
        return str(self._run(call)["name"])

    def image_done(self, project: str, operation: str) -> bool:
        """Return True if a global operation has ended. Raise ApiError if it failed."""
        found = self._run(self._service.globalOperations().get(project=project, operation=operation))
        if error := self._error_of(found):
            raise error
        return bool(found["status"] == "DONE")

    def images_of_templates(self, project: str) -> set[str]:
        """Return the boot images that instance templates name. Raise ApiError if the list is incomplete."""
        images: set[str] = set()
        templates = self._service.instanceTemplates()
        call = templates.aggregatedList(project=project)
        while call is not None:
            page = self._run(call)
            # An image that a template outside the list names would be deleted.
            self._require_all(page, "instance templates")
            rows = [row for scope in page.get("items", {}).values() for row in scope.get("instanceTemplates", [])]
            for disk in (disk for row in rows for disk in row["properties"].get("disks", [])):
                if image := disk.get("initializeParams", {}).get("sourceImage"):
                    images.add(path_of(str(image)))
            call = templates.aggregatedList_next(call, page)
        return images


def path_of(link: str) -> str:
    """Return the path of an image without host and API version, as projects/<project>/global/images/<name>."""
    return link[link.index("projects/") :] if "projects/" in link else link
