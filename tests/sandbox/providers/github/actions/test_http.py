"""The sandbox's GitHub over HTTP: headers in, headers out, and the address that a runner gets."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from pulumi_sandbox.providers.machines.local_services import LocalServices

from tests.sandbox.providers.gcp.api import OPENER
from tests.sandbox.providers.github.actions.conftest import KERNELS, RUNNERS, Hub


@pytest.fixture
def base(hub: Hub) -> Iterator[str]:
    services = LocalServices({"github": hub.api.answer})
    yield services.with_addresses({"url": "${github}"})["url"]
    services.close()


def ask(method: str, url: str, headers: Mapping[str, str], body: Any = None) -> tuple[int, str, Mapping[str, str]]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, dict(headers), method=method)  # noqa: S310 - our own server
    try:
        with OPENER.open(request, timeout=30) as answer:
            return answer.status, answer.read().decode(), answer.headers
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode(), error.headers


def test_an_answer_has_the_headers_that_a_client_needs(hub: Hub, base: str) -> None:
    hub.queue()
    hub.queue()
    token = {"Authorization": f"Bearer {hub.token}"}
    url = f"{base}{KERNELS}/actions/runs?per_page=1"
    status, _, headers = ask("GET", url, token)
    assert (status, headers["Date"]) == (200, "Fri, 15 Jan 2027 08:00:00 GMT")
    assert headers["Link"].startswith(f'<{url}&page=2>; rel="next"')


def test_a_runner_is_sent_back_to_the_server_that_registered_it(hub: Hub, base: str) -> None:
    body = {"name": "vm-1", "runner_group_id": 1, "labels": ["gpu"]}
    _, text, _ = ask("POST", f"{base}{RUNNERS}/generate-jitconfig", {"Authorization": f"Bearer {hub.token}"}, body)
    files = json.loads(base64.b64decode(json.loads(text)["encoded_jit_config"]))
    settings, credentials = (json.loads(base64.b64decode(files[name])) for name in (".runner", ".credentials"))
    assert settings["serverUrl"] == base
    bearer = {"Authorization": f"Bearer {credentials['token']}"}
    assert ask("POST", f"{settings['serverUrl']}/_runner/session", bearer)[:2] == (200, '{"runner_id": 1}')
    assert ask("GET", f"{settings['serverUrl']}/_runner/job", bearer)[0] == 204


def test_a_request_without_a_user_agent_is_refused(hub: Hub, base: str) -> None:
    status, text, _ = ask("GET", f"{base}{RUNNERS}", {"Authorization": f"Bearer {hub.token}", "User-Agent": ""})
    assert status == 403
    assert "User-Agent" in json.loads(text)["message"]
