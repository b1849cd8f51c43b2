"""The sandbox's Cloud Storage with faults, for the tests of its clients."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

from pulumi_sandbox.providers.gcp.object_storage import ObjectStorage, StorageServer
from pulumi_sandbox.providers.machines.local_server import Answer, Request


@dataclass
class Fault:
    """A fault of the next `times` requests whose method and path match."""

    method: str = ""
    path: str = ""
    times: int = 1
    status: int = 0
    """The status of the answer."""
    is_cut: bool = False
    """True if the connection closes without an answer, before the request is executed."""
    is_lost: bool = False
    """True if the request is executed, and the connection closes without an answer."""


class FaultyServer(StorageServer):
    """A server with planted faults."""

    def __init__(self, *buckets: str) -> None:
        super().__init__(ObjectStorage(*buckets))
        self.faults: list[Fault] = []
        self.requests: list[str] = []

    def take_fault(self, method: str, target: str) -> Fault | None:
        """Return the planted fault of this request, and use it up."""
        self.requests.append(f"{method} {unquote(target)}")
        for fault in self.faults:
            if fault.times and fault.method in ("", method) and fault.path in unquote(target):
                fault.times -= 1
                return fault
        return None

    def answer(self, request: Request) -> Answer:
        fault = self.take_fault(request.command, request.path)
        if fault and fault.status:
            return Answer(fault.status, '{"error": {"message": "a planted fault"}}', "application/json")
        found = super().answer(request) if not (fault and fault.is_cut) else None
        if found is None or fault:
            raise ConnectionAbortedError  # the connection closes without an answer
        return found
