"""The request to GitHub's API that exchanges the code of a new App for its numbers and its key."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from gpu_ci.cli.output import InputError

_CREATED = 201
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
