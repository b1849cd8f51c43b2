"""The App's token is valid at GitHub, and only openssl sees its key."""

from __future__ import annotations

import base64
import json
import os
import shutil
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from gpu_agent.github.api import app_jwt
from gpu_agent.outcomes import OUTCOMES, AgentExit

from tests.agent.conftest import openssl

NOW = 1_800_000_000.9


def decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def test_it_is_a_jwt_that_names_the_app_from_a_minute_ago_for_five_minutes(app_key: bytes, public_key: RSAPublicKey):
    token = app_jwt("Iv23planted", app_key, NOW)
    head, claims, signature = token.split(".")
    assert json.loads(decoded(head)) == {"alg": "RS256", "typ": "JWT"}
    assert json.loads(decoded(claims)) == {"iat": 1_799_999_940, "exp": 1_800_000_300, "iss": "Iv23planted"}
    public_key.verify(decoded(signature), f"{head}.{claims}".encode(), PKCS1v15(), SHA256())
    assert "=" not in token


def unusable() -> dict[str, bytes]:
    key = openssl("genrsa", "2048")
    return {
        "nothing": b"",
        "words": b"planted words",
        "a cut key": key[: len(key) // 2],
        "a key under a passphrase": openssl("rsa", "-aes128", "-passout", "pass:x", content=key),
        "a public key": openssl("rsa", "-pubout", content=key),
        "an elliptic key": openssl("ecparam", "-genkey", "-noout", "-name", "prime256v1"),
        "an Ed25519 key": openssl("genpkey", "-algorithm", "ed25519"),
        "a key of 1024 bits": openssl("genrsa", "1024"),
        "base64 of a key": base64.b64encode(key),
        "a key with more around it than any has": key.ljust(16_385, b"\n"),
        "more than a pipe holds": key * 100,
        "zeros": bytes(100),
    }


def test_a_secret_that_is_no_rsa_key_stops_the_pool_and_is_not_quoted():
    for name, secret in unusable().items():
        with pytest.raises(AgentExit) as ended:
            app_jwt("1", secret, NOW)
        assert str(ended.value) == (
            "refused: the secret does not contain an unencrypted RSA private key of 2048 bits or more in PEM form"
        ), name
    assert OUTCOMES["refused"].stops_pool


def test_openssl_gets_the_key_through_a_pipe_and_nothing_else(
    app_key: bytes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """A fake openssl records what any process of the machine could see, and then runs the real one."""
    stand_in = tmp_path / "openssl"
    stand_in.write_text(
        f"#!/bin/bash\ntr '\\0' '\\n' </proc/$$/cmdline >{tmp_path}/argv\nenv >{tmp_path}/environ\n"
        f'for each in /proc/$$/fd/*; do readlink "$each"; done >{tmp_path}/opened\n'
        f'exec {shutil.which("openssl")} "$@"\n'
    )
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("PLANTED", "planted")
    before = set(Path("/proc/self/fd").iterdir())
    app_jwt("1", app_key, NOW)
    seen = {name: (tmp_path / name).read_text() for name in ("argv", "environ", "opened")}
    lines = [line for line in app_key.decode().splitlines() if "-----" not in line]
    assert not [line for line in lines if any(line in text for text in seen.values())]
    assert "planted" not in seen["environ"]
    opened = {path for path in seen["opened"].splitlines() if path.startswith("/")}
    assert opened == {"/dev/null", str(stand_in), f"{tmp_path}/opened"}
    assert set(Path("/proc/self/fd").iterdir()) == before
