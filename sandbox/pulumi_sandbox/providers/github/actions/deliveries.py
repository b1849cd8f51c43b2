"""The webhook of the emulated GitHub. Each change of a job's status is one event, delivered once without retries.

Source: docs.github.com, "Webhook events and payloads" (workflow_job, delivery headers) and "Handling failed webhook
deliveries".
"""

from __future__ import annotations

import hashlib
import hmac
import json
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from pulumi_sandbox.providers.github.actions import documents
from pulumi_sandbox.providers.github.actions.model import JOB, RUN
from pulumi_sandbox.providers.github.repositories import Repositories
from pulumi_sandbox.providers.github.world import API
from pulumi_sandbox.world.store import World

# docs.github.com, "Best practices for using webhooks".
_WITHIN_SEC = 10.0
_SENDER = "octocat"


class Deliveries:
    """The webhook deliveries of jobs whose status changes after the start.

    Args:
        world: The world of the sandbox.
        url: The URL of the receiver.
        secret: The secret of the webhook.
        log: Called with one line for each delivery that fails.
    """

    def __init__(self, world: World, url: str, secret: bytes, log: Callable[[str], Any] = lambda _: None) -> None:
        self._world, self._url, self._secret, self._log = world, url, secret, log
        self._statuses = {row.id: row.outputs["status"] for row in world.find(JOB)}

    def send(self) -> None:
        """Deliver an event for each job whose status has changed since the last call."""
        for payload in list(self._events()):
            self._deliver(payload)

    def _events(self) -> Iterator[dict[str, Any]]:
        for row in self._world.find(JOB):
            job = row.outputs
            if self._statuses.get(row.id) == job["status"]:
                continue
            self._statuses[row.id] = job["status"]
            run = self._world.get(RUN, str(job["runId"]))
            repository = Repositories(self._world, (job["repository"],)).get(job["repository"])
            if run is None or repository is None:
                continue
            yield {
                "action": job["status"],
                "workflow_job": documents.job(API, job, run.outputs),
                "repository": documents.repository(API, repository),
                "organization": documents.account(API, repository.owner),
                "sender": documents.account(API, _SENDER, "User"),
            }

    def _deliver(self, payload: dict[str, Any]) -> None:
        body = json.dumps(payload).encode()
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "GitHub-Hookshot/sandbox",
            "X-GitHub-Delivery": str(uuid.uuid4()),
            "X-GitHub-Event": "workflow_job",
            "X-Hub-Signature-256": "sha256=" + hmac.new(self._secret, body, hashlib.sha256).hexdigest(),
        }
        request = urllib.request.Request(self._url, body, headers)  # noqa: S310 - an address of this computer
        try:
            # GitHub does not use the HTTP proxy of the local user.
            urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=_WITHIN_SEC).close()
        except (urllib.error.URLError, OSError) as error:
            self._log(f"webhook: {payload['action']} of job {payload['workflow_job']['id']}: {error}")
