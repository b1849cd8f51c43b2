"""Requests to GitHub's API: exchange the code of a new App, and read with the token of an App."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any
from urllib.parse import quote

from gpu_ci.cli.output import InputError
from gpu_ci.cli.verify.checklist import NotAskedError

OK, NOT_FOUND = 200, 404
_CREATED = 201
LATEST_RUNNER = "/repos/actions/runner/releases/latest"
"""The path of the latest release of GitHub's runner."""
_TIMEOUT_SEC = 20


@dataclass(frozen=True)
class NewApp:
    """An App that GitHub has just created."""

    id: int
    slug: str
    owner: str
    pem: bytes = field(repr=False)


def convert(api_url: str, code: str) -> NewApp:
    """Exchange the code that GitHub gave to the browser. It is valid for one hour, and once.

    docs.github.com/en/rest/apps/apps, "Create a GitHub App from a manifest".

    Raises:
        InputError: GitHub refused the code or could not be reached.
    """
    import httplib2  # type: ignore[import-untyped]

    connection = httplib2.Http(timeout=_TIMEOUT_SEC)
    headers = {"accept": "application/vnd.github+json", "user-agent": "gpu-ci", "content-length": "0"}
    try:
        response, body = connection.request(
            f"{api_url}/app-manifests/{quote(code, safe='')}/conversions", "POST", headers=headers
        )
        answer: dict[str, Any] = json.loads(body) if body else {}
    except (httplib2.HttpLib2Error, OSError, ValueError) as error:
        raise InputError(f"{api_url}: no usable answer", got=f"{type(error).__name__}: {error}") from None
    if int(response.status) != _CREATED:
        raise InputError(
            "GitHub did not create the App from its code",
            got=f"{response.status} {answer.get('message', '')}".strip(),
            expected="a code that is less than one hour old and was not used",
            hint="create the App again on the page",
        )
    return NewApp(int(answer["id"]), str(answer["slug"]), str(answer["owner"]["login"]), str(answer["pem"]).encode())


def get(api_url: str, path: str, token: str = "") -> tuple[int, dict[str, Any]]:
    """Return the status and the JSON of GitHub's answer.

    Raises:
        NotAskedError: GitHub could not be reached, or answered something else. The text has no part of the answer.
    """
    import httplib2

    headers = {"accept": "application/vnd.github+json", "user-agent": "gpu-ci"}
    if token:
        headers["authorization"] = f"Bearer {token}"
    try:
        response, body = httplib2.Http(timeout=_TIMEOUT_SEC).request(f"{api_url}{path}", headers=headers)
        answer = json.loads(body)
    except ValueError:
        raise NotAskedError(f"{api_url}: the answer is no JSON") from None
    except (httplib2.HttpLib2Error, OSError) as error:
        raise NotAskedError(f"{api_url} could not be reached: {type(error).__name__}") from None
    return int(response.status), answer if isinstance(answer, dict) else {}


def runner_release(answer: Mapping[str, Any]) -> tuple[str, date]:
    """Return the version and the day of the release in GitHub's answer to LATEST_RUNNER.

    Raises:
        ValueError: The answer has no version with a day.
    """
    version = str(answer.get("tag_name")).removeprefix("v")
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise ValueError(version)
    return version, date.fromisoformat(str(answer.get("published_at"))[:10])
