"""The candidates of pipelines of kind host, from Compute Engine. A label of an image has the result of its check."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any

from gpu_ci import naming
from gpu_ci.cli.images.pipelines import FAILED, MISSING, PASSED, Candidate, Pipeline, PoolPin
from gpu_ci.cli.output import InputError
from gpu_ci.gcp.gate.compute_api import ApiError
from gpu_ci.gcp.host_image import api

_CHECKS = {api.PASSED: PASSED, api.FAILED: FAILED}
# The inputs of an image that users recognize it by, in this order.
_SHOWN = ("runner", "torch", "driver", "branch")


def candidates(pipeline: Pipeline) -> list[Candidate]:
    """Return the complete images of the pipeline."""
    where = f"{pipeline.file.name}: {pipeline.spec.path}"
    try:
        google = api.GoogleImages()
        try:
            images = google.images(pipeline.file.project, _label(pipeline))
        finally:
            google.close()
    except ApiError as error:
        raise InputError(
            f"{where}: Compute Engine did not list the images",
            got=str(error),
            expected="credentials with the permission compute.images.list",
            hint="run gcloud auth application-default login"
            if error.reason == "unauthenticated"
            else f"grant roles/compute.viewer on the project {pipeline.file.project}",
        ) from None
    return [_candidate(image) for image in images if image.get("status") == "READY"]


def owns(pipeline: Pipeline, reference: str) -> bool:
    """Return True for a name that a build of the pipeline gives to an image."""
    image = rf"projects/{re.escape(pipeline.file.project)}/global/images/{re.escape(_label(pipeline))}-[0-9a-f]{{12}}"
    return bool(re.fullmatch(image, api.path_of(reference)))


def keep_hint(pipeline: Pipeline, pin: PoolPin) -> str:
    """Return what keeps the image of a pool in another project, or "" if the build keeps it.

    The build keeps images that its own file, keepImages or an instance template of its own project names.
    """
    image = api.path_of(pin.reference)
    own = pin.file.path == pipeline.file.path or pin.file.project == pipeline.file.project
    is_kept = own or image in (pipeline.spec.choices.get("keepImages") or ())
    return "" if is_kept else f"add {image} to keepImages of {pipeline.spec.path} in {pipeline.file.name}"


def _label(pipeline: Pipeline) -> str:
    return naming.label_of(pipeline.name, pipeline.file.stack)


def _candidate(image: dict[str, Any]) -> Candidate:
    return Candidate(
        str(image["name"]),
        api.path_of(str(image["selfLink"])),
        _made_from(str(image.get("description", ""))),
        _CHECKS.get(image.get("labels", {}).get(api.CHECK_LABEL, ""), MISSING),
        datetime.fromisoformat(str(image["creationTimestamp"])),
    )


def _made_from(description: str) -> str:
    """Return the main inputs of an image from its description, such as "runner 2.338.0, torch 2.15.0"."""
    try:
        inputs = json.loads(description)
        return ", ".join(f"{name} {inputs[name]}" for name in _SHOWN if name in inputs)
    except (ValueError, TypeError):
        return ""
