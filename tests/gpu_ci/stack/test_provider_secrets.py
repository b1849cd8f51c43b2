"""Secrets of Pulumi's own providers in a stack file: told where they stand in plain text, and never shown."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_ci.stack.provider_secrets import in_plain_text

KEY = "-----BEGIN RSA PRIVATE KEY-----\nhunter2"
APP = {"id": "17", "installationId": "18", "pemFile": KEY}
SECURE = {"secure": "v1:hunter2:hunter2"}


@pytest.mark.parametrize(
    ("key", "value", "path", "variable"),
    [
        ("github:token", "hunter2", "github:token", "GITHUB_TOKEN"),
        ("github:appAuth", APP, "github:appAuth.pemFile", "GITHUB_APP_PEM_FILE"),
        ("github:appAuth", '{"id": "17", "pemFile": "hunter2"}', "github:appAuth.pemFile", "GITHUB_APP_PEM_FILE"),
        ("github:appAuth", KEY, "github:appAuth", "GITHUB_APP_PEM_FILE"),
        ("gcp:accessToken", "hunter2", "gcp:accessToken", "GOOGLE_OAUTH_ACCESS_TOKEN"),
        ("gcp:credentials", '{"private_key": "hunter2"}', "gcp:credentials", "GOOGLE_CREDENTIALS"),
        ("gcp:credentials", {"private_key": "hunter2"}, "gcp:credentials", "GOOGLE_CREDENTIALS"),
        ("gcp:credentials", '{"private_key": "hunter2",', "gcp:credentials", "GOOGLE_CREDENTIALS"),
        ("aws:accessKey", "hunter2", "aws:accessKey", "AWS_ACCESS_KEY_ID"),
        ("aws:secretKey", "hunter2", "aws:secretKey", "AWS_SECRET_ACCESS_KEY"),
        ("aws:token", 1234, "aws:token", "AWS_SESSION_TOKEN"),
    ],
)
def test_a_secret_in_plain_text_is_reported_with_its_environment_variable(
    key: str, value: Any, path: str, variable: str
) -> None:
    [found] = in_plain_text({"gcp:project": "acme-ci", key: value})
    assert (found.path, found.text, found.got) == (path, "is a secret in plain text", "a value that is not shown")
    assert found.hint == (
        "revoke the secret, because everyone with the file has it; set a new one in the environment variable "
        f"{variable}, and remove this key"
    )
    assert "hunter2" not in repr(found)


@pytest.mark.parametrize(
    "config",
    [
        {"github:token": SECURE, "aws:secretKey": SECURE, "gcp:credentials": SECURE},
        {"github:appAuth": SECURE},
        {"github:appAuth": {**APP, "pemFile": SECURE}},
        {"github:appAuth": {"id": "17", "installationId": "18"}},
        {"gcp:credentials": "/run/keys/ci.json"},
        {"github:token": "", "aws:secretKey": None},
        {"github:owner": "acme", "aws:region": "eu-central-1", "aws:profile": "ci"},
    ],
)
def test_encrypted_values_other_values_and_file_names_are_not_reported(config: dict[str, Any]) -> None:
    assert in_plain_text(config) == []


def test_a_program_names_the_keys_that_were_encrypted() -> None:
    config = {"github:token": "hunter2", "aws:secretKey": "hunter2"}
    assert [found.path for found in in_plain_text(config, ["github:token"])] == ["aws:secretKey"]
