"""One question over HTTP, with an end: no redirects, no proxy, nothing kept open, and a deadline that holds throughout.

A time-out of Python's own HTTP clients starts anew with every byte, so that a peer which drips may hold them for ever.
Here every wait is for what is left until one deadline: looking up the name, connecting, TLS, sending and reading.
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

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_REDIRECTS = (301, 302, 303, 307, 308)
_CHUNK_BYTES = 65_536
# For headers and the like, of which http.client takes a hundred of 64 KiB; a body in chunks may be twice its length.
_ENVELOPE_BYTES = 8_388_608


class Answer(NamedTuple):
    """What the other side said, whatever its status."""

    status: int
    headers: Mapping[str, str]
    """By lower-case name."""
    body: bytes


class Unreachable(OSError):  # noqa: N818 - it says how the host was found
    """There was no whole answer. Its words name the host and the path, never the query, a header or a body."""

    def __init__(self, method: str, url: str, reason: str, status: int = 0) -> None:
        where = urlsplit(url)
        super().__init__(f"{method} {where.scheme}://{where.netloc.rpartition('@')[2]}{where.path}: {reason}")
        self.reason = reason
        self.status = status
        """What download() was answered where that was neither 200 nor a redirect; 0 where nothing was."""


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
    """Ask once and give back whatever was answered, a redirect or a refusal too.

    Unreachable where nobody answers whole, before the deadline and within limit_bytes; ValueError for a URL or a header
    that could not be sent safely.
    """
    with _exchange(method, url, headers or {}, body, deadline, clock, limit_bytes) as response:
        content = b"".join(_chunks(method, url, response, limit_bytes))
        found: dict[str, str] = {}
        for name, value in response.getheaders():
            found[name.lower()] = f"{found[name.lower()]}, {value}" if name.lower() in found else value
        return Answer(response.status, found, content)


def download(url: str, sink: BinaryIO, *, deadline: float, clock: Clock, limit_bytes: int) -> None:
    """Write what lies at the URL into `sink`, after up to 5 redirects to https.

    Unreachable where it is not there whole; what had come by then is in `sink`, so empty it before the next attempt.
    It sends no headers of its own, as a redirect leaves for another host: nothing secret may be needed.
    """
    start = url
    for _ in range(6):
        with _exchange("GET", url, {}, None, deadline, clock, limit_bytes) as response:
            if response.status == 200:
                sink.writelines(_chunks("GET", url, response, limit_bytes))
                return
            location = response.getheader("location")
            if response.status not in _REDIRECTS or not location:
                raise Unreachable("GET", url, f"answered {response.status} {response.reason}", response.status)
        try:
            target = urljoin(url, location)
            # A plain redirect is followed between servers of this machine only, which is where the sandbox has them.
            may_follow = urlsplit(target).scheme == "https" or (_is_local(start) and _is_local(target))
            if may_follow:
                parsed(target)
        except ValueError:
            raise Unreachable("GET", url, "redirects to something that is no URL") from None
        if not may_follow:
            raise Unreachable("GET", url, "redirects to something that is not https")
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
    """The answer to one request, its body still unread."""
    where = parsed(url)
    for name, value in headers.items():
        # http.client refuses these too, but quotes the value, which may be a token.
        if not value.isascii() or not value.isprintable():
            raise ValueError(f"header {name}: its value has characters that no header may have")
    with ExitStack() as opened:
        # Around this much and no more: what fails in the caller's hands, a full disk, is not the network's failure.
        with _explained(method, url):
            sock = opened.enter_context(_connected(where, deadline, clock))
            kind = http.client.HTTPSConnection if where.scheme == "https" else http.client.HTTPConnection
            connection = kind(where.hostname or "", where.port)
            connection.sock = _Timed(sock, deadline, clock, 2 * limit_bytes + _ENVELOPE_BYTES)
            target = (where.path or "/") + (f"?{where.query}" if where.query else "")
            connection.request(method, target, body, {**headers, "Connection": "close"})
            response = opened.enter_context(closing(connection.getresponse()))
        yield response


def _chunks(method: str, url: str, response: http.client.HTTPResponse, limit_bytes: int) -> Iterator[bytes]:
    """The body; Unreachable as soon as it is known not to be whole or to be too long."""
    with _explained(method, url):
        if response.length is None and not response.chunked:
            raise _UnusableError("the answer does not say how long it is, so that a cut one would look whole")
        taken = 0
        while piece := response.read(_CHUNK_BYTES):
            taken += len(piece)
            if taken > limit_bytes:
                raise _UnusableError(f"the answer is longer than {limit_bytes} bytes")
            yield piece
        # http.client reports a cut chunked body, but gives one shorter than its Content-Length back as if whole.
        if response.length:
            raise _UnusableError(f"the answer is cut off: {response.length} bytes are missing")


def parsed(url: str) -> SplitResult:
    """The parts of a URL that can be asked; ValueError, which does not quote it, for any other."""
    if not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError("the URL has characters that no URL may have")
    try:
        where = urlsplit(url)
        usable = where.scheme in ("http", "https") and where.hostname and where.port != 0
    except ValueError:
        usable = None
    if not usable or "@" in where.netloc:
        raise ValueError("expected an http or https URL with a host and without credentials")
    return where


class _UnusableError(Exception):
    """Nothing was answered that can be used; its text says why."""


@contextmanager
def _explained(method: str, url: str) -> Iterator[None]:
    try:
        yield
    except (OSError, http.client.HTTPException, _UnusableError, ValueError) as error:
        # ValueError is what Python's own code makes of an answer such as a chunk of -5 bytes.
        raise Unreachable(method, url, _error_text(error)) from None


def _error_text(error: Exception) -> str:
    """Why, without anything that the peer sent: it may have sent our own headers back."""
    if isinstance(error, _UnusableError):
        return str(error)
    if isinstance(error, TimeoutError):
        return "no whole answer before the deadline"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, http.client.HTTPException | ValueError) and not isinstance(error, OSError):
        return f"the answer is cut off or is no HTTP ({type(error).__name__})"
    return str(getattr(error, "strerror", None) or type(error).__name__)


@contextmanager
def _connected(where: SplitResult, deadline: float, clock: Clock) -> Iterator[socket.socket]:
    """A connection to the first address that takes one, with TLS where the URL says so."""
    failure: Exception = _UnusableError("its name has no address")
    port = where.port or (443 if where.scheme == "https" else 80)
    for family, kind, protocol, _, address in _addresses(where.hostname or "", port, deadline, clock):
        with closing(socket.socket(family, kind, protocol)) as plain:
            try:
                plain.settimeout(_left(deadline, clock))
                plain.connect(address)
            except OSError as error:
                failure = error
                continue
            if where.scheme == "http":
                yield plain
                return
            # The time-out of a handshake is for all of it: cpython, Modules/_ssl.c, do_handshake counts a deadline.
            plain.settimeout(_left(deadline, clock))
            with ssl.create_default_context().wrap_socket(plain, server_hostname=where.hostname) as secured:
                yield secured
            return
    raise failure


def _addresses(host: str, port: int, deadline: float, clock: Clock) -> list[Any]:
    """Looked up in a thread of its own, because nothing else can end a getaddrinfo() that waits for a name server."""
    found: list[Any] = []
    failed: list[Exception] = []

    def look_up() -> None:
        try:
            found.extend(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except OSError as error:
            failed.append(error)
        except UnicodeError:
            failed.append(_UnusableError("its name is no host name"))

    if _is_literal(host):
        look_up()
    else:
        thread = threading.Thread(target=look_up, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            raise _UnusableError("there is no room for a thread to look its name up in") from None
        thread.join(_left(deadline, clock))
        if thread.is_alive():
            raise TimeoutError
    if failed:
        raise failed[0]
    return found


def _is_literal(host: str) -> bool:
    """Whether it is an address already, for which nobody is asked."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _left(deadline: float, clock: Clock) -> float:
    """Seconds until the deadline; TimeoutError from it on."""
    left = deadline - clock.now()
    if left <= 0:
        raise TimeoutError
    return left


class _Timed(io.RawIOBase):
    """The part of a socket that http.client uses, where every wait is for what is left until the deadline.

    It takes no more than so many bytes: http.client reads a chunk of -1 bytes to the end of all things.
    """

    def __init__(self, sock: socket.socket, deadline: float, clock: Clock, most_bytes: int) -> None:
        self._sock, self._deadline, self._clock, self._left_bytes = sock, deadline, clock, most_bytes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._sock.settimeout(_left(self._deadline, self._clock))
        taken = self._sock.recv_into(buffer)
        self._left_bytes -= taken
        if self._left_bytes < 0:
            raise _UnusableError("the answer is longer than it may be")
        return taken

    def sendall(self, content: bytes) -> None:
        rest = memoryview(content)
        while rest:
            self._sock.settimeout(_left(self._deadline, self._clock))
            rest = rest[self._sock.send(rest) :]

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Timed(self._sock, self._deadline, self._clock, self._left_bytes))
