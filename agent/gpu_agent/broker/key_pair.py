"""A key pair of this machine, to which others seal what only this machine may read.

A sealed message is CMS EnvelopedData (RFC 5652) in DER form, with RSA and AES-256 in CBC mode. It has no signature:
everyone who may write the metadata of this machine can seal a message too, as the key is public.
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
    """A fresh one. The private key is in the memory of this process alone."""

    certificate: bytes
    """The public key as a certificate in DER form, signed by itself: it only carries the key."""
    _private: bytes = field(repr=False)
    """Both in PEM form."""

    def open(self, sealed: bytes) -> bytes:
        """Return the message; nothing, or anything, where it was sealed to another key."""
        return openssl.run(
            ["cms", "-decrypt", "-binary", "-inform", "DER", "-inkey", openssl.KEY], sealed, self._private, _USE
        )

    def seal(self, message: bytes) -> bytes:
        """Seal a message as others do, to see that this machine can open it."""
        return openssl.run(
            ["cms", "-encrypt", "-binary", "-outform", "DER", "-aes256", openssl.KEY], message, self._private, _USE
        )


def make() -> KeyPair:
    """AgentExit("no-tool") where this machine cannot make one."""
    made = openssl.run([*_REQUEST, "-keyout", "-", "-out", "-"], b"", b"", _USE)
    found = _CERTIFICATE.search(made)
    if found is None:
        raise AgentExit("no-tool", f"openssl makes no key of RSA; it {_USE}")
    return KeyPair(base64.b64decode(found[1]), made)
