"""A machine can decrypt only what was encrypted for its own key. The manager's library encrypts and decrypts too."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key, pkcs7
from gpu_agent import openssl
from gpu_agent.broker.registration import KeyPair, new_key_pair
from gpu_agent.outcomes import AgentExit

MESSAGE = b'{"jitConfig": "eyJhIjoi"}\r\n' * 200


@pytest.fixture(scope="module")
def pair() -> KeyPair:
    return new_key_pair()


def sealed(message: bytes, certificate: bytes) -> bytes:
    to = x509.load_der_x509_certificate(certificate)
    envelope = pkcs7.PKCS7EnvelopeBuilder().set_data(message).add_recipient(to)
    return envelope.set_content_encryption_algorithm(AES256).encrypt(Encoding.DER, [pkcs7.PKCS7Options.Binary])


def test_openssl_decrypts_what_cryptography_encrypts(pair: KeyPair) -> None:
    assert pair.open(sealed(MESSAGE, pair.certificate)) == MESSAGE


def test_cryptography_decrypts_what_openssl_encrypts(pair: KeyPair) -> None:
    private = load_pem_private_key(pair._private[: pair._private.index(b"-----BEGIN CERT")], None)
    certificate = x509.load_der_x509_certificate(pair.certificate)
    opened = pkcs7.pkcs7_decrypt_der(pair.seal(MESSAGE), certificate, private, [])  # type: ignore[arg-type]
    assert opened == MESSAGE


def test_each_machine_has_its_own_key_and_decrypts_no_message_of_another(pair: KeyPair) -> None:
    other = new_key_pair()
    assert other.certificate != pair.certificate
    assert other.open(sealed(MESSAGE, pair.certificate)) != MESSAGE


def test_the_key_has_2048_bits_and_is_in_no_text_of_the_pair(pair: KeyPair) -> None:
    key = x509.load_der_x509_certificate(pair.certificate).public_key()
    assert isinstance(key, RSAPublicKey)
    assert key.key_size == 2048
    assert "PRIVATE" not in repr(pair)


@pytest.mark.parametrize("change", [0, 40, -1])
def test_a_changed_message_does_not_decrypt_to_the_original(pair: KeyPair, change: int) -> None:
    content = bytearray(sealed(MESSAGE, pair.certificate))
    content[change] ^= 1
    assert pair.open(bytes(content)) != MESSAGE


def test_no_key_is_in_an_argument_or_in_the_environment(
    pair: KeyPair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fake openssl records its arguments and environment, which every user of a machine could read."""
    seen = tmp_path / "seen"
    fake = tmp_path / "openssl"
    fake.write_text(f'#!/bin/sh\n{{ echo "$@"; env; }} >>"{seen}"\nexit 1\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("GPU_AGENT_PLANTED", "planted")
    pair.open(b"sealed")
    text = seen.read_text()
    assert "cms -decrypt -binary -inform DER -inkey /dev/fd/" in text
    assert "PRIVATE" not in text
    assert "planted" not in text


def test_without_openssl_there_is_no_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AgentExit) as ended:
        new_key_pair()
    assert str(ended.value) == "no-tool: openssl is not on PATH; it opens the registration of the runner"


def test_an_openssl_that_creates_no_key_ends_with_no_tool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = tmp_path / "openssl"
    fake.write_text("#!/bin/sh\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(AgentExit) as ended:
        new_key_pair()
    assert str(ended.value) == "no-tool: openssl does not create an RSA key; it opens the registration of the runner"


def test_an_openssl_that_hangs_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    def hangs(*arguments: object, timeout: float, **_: object) -> None:
        raise subprocess.TimeoutExpired("openssl", timeout)

    monkeypatch.setattr(openssl.subprocess, "run", hangs)
    with pytest.raises(AgentExit) as ended:
        new_key_pair()
    assert str(ended.value) == "timed-out: openssl did not end within 30 s; it opens the registration of the runner"
