"""The base of the clients of Google's APIs, through Google's Python client, with the credentials that pulumi-gcp uses.

Every error is an ApiError. Its properties, such as `no_capacity` and `missing`, classify the error for the caller.
"""

from __future__ import annotations

import errno
import json
import os
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

PLATFORM = "https://www.googleapis.com/auth/cloud-platform"
COMPUTE = "https://www.googleapis.com/auth/compute"

# The environment variables, in the order in which pulumi-gcp reads them
# (hashicorp/terraform-provider-google@e03b762:google/provider/provider.go and google/transport/config.go,
# GetCredentials).
TOKEN = "GOOGLE_OAUTH_ACCESS_TOKEN"  # noqa: S105 - the name of a variable
KEYS = ("GOOGLE_CREDENTIALS", "GOOGLE_CLOUD_KEYFILE_JSON", "GCLOUD_KEYFILE_JSON")
IMPERSONATE = "GOOGLE_IMPERSONATE_SERVICE_ACCOUNT"

HINT = (
    f"set {TOKEN} or {KEYS[0]}, or run gcloud auth application-default login; with {IMPERSONATE} the gate "
    "impersonates that account. gcp:accessToken, gcp:credentials and gcp:impersonateServiceAccount apply to "
    "pulumi-gcp only (docs/how-it-works/check.md)"
)

# Google's client retries failed requests (5xx, 429, broken connections) with growing pauses.
RETRIES = 5
# The default of Google's client.
TIMEOUT_SEC = 60.0
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)

_RATE_LIMITED = ("rateLimitExceeded", "userRateLimitExceeded")
# Reasons of temporary errors.
_NOT_YET = (*_RATE_LIMITED, "resourceNotReady", "unreachable", "connectionRefused")
_NO_CAPACITY = ("ZONE_RESOURCE_POOL_EXHAUSTED", "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS")


@dataclass(frozen=True)
class QuotaInfo:
    """The exhausted quota, as Google reports it: its id, its scope, and the granted limit."""

    id: str
    region: str = ""
    gpu_family: str = ""
    limit: float = 0.0


@dataclass
class ApiError(Exception):
    """An error of the API, with Google's reason and message."""

    reason: str
    message: str
    status: int = 0
    zones_available: tuple[str, ...] = field(default=())
    quota: QuotaInfo | None = None

    def __str__(self) -> str:
        return self.message

    @property
    def no_capacity(self) -> bool:
        """True if the zone has no capacity for the machine now. Another zone may have some."""
        return self.reason in _NO_CAPACITY

    @property
    def over_quota(self) -> bool:
        """True if a quota of the project is exceeded. Another zone does not help, because zones share the quota."""
        return "QUOTA" in self.reason.upper()

    @property
    def missing(self) -> bool:
        """True if the resource of the call does not exist."""
        return self.status == 404

    @property
    def not_yet(self) -> bool:
        """True if the same request may succeed later, for example after a rate limit or an outage."""
        return self.status == 429 or self.status >= 500 or self.reason in _NOT_YET

    @property
    def rate_limited(self) -> bool:
        """True if the project has used up its requests of this minute. The request was not executed."""
        return self.reason in _RATE_LIMITED

    @property
    def connection_refused(self) -> bool:
        """True if nothing listens at the address of the service or proxy, because it restarts or has stopped."""
        return self.reason == "connectionRefused"

    @property
    def about_account(self) -> bool:
        """True if the error is about the machine's service account.

        For some time after its creation, Google may not know the account, or the caller's permission to use it.
        """
        names_account = re.search("service ?account", self.message, re.IGNORECASE)
        return self.reason == "SERVICE_ACCOUNT_ACCESS_DENIED" or (self.status < 500 and bool(names_account))

    @property
    def permission(self) -> str:
        """The IAM permission that the caller lacks, such as compute.instances.create; empty for other errors."""
        found = re.match(r"Required '([\w.]+)' permission for ", self.message)
        return found[1] if found else ""

    @property
    def hint_for_builds(self) -> str:
        """What to do if this error ends a build in Cloud Build; empty if the message says it."""
        if self.reason == "unauthenticated":
            return "Cloud Build provides credentials; elsewhere, run gcloud auth application-default login"
        if self.constraint:
            return (
                f"the organization policy {self.constraint} forbids the machine: ask its administrator for an exception"
            )
        if self.permission or self.status == 403:
            return (
                "run pulumi up, which restores the roles of the pool's service account; a grant takes minutes to apply"
            )
        return ""

    @property
    def constraint(self) -> str:
        """The violated organization policy, such as compute.requireShieldedVm; empty if there is none."""
        found = re.search(r"constraints/([\w.]*\w)", self.message)
        return found[1] if found else ""


