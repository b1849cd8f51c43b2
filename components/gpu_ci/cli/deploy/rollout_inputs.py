"""Reads the names and the settings of a rollout, and connects to the endpoint."""

from __future__ import annotations

import re

from pydantic import ValidationError

from gpu_ci.cli import clock
from gpu_ci.cli.google_api import custom_address
from gpu_ci.cli.mistakes import Mistakes, read_bytes, yaml_settings
from gpu_ci.cli.output import InputError
from gpu_ci.delivery.rollout.loop import Clock
from gpu_ci.delivery.rollout.settings import Settings
from gpu_ci.delivery.targets.vertex import ENDPOINT, Monitoring, VertexEndpoint
from gpu_ci.gcp.gate.google_service import ApiError
from gpu_ci.gcp.gate.vertex_api import VertexApi

_MODEL = re.compile(
    r"((?P<parent>projects/[^/]+/locations/[^/]+)/models/)?(?P<id>[a-z0-9_][a-z0-9_-]{0,62})@(?P<version>[1-9]\d{0,9})"
)
_SETTINGS = "the settings of a rollout in YAML"
_SETTINGS_HINT = "such as strategy: canary; an empty file has the defaults"


def read_settings(file: str | None, mistakes: Mistakes) -> Settings:
    """Return the settings of a file, or the defaults without a file or after a mistake."""
    if file is None:
        return Settings()
    before = mistakes.count
    content = read_bytes(file, _SETTINGS, _SETTINGS_HINT, mistakes)
    if mistakes.count > before:
        return Settings()
    from gpu_ci.validation_errors import explain

    document, subject = yaml_settings(file, content)
    try:
        return Settings.model_validate(document)
    except ValidationError as error:
        for problem in explain(error, Settings):
            mistakes.add_problem(subject(problem.path), problem)
    return Settings()


def check_endpoint(name: str, mistakes: Mistakes) -> None:
    if not ENDPOINT.fullmatch(name):
        mistakes.add(
            "ENDPOINT", "", "is not the name of an endpoint", repr(name),
            "projects/PROJECT/locations/LOCATION/endpoints/ID", "gcloud ai endpoints list --region LOCATION --uri",
        )  # fmt: skip


def read_model(name: str, endpoint: str, mistakes: Mistakes) -> tuple[str, str]:
    """Return the id and the version of a model, which must be in the project and location of the endpoint."""
    found = _MODEL.fullmatch(name)
    parent = endpoint.rpartition("/endpoints/")[0]
    if not found:
        hint = "an alias can move during a rollout; gcloud ai models list-version ID shows the numbers"
        mistakes.add("MODEL", "", "is not a version of a model", repr(name), "ID@NUMBER, such as scan@4", hint)
        return "", ""
    if found["parent"] and found["parent"] != parent:
        hint = f"copy the model there, or write {found['id']}@{found['version']}"
        mistakes.add("MODEL", "", "is not next to the endpoint", found["parent"], parent, hint)
    return found["id"], found["version"]


def connect(name: str) -> VertexEndpoint:
    """Return the endpoint. Raise InputError without credentials."""
    match = ENDPOINT.fullmatch(name)
    location = match["location"] if match else ""
    try:
        api = VertexApi(location, custom_address("aiplatform", "v1"))
        return VertexEndpoint(name, api, Monitoring(custom_address("monitoring", "v3")))
    except ApiError as error:
        raise InputError(f"{name}: {error}", hint="gcloud auth application-default login") from None


def real_clock() -> Clock:
    return Clock(lambda: clock.now().timestamp(), clock.sleep)
