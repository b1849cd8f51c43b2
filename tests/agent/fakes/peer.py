"""A server that sends exactly the given bytes, at a given pace."""

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
    """The address of the server, the requests that it received, and the event that ends its pauses."""

    port: int
    requests: list[bytes] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        """Return the URL of the server's root."""
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def peer(talk: Talk, tls: ssl.SSLContext | None = None) -> Iterator[Peer]:
    """Serve each connection with `talk`, in threads that end with the block."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        made = Peer(listener.getsockname()[1])
        threads: list[threading.Thread] = []

        def one(connection: socket.socket) -> None:
            # A client that stops waiting resets the connection, which is no error here.
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
    """Read the head of a request, send the content, and close the connection."""

    def talk(made: Peer, stream: socket.socket) -> None:
        made.requests.append(_head(stream))
        stream.sendall(content)

    return talk


def drips(content: bytes, every_sec: float = 0.02) -> Talk:
    """Send the content byte by byte. Each byte comes long before a time-out that restarts with every byte."""

    def talk(made: Peer, stream: socket.socket) -> None:
        made.requests.append(_head(stream))
        for each in content:
            stream.sendall(bytes([each]))
            if made.over.wait(every_sec):
                return

    return talk


def hangs(made: Peer, _stream: socket.socket) -> None:
    """Accept the connection and send nothing, not even in TLS."""
    made.over.wait()


def resets(_made: Peer, stream: socket.socket) -> None:
    """Reset the connection, as a machine that fails does."""
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
