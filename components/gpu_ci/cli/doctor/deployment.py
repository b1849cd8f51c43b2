"""What `gpu-ci doctor` asks about: a stack file, and the connections to Google and GitHub."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from gpu_ci.cli.github_app import secret_store
from gpu_ci.cli.github_app.apps import ask
from gpu_ci.cli.google_api import NOT_FOUND, Call, GoogleError, caller
from gpu_ci.cli.output import InputError
from gpu_ci.cli.programs import NotAskedError
from gpu_ci.cli.stack_files import StackFile
from gpu_ci.secret_manager import aws_secret

GITHUB_API = "https://api.github.com"
_FORBIDDEN = 403


@dataclass(frozen=True)
class Deployment:
    """A stack file that the user is about to deploy."""

    file: StackFile
    connect: Callable[[], Call]
    github_url: str = GITHUB_API
    """The address of GitHub's API."""

    @cached_property
    def call(self) -> Call:
        return self.connect()

    @property
    def stack(self) -> str:
        return self.file.stack

    @property
    def region(self) -> str:
        """The region of the first pool on Google Cloud, for the commands that create something."""
        specs = (spec for spec in self.file.specs if spec.cloud == "gcp" and spec.region)
        return next((spec.region for spec in specs), "us-central1")

    @cached_property
    def project_file(self) -> dict[str, Any]:
        """Pulumi.yaml next to the stack file, or an empty map."""
        return _yaml(self.file.path.with_name("Pulumi.yaml"))

    @property
    def github_web(self) -> str:
        """The address of GitHub for a browser."""
        is_github_com = self.github_url == GITHUB_API
        return "https://github.com" if is_github_com else self.github_url.removesuffix("/api/v3")

    def ask_github(self, path: str, token: str = "") -> tuple[int, dict[str, Any]]:
        """Return the status and the JSON of GitHub's answer. Raise NotAskedError if there is none."""
        try:
            return ask(self.github_url, path, token)
        except InputError as error:
            raise NotAskedError(str(error)) from None

    def private_key(self, secret: str) -> bytes | None:
        """Return the newest version of a secret, or None if there is none. The value stays in memory."""
        if aws_secret(secret):
            return secret_store.newest_on_aws(secret)
        try:
            return secret_store.newest_on_google(self.call, secret)
        except GoogleError as error:
            if error.status == NOT_FOUND:
                return None
            _, project, _, name = secret.split("/")
            grant = f"gcloud secrets add-iam-policy-binding {name} --project {project}"
            role = "roles/secretmanager.secretAccessor"
            fix = (f"{grant} --member {caller()} --role {role}",) if error.status == _FORBIDDEN else ()
            raise NotAskedError(f"the key in {secret} cannot be read: {error}", fix) from None


def _yaml(path: Path) -> dict[str, Any]:
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, yaml.YAMLError):  # The text of the error may quote a secret of the file.
        raise NotAskedError(f"{path} cannot be read") from None
    return found if isinstance(found, dict) else {}