class CredentialsError(Exception):
    """No usable credentials were found. The message contains no part of the credentials."""


def credentials(environ: Mapping[str, str], scope: str = COMPUTE) -> Any:
    """Return Google's credentials, by default for Compute Engine only. Raise CredentialsError if there are none."""
    from google.auth import impersonated_credentials

    account = environ.get(IMPERSONATE, "")
    # To impersonate an account, the source credentials need the scope PLATFORM.
    scopes = [PLATFORM if account else scope]
    source = _source(environ, scopes)
    if not account:
        return source
    return impersonated_credentials.Credentials(source, target_principal=account, target_scopes=[scope])  # type: ignore[no-untyped-call]


def _source(environ: Mapping[str, str], scopes: list[str]) -> Any:
    import google.auth
    import google.oauth2.credentials

    if token := environ.get(TOKEN, "").strip():
        if not re.fullmatch("[!-~]+", token):  # http.client would name the token in its error
            raise CredentialsError(f"{TOKEN}: is not an access token\n  expected: printable ASCII without spaces")
        return google.oauth2.credentials.Credentials(token)  # type: ignore[no-untyped-call]
    for name in KEYS:
        if text := environ.get(name):
            key = _key(name, text)
            return _loaded(name, partial(google.auth.load_credentials_from_dict, key, scopes=scopes))
    return _loaded("application default credentials", partial(google.auth.default, scopes=scopes))


def _loaded(source: str, load: Callable[[], tuple[Any, Any]]) -> Any:
    """Load credentials through google-auth. If a field is missing, google-auth fails with an unspecific error."""
    from google.auth.exceptions import GoogleAuthError

    try:
        return load()[0]
    except GoogleAuthError as error:
        raise CredentialsError(str(error)) from None
    except (AttributeError, KeyError, TypeError, ValueError):
        raise CredentialsError(
            f"{source}: fields are missing or malformed\n  expected: all fields of the credentials type, such as "
            "source_credentials of an impersonated_service_account"
        ) from None


def _key(variable: str, text: str) -> dict[str, Any]:
    """Return the service account key. The variable has the key as JSON, or the path of a file with the key."""
    try:
        is_json = text.lstrip().startswith("{")
        key = json.loads(text if is_json else Path(text).expanduser().read_text())
    except (OSError, ValueError):
        key = None
    if not isinstance(key, dict):
        problem = (
            f"{variable}: does not contain credentials\n  expected: a key in JSON, or the path of a file with a key"
        )
        raise CredentialsError(problem)
    return key


def connect(credentials: Any, timeout_sec: float) -> Any:
    """Return a connection with these credentials. It is not thread-safe.

    Args:
        credentials: Credentials of google-auth, which the connection renews.
        timeout_sec: The time limit of each request to the API.
    """
    from google.auth.transport.requests import Request
    from google_auth_httplib2 import AuthorizedHttp
    from googleapiclient.http import build_http

    connection = build_http()
    connection.timeout = timeout_sec
    authorized = AuthorizedHttp(credentials, http=connection)
    # google-auth limits the time of each request for a token. httplib2 ignores this limit, and google-auth-httplib2 0.4
    # prints a warning for each request. Its AuthorizedHttp has no argument for another transport.
    authorized._request = Request()
    return authorized


