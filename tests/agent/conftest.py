"""Fixtures of the agent's tests."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from tests.agent.fakes.boot import Tools
from tests.agent.fakes.github import World
from tests.agent.fakes.google import FakeGoogle, serving


def openssl(*arguments: str, content: bytes = b"") -> bytes:
    """Return the output of openssl."""
    return subprocess.run(["openssl", *arguments], input=content, capture_output=True, check=True).stdout


@pytest.fixture(scope="session")
def app_key() -> bytes:
    """Return a private key of a GitHub App in the form in which GitHub provides it: PKCS#1."""
    return openssl("rsa", "-traditional", content=openssl("genrsa", "2048"))


@pytest.fixture(scope="session")
def public_key(app_key: bytes) -> RSAPublicKey:
    """Return the App's public key, which GitHub stores."""
    key = load_pem_public_key(openssl("rsa", "-pubout", content=app_key))
    assert isinstance(key, RSAPublicKey)
    return key


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file with a self-signed certificate of 127.0.0.1 and its key."""
    path = tmp_path_factory.mktemp("tls") / "certificate.pem"
    new = ("-newkey", "rsa:2048", "-nodes", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1")
    path.write_bytes(openssl("req", "-x509", *new, "-days", "2", "-keyout", "-", "-out", "-"))
    return path


@pytest.fixture
def tls(certificate: Path) -> ssl.SSLContext:
    """Return the TLS context of a server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


@pytest.fixture
def world(app_key: bytes, public_key: RSAPublicKey) -> World:
    """Return an agent whose App GitHub knows, on a fake clock."""
    return World(app_key, public_key)


@pytest.fixture
def google() -> Iterator[FakeGoogle]:
    """Serve the cloud of a machine on this computer."""
    with serving(FakeGoogle()) as google:
        yield google


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tools:
    """Return the programs that are installed on the machine: only bash, and those that a test adds."""
    tools = Tools(tmp_path / "tools")
    monkeypatch.setenv("PATH", str(tools.folder))
    return tools
