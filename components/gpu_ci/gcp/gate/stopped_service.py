"""The provider of the custom resource StoppedMachines. Deleting the resource deletes stopped machines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from google.protobuf import empty_pb2
from pulumi.runtime.proto import provider_pb2

from ...custom_resources import EngineLog, checked, redacted, to_plain
from ..stopped_machines import StoppedMachinesArgs
from .compute_api import ApiError, ComputeApi, GoogleCompute
from .stopped import delete_stopped

_REPLACES = ("project",)


class StoppedService:
    """Creates, changes and deletes StoppedMachines resources, which exist only in the state.

    Only `delete` calls Google.
    """

    def __init__(self, log: EngineLog, api: Callable[[], ComputeApi] = GoogleCompute) -> None:
        self._log = log
        self._create_api = api
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="stopped")

    def check(self, request: Any) -> Any:
        return checked(request, StoppedMachinesArgs, {})

    async def diff(self, request: Any) -> Any:
        old, new = to_plain(request.old_inputs), to_plain(request.news)
        changed = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
        response = provider_pb2.DiffResponse
        return response(
            changes=response.DIFF_SOME if changed else response.DIFF_NONE,
            diffs=changed,
            replaces=[name for name in changed if name in _REPLACES],
        )

    async def create(self, request: Any) -> Any:
        identity = "" if request.preview else request.urn.rpartition("::")[2]
        return provider_pb2.CreateResponse(id=identity, properties=request.properties)

    async def update(self, request: Any) -> Any:
        """Store the new templates. The machines of an earlier template are deleted with its gate."""
        return provider_pb2.UpdateResponse(properties=request.news)

    async def read(self, request: Any) -> Any:
        """Return the state unchanged, because the resource exists only in the state. It cannot be imported."""
        if not request.properties.fields:
            return provider_pb2.ReadResponse()
        return provider_pb2.ReadResponse(id=request.id, properties=request.properties, inputs=request.inputs)

    async def delete(self, request: Any) -> Any:
        """Delete the machines. An error becomes a warning and does not stop a `destroy`."""
        inputs = to_plain(request.properties)

        def log(text: str, is_warning: bool = False) -> None:
            self._log(request.urn, redacted(text, request.properties), is_warning)

        def work() -> None:
            try:
                api = self._create_api()
                for template in inputs["templates"]:
                    delete_stopped(api, inputs["project"], template, log)
            except ApiError as error:
                log(f"could not delete the stopped machines of the runner manager: {error}", True)

        await asyncio.get_running_loop().run_in_executor(self._threads, work)
        return empty_pb2.Empty()

    def cancel(self) -> None:
        """Do nothing, because a deletion that has begun ends by itself."""

    async def drained(self) -> None:
        """Return after every thread has ended."""
        await asyncio.to_thread(self._threads.shutdown)
