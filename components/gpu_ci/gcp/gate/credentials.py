"""Loads Google credentials for the smoke gate, from the same environment variables that pulumi-gcp reads."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
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

    if token := environ.get(TOKEN):
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
