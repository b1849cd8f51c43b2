"""The calls of GitHub's REST API for the statuses of commits."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pulumi_sandbox.providers.github.actions import documents
from pulumi_sandbox.providers.github.repositories import Repository
from pulumi_sandbox.providers.github.rest import Refused, Request, Route
from pulumi_sandbox.providers.machines.local_server import Answer, as_json
from pulumi_sandbox.world.store import Record, World

STATUS = "github:rest/commitStatus"
STATES = ("error", "failure", "pending", "success")
# The documentation of the call does not have this limit. GitHub answers 422 to a longer text.
DESCRIPTION_CHARACTERS = 140
_PATH = r"/repos/(?P<owner>[^/]+)/(?P<repo>[^/]+)"


@dataclass(frozen=True)
class StatusesApi:
    """The statuses of one world. Source of the fields: docs.github.com/en/rest/commits/statuses."""

    world: World

    def routes(self) -> list[Route]:
        return [
            Route("POST", rf"{_PATH}/statuses/(?P<sha>[0-9a-f]{{40}})", "statuses", "write", self._create_status),
            Route("GET", rf"{_PATH}/commits/(?P<sha>[0-9a-f]{{40}})/statuses", "statuses", "read", self._statuses),
        ]

    def of(self, repository: Repository, sha: str) -> Sequence[Mapping[str, Any]]:
        """Return the statuses of a commit, the newest one first."""
        return [each.outputs for each in self.world.find(STATUS, commit=f"{repository.full_name}@{sha}")][::-1]

    def _create_status(self, request: Request, repository: Repository, sha: str) -> Answer:
        given = request.body
        if given.get("state") not in STATES:
            raise Refused(422, f"Validation Failed: state is not one of {', '.join(STATES)}")
        if len(str(given.get("description") or "")) > DESCRIPTION_CHARACTERS:
            text = f"description is too long (maximum is {DESCRIPTION_CHARACTERS} characters)"
            raise Refused(422, f"Validation Failed: {text}")
        number, moment = self.world.next_number("github-status"), documents.instant(time.time())
        document = {
            "id": number,
            "url": f"{request.base}/repos/{repository.full_name}/statuses/{sha}",
            "state": given["state"],
            "description": given.get("description"),
            "target_url": given.get("target_url"),
            "context": given.get("context") or "default",
            "created_at": moment,
            "updated_at": moment,
        }
        outputs = {**document, "commit": f"{repository.full_name}@{sha}"}
        self.world.insert(Record(STATUS, str(number), str(document["context"]), "", {}, outputs, "api"))
        return as_json(201, document)

    def _statuses(self, request: Request, repository: Repository, sha: str) -> Answer:
        return as_json(200, [{key: each[key] for key in each if key != "commit"} for each in self.of(repository, sha)])