class GoogleService:
    """One API.

    Several threads may share one instance: a stack can have many gates, and a new client takes a third of a second of
    CPU. Each thread has its own connection, because connections of httplib2 are not thread-safe
    (googleapis/google-api-python-client docs/thread_safety.md).

    Raises:
        ApiError: No credentials were found, or the metadata server cannot be reached.
    """

    def __init__(
        self,
        name: str,
        version: str,
        endpoint: str = "",
        scope: str = COMPUTE,
        retries: int = RETRIES,
        timeout_sec: float = TIMEOUT_SEC,
    ) -> None:
        """Create the client. `endpoint` replaces Google's address, as in a sandbox."""
        from googleapiclient.discovery import build

        options = {"api_endpoint": f"{endpoint.rstrip('/')}/"} if endpoint else {}
        try:
            self._credentials = credentials(os.environ, scope)
        except CredentialsError as error:
            raise ApiError("unauthenticated", str(error)) from None
        self._name = name
        # On a machine, this reads the domain of the APIs from the metadata server, and keeps it. Without this line, the
        # first method of the client would do so, where no caller expects an error.
        self._answer(lambda: getattr(self._credentials, "universe_domain", ""))
        self._service = build(
            name,
            version,
            credentials=self._credentials,
            client_options=options,
            static_discovery=True,
            cache_discovery=False,
        )
        self._threads = threading.local()
        self._retries = retries
        self._timeout_sec = timeout_sec

    @property
    def account(self) -> str:
        """The service account of the credentials; empty before the first request, and for the login of a user."""
        email = getattr(self._credentials, "service_account_email", None) or ""
        # The name of a machine's own account until its email is read.
        return "" if email == "default" else email

    def close(self) -> None:
        """Close the connection of this thread."""
        self._connection().close()

    def _run(self, call: Any, retries: int | None = None) -> Any:
        """Send a request, and return the answer.

        Retries are safe: Google executes calls with the same requestId once.
        """
        attempts = self._retries if retries is None else retries
        return self._answer(lambda: call.execute(http=self._connection(), num_retries=attempts))

    def _answer(self, send: Callable[[], Any]) -> Any:
        """Return the answer of a request. Raise ApiError for each error of Google's client."""
        from http.client import HTTPException

        from google.auth.exceptions import GoogleAuthError
        from googleapiclient.errors import HttpError
        from httplib2 import HttpLib2Error  # type: ignore[import-untyped]

        try:
            return send()
        except HttpError as error:
            raise http_error(error.resp.status, error.content) from None
        except GoogleAuthError as error:
            if is_of_network(error):
                reason = f"cannot get a token for the {self._name} API: {error}"
                raise ApiError("unreachable", reason) from None
            raise ApiError("unauthenticated", str(error)) from None
        except (HttpLib2Error, HTTPException, OSError) as error:  # HTTPException: the answer breaks off
            if getattr(error, "errno", None) in _DISK_FULL:
                raise  # the answer did not fit on the disk, so the network is not the problem
            reason = "connectionRefused" if isinstance(error, ConnectionRefusedError) else "unreachable"
            raise ApiError(reason, f"cannot connect to the {self._name} API: {error}") from None

    def _connection(self) -> Any:
        """Return the connection of this thread."""
        if not hasattr(self._threads, "http"):
            self._threads.http = connect(self._credentials, self._timeout_sec)
        return self._threads.http


def is_of_network(error: Exception) -> bool:
    """Return True if the network and not the credentials are the reason of an error of google-auth."""
    from google.auth.exceptions import TransportError

    # A TransportError that ended the renewal of the token is the cause of a RefreshError.
    return isinstance(error, TransportError) or isinstance(error.__cause__, TransportError)


def http_error(status: int, content: bytes) -> ApiError:
    """Return the error in an answer of an API."""
    try:
        error = json.loads(content)["error"]
        first = (error.get("errors") or [{}])[0]
        # Services without `errors` have a `status`, such as FAILED_PRECONDITION.
        reason = str(first.get("reason") or error.get("status") or "")
        return ApiError(reason, str(error.get("message", "")), status)
    except (ValueError, KeyError, TypeError):
        return ApiError("", f"Google answered {status}: {content[:200].decode(errors='replace')}", status)
