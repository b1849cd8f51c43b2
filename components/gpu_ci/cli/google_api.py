"""Sends requests to Google APIs with the credentials of the smoke gate."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import Any

from gpu_ci.cli.programs import NotAskedError
from gpu_ci.gcp.gate import google_service

NOT_FOUND = 404
# The environment variable with the address of each service, as in Terraform's Google provider. All paths of the API
# start with this address. It contains the version of the API.
ENDPOINTS = {
    "aiplatform": "GOOGLE_VERTEX_AI_CUSTOM_ENDPOINT",
    "artifactregistry": "GOOGLE_ARTIFACT_REGISTRY_CUSTOM_ENDPOINT",
    "cloudbuild": "GOOGLE_CLOUD_BUILD_CUSTOM_ENDPOINT",
    "cloudresourcemanager": "GOOGLE_RESOURCE_MANAGER_V3_CUSTOM_ENDPOINT",
    "compute": "GOOGLE_COMPUTE_CUSTOM_ENDPOINT",
    "container": "GOOGLE_CONTAINER_CUSTOM_ENDPOINT",
    "iam": "GOOGLE_IAM_CUSTOM_ENDPOINT",
    "monitoring": "GOOGLE_MONITORING_CUSTOM_ENDPOINT",
    "orgpolicy": "GOOGLE_ORG_POLICY_CUSTOM_ENDPOINT",
    "secretmanager": "GOOGLE_SECRET_MANAGER_CUSTOM_ENDPOINT",
    "serviceusage": "GOOGLE_SERVICE_USAGE_CUSTOM_ENDPOINT",
    "storage": "GOOGLE_STORAGE_CUSTOM_ENDPOINT",
}
# For these services, Google's client expects the version in the address. For others, it adds the version itself.
_VERSION_IN_ADDRESS = ("compute", "storage")
_LOGIN = ("gcloud auth application-default login",)

Call = Callable[[str, str, Callable[[Any], Any]], dict[str, Any]]
"""A function that sends a request to a Google API, and returns the answer.

Its arguments are the service, the version, and a function that gets the service's client and returns the request.
Raises GoogleError if Google refuses the request, and NotAskedError if Google cannot be reached.
"""


class GoogleError(Exception):
    """Google refused a request."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def connect() -> Call:
    """Return a Call with the credentials of the smoke gate. Raise NotAskedError without credentials."""
    return calls_over(google_service.connect(_credentials(), google_service.TIMEOUT_SEC))


def quota_project() -> str | None:
    """Return the quota project of a user's credentials, empty if they have none. Return None for other credentials.

    Google charges and checks the requests of other credentials in the project of their account
    (docs.cloud.google.com/docs/quotas/quota-project).
    """
    found = _credentials()
    return (found.quota_project_id or "") if getattr(found, "refresh_token", None) else None


def _credentials() -> Any:
    try:
        return google_service.credentials(os.environ, google_service.PLATFORM)
    except google_service.CredentialsError as error:
        raise NotAskedError(str(error), _LOGIN) from None


def calls_over(http: Any) -> Call:
    """Return a Call that uses an httplib2 connection."""
    from google.auth.exceptions import GoogleAuthError
    from googleapiclient.discovery import build
    from googleapiclient.errors import HttpError
    from httplib2 import HttpLib2Error  # type: ignore[import-untyped]

    @cache
    def client(service: str, version: str) -> Any:
        address = custom_address(service, version)
        options = {"api_endpoint": address} if address else {}
        return build(service, version, http=http, client_options=options, static_discovery=True, cache_discovery=False)

    def call(service: str, version: str, request: Callable[[Any], Any]) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = request(client(service, version)).execute(num_retries=3)
        except HttpError as error:
            raise GoogleError(int(error.resp.status), str(error.reason)) from None
        except GoogleAuthError as error:
            raise NotAskedError(str(error), _LOGIN) from None
        except (HttpLib2Error, OSError) as error:
            raise NotAskedError(f"{service} could not be reached: {error}") from None
        return answer

    return call


def custom_address(service: str, version: str) -> str:
    """Return the address from the environment, or an empty text for Google's own address.

    The version is removed from the address if Google's client adds the version itself.
    """
    address = os.environ.get(ENDPOINTS.get(service, ""), "").rstrip("/")
    base = address if service in _VERSION_IN_ADDRESS else address.removesuffix(f"/{version}")
    return f"{base}/" if base else ""


def ask(call: Call, service: str, version: str, request: Callable[[Any], Any]) -> dict[str, Any]:
    """Return the answer to a request. Raise NotAskedError if Google refuses the request."""
    try:
        return call(service, version, request)
    except GoogleError as error:
        raise NotAskedError(str(error)) from None


def find(call: Call, service: str, version: str, request: Callable[[Any], Any]) -> dict[str, Any] | None:
    """Return the answer to a request, or None if the requested object does not exist."""
    try:
        return call(service, version, request)
    except GoogleError as error:
        if error.status != NOT_FOUND:
            raise NotAskedError(str(error)) from None
        return None


def caller() -> str:
    """Return the IAM member of the current credentials, as an argument for a shell command."""
    if account := os.environ.get(google_service.IMPERSONATE):
        return f"serviceAccount:{account}"
    return '"user:$(gcloud config get-value account)"'
