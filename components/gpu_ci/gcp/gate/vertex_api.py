"""The calls of the Vertex AI API that rollouts and training jobs need."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from .google_service import PLATFORM, ApiError, GoogleService

_RETRIES_OF_READS = 3
# A write is not retried here: the caller reads the endpoint again, and decides whether the write is still right.
_NO_RETRIES = 0

CONFLICTS = (409, 412)
"""The statuses of a write with an old etag, or of an id that exists. Google's documents name neither."""


def is_conflict(error: ApiError) -> bool:
    """Return True if the endpoint is no longer in the state that a write assumed. Read it again, and decide again."""
    return error.status in CONFLICTS or error.reason == "FAILED_PRECONDITION"


class VertexApi(GoogleService):
    """The endpoints and custom jobs of one region.

    All methods raise ApiError.
    """

    def __init__(self, location: str, address: str = "", retries: int = _RETRIES_OF_READS) -> None:
        """Create the client. `address` replaces Google's address, as in a sandbox."""
        address = address or f"https://{location}-aiplatform.googleapis.com"
        super().__init__("aiplatform", "v1", address, PLATFORM, retries)

    def endpoint(self, name: str) -> dict[str, Any]:
        """Return an endpoint, projects/PROJECT/locations/LOCATION/endpoints/ID, with its deployed models and etag."""
        return dict(self._run(self._endpoints.get(name=name)))

    def update(self, name: str, etag: str, split: Mapping[str, int], labels: Mapping[str, str]) -> None:
        """Write the traffic split and all labels in one request, if the endpoint still has this etag."""
        if not etag:
            raise ApiError("no-etag", f"{name} has no etag, so that the write could undo one of another program")
        body = {"etag": etag, "trafficSplit": dict(split), "labels": dict(labels)}
        self._run(self._endpoints.patch(name=name, updateMask="trafficSplit,labels", body=body), _NO_RETRIES)

    def deploy(self, name: str, deployed_model: Mapping[str, Any]) -> str:
        """Request a deployed model without traffic, and return the name of the operation."""
        body = {"deployedModel": dict(deployed_model)}
        return str(self._run(self._endpoints.deployModel(endpoint=name, body=body), _NO_RETRIES)["name"])

    def undeploy(self, name: str, deployed_id: str) -> str:
        """Request the removal of a deployed model, and return the operation. Google refuses one with traffic."""
        body = {"deployedModelId": deployed_id}
        return str(self._run(self._endpoints.undeployModel(endpoint=name, body=body), _NO_RETRIES)["name"])

    def operation(self, name: str) -> tuple[bool, str]:
        """Return whether an operation has ended, and the message of its error, empty if there is none.

        The error that a deployed model exists is none, because its id names the rollout.
        """
        found = self._run(self._operations.get(name=name))
        error = found.get("error") or {}
        is_error = bool(error) and error.get("code") != _ALREADY_EXISTS
        return bool(found.get("done")), str(error.get("message") or f"code {error.get('code')}") if is_error else ""

    def create_job(self, parent: str, job: Mapping[str, Any]) -> dict[str, Any]:
        """Create a custom job in projects/PROJECT/locations/LOCATION, and return it with its name."""
        return dict(self._run(self._jobs.create(parent=parent, body=dict(job)), _NO_RETRIES))

    def jobs(self, parent: str, label: str, value: str) -> list[dict[str, Any]]:
        """Return the custom jobs with this value of a label, in any state."""
        found: list[dict[str, Any]] = []
        page: dict[str, str] = {}
        while True:
            answer = self._run(self._jobs.list(parent=parent, filter=f"labels.{label}={value}", **page))
            found += answer.get("customJobs", ())
            if not answer.get("nextPageToken"):
                return [each for each in found if each.get("labels", {}).get(label) == value]
            page = {"pageToken": answer["nextPageToken"]}

    def job(self, name: str) -> dict[str, Any]:
        """Return a custom job, projects/PROJECT/locations/LOCATION/customJobs/ID."""
        return dict(self._run(self._jobs.get(name=name)))

    def cancel_job(self, name: str) -> None:
        """Request the end of a custom job. Google refuses one that has ended."""
        self._run(self._jobs.cancel(name=name, body={}))

    @cached_property
    def _endpoints(self) -> Any:
        """The methods. Google's client takes 20 ms of CPU to make them."""
        return self._service.projects().locations().endpoints()

    @cached_property
    def _operations(self) -> Any:
        return self._endpoints.operations()

    @cached_property
    def _jobs(self) -> Any:
        return self._service.projects().locations().customJobs()


# google.rpc.Code
_ALREADY_EXISTS = 6
