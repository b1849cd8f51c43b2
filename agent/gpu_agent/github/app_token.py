"""The token with which a GitHub App authenticates: a JWT signed with its private key, which stays in memory."""

from __future__ import annotations

import base64
import json

from .. import openssl
from ..outcomes import AgentExit

# The token is issued 60 seconds in the past to allow for clock differences, and expires within 10 minutes
# (docs.github.com, "Generating a JSON Web Token (JWT) for a GitHub App"). Five minutes keep a fast clock below that
# limit.
ISSUED_BEFORE_SEC = 60
EXPIRES_AFTER_SEC = 300

# The signature length of a 2048-bit RSA key, which GitHub creates. Signatures of other key types are shorter.
_SIGNATURE_BYTES = 256


def app_jwt(app_id: str, key: bytes, now: float) -> str:
    """Return a JWT for the App, valid from a minute before `now` to five minutes after it.

    `now` is in seconds since 1970 by GitHub's clock. Raises AgentExit("refused") if `key` is not an RSA private key in
    PEM form, and AgentExit("no-tool") without openssl.
    """
    claims = {"iat": int(now) - ISSUED_BEFORE_SEC, "exp": int(now) + EXPIRES_AFTER_SEC, "iss": app_id}
    signed = f"{_encoded_json({'alg': 'RS256', 'typ': 'JWT'})}.{_encoded_json(claims)}"
    return f"{signed}.{_encoded(_signature(signed.encode(), key))}"


def _encoded_json(value: dict[str, object]) -> str:
    return _encoded(json.dumps(value, separators=(",", ":")).encode())


def _encoded(content: bytes) -> str:
    """Return base64url without padding, as defined in RFC 7515."""
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _signature(content: bytes, key: bytes) -> bytes:
    """Return the RSASSA-PKCS1-v1_5 signature over SHA-256."""
    no_key = AgentExit(
        "refused", "the secret does not contain an unencrypted RSA private key of 2048 bits or more in PEM form"
    )
    if not 0 < len(key) <= openssl.KEY_LIMIT_BYTES:
        raise no_key
    # An empty passphrase, because openssl would prompt for one.
    arguments = ["dgst", "-sha256", "-sign", openssl.KEY, "-passin", "pass:"]
    signature = openssl.run(arguments, content, key, "signs for the GitHub App")
    if len(signature) < _SIGNATURE_BYTES:
        raise no_key
    return signature
