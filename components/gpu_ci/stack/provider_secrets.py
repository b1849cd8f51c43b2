"""Checks that the secrets of Pulumi's providers in a stack file are encrypted."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ..errors import Problem
from ..validation_errors import join

# The keys with a secret, and the environment variable to use instead. pulumi_gcp 10.2, pulumi_github 6.15 and
# pulumi_aws 7.51 mark these keys as secret (provider.py, additional_secret_outputs), except gcp:credentials and
# github:appAuth, which can contain a secret, too. Sources of the variables:
# hashicorp/terraform-provider-google@e03b762: google/provider/provider.go, the docstrings of pulumi_github, and
# docs.aws.amazon.com/cli/latest/userguide/ cli-configure-envvars.html.
_VARIABLES = {
    "aws:accessKey": "AWS_ACCESS_KEY_ID",
    "aws:secretKey": "AWS_SECRET_ACCESS_KEY",
    "aws:token": "AWS_SESSION_TOKEN",
    "gcp:accessToken": "GOOGLE_OAUTH_ACCESS_TOKEN",
    "gcp:credentials": "GOOGLE_CREDENTIALS",
    "github:appAuth": "GITHUB_APP_PEM_FILE",
    "github:token": "GITHUB_TOKEN",
}

# The keys with which pulumi-gcp authenticates. A smoke gate cannot read these keys. It reads only environment variables
# (gcp/gate/google_service.py).
_IDENTITY = {
    "gcp:accessToken": "GOOGLE_OAUTH_ACCESS_TOKEN",
    "gcp:credentials": "GOOGLE_CREDENTIALS",
    "gcp:impersonateServiceAccount": "GOOGLE_IMPERSONATE_SERVICE_ACCOUNT",
}


def keys_gates_ignore(present: Collection[str], environ: Mapping[str, str]) -> list[str]:
    """Return a warning for each key of a stack file that authenticates pulumi-gcp but not the smoke gates.

    An empty environment variable counts as missing, as in the smoke gates.
    """
    return [
        f"{key}: applies to pulumi-gcp only, so the smoke gates use another identity or have no credentials; "
        f"hint: set {variable} in the environment instead (docs/how-it-works/check.md)"
        for key, variable in _IDENTITY.items()
        if key in present and not environ.get(variable)
    ]


def in_plain_text(config: Mapping[str, Any], encrypted: Collection[str] = ()) -> list[Problem]:
    """Return a problem for each secret in plain text. The values are never shown.

    Args:
        config: The values of the stack file.
        encrypted: The keys with encrypted values, for programs that get the values decrypted.
    """
    return [
        Problem(
            path,
            "is a secret in plain text",
            "a value that is not shown",
            expected="nothing here, or a value that pulumi config set --secret encrypted",
            hint="revoke the secret, because everyone with the file has it; set a new one in the environment variable "
            f"{variable}, and remove this key",
            rule="plain-secret",
        )
        for key, variable in _VARIABLES.items()
        if key in config and key not in encrypted
        for path in _secrets(key, config[key])
    ]


def _secrets(key: str, given: Any) -> Iterator[str]:
    """Yield the path of each secret in plain text in the value of a key."""
    value = _decoded(given)
    if not value or _is_encrypted(value):
        return
    if key == "github:appAuth" and isinstance(value, Mapping):
        if value.get("pemFile") and not _is_encrypted(value["pemFile"]):
            yield join(key, "pemFile")
    elif key != "gcp:credentials" or isinstance(value, Mapping) or "{" in str(value):  # else it is the name of a file
        yield key


def _is_encrypted(value: Any) -> bool:
    return isinstance(value, Mapping) and set(value) == {"secure"}


def _decoded(value: Any) -> Any:
    """Decode JSON text: the engine and `pulumi config set` write a map as JSON. Return other values unchanged."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except json.JSONDecodeError:
        return value
