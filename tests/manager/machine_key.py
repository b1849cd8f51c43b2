"""A machine's key pair and its published form. It is created once, because an RSA key takes a while."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding


def certificate_of(key: rsa.RSAPrivateKey, number: int = 1) -> x509.Certificate:
    """Return an old self-signed certificate, because certificates are not verified. Each number gives another one."""
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "gpu-agent")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(number).not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
    return builder.not_valid_after(datetime(2020, 1, 3, tzinfo=UTC)).sign(key, SHA256())


def published(certificate: x509.Certificate) -> str:
    """Return the certificate as in the guest attribute."""
    return base64.b64encode(certificate.public_bytes(Encoding.DER)).decode()


PRIVATE = rsa.generate_private_key(65537, 2048)
CERTIFICATE = certificate_of(PRIVATE)
PUBLISHED = published(CERTIFICATE)
