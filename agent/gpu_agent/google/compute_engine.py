"""Compute Engine as the agent's cloud: metadata, Secret Manager and Cloud Logging with the machine's identity."""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
import mmap
import struct
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from .. import http
from ..clock import Clock
from ..host import BlockedAddresses, Notice
from ..machine import processes
from ..outcomes import AgentExit
from ..redact import redact
from ..retry import RetryableError, retry_until
from ..storage import GoogleBucket

_EMAIL_SEC = 5.0
_ATTEMPT_SEC = 15.0
# A payload has at most 64 KiB (discovery document secretmanager v1, SecretPayload.data); base64 adds a third.
_SECRET_BYTES = 131_072
_NOTICE_SEC = 10.0


class GoogleHost:
    """This machine as a Compute Engine VM. Implements host.Host."""

    # The addresses of the metadata server (cloud.google.com/compute/docs/metadata/querying-metadata). A job must not
    # reach the server over HTTP. The first address also serves DNS, NTP and DHCP, so these ports stay open.
    # systemd-networkd sends DHCP requests as its own user when half of a lease has passed.
    blocked = BlockedAddresses(addresses=("169.254.169.254", "fd20:ce::254"), ports=(53, 67, 123, 547))

    def __init__(
        self,
        clock: Clock,
        environ: Mapping[str, str],
        prefix: tuple[str, ...] = (),
        cut_power: Callable[[], object] = lambda: None,
    ) -> None:
        """Create the host. `cut_power` is the last way to end the machine if `shutdown` cannot be started or fails."""
        self._clock = clock
        self._prefix = prefix
        self._cut_power = cut_power
        self._metadata = Metadata(environ.get("GCE_METADATA_HOST", "metadata.google.internal"), clock)
        # A sandbox has these services at other addresses.
        self._secrets = environ.get("GPU_AGENT_SECRETMANAGER_URL", "https://secretmanager.googleapis.com")
        self._logging = environ.get("GPU_AGENT_LOGGING_URL", "https://logging.googleapis.com")
        self._storage = environ.get("GPU_AGENT_STORAGE_URL", "https://storage.googleapis.com")
        self._etag = "0"
        self._facts: dict[str, str] = {}

    def name(self) -> str:
        """Return the machine's name followed by its id. A name alone is unique only within a zone, and a later machine
        may have the same name.
        """
        return f"{self._fact('instance/name')}-{self._fact('instance/id')}"

    def attribute(self, key: str) -> str | None:
        """Return the instance's metadata with this key."""
        return self._metadata.read(f"instance/attributes/{key}")

    def awaited_attribute(self, key: str, deadline: float) -> str | None:
        """Wait for the instance's metadata with this key, and return it."""
        while (remaining_sec := deadline - (began := self._clock.now())) > 0:
            within_sec = min(remaining_sec, _NOTICE_SEC)
            value, _ = self._read_when_changed(f"instance/attributes/{key}", "0", within_sec)
            if value:
                return value
            # For a missing value, the server may answer at once.
            self._clock.sleep(min(began + 1, began + within_sec) - self._clock.now())
        return None

    def publish(self, key: str, value: str, within_sec: float = 15.0, *, is_public_key: bool = False) -> None:
        """Write a guest attribute. The key is namespace/key."""
        self._metadata.publish(key, value, within_sec, is_public_key=is_public_key)

    def log(self, severity: str, message: str, within_sec: float, **fields: Any) -> None:
        """Write an entry of this machine to the log gpu-agent."""
        # Any error is ignored: the serial port has the same text, and a failed log entry must not end a job.
        with contextlib.suppress(Exception):
            self._write_entry(severity, {**fields, "message": message}, self._clock.now() + within_sec)

    def _write_entry(self, severity: str, payload: dict[str, Any], until: float) -> None:
        project = self._fact("project/project-id", until)
        labels = {
            "project_id": project,
            "instance_id": self._fact("instance/id", until),
            "zone": self._fact("instance/zone", until).rpartition("/")[2],
        }
        entry = {
            "logName": f"projects/{project}/logs/gpu-agent",
            "resource": {"type": "gce_instance", "labels": labels},
            "entries": [{"severity": severity, "jsonPayload": json.loads(redact(json.dumps(payload)))}],
        }
        headers = {"Authorization": f"Bearer {self._token(until)}", "Content-Type": "application/json"}
        url, body = f"{self._logging}/v2/entries:write", json.dumps(entry).encode()
        http.ask("POST", url, headers=headers, body=body, deadline=until, clock=self._clock)

    def secret(self, name: str, deadline: float, grant_sec: float) -> bytes:
        """Return the latest version of projects/<project>/secrets/<name>."""
        url = f"{self._secrets}/v1/{name}/versions/latest:access"
        granted_by = self._clock.now() + grant_sec

        def attempt() -> bytes:
            headers = {"Authorization": f"Bearer {self._token(deadline)}"}
            until = min(deadline, self._clock.now() + _ATTEMPT_SEC)
            try:
                answer = http.ask(
                    "GET", url, headers=headers, deadline=until, clock=self._clock, limit_bytes=_SECRET_BYTES
                )
            except http.Unreachable as error:
                raise RetryableError(AgentExit("secrets-unreachable", str(error))) from None
            if answer.status == 200:
                return _payload(answer.body, name)
            text = f"{name}: {answer.status} {_message(answer.body)}".rstrip()
            if answer.status >= 500 or answer.status in (408, 429):
                raise RetryableError(AgentExit("secrets-unreachable", text))
            ended = AgentExit("no-secret", text + (self._grant(name) if answer.status == 403 else ""))
            if answer.status in (401, 403) and self._clock.now() < granted_by:
                raise RetryableError(ended)
            raise ended

        return retry_until(
            attempt, deadline=deadline, clock=self._clock, wait=lambda attempts: min(2.0**attempts, 10.0)
        )

    def bucket(self, name: str) -> GoogleBucket:
        """Return a bucket of Cloud Storage."""
        return GoogleBucket(self._storage, name, self._token, self._clock)

    def registry_token(self, deadline: float) -> str:
        """Return an access token of the machine's account: Artifact Registry accepts it as a password."""
        return self._token(deadline)

    def _grant(self, name: str) -> str:
        """Return the refused account and the command that grants access, or "" if the account is unknown."""
        email, _ = self._metadata.read_once("instance/service-accounts/default/email", _EMAIL_SEC)
        _, project, _, secret = name.split("/", 3)
        command = (
            f"gcloud secrets add-iam-policy-binding {secret} --project {project} --member serviceAccount:{email} "
            "--role roles/secretmanager.secretAccessor"
        )
        return f"; refused account: {email}; {command}" if email else ""

    def notice(self, timeout_sec: float) -> Notice | None:
        """Wait for a notice of a preemption, with a request that the metadata server holds back. Then read maintenance.

        The machine ends 30 s after the notice of a preemption, and up to an hour after a notice of maintenance.
        Sources: cloud.google.com/compute/docs/instances/preemptible,
        cloud.google.com/compute/docs/gpus/gpu-host-maintenance.
        """
        until = self._clock.now() + timeout_sec
        while True:
            began = self._clock.now()
            preempted, etag = self._read_when_changed(
                "instance/preempted", self._etag, min(max(until - began, 0), _NOTICE_SEC)
            )
            self._etag = etag or "0"
            if preempted == "TRUE":
                return Notice("preempted", "Google preempts the machine (instance/preempted is TRUE)")
            event, _ = self._metadata.read_once("instance/maintenance-event", 5)
            if event.startswith("TERMINATE"):
                return Notice("maintenance", f"host maintenance is announced (instance/maintenance-event is {event})")
            if self._clock.now() >= until:
                return None
            # If the server is down, or answers at once, the next request follows after a second.
            self._clock.sleep(min(began + 1, until) - self._clock.now())

    def _read_when_changed(self, path: str, known: str, within_sec: float) -> tuple[str, str]:
        """Return a value and its ETag, as soon as the ETag differs from `known`, or else after `within_sec`.

        The server holds the request back until then (wait_for_change). For a missing value it may answer at once; the
        documentation does not say.
        """
        wait_sec = int(within_sec)
        # A header consists of bytes (http.client reads it as Latin-1), and this one becomes part of a URL.
        etag = quote(known, safe="", encoding="latin-1", errors="replace")
        waiting = f"?wait_for_change=true&last_etag={etag}&timeout_sec={wait_sec}" if wait_sec else ""
        # The server answers after wait_sec; a few seconds more are for the network.
        return self._metadata.read_once(f"{path}{waiting}", wait_sec + 5)

    def power_off(self) -> None:
        """Switch the machine off like an administrator, with retries. Raises OSError if it stays on."""
        processes.power_off(self._prefix, self._cut_power, self._clock)

    def _fact(self, path: str, deadline: float | None = None) -> str:
        """Return a value that does not change during the boot."""
        if path not in self._facts:
            self._facts[path] = self._metadata.read(path, deadline) or "unknown"
        return self._facts[path]

    def _token(self, deadline: float) -> str:
        """Return an access token. It is requested each time, because the metadata server caches it."""
        answer = self._metadata.read("instance/service-accounts/default/token", deadline)
        try:
            found: str = json.loads(answer or "")["access_token"]
        except (ValueError, KeyError, TypeError):
            raise AgentExit("no-secret", "the machine has no service account") from None
        return found


