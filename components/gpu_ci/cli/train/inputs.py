"""Reads the settings of a training job, its location and the name of the run, and connects to Vertex AI."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from gpu_ci.cli.google_api import custom_address
from gpu_ci.cli.mistakes import Mistakes, read_bytes, yaml_settings
from gpu_ci.cli.output import InputError
from gpu_ci.delivery.training.jobs import hash_of
from gpu_ci.delivery.training.settings import Settings
from gpu_ci.gcp.gate.google_service import ApiError
from gpu_ci.gcp.gate.vertex_api import VertexApi

_TARGET = re.compile(r"(?P<parent>projects/[^/]+/locations/(?P<location>[a-z0-9-]+))(/customJobs/\d+)?")
_FORM = "projects/PROJECT/locations/LOCATION"
# The run of a job on GitHub Actions. Each attempt has a job of its own.
_RUN = ("GITHUB_REPOSITORY", "GITHUB_RUN_ID", "GITHUB_JOB", "GITHUB_RUN_ATTEMPT")
_LONGEST_NAME = 128


def read_location(target: str, mistakes: Mistakes, can_be_job: bool = True) -> tuple[str, str]:
    """Return the name of the location, and its last part, such as europe-west4."""
    found = _TARGET.fullmatch(target)
    if not found or (found[3] and not can_be_job):
        form = f"{_FORM}, or {_FORM}/customJobs/ID" if can_be_job else _FORM
        subject, text = ("JOB", "is not the name of a job") if can_be_job else ("LOCATION", "is not a location")
        mistakes.add(subject, "", text, repr(target), form, "such as projects/acme/locations/europe-west4")
        return "", ""
    return found["parent"], found["location"]


def read_run(key: str, mistakes: Mistakes) -> tuple[str, str]:
    """Return the hash and the display name of this run. Outside GitHub Actions, `key` is its name."""
    values = [os.environ.get(name, "") for name in _RUN]
    is_action = all(values)
    if not is_action and not key:
        mistakes.add(
            "--key", "", "is missing", "nothing", "the name of this run, each time another one",
            "on GitHub Actions, the name is that of repository, run, job and attempt",
        )  # fmt: skip
    words = [*values, key] if is_action else [key]
    return hash_of(words), " ".join(filter(None, words))[:_LONGEST_NAME]


def read_settings(
    file: str, location: str, image: str | None, variables: Sequence[str], mistakes: Mistakes
) -> Settings | None:
    """Return the settings of a file with the values of options, or None after a mistake."""
    before = mistakes.count
    hint = "such as image: NAME@sha256:…, machineType: g2-standard-12 and timeoutMinutes: 360"
    content = read_bytes(file, "the settings of a training job in YAML", hint, mistakes)
    env = _variables(variables, mistakes)
    if mistakes.count > before:
        return None
    from gpu_ci.validation_errors import explain

    document, in_file = yaml_settings(file, content)
    document = _merged(document, image, env)

    def subject(path: str) -> str:
        if path == "image" and image is not None:
            return "--image"
        if path.removeprefix("env.") in env:
            return "--env"
        return in_file(path)

    try:
        settings = Settings.model_validate(document)
    except ValidationError as error:
        for each in explain(error, Settings):
            mistakes.add_problem(subject(each.path), replace(each, hint=each.hint or "docs/guides/train-from-ci.md"))
        return None
    if location and location not in settings.machine.regions:
        where, name = subject("machineType"), settings.machine_type
        regions = ", ".join(settings.machine.regions)
        mistakes.add(
            where, "machineType", f"is not in {location}", name, f"a machine of {location}", f"it is in {regions}"
        )
        return None
    return settings


def _variables(given: Sequence[str], mistakes: Mistakes) -> dict[str, str]:
    """Return the variables of --env. The text of a wrong one is not shown, because it may be a secret."""
    for each in given:
        if "=" not in each:
            mistakes.add("--env", "", "is not a variable", "a text without =", "NAME=VALUE", "such as EPOCHS=10")
    return {name: value for name, _, value in (each.partition("=") for each in given)}


def _merged(document: Any, image: str | None, env: dict[str, str]) -> Any:
    if not isinstance(document, dict):
        return document
    own = document.get("env")
    if env and (own is None or isinstance(own, dict)):
        document = {**document, "env": {**(own or {}), **env}}
    return document | ({"image": image} if image is not None else {})


def connect(location: str) -> VertexApi:
    """Return the client. Raise InputError without credentials."""
    try:
        return VertexApi(location, custom_address("aiplatform", "v1"))
    except ApiError as error:
        raise InputError(str(error), hint="gcloud auth application-default login") from None
