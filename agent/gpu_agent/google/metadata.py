"""The metadata server of a Compute Engine VM: values of the machine, and guest attributes."""

from __future__ import annotations

import mmap
import struct

from .. import http
from ..clock import Clock
from ..outcomes import AgentExit
from ..redact import redact
from ..retry import RetryableError, retry_until

_FLAVOR = {"Metadata-Flavor": "Google"}
# The network and the metadata server may start after the agent.
_READ_SEC = 120.0
# A single hanging request must not use up the time of further attempts.
_ATTEMPT_SEC = 10.0
# The limit is "at most 10 queries a minute and 3 a second" for each VM. Above that Google may drop writes
# (docs.cloud.google.com/compute/docs/metadata/manage-guest-attributes). Two a second leave one for the gate, which
# reads the verdict.
_QUERY_PAUSE_SEC = 0.6
_LOST_PAUSE_SEC = 4.0


class Metadata:
    """The metadata server of one machine, at a host or host:port."""

    def __init__(self, host: str, clock: Clock) -> None:
        self._clock = clock
        self._root = f"http://{host}/computeMetadata/v1/"
        # The time of the next allowed query. Supervisor and agent both write guest attributes, so this memory is shared
        # between the two processes: the supervisor creates it before it forks the agent.
        self._next_query = mmap.mmap(-1, 8)

    def read(self, path: str, deadline: float | None = None) -> str | None:
        """Return one value, or None if it is missing. Raises AgentExit("timed-out") without an answer, by default after
        120 s.
        """
        until = self._clock.now() + _READ_SEC if deadline is None else deadline

        def attempt() -> str | None:
            try:
                answer = self._ask("GET", path, until)
            except http.Unreachable as error:
                raise RetryableError(AgentExit("timed-out", str(error))) from None
            if answer.status == 404:
                return None
            if answer.status != 200:
                raise RetryableError(AgentExit("timed-out", f"the metadata server answered {answer.status} to {path}"))
            return answer.body.decode(errors="replace")

        return retry_until(attempt, deadline=until, clock=self._clock, wait=lambda _: 2.0)

    def read_once(self, path: str, within_sec: float) -> tuple[str, str]:
        """Return one value and its ETag from a single request, or empty texts without an answer."""
        until = self._clock.now() + within_sec
        try:
            answer = self._ask("GET", path, until, within_sec)
        except (http.Unreachable, ValueError):
            # ValueError: the path contains an earlier answer of the server that does not fit into a URL.
            return "", ""
        if answer.status != 200:
            return "", ""
        return answer.body.decode(errors="replace").strip(), answer.headers.get("etag", "")

    def has_value(self, path: str, within_sec: float) -> bool:
        """Return True if a server that identifies itself as Google's has this value, from a single request."""
        try:
            answer = self._ask("GET", path, self._clock.now() + within_sec)
        except http.Unreachable:
            return False
        return answer.status == 200 and answer.headers.get("metadata-flavor") == _FLAVOR["Metadata-Flavor"]

    def publish(self, key: str, value: str, within_sec: float, *, is_public_key: bool = False) -> None:
        """Write the guest attribute namespace/key, and repeat it if Google drops it. Raises OSError if all attempts
        fail.
        """
        until = self._clock.now() + within_sec
        body = (value if is_public_key else redact(value)).encode()

        def attempt() -> None:
            answer = self._query("PUT", key, until, body)
            if answer.status >= 300:
                raise OSError(f"the metadata server answered {answer.status}")
            answer = self._query("GET", key, until)
            if answer.status == 404 or (answer.status == 200 and answer.body.strip() != body.strip()):
                raise RetryableError(AgentExit("timed-out", "the metadata server dropped the value"), _LOST_PAUSE_SEC)

        try:
            retry_until(attempt, deadline=until, clock=self._clock, wait=lambda _: 2.0)
        except AgentExit as ended:
            if ended.end.reason == "stopped":
                raise
            raise OSError(ended.detail) from None

    def _query(self, method: str, key: str, until: float, body: bytes | None = None) -> http.Answer:
        """Send one query of a guest attribute at the allowed rate."""
        now = self._clock.now()
        at = max(now, struct.unpack("d", self._next_query)[0])
        struct.pack_into("d", self._next_query, 0, at + _QUERY_PAUSE_SEC)
        self._clock.sleep(at - now)
        try:
            answer = self._ask(method, f"instance/guest-attributes/{key}", until, body=body)
        except http.Unreachable as error:
            raise RetryableError(AgentExit("timed-out", str(error))) from None
        if answer.status >= 500 or answer.status == 429:
            raise RetryableError(AgentExit("timed-out", f"the metadata server answered {answer.status}"))
        return answer

    def _ask(
        self, method: str, path: str, until: float, within_sec: float = _ATTEMPT_SEC, body: bytes | None = None
    ) -> http.Answer:
        deadline = min(until, self._clock.now() + within_sec)
        return http.ask(method, self._root + path, headers=_FLAVOR, body=body, deadline=deadline, clock=self._clock)
