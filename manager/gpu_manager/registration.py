"""Registration of a machine's runner by the manager.

The manager registers a runner at GitHub, encrypts the registration for the machine's key, and sends it through the
machine's channel (ports.Channel).
"""

from __future__ import annotations

import base64
import json
from typing import Any

from .decision.names import runner_name
from .model import JobKey, Machine, Pool
from .ports import Channel, Github, Refused, Unavailable

# A certificate of a 2,048-bit key has about 800 bytes.
_CERTIFICATE_CHARACTERS = 4_096
_LEAST_KEY_BITS, _MOST_KEY_BITS = 2048, 4096


class UnusableKey(Refused):
    """The key that a machine has published cannot be used for encryption."""


def key_of(text: str, name: str, machine_id: str) -> str:
    """Return the certificate in the text that a machine has published as its key. Return "" if the text has no
    certificate of this machine.
    """
    try:
        value = json.loads(text) if text else None
    except (ValueError, RecursionError):
        return ""
    if not isinstance(value, dict) or value.get("machine") != f"{name}-{machine_id}":
        return ""
    certificate = value.get("certificate")
    usable = isinstance(certificate, str) and len(certificate) <= _CERTIFICATE_CHARACTERS
    return str(certificate) if usable else ""


def register(machine: Machine, pool: Pool, github: Github, channel: Channel, job: JobKey | None = None) -> str:
    """Register a runner for the machine and send the registration to it.

    A runner whose registration certainly did not reach the machine is unregistered again. With `job`, the machine
    accepts only jobs of the same run.

    Returns:
        The runner's name, or "" if the machine already has a registration.

    Raises:
        Unavailable, Refused: GitHub or the supplier did not carry out a request.
    """
    certificate = _certificate(machine)
    mailbox = channel.mailbox(machine)
    if mailbox.registered:
        # An earlier request succeeded, although its answer was lost. A machine gets only one runner.
        return ""
    runner = github.register(pool, runner_name(machine))
    rung = pool.rung_of(machine)
    message = {
        "machine": f"{machine.name}-{machine.id}",
        "runnerId": runner.id,
        "jitConfig": runner.jit_config,
        # For the log of the job. A template has no price, because one template serves spot and standard.
        "usdPerHour": rung.usd_per_hour if rung else None,
        "market": machine.market,
        **({"run": {"repository": job.repository, "id": job.run_id, "attempt": job.attempt}} if job else {}),
    }
    try:
        sent = channel.send(machine, mailbox, _sealed(message, certificate))
    except Refused:
        github.remove_runner(runner)
        raise
    if not sent:
        github.remove_runner(runner)
        raise Unavailable(f"the channel of {machine.name} was changed by another request meanwhile")
    return runner.name


def _certificate(machine: Machine) -> Any:
    """Return the machine's certificate. It is not verified, because it only carries the public key."""
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    problem = f"the key that {machine.name} has published is not a certificate of an RSA key of 2,048 to 4,096 bits"
    try:
        certificate = x509.load_der_x509_certificate(base64.b64decode(machine.key, validate=True))
        key = certificate.public_key()
        if not isinstance(key, RSAPublicKey) or not _LEAST_KEY_BITS <= key.key_size <= _MOST_KEY_BITS:
            raise UnusableKey(problem)
        # A certificate may contain numbers that are not an RSA key. Only a test encryption detects that.
        _sealed({}, certificate)
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion):
        raise UnusableKey(problem) from None
    return certificate


def _sealed(message: dict[str, Any], certificate: Any) -> str:
    """Return the message as CMS EnvelopedData (RFC 5652) in base64. The machine decrypts it with openssl."""
    from cryptography.hazmat.primitives.ciphers.algorithms import AES256
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.hazmat.primitives.serialization.pkcs7 import PKCS7EnvelopeBuilder, PKCS7Options

    envelope = PKCS7EnvelopeBuilder().set_data(json.dumps(message).encode()).add_recipient(certificate)
    sealed = envelope.set_content_encryption_algorithm(AES256).encrypt(Encoding.DER, [PKCS7Options.Binary])
    return base64.b64encode(sealed).decode()
