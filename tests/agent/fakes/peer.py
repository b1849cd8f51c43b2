"""A server that says exactly these bytes, at its own pace."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

Talk = Callable[["Peer", socket.socket], None]


@dataclass
class Peer:
    """Where it listens, what it was told, and the event that ends its pauses."""

    port: int
    requests: list[bytes] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        """Of its root."""
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def peer(talk: Talk, tls: ssl.SSLContext | None = None) -> Iterator[Peer]:
    """Lets `talk` have every connection, in threads that end with the block."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        made = Peer(listener.getsockname()[1])
        threads: list[threading.Thread] = []

        def one(connection: socket.socket) -> None:
            # A caller that gives up resets the connection, and that is its right.
            with suppress(OSError), connection, _secured(connection, tls) as stream:
                talk(made, stream)

        def accept() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    threads.append(threading.Thread(target=one, args=(connection,)))
                    threads[-1].start()

        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield made
        finally:
            made.over.set()
            # Closing alone does not wake a thread that waits in accept().
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join()
            for thread in threads:
                thread.join()


def says(content: bytes) -> Talk:
    """Reads a request's head, then says that and hangs up."""

    def talk(made: Peer, stream: socket.socket) -> None:
        made.requests.append(_head(stream))
        stream.sendall(content)

    return talk


def drips(content: bytes, every_sec: float = 0.02) -> Talk:
    """Says it byte by byte; each comes long before a time-out that starts anew with every byte."""

    def talk(made: Peer, stream: socket.socket) -> None:
        made.requests.append(_head(stream))
        for each in content:
            stream.sendall(bytes([each]))
            if made.over.wait(every_sec):
                return

    return talk


def hangs(made: Peer, _stream: socket.socket) -> None:
    """Takes the connection and says nothing, not even in TLS."""
    made.over.wait()


def resets(_made: Peer, stream: socket.socket) -> None:
    """Ends the connection as a machine does that dies."""
    _head(stream)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")


def _secured(connection: socket.socket, tls: ssl.SSLContext | None) -> socket.socket:
    return tls.wrap_socket(connection, server_side=True) if tls else connection


def _head(stream: socket.socket) -> bytes:
    head = b""
    while b"\r\n\r\n" not in head:
        piece = stream.recv(65_536)
        if not piece:
            break
        head += piece
    return head
