"""Secrets in what Cloud Build and Secret Manager are given: the world's files hold digests of them only."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.values import Decoded

from tests.sandbox.providers.gcp.conftest import Google
from tests.sandbox.providers.gcp.test_rules import TRIGGER as WITH_ACCOUNT

INLINE = {name: value for name, value in WITH_ACCOUNT.items() if name != "serviceAccount"}
HUSH = "hush-4711-the-app-key"
SECRETS: dict[str, tuple[str, dict[str, Any], tuple[str | int, ...]]] = {
    "a trigger's substitution": (
        types.TRIGGER,
        {**INLINE, "substitutions": {"_KEY": HUSH}},
        ("substitutions", "_KEY"),
    ),
    "a step's environment": (
        types.TRIGGER,
        {**INLINE, "build": {**INLINE["build"], "steps": [{"name": "bash", "envs": [f"KEY={HUSH}"]}]}},
        ("build", "steps", 0, "envs", 0),
    ),
    "a secret's value": (types.SECRET_VERSION, {"secret": "key", "secretData": HUSH}, ("secretData",)),
}


@pytest.mark.parametrize("named", SECRETS)
def test_no_secret_can_be_read_in_the_world(google: Google, named: str) -> None:
    token, inputs, path = SECRETS[named]
    google.make(types.SECRET, "key", {"secretId": "key", "replication": {"auto": {}}})
    urn = f"urn:pulumi:dev::tests::{token}::it"
    res = google.lifecycle.resource(urn, Decoded(inputs, frozenset({path})), seed=b"seed")
    assert google.lifecycle.check(res)[1] == []
    google.lifecycle.create(res)
    google.world.close()
    written = b"".join(file.read_bytes() for file in google.workspace.root.rglob("*") if file.is_file())
    assert b"hmac-sha256:" in written
    assert HUSH.encode() not in written
