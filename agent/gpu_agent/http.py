"""A single HTTP request with one deadline. It uses a new connection and no proxy; only `download` follows redirects.

The time-out of Python's HTTP clients restarts with every byte, so a slow server may delay them forever. Here every wait
ends at the deadline: name lookup, connection, TLS, sending and reading.
"""

from __future__ import annotations

import http.client
import io
import ipaddress
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import SplitResult, urljoin, urlsplit

from .clock import Clock

TOO_LONG = "the answer is longer than"
"""The start of the reason if an answer exceeds its limit, so that a repetition does not help."""
LOOPBACK = ("127.0.0.1", "localhost", "::1")
_REDIRECTS = (301, 302, 303, 307, 308)
_CHUNK_BYTES = 65_536
# The limit for the headers of an answer: http.client accepts a hundred of 64 KiB.
_ENVELOPE_BYTES = 8_388_608


class Answer(NamedTuple):
    """The answer of the server. The status may also report an error."""

    status: int
    headers: Mapping[str, str]
    """The headers by lower-case name."""
    body: bytes


class Unreachable(OSError):  # noqa: N818 - the name is the state of the host
    """There was no complete answer. The text contains the host and the path, but no query, header or body."""

    def __init__(self, method: str, url: str, reason: str, status: int = 0) -> None:
        where = urlsplit(url)
        super().__init__(f"{method} {where.scheme}://{where.netloc.rpartition('@')[2]}{where.path}: {reason}")
        self.reason = reason
        self.status = status
        """The status with which a download failed; 0 without an answer."""


def ask(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    deadline: float,
    clock: Clock,
    limit_bytes: int = 1_048_576,
) -> Answer:
    """Send one request and return the answer, which may also be a redirect or an error.

    Raises:
        Unreachable: There is no complete answer before the deadline and within limit_bytes.
        ValueError: The URL or a header cannot be sent safely.
    """
    with _exchange(method, url, headers or {}, body, deadline, clock, limit_bytes) as response:
        content = b"".join(_chunks(method, url, response, limit_bytes))
        found: dict[str, str] = {}
        for name, value in response.getheaders():
            found[name.lower()] = f"{found[name.lower()]}, {value}" if name.lower() in found else value
        return Answer(response.status, found, content)


def download(
    url: str,
    sink: BinaryIO,
    *,
    headers: Mapping[str, str] | None = None,
    deadline: float,
    clock: Clock,
    limit_bytes: int,
) -> None:
    """Write the content at the URL into `sink`, after up to 5 redirects to https.

    If the download fails, `sink` contains a part of the content, so empty it before the next attempt. With headers, no
    redirect is followed: it may lead to another host, and the headers may contain a secret. Raises Unreachable.
    """
    start = url
    for _ in range(6):
        with _exchange("GET", url, headers or {}, None, deadline, clock, limit_bytes) as response:
            if response.status == 200:
                sink.writelines(_chunks("GET", url, response, limit_bytes))
                return
            location = response.getheader("location")
            if response.status not in _REDIRECTS or not location or headers:
                raise Unreachable("GET", url, f"answered {response.status} {response.reason}", response.status)
        try:
            target = urljoin(url, location)
            # A redirect to http is followed only between servers on this machine, as in the sandbox.
            may_follow = urlsplit(target).scheme == "https" or (_is_local(start) and _is_local(target))
            if may_follow:
                parsed(target)
        except ValueError:
            raise Unreachable("GET", url, "redirects to an invalid URL") from None
        if not may_follow:
            raise Unreachable("GET", url, "redirects to an address without https")
        url = target
    raise Unreachable("GET", start, "redirects more than 5 times")


def _is_local(url: str) -> bool:
    where = urlsplit(url)
    return where.scheme == "http" and where.hostname in LOOPBACK


@contextmanager
def _exchange(
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes | None,
    deadline: float,
    clock: Clock,
    limit_bytes: int,
) -> Iterator[http.client.HTTPResponse]:
    """Send one request and return the answer, whose body is not read yet."""
    where = parsed(url)
    for name, value in headers.items():
        # http.client refuses these too, but its message quotes the value, which may be a token.
        if not value.isascii() or not value.isprintable():
            raise ValueError(f"header {name}: its value has characters that are not allowed in a header")
    with ExitStack() as opened:
        # Only errors of this block become Unreachable. An error of the caller, such as a full disk, does not.
        with _explained(method, url):
            sock = opened.enter_context(_connected(where, deadline, clock))
            kind = http.client.HTTPSConnection if where.scheme == "https" else http.client.HTTPConnection
            connection = kind(where.hostname or "", where.port)
            # Chunks can make a body twice as long.
            connection.sock = _Timed(sock, deadline, clock, 2 * limit_bytes + _ENVELOPE_BYTES)
            target = (where.path or "/") + (f"?{where.query}" if where.query else "")
            connection.request(method, target, body, {**headers, "Connection": "close"})
            response = opened.enter_context(closing(connection.getresponse()))
        yield response