def _payload(body: bytes, name: str) -> bytes:
    """Return a secret's value from an answer of Secret Manager."""
    try:
        payload = json.loads(body)["payload"]
        value = base64.b64decode(payload["data"], validate=True)
        checksum = payload.get("dataCrc32c")
    except (ValueError, KeyError, TypeError, AttributeError, binascii.Error):
        raise RetryableError(AgentExit("secrets-unreachable", f"{name}: the answer has no payload")) from None
    if checksum is not None and str(checksum) != str(crc32c(value)):
        raise RetryableError(AgentExit("secrets-unreachable", f"{name}: the payload differs from its checksum"))
    return value


def _message(body: bytes) -> str:
    """Return Google's message in an error body."""
    try:
        return redact(str(json.loads(body)["error"]["message"]))[:300]
    except (ValueError, KeyError, TypeError):
        return ""


# The polynomial 0x1EDC6F41 with its bits reversed.
_POLYNOMIAL = 0x82F63B78


def _row(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
    return byte


_TABLE = tuple(_row(byte) for byte in range(256))


def crc32c(content: bytes) -> int:
    """Return the CRC-32C checksum (RFC 3720, appendix B.4), which Google sends with a secret. zlib has only CRC-32."""
    value = 0xFFFF_FFFF
    for byte in content:
        value = value >> 8 ^ _TABLE[(value ^ byte) & 0xFF]
    return value ^ 0xFFFF_FFFF


_FLAVOR = {"Metadata-Flavor": "Google"}
# The network and the metadata server may start after the agent.
_READ_SEC = 120.0
# A single hanging request must not use up the time of further attempts.
_QUERY_SEC = 10.0
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
        self, method: str, path: str, until: float, within_sec: float = _QUERY_SEC, body: bytes | None = None
    ) -> http.Answer:
        deadline = min(until, self._clock.now() + within_sec)
        return http.ask(method, self._root + path, headers=_FLAVOR, body=body, deadline=deadline, clock=self._clock)
