"""A runner that the runner manager registers for this machine. No GitHub key is on the machine.

The machine publishes a public key when it is ready for a job. The manager registers a runner with the machine's name,
encrypts the runner's configuration for that key, and writes it into the machine's metadata.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from dataclasses import dataclass, field

from .. import openssl
from ..clock import Clock
from ..config import RunnerConfig
from ..github.registration import Registration, Run
from ..host import Host
from ..outcomes import AgentExit

KEY = "gpu-agent/key"
"""The guest attribute with the machine's public key."""
SEALED = "gpu-agent-registration"
"""The metadata key with the encrypted registration."""
_PUBLISH_SEC = 60.0
# The manager unregisters an idle runner a minute or two after idleSec. If no manager runs, the machine ends by itself
# after this time. It waits because GitHub may have just assigned a job, and the machine cannot ask GitHub.
_LATE_JOB_SEC = 300.0


class Broker:
    """The runner manager from the view of one machine. Implements agent.Registrar."""

    late_job_sec = _LATE_JOB_SEC

    def __init__(self, host: Host, clock: Clock) -> None:
        self._host = host
        self._clock = clock

    def rehearse(self, deadline: float) -> None:
        """Check that this machine can create a key and decrypt a message that was encrypted for it."""
        pair = new_key_pair()
        message = self._host.name().encode()
        if pair.open(pair.seal(message)) != message:
            raise AgentExit("no-tool", "openssl does not decrypt its own message (openssl cms)")
        self._publish(pair, deadline)

    def register(self, name: str, runner: RunnerConfig, deadline: float) -> Registration:
        """Publish a key and wait for the registration. Raises AgentExit("not-registered") if none arrives in time."""
        began = self._clock.now()
        pair = new_key_pair()
        self._publish(pair, deadline)
        sealed = self._host.awaited_attribute(SEALED, deadline)
        if sealed is None:
            waited = self._clock.now() - began
            raise AgentExit("not-registered", f"the runner manager sent no registration within {waited:.0f} s")
        registration = _registration(sealed, pair, name)
        if runner.public and registration.run is None:
            raise AgentExit("not-registered", f"the metadata {SEALED} names no run, and this pool is public")
        return registration

    def remove(self, runner_id: int, deadline: float) -> bool:  # noqa: ARG002 - as Github has it
        """Return False, because only the manager can remove the runner."""
        return False

    def forget(self) -> None:
        """Do nothing, because the key pair was dropped when the registration was decrypted."""

    def _publish(self, pair: KeyPair, deadline: float) -> None:
        value = {"machine": self._host.name(), "certificate": base64.b64encode(pair.certificate).decode()}
        within_sec = min(_PUBLISH_SEC, max(deadline - self._clock.now(), 0))
        try:
            self._host.publish(KEY, json.dumps(value), within_sec, is_public_key=True)
        except OSError as error:
            raise AgentExit("not-registered", f"the machine's key could not be published: {error}") from None


def _registration(sealed: str, pair: KeyPair, name: str) -> Registration:
    """Return the registration of this machine. Raises AgentExit("not-registered") for any other content."""
    try:
        value = json.loads(pair.open(base64.b64decode(sealed, validate=True)))
        machine, runner_id, jitconfig = value["machine"], value["runnerId"], value["jitConfig"]
        usd_per_hour, market = value.get("usdPerHour"), value.get("market")
        named = value.get("run")
        run = Run(*(str(named[key]) for key in ("repository", "id", "attempt"))) if named else None
    except (ValueError, KeyError, TypeError, RecursionError, binascii.Error):
        raise AgentExit("not-registered", f"the metadata {SEALED} is not encrypted for this machine's key") from None
    if machine != name or not isinstance(runner_id, int) or not isinstance(jitconfig, str) or not jitconfig:
        raise AgentExit("not-registered", f"the metadata {SEALED} is not a registration of this machine")
    # A manager of version 0.1.0 sends no price.
    is_price = isinstance(usd_per_hour, int | float) and not isinstance(usd_per_hour, bool)
    return Registration(
        runner_id, jitconfig, usd_per_hour if is_price else None, market if isinstance(market, str) else "", run
    )


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


def new_key_pair() -> KeyPair:
    """Create a key pair. Raises AgentExit("no-tool") if this machine cannot create one."""
    output = openssl.run([*_REQUEST, "-keyout", "-", "-out", "-"], b"", b"", _USE)
    match = _CERTIFICATE.search(output)
    if match is None:
        raise AgentExit("no-tool", f"openssl does not create an RSA key; it {_USE}")
    return KeyPair(base64.b64decode(match[1]), output)
