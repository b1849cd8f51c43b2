"""Check that a stack file has secrets of Pulumi's own providers encrypted, or not at all."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ..errors import Problem
from ..validation_errors import join

# What pulumi_gcp 10.2, pulumi_github 6.15 and pulumi_aws 7.51 keep secret (provider.py, additional_secret_outputs), and
# the two keys that can hold a secret; with the variable it is taken from instead: hashicorp/terraform-provider-google@
# e03b762:google/provider/provider.go, the texts of pulumi_github, and docs.aws.amazon.com/cli/latest/userguide/
# cli-configure-envvars.html.
_VARIABLES = {
    "aws:accessKey": "AWS_ACCESS_KEY_ID",
    "aws:secretKey": "AWS_SECRET_ACCESS_KEY",
    "aws:token": "AWS_SESSION_TOKEN",
    "gcp:accessToken": "GOOGLE_OAUTH_ACCESS_TOKEN",
    "gcp:credentials": "GOOGLE_CREDENTIALS",
    "github:appAuth": "GITHUB_APP_PEM_FILE",
    "github:token": "GITHUB_TOKEN",
}

# The keys by which pulumi-gcp authenticates, with the variables that the smoke gate reads too: a key of the stack file
# reaches the provider alone (gcp/gate/credentials.py).
_IDENTITY = {
    "gcp:accessToken": "GOOGLE_OAUTH_ACCESS_TOKEN",
    "gcp:credentials": "GOOGLE_CREDENTIALS",
    "gcp:impersonateServiceAccount": "GOOGLE_IMPERSONATE_SERVICE_ACCOUNT",
}


def unseen_by_gates(present: Collection[str], environ: Mapping[str, str]) -> list[str]:
    """A warning for each key of a stack file by which only pulumi-gcp authenticates, and its smoke gates do not.

    A variable that is empty counts as one that is not set, as in the gates.
    """
    return [
        f"{key}: reaches pulumi-gcp alone, so the smoke gates ask Google as another identity or as none; "
        f"hint: set {variable} in the environment instead (docs/how-it-works/check.md)"
        for key, variable in _IDENTITY.items()
        if key in present and not environ.get(variable)
    ]


def in_plain_text(config: Mapping[str, Any], encrypted: Collection[str] = ()) -> list[Problem]:
    """Those of a stack's configuration that anybody who has the file can read; their values are never shown.

    `encrypted` are the keys whose values were, for a program that gets them decrypted.
    """
    return [
        Problem(
            path,
            "is a secret in plain text",
            "a value that is not shown",
            expected="nothing here, or a value that pulumi config set --secret encrypted",
            hint=f"remove it, give it as {variable} instead, and make a new one: everyone with the file has this one",
        )
        for key, variable in _VARIABLES.items()
        if key in config and key not in encrypted
        for path in _secrets(key, config[key])
    ]


def _secrets(key: str, given: Any) -> Iterator[str]:
    """Where in the value of a key a secret stands in plain text."""
    value = _decoded(given)
    if not value or _is_encrypted(value):
        return
    if key == "github:appAuth" and isinstance(value, Mapping):
        if value.get("pemFile") and not _is_encrypted(value["pemFile"]):
            yield join(key, "pemFile")
    elif key != "gcp:credentials" or isinstance(value, Mapping) or "{" in str(value):  # it may be the name of a file
        yield key


def _is_encrypted(value: Any) -> bool:
    return isinstance(value, Mapping) and set(value) == {"secure"}


def _decoded(value: Any) -> Any:
    """A map as the engine and `pulumi config set` write one, as JSON text."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except json.JSONDecodeError:
        return value
