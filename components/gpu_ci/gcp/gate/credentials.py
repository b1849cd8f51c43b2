"""As whom the gate asks Google: the identity that pulumi-gcp has, from the same variables of the environment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PLATFORM = "https://www.googleapis.com/auth/cloud-platform"
_COMPUTE = "https://www.googleapis.com/auth/compute"

# In the order in which the provider looks (hashicorp/terraform-provider-google@e03b762:google/provider/provider.go and
# google/transport/config.go, GetCredentials).
TOKEN = "GOOGLE_OAUTH_ACCESS_TOKEN"  # noqa: S105 - the name of a variable
KEYS = ("GOOGLE_CREDENTIALS", "GOOGLE_CLOUD_KEYFILE_JSON", "GCLOUD_KEYFILE_JSON")
IMPERSONATE = "GOOGLE_IMPERSONATE_SERVICE_ACCOUNT"

HINT = (
    f"set {TOKEN} or {KEYS[0]}, or run gcloud auth application-default login; with {IMPERSONATE} the gate acts as that "
    "account. gcp:accessToken, gcp:credentials and gcp:impersonateServiceAccount reach pulumi-gcp alone (docs/check.md)"
)


class CredentialsError(Exception):
    """There are none that can be used. The text holds nothing of them."""


def credentials(environ: Mapping[str, str], scope: str = _COMPUTE) -> Any:
    """Google's credentials, by default for Compute Engine alone. CredentialsError where there are none."""
    from google.auth import impersonated_credentials
    from google.auth.exceptions import GoogleAuthError

    account = environ.get(IMPERSONATE, "")
    # The call that creates the account's token needs this scope.
    scopes = [PLATFORM if account else scope]
    try:
        source = _source(environ, scopes)
    except GoogleAuthError as error:
        raise CredentialsError(str(error)) from None
    if not account:
        return source
    return impersonated_credentials.Credentials(source, target_principal=account, target_scopes=[scope])  # type: ignore[no-untyped-call]


def _source(environ: Mapping[str, str], scopes: list[str]) -> Any:
    import google.auth
    import google.oauth2.credentials

    if token := environ.get(TOKEN):
        return google.oauth2.credentials.Credentials(token)  # type: ignore[no-untyped-call]
    for name in KEYS:
        if given := environ.get(name):
            return google.auth.load_credentials_from_dict(_key(name, given), scopes=scopes)[0]  # type: ignore[no-untyped-call]
    return google.auth.default(scopes=scopes)[0]


def _key(variable: str, given: str) -> dict[str, Any]:
    """The JSON of a key, or of the file that the variable names."""
    try:
        text = given if given.lstrip().startswith("{") else Path(given).expanduser().read_text()
        found = json.loads(text)
    except (OSError, ValueError):
        found = None
    if not isinstance(found, dict):
        problem = f"{variable}: holds no credentials\n  expected: a key in JSON, or the path of a file with one"
        raise CredentialsError(problem)
    return found
