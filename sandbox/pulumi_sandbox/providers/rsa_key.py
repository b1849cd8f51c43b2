"""A private key that a world makes for itself when it is first asked for one: real in form, and opening nothing."""

from __future__ import annotations

import hashlib
import re
import subprocess
from collections.abc import Iterator, Mapping

from pulumi_sandbox.providers.resource import Refused
from pulumi_sandbox.world.store import World

SETTING = "rsa-private-key"
PRIVATE_KEY = "rsaPrivateKey"
# RFC 8017, 9.2, note 1: the DigestInfo of SHA-256 in front of the digest.
SHA256_PREFIX = bytes.fromhex("3031300d060960864801650304020105000420")
# What openssl takes unless it is told otherwise.
EXPONENT = 65537


class GeneratedValues(Mapping[str, str]):
    """What results of lookups may name as `${made.…}`: values that no file should hold, one of each in a world."""

    def __init__(self, world: World) -> None:
        self._world = world

    def __getitem__(self, name: str) -> str:
        if name != PRIVATE_KEY:
            raise KeyError(name)
        return private_key(self._world)

    def __iter__(self) -> Iterator[str]:
        return iter((PRIVATE_KEY,))

    def __len__(self) -> int:
        return 1


def private_key(world: World) -> str:
    """The world's key in PEM form (PKCS #1, as GitHub hands out those of its Apps)."""
    return world.get_or_create(SETTING, _generated)


def signed(world: World, text: bytes, signature: bytes) -> bool:
    """Whether this is the signature of the world's key: RSASSA-PKCS1-v1_5 with SHA-256 (RFC 8017, 8.2.2)."""
    found = _openssl("rsa", "-noout", "-modulus", input=private_key(world))
    modulus = int(found.strip().partition("=")[2], 16)
    size = (modulus.bit_length() + 7) // 8
    digest = SHA256_PREFIX + hashlib.sha256(text).digest()
    expected = b"\x00\x01" + b"\xff" * (size - len(digest) - 3) + b"\x00" + digest
    value = int.from_bytes(signature, "big")
    return (
        len(signature) == size and value < modulus and pow(value, EXPONENT, modulus) == int.from_bytes(expected, "big")
    )


def _generated() -> str:
    # OpenSSL 3 writes PKCS #8 unless it is told otherwise; LibreSSL has no such word, and writes PKCS #1.
    traditional = ["-traditional"] if re.match(r"OpenSSL ([3-9]|\d\d)", _openssl("version")) else []
    return _openssl("genrsa", *traditional, "2048")


def _openssl(*words: str, input: str = "") -> str:  # noqa: A002 -- subprocess's own word
    try:
        done = subprocess.run(["openssl", *words], input=input, capture_output=True, text=True, check=True)
    except FileNotFoundError:
        raise Refused(
            "the sandbox makes a private key for its world with openssl, which is not on PATH\n  hint: install openssl"
        ) from None
    except subprocess.CalledProcessError as failed:
        raise Refused(f"openssl {words[0]} failed: {failed.stderr.strip()}") from None
    return done.stdout
