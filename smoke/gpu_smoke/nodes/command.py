"""The command `gpu-smoke prove-nodes`. It runs in a pod, and repeats one pass over the nodes of a pool."""

from __future__ import annotations

import json
import os
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .. import output, reports
from ..options import Parser
from .decision import Object, Pool, Settings, Step

PAUSE_SEC = 5.0
_TIMEOUT_SEC = 30.0
_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
# The types of the bodies, by the method of the request.
_TYPES = {"POST": "application/json", "DELETE": "application/json", "PATCH": "application/merge-patch+json"}


class RefusedError(Exception):
    """The API server refused a request."""


class Api:
    """The API server of the cluster, with the token of the pod's service account."""

    def __init__(self, server: str, account: Path) -> None:
        self._server, self._token = server, account / "token"
        context = ssl.create_default_context(cafile=str(account / "ca.crt"))
        # Since 3.13, Python refuses certificates of older EKS clusters by default: they have no identifier of their
        # authority, which RFC 5280 allows (kubernetes-client/python#2394). Chain, names and dates are still verified.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )

    def items(self, path: str, labels: str = "") -> list[Object]:
        """Return the objects of a list."""
        query = f"?{urllib.parse.urlencode({'labelSelector': labels})}" if labels else ""
        return list(self._request("GET", f"{path}{query}")["items"])

    def send(self, step: Step) -> None:
        """Send the request of a step."""
        self._request(step.method, step.path, step.body)

    def _request(self, method: str, path: str, body: Object | None = None) -> Any:
        # Kubernetes renews the file of the token.
        headers = {"Authorization": f"Bearer {self._token.read_text().strip()}", "Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = _TYPES[method]
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._server}{path}", data, headers, method=method)  # noqa: S310
        try:
            with self._opener.open(request, timeout=_TIMEOUT_SEC) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            text = error.read().decode(errors="replace")
            raise RefusedError(f"{method} {path}: {error.code} {reports.safe_line(text, 500)}") from None


def main(argv: Sequence[str]) -> int:
    """Run until the process is ended. Raises UsageError for a wrong command line."""
    parser = Parser(prog="gpu-smoke prove-nodes", description="Check each node of a pool before it may take jobs.")
    parser.add_argument("--settings", metavar="FILE", required=True, help="the settings, which gpu-ci writes")
    parser.add_argument("--account", metavar="DIR", default=_ACCOUNT, help="the folder with ca.crt and token")
    given = parser.parse_args(list(argv))
    settings = Settings(**json.loads(Path(given.settings).read_text(encoding="utf-8")))
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    api = Api(f"https://{f'[{host}]' if ':' in host else host}:{port}", Path(given.account))
    short_since: dict[str, datetime] = {}
    while True:
        try:
            run_pass(api, settings, short_since)
        except (OSError, RefusedError, ValueError) as error:
            output.say(f"this pass failed, and the next one follows: {error}")
        time.sleep(PAUSE_SEC)


def run_pass(api: Api, settings: Settings, short_since: dict[str, datetime]) -> None:
    """Read the objects of the pool once, and do what follows from them."""
    now = datetime.now(UTC)
    pool = Pool(
        settings,
        now,
        nodes=api.items("/api/v1/nodes", f"gpu-ci-pool={settings.pool}"),
        jobs=api.items(settings.jobs, f"gpu-ci-proof={settings.pool}"),
        pods=api.items(f"/api/v1/namespaces/{settings.namespace}/pods"),
        short_since=short_since,
    )
    short = [node["metadata"]["uid"] for node in pool.nodes if pool.is_short(node)]
    for uid in [*short_since]:
        if uid not in short:
            del short_since[uid]
    for uid in short:
        short_since.setdefault(uid, now)
    for step in pool.steps():
        output.say(step.text)
        try:
            api.send(step)
        except RefusedError as error:  # such as a conflict; the next pass reads the object again
            output.say(f"not done: {error}")
