"""A runner that the runner manager registers for this machine: no key of GitHub's is on the machine.

The machine publishes a public key once it is ready for a job. The manager asks GitHub for a runner with the machine's
name, seals the runner's configuration to that key, and writes it into the machine's metadata.
"""

from __future__ import annotations

import base64
import binascii
import json

from ..clock import Clock
from ..config import RunnerConfig
from ..github.registration import Registration
from ..host import Host
from ..outcomes import AgentExit
from . import key_pair
from .key_pair import KeyPair

KEY = "gpu-agent/key"
"""The guest attribute with the machine's public key."""
SEALED = "gpu-agent-registration"
"""The metadata with the sealed registration."""
_PUBLISH_SEC = 60.0
# The manager unregisters a runner that is idle, a minute or two after its time. Only a manager that does not run leaves
# that to the machine, which cannot ask GitHub whether a job has just come.
_LATE_JOB_SEC = 300.0


class Broker:
    """The runner manager, as one machine sees it. Follows dependencies.Registrar."""

    late_job_sec = _LATE_JOB_SEC

    def __init__(self, host: Host, clock: Clock) -> None:
        self._host = host
        self._clock = clock

    def rehearse(self, deadline: float) -> None:
        """Show that this machine can publish a key, and open what is sealed to it."""
        pair = key_pair.make()
        message = self._host.name().encode()
        if pair.open(pair.seal(message)) != message:
            raise AgentExit("no-tool", "openssl does not open what it has sealed (openssl cms)")
        self._publish(pair, deadline)

    def register(self, name: str, runner: RunnerConfig, deadline: float) -> Registration:  # noqa: ARG002 - as Github has it
        """Publish a key, and wait for the registration. AgentExit("not-registered") where none comes in time."""
        began = self._clock.now()
        pair = key_pair.make()
        self._publish(pair, deadline)
        sealed = self._host.awaited_attribute(SEALED, deadline)
        if sealed is None:
            waited = self._clock.now() - began
            raise AgentExit("not-registered", f"the runner manager sent no registration within {waited:.0f} s")
        return _registration(sealed, pair, name)

    def remove(self, runner_id: int, deadline: float) -> bool:  # noqa: ARG002 - as Github has it
        """False: the manager alone can take the runner away."""
        return False

    def forget(self) -> None:
        """Do nothing: the key pair was forgotten when the registration was opened."""

    def _publish(self, pair: KeyPair, deadline: float) -> None:
        value = {"machine": self._host.name(), "certificate": base64.b64encode(pair.certificate).decode()}
        within_sec = min(_PUBLISH_SEC, max(deadline - self._clock.now(), 0))
        try:
            self._host.publish(KEY, json.dumps(value), within_sec, is_public_key=True)
        except OSError as error:
            raise AgentExit("not-registered", f"the machine's key could not be published: {error}") from None


def _registration(sealed: str, pair: KeyPair, name: str) -> Registration:
    """The registration of this machine. AgentExit("not-registered") for anything else."""
    try:
        value = json.loads(pair.open(base64.b64decode(sealed, validate=True)))
        machine, runner_id, jitconfig = value["machine"], value["runnerId"], value["jitConfig"]
    except (ValueError, KeyError, TypeError, RecursionError, binascii.Error):
        raise AgentExit(
            "not-registered", f"what the metadata {SEALED} holds is not sealed to this machine's key"
        ) from None
    if machine != name or not isinstance(runner_id, int) or not isinstance(jitconfig, str) or not jitconfig:
        raise AgentExit("not-registered", f"what the metadata {SEALED} holds is no registration of this machine")
    return Registration(runner_id, jitconfig)
