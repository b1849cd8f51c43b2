"""Private keys that a world creates on first use. They are valid RSA keys without access to any real system."""

from __future__ import annotations

from typing import Any, cast

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from pulumi_sandbox.world.store import World

SETTING = "rsa-private-key"


class GeneratedValues(dict[str, Any]):
    """The generated values, which results of functions use as `${made.…}`, because no file should contain them.

    `rsaPrivateKeys.NAME` is a key for each name.
    """

    def __init__(self, world: World) -> None:
        super().__init__(rsaPrivateKeys=_Keys(world))


class _Keys(dict[str, str]):
    """A mapping with a key for every name."""

    def __init__(self, world: World) -> None:
        self._world = world

    def __missing__(self, name: str) -> str:
        return private_key(self._world, name)


def private_key(world: World, name: str) -> str:
    """Return the world's key of this name, in PEM form (PKCS #1, like the keys of GitHub Apps)."""
    return world.get_or_create(f"{SETTING}-{name}", _generated)


def signed(world: World, text: bytes, signature: bytes, name: str) -> bool:
    """Return True if the key of this name made this signature: RSASSA-PKCS1-v1_5 with SHA-256 (RFC 8017, 8.2.2)."""
    pem = private_key(world, name).encode()
    # The validation of the key's primes is slow, and not needed for a key that the world created.
    key = serialization.load_pem_private_key(pem, None, unsafe_skip_rsa_key_validation=True)
    try:
        cast(rsa.RSAPrivateKey, key).public_key().verify(signature, text, padding.PKCS1v15(), hashes.SHA256())
    except InvalidSignature:
        return False
    return True


def _generated() -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pkcs1, unencrypted = serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, pkcs1, unencrypted).decode()
