"""A machine with a mailbox: an EC2 instance or a rented host. It has no identity, and reads and writes signed URLs."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from typing import Any, NoReturn

from .. import http
from ..agent import ROLE
from ..broker.registration import SEALED
from ..clock import Clock
from ..config import KEY
from ..host import BlockedAddresses, Notice
from ..machine import processes
from ..outcomes import AgentExit
from ..redact import redact
from ..retry import RetryableError, retry_until
from ..storage import GoogleBucket
from .document import Document, Request

_SMOKE = "gpu-smoke-pyz"
_ATTEMPT_SEC = 15.0
_READ_SEC = 120.0
_POLL_SEC = 5.0
_SMOKE_BYTES = 16_777_216
_NOT_YET = (408, 409, 429)
# "We recommend that you check for these interruption notices every 5 seconds" (docs.aws.amazon.com/AWSEC2/latest/
# UserGuide/spot-instance-termination-notices.html). A notice comes two minutes before the end.
_NOTICE_SEC = 5.0
_IMDS_SEC = 2.0
IMDS = "http://169.254.169.254"
"""The instance metadata service of EC2."""
# The addresses of EC2's instance metadata, whose user data has a signed URL. Other vendors use the first one too.
BLOCKED = BlockedAddresses(addresses=("169.254.169.254", "fd00:ec2::254"), ports=(53, 67, 123, 547))
_TTL = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}


class MailboxHost:
    """This machine. Implements host.Host."""

    def __init__(
        self, document: Document, clock: Clock, cut_power: Callable[[], object] = lambda: None, imds: str = IMDS
    ) -> None:
        """Create the host. `cut_power` is the last way to end the machine if `shutdown` cannot be started or fails."""
        self._document, self._clock, self._cut_power, self._imds = document, clock, cut_power, imds
        self.blocked = BLOCKED._replace(answer=document.host == "ec2")

    def name(self) -> str:
        """Return the machine's name followed by its id."""
        return self._document.machine

    def attribute(self, key: str) -> str | None:
        """Return a value of the boot document, the smoke check, or the registration if it has arrived."""
        if key == KEY:
            return json.dumps(self._document.config)
        if key == ROLE:
            return self._document.role or None
        if key == _SMOKE:
            return self._smoke(self._clock.now() + _READ_SEC)
        return self._registration(self._clock.now() + _READ_SEC) if key == SEALED else None

    def awaited_attribute(self, key: str, deadline: float) -> str | None:
        """Poll the registration until it arrives."""
        while self._clock.now() < deadline:
            try:
                if found := self.attribute(key):
                    return found
            except AgentExit as ended:
                if ended.end.reason == "stopped":
                    raise
            self._clock.sleep(min(self._clock.jitter(_POLL_SEC), deadline - self._clock.now()))
        return None

    def publish(self, key: str, value: str, within_sec: float = 15.0, *, is_public_key: bool = False) -> None:
        """Write an object of the mailbox, once. The key is namespace/name."""
        request = self._document.mailbox.get(key.rpartition("/")[2])
        if request is None:
            raise OSError(f"the mailbox has no object for {key}")
        until = self._clock.now() + within_sec
        body = (value if is_public_key else redact(value)).encode()
        is_lost = False

        def attempt() -> None:
            nonlocal is_lost
            try:
                answer = self._ask("PUT", request, until, body)
            except RetryableError:
                is_lost = True
                raise
            # After a lost answer, the object may be the one of this call.
            if answer.status >= 300 and not (answer.status == 412 and is_lost):
                text = "it exists already" if answer.status == 412 else f"the mailbox answered {answer.status}"
                raise OSError(f"{key}: {text}")

        try:
            retry_until(attempt, deadline=until, clock=self._clock, wait=lambda _: 2.0)
        except AgentExit as ended:
            if ended.end.reason == "stopped":
                raise
            raise OSError(ended.detail) from None

    def log(self, severity: str, message: str, within_sec: float, **fields: Any) -> None:
        """Do nothing: the machine has no identity for a log service, and the journal has the agent's output."""

    def secret(self, name: str, deadline: float, grant_sec: float) -> bytes:  # noqa: ARG002 - as GoogleHost has it
        """Raise AgentExit("no-secret")."""
        self._no_identity(name)

    def bucket(self, name: str) -> GoogleBucket:
        """Raise AgentExit("no-secret")."""
        self._no_identity(f"gs://{name}")

    def registry_token(self, deadline: float) -> str:  # noqa: ARG002 - as GoogleHost has it
        """Raise AgentExit("no-secret")."""
        self._no_identity("a private container image")

    def notice(self, timeout_sec: float) -> Notice | None:
        """Wait for a notice of a Spot interruption. Other vendors announce nothing."""
        until = self._clock.now() + timeout_sec
        while True:
            if self._document.host == "ec2" and (notice := self._interruption()):
                return notice
            if self._clock.now() >= until:
                return None
            self._clock.sleep(min(_NOTICE_SEC, until - self._clock.now()))

    def power_off(self) -> None:
        """Switch the machine off. An EC2 instance terminates then. The manager deletes a rented host, which has
        reported its end before. Raises OSError if the machine stays on.
        """
        processes.power_off((), self._cut_power, self._clock)

    def _interruption(self) -> Notice | None:
        """Return the action in spot/instance-action, which is missing (404) without a notice."""
        until = self._clock.now() + _IMDS_SEC
        try:
            token = http.ask(
                "PUT", f"{self._imds}/latest/api/token", headers=_TTL, deadline=until, clock=self._clock
            ).body.decode()
            answer = http.ask(
                "GET",
                f"{self._imds}/latest/meta-data/spot/instance-action",
                headers={"X-aws-ec2-metadata-token": token},
                deadline=until,
                clock=self._clock,
            )
            if answer.status != 200:
                return None
            value = json.loads(answer.body)
            text = f"EC2 interrupts the Spot instance (spot/instance-action is {value['action']} at {value['time']})"
        except (http.Unreachable, ValueError, KeyError, TypeError):
            return None
        return Notice("preempted", text)

    def _registration(self, deadline: float) -> str | None:
        answer = self._answer(self._document.mailbox["registration"], deadline)
        # 404 means missing; so does 403 if the signer may not list the bucket. 400 and 403 also mean expired.
        return answer.body.decode(errors="replace") if answer.status == 200 else None

    def _smoke(self, deadline: float) -> str:
        """Return the archive of the smoke check in base64, like the metadata of a Compute Engine VM."""
        payload = self._document.payloads["smoke"]
        answer = self._answer(Request(payload["url"], {}), deadline, _SMOKE_BYTES)
        if hashlib.sha256(answer.body).hexdigest() != payload["sha256"]:
            raise AgentExit("no-config", f"the smoke check is not the pinned one (status {answer.status})")
        return base64.b64encode(answer.body).decode()

    def _answer(self, request: Request, deadline: float, limit_bytes: int = 1_048_576) -> http.Answer:
        """Return the answer to a read, which is repeated until the deadline. Raises AgentExit("timed-out")."""
        return retry_until(
            lambda: self._ask("GET", request, deadline, limit_bytes=limit_bytes),
            deadline=deadline,
            clock=self._clock,
            wait=lambda _: 2.0,
        )

    def _ask(
        self, method: str, request: Request, until: float, body: bytes | None = None, limit_bytes: int = 1_048_576
    ) -> http.Answer:
        deadline = min(until, self._clock.now() + _ATTEMPT_SEC)
        try:
            answer = http.ask(
                method, request.url, headers=request.headers, body=body, deadline=deadline, clock=self._clock,
                limit_bytes=limit_bytes,
            )  # fmt: skip
        except http.Unreachable as error:
            raise RetryableError(AgentExit("timed-out", str(error))) from None
        if answer.status >= 500 or answer.status in _NOT_YET:
            raise RetryableError(AgentExit("timed-out", f"the mailbox answered {answer.status}"))
        return answer

    def _no_identity(self, wanted: str) -> NoReturn:
        raise AgentExit("no-secret", f"{wanted}: the machine has no identity; use registeredBy: manager")
