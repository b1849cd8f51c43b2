"""Validates the names, URLs, ids and scripts of a runner scale set."""

from __future__ import annotations

import re
from typing import Annotated

from gpu_common.secret_patterns import GITHUB_TOKEN_PREFIX
from pydantic import AfterValidator, Field

from ... import versions
from ...errors import invalid
from ..name_types import Name

# The name of a scale set is also the name of its Helm release, so capitals and underscores are not allowed. The chart
# limits the length (actions/actions-runner-controller@9bb16ae: charts/gha-runner-scale-set/templates/
# autoscalingrunnerset.yaml).
_NAME = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_MOST_NAME = 45

# The App's id or its client id. The chart accepts both (the same repository: charts/gha-runner-scale-set/values.yaml).
_APP_ID = re.compile(r"[0-9]+|Iv[0-9A-Za-z.]{6,}")


def _url(value: str) -> str:
    found = re.fullmatch(r"https://([^/]+)(/.*)?", value)
    if found is None:
        raise invalid("is not an https URL", "not-a-github-url", safe_hint="such as https://github.com/acme")
    host, path = found[1], found[2] or ""
    if "@" in host:
        raise invalid(
            "contains a user name", "url-with-user", safe_hint="remove the text before @; the App is the only login"
        )
    if not re.fullmatch(r"(/[\w.-]+){1,2}", path) or path.endswith(".git") or path == "/enterprises":
        raise invalid(
            "is not the URL of an organization, a repository or an enterprise",
            "not-a-github-url",
            safe_hint="such as https://github.com/acme or https://github.com/acme/kernels",
        )
    return value


def is_repository(url: str) -> bool:
    """Return True if the URL is the URL of a repository. A repository has no runner groups."""
    _, owner, *rest = url.removeprefix("https://").split("/")
    return bool(rest) and owner != "enterprises"


def _no_token(value: str) -> str:
    if GITHUB_TOKEN_PREFIX.match(value):
        raise invalid(
            "is a personal access token",
            "personal-token",
            safe_hint="create a GitHub App, and set its id, installation id and key",
        )
    return value


def _app_id(value: str) -> str:
    if not _APP_ID.fullmatch(_no_token(value)):
        raise invalid(
            "is not the id of a GitHub App",
            "not-an-app-id",
            safe_hint="the App's page shows its App ID and its Client ID",
        )
    return value


def _installation(value: str) -> str:
    if not _no_token(value).isdecimal():
        raise invalid(
            "is not the id of an installation",
            "not-an-installation-id",
            safe_hint="use the number at the end of the installation's URL",
        )
    return value


# The value of each secret in the sandbox that sandbox.yaml does not give (sandbox/pulumi_sandbox/fixtures).
_PLACEHOLDER = re.compile(r"sandbox-placeholder-of-([\w:/.-]+)")


def _key(value: str) -> str:
    if placeholder := _PLACEHOLDER.fullmatch(value):
        raise invalid(
            f"is the sandbox's placeholder for the secret {placeholder[1]}, not a private key",
            "sandbox-placeholder",
            safe_hint="add the key to sandbox.yaml (docs/reference/sandbox-yaml.md#lookups)",
        )
    if not _no_token(value).startswith("-----BEGIN ") or "PRIVATE KEY-----" not in value.splitlines()[0]:
        raise invalid(
            "is not a private key",
            "not-a-private-key",
            safe_hint="use the whole .pem file from GitHub, including its first line",
        )
    return value


def _priority_class(value: str) -> str:
    if value.startswith("system-"):
        raise invalid(
            "is a class of Kubernetes itself, for which the scheduler would evict any other pod",
            "reserved-name",
            safe_hint="use a class of your own",
        )
    return value


def minor(version: str) -> str:
    """Return the minor version, such as 0.13. The controller compares only this part of a version.

    Source: actions/actions-runner-controller, apis/actions.github.com/v1alpha1/version.go.
    """
    return version.rpartition(".")[0]


def _same_minor(version: str) -> str:
    ours = minor(versions.ARC_CHARTS)
    if minor(version) != ours:
        raise invalid(
            "is a controller of another minor version, which would delete the scale sets of this version",
            "other-controller-version",
            expected=f"{ours}.x",
            safe_hint="use the ArcController of the same version of this package",
        )
    return version


def _script(value: str) -> str:
    if not value.startswith("#!"):
        raise invalid(
            "does not start with the program that runs it", "no-shebang", safe_hint="start it with #!/usr/bin/env bash"
        )
    return value


ScaleSetName = Annotated[str, Field(pattern=_NAME, max_length=_MOST_NAME)]
ConfigUrl = Annotated[str, AfterValidator(_url)]
AppId = Annotated[str, AfterValidator(_app_id)]
InstallationId = Annotated[str, AfterValidator(_installation)]
PrivateKey = Annotated[str, AfterValidator(_key)]
ControllerVersion = Annotated[str, Field(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+$"), AfterValidator(_same_minor)]
# The same chart: each "must be a non-empty string of less than 256 characters".
Label = Annotated[str, Field(min_length=1, max_length=255)]
PriorityClassName = Annotated[Name, AfterValidator(_priority_class)]
Script = Annotated[str, AfterValidator(_script)]