def _chunks(method: str, url: str, response: http.client.HTTPResponse, limit_bytes: int) -> Iterator[bytes]:
    """Return the body in pieces. Raises Unreachable if the body is incomplete or too long."""
    with _explained(method, url):
        if response.length is None and not response.chunked:
            raise _UnusableError("the answer has no length, so a truncated one would not be detected")
        received = 0
        while data := response.read(_CHUNK_BYTES):
            received += len(data)
            if received > limit_bytes:
                raise _UnusableError(f"{TOO_LONG} {limit_bytes} bytes")
            yield data
        # http.client reports a cut chunked body, but returns a body shorter than its Content-Length as if it were
        # complete.
        if response.length:
            raise _UnusableError(f"the answer is truncated: {response.length} bytes are missing")


def parsed(url: str) -> SplitResult:
    """Return the parts of a usable URL. Raises ValueError, which does not quote the URL, for any other."""
    if not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError("the URL has characters that are not allowed in a URL")
    try:
        where = urlsplit(url)
        usable = where.scheme in ("http", "https") and where.hostname and where.port != 0
    except ValueError:
        usable = None
    if not usable or "@" in where.netloc:
        raise ValueError("expected an http or https URL with a host and without credentials")
    return where


class _UnusableError(Exception):
    """There is no usable answer; the text has the reason."""


@contextmanager
def _explained(method: str, url: str) -> Iterator[None]:
    try:
        yield
    except (OSError, http.client.HTTPException, _UnusableError, ValueError) as error:
        # Python's own code raises ValueError for an answer such as a chunk of -5 bytes.
        raise Unreachable(method, url, _error_text(error)) from None


def _error_text(error: Exception) -> str:
    """Return the reason, without any text of the server. Such a text may repeat the request's headers, with a token."""
    if isinstance(error, _UnusableError):
        return str(error)
    if isinstance(error, TimeoutError):
        return "no complete answer before the deadline"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, http.client.HTTPException | ValueError) and not isinstance(error, OSError):
        return f"the answer is truncated or is not HTTP ({type(error).__name__})"
    return str(getattr(error, "strerror", None) or type(error).__name__)


@contextmanager
def _connected(where: SplitResult, deadline: float, clock: Clock) -> Iterator[socket.socket]:
    """Return a connection to the first address that accepts one, with TLS if the URL requires it."""
    failure: Exception = _UnusableError("the name has no address")
    port = where.port or (443 if where.scheme == "https" else 80)
    for family, kind, protocol, _, address in _addresses(where.hostname or "", port, deadline, clock):
        with closing(socket.socket(family, kind, protocol)) as plain:
            try:
                plain.settimeout(_remaining_sec(deadline, clock))
                plain.connect(address)
            except OSError as error:
                failure = error
                continue
            if where.scheme == "http":
                yield plain
                return
            # The time-out of a handshake covers all of it: do_handshake in cpython's Modules/_ssl.c uses a deadline.
            plain.settimeout(_remaining_sec(deadline, clock))
            with ssl.create_default_context().wrap_socket(plain, server_hostname=where.hostname) as secured:
                yield secured
            return
    raise failure


def _addresses(host: str, port: int, deadline: float, clock: Clock) -> list[Any]:
    """Look the address up in a separate thread, because getaddrinfo() cannot be interrupted otherwise."""
    found: list[Any] = []
    failed: list[Exception] = []

    def look_up() -> None:
        try:
            found.extend(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except OSError as error:
            failed.append(error)
        except UnicodeError:
            failed.append(_UnusableError("the name is not a valid host name"))

    if _is_literal(host):
        look_up()
    else:
        thread = threading.Thread(target=look_up, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            raise _UnusableError("no thread for the name lookup could be started") from None
        thread.join(_remaining_sec(deadline, clock))
        if thread.is_alive():
            raise TimeoutError
    if failed:
        raise failed[0]
    return found


def _is_literal(host: str) -> bool:
    """Return True if the host is an IP address, which needs no lookup."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _remaining_sec(deadline: float, clock: Clock) -> float:
    """Return the seconds until the deadline. Raises TimeoutError after it."""
    remaining_sec = deadline - clock.now()
    if remaining_sec <= 0:
        raise TimeoutError
    return remaining_sec


class _Timed(io.RawIOBase):
    """The methods of a socket that http.client uses. Every wait ends at the deadline.

    It reads a limited number of bytes, because http.client reads a chunk of -1 bytes without an end.
    """

    def __init__(self, sock: socket.socket, deadline: float, clock: Clock, most_bytes: int) -> None:
        self._sock, self._deadline, self._clock, self._remaining_bytes = sock, deadline, clock, most_bytes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._sock.settimeout(_remaining_sec(self._deadline, self._clock))
        received = self._sock.recv_into(buffer)
        self._remaining_bytes -= received
        if self._remaining_bytes < 0:
            raise _UnusableError("the answer is longer than the limit")
        return received

    def sendall(self, content: bytes) -> None:
        rest = memoryview(content)
        while rest:
            self._sock.settimeout(_remaining_sec(self._deadline, self._clock))
            rest = rest[self._sock.send(rest) :]

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Timed(self._sock, self._deadline, self._clock, self._remaining_bytes))
