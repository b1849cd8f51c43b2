"""A key pair of this machine. The runner manager encrypts messages with the public key.

Only this machine can decrypt these messages. An encrypted message is CMS EnvelopedData (RFC 5652) in DER form, with RSA
and AES-256 in CBC mode. It has no signature: everyone who may write the machine's metadata can encrypt a message for
the public key.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field

from .. import openssl
from ..outcomes import AgentExit

_REQUEST = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=gpu-agent", "-days", "2")
_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", re.DOTALL)
_USE = "opens the registration of the runner"


@dataclass(frozen=True)
class KeyPair:
    """A new key pair. The private key exists only in the memory of this process."""

    certificate: bytes
    """The public key as a self-signed certificate in DER form. The certificate only carries the key."""
    _private: bytes = field(repr=False)
    """The private key and the certificate in PEM form."""

    def open(self, sealed: bytes) -> bytes:
        """Return the decrypted message. The result is empty or arbitrary if it was encrypted for another key."""
        return openssl.run(
            ["cms", "-decrypt", "-binary", "-inform", "DER", "-inkey", openssl.KEY], sealed, self._private, _USE
        )

    def seal(self, message: bytes) -> bytes:
        """Encrypt a message as others do, to test that this machine can decrypt it."""
        return openssl.run(
            ["cms", "-encrypt", "-binary", "-outform", "DER", "-aes256", openssl.KEY], message, self._private, _USE
        )


def make() -> KeyPair:
    """Create a key pair. Raises AgentExit("no-tool") if this machine cannot create one."""
    output = openssl.run([*_REQUEST, "-keyout", "-", "-out", "-"], b"", b"", _USE)
    match = _CERTIFICATE.search(output)
    if match is None:
        raise AgentExit("no-tool", f"openssl does not create an RSA key; it {_USE}")
    return KeyPair(base64.b64decode(match[1]), output)
