"""Checks passphrases of Pulumi stack files. The caller's package must depend on cryptography."""

from __future__ import annotations

import base64
import hashlib

# pulumi/pulumi sdk/go/common/resource/config/crypt.go: the key is PBKDF2 over SHA-256, the cipher AES-256-GCM.
_ITERATIONS, _KEY_BYTES = 1_000_000, 32


def opens(encryptionsalt: str, passphrase: str) -> bool:
    """Return True if the passphrase decrypts the test value of `encryptionsalt`: v1:SALT:v1:NONCE:CIPHERTEXT."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        version, salt, _, nonce, text = encryptionsalt.split(":")
        if version != "v1":
            return False
        key = hashlib.pbkdf2_hmac("sha256", passphrase.encode(), base64.b64decode(salt), _ITERATIONS, _KEY_BYTES)
        AESGCM(key).decrypt(base64.b64decode(nonce), base64.b64decode(text), None)
    except (ValueError, InvalidTag):
        return False
    return True
