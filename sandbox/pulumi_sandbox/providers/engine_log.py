"""Send a provider's messages for the user to the engine, and write its log for developers to a file."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import grpc
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc

SEVERITIES = {
    "debug": engine_pb2.DEBUG,
    "info": engine_pb2.INFO,
    "warning": engine_pb2.WARNING,
    "error": engine_pb2.ERROR,
    "status": engine_pb2.INFO,  # shown next to the resource during its operation
}
LARGEST_FILE_BYTES = 1 << 20
TIMEOUT_SECONDS = 5.0


class EngineLog:
    """A client of the engine's log. If the engine does not answer, messages are dropped without an error."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._channel: grpc.Channel | None = None
        self._address = ""

    def attach(self, address: str) -> None:
        with self._lock:
            if address and address != self._address:
                if self._channel:
                    self._channel.close()
                self._address, self._channel = address, grpc.insecure_channel(address)

    def say(self, text: str, severity: str = "info", urn: str = "") -> None:
        with self._lock:
            channel = self._channel
        if channel is None:
            return
        request = engine_pb2.LogRequest(
            severity=SEVERITIES.get(severity, engine_pb2.INFO), message=text, urn=urn, ephemeral=severity == "status"
        )
        try:
            engine_pb2_grpc.EngineStub(channel).Log(request, timeout=TIMEOUT_SECONDS)
        except (grpc.RpcError, ValueError) as error:  # the engine has exited, or the channel was closed meanwhile
            logging.getLogger(__name__).debug("the engine took no log message: %s", error)

    def close(self) -> None:
        with self._lock:
            if self._channel:
                self._channel.close()
            self._channel = None


def log_to_file(path: Path) -> None:
    """Write the log of Python's logging to this file. The engine shows a provider's standard error to the user."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_file() and path.stat().st_size > LARGEST_FILE_BYTES:
        path.replace(path.with_suffix(".old.log"))
    logging.basicConfig(filename=path, level=logging.INFO, format="%(asctime)s %(process)d %(name)s %(message)s")
    path.chmod(0o600)
