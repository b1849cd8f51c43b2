"""The providers of the custom resources SmokeGate (a gate) and StoppedMachines, which exist only in the state.

Creating a gate runs the smoke check of a template. Deleting StoppedMachines deletes stopped machines.

The creation succeeds in two cases, and the state of the gate has the verdict: `pass` if the check passed, and
`unproven` if no zone had capacity for a check machine and the input onNoCapacity is `unproven`. In all other cases it
fails.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Lock
from typing import Any, ClassVar

import grpc
from google.protobuf import empty_pb2, struct_pb2
from pulumi.runtime import rpc
from pulumi.runtime.proto import provider_pb2
from pydantic.alias_generators import to_camel

from ...args import Args
from ...custom_resources import EngineLog, Refused, as_sent, checked, redacted, secret_names, to_plain, with_outputs
from ..smoke_gate import SmokeGate, SmokeGateArgs
from ..stopped_machines import StoppedMachinesArgs
from . import messages
from .compute_api import ApiError, ComputeApi, GoogleCompute
from .runner import CheckSpec, GateRunner
from .stopped import delete_stopped
from .verdict import CANCELLED, NO_CAPACITY, PASS, Verdict
from .waiting import Pace

# The number of gates that run at the same time: as many as a stack may have new templates. Their threads mostly wait.
_CONCURRENT_GATES = 64

# The inputs that must not be secret, because members of the Google project or readers of the state see their values.
_PUBLIC_INPUTS = {"pool": "in the check machine's name", "zones": "in the messages of the check"}

UNPROVEN = "unproven"
"""The verdict in the state of a gate whose check found no machine."""


class StateService:
    """A resource that exists only in the state. Its threads call Google."""

    def __init__(self, log: EngineLog, threads: int, name: str) -> None:
        self._log = log
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)

    async def read(self, request: Any) -> Any:
        """Return the state unchanged. The resource cannot be imported."""
        if not request.properties.fields:
            return provider_pb2.ReadResponse()
        return provider_pb2.ReadResponse(id=request.id, properties=request.properties, inputs=request.inputs)

    async def drained(self) -> None:
        """Return after every thread has deleted its machine and ended."""
        await asyncio.to_thread(self._threads.shutdown)


def changed_inputs(request: Any) -> list[str]:
    """Return the names of the inputs that differ from those of the state."""
    old, new = to_plain(request.old_inputs), to_plain(request.news)
    return [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]


class DeletionService(StateService):
    """A resource of which only the deletion calls Google, in `delete` of a subclass."""

    ARGS: ClassVar[type[Args]]
    REPLACES: ClassVar[tuple[str, ...]]
    """The inputs whose change replaces the resource."""

    def check(self, request: Any) -> Any:
        return checked(request, self.ARGS, {})

    async def diff(self, request: Any) -> Any:
        changed = changed_inputs(request)
        response = provider_pb2.DiffResponse
        return response(
            changes=response.DIFF_SOME if changed else response.DIFF_NONE,
            diffs=changed,
            replaces=[name for name in changed if name in self.REPLACES],
        )

    async def create(self, request: Any) -> Any:
        identity = "" if request.preview else request.urn.rpartition("::")[2]
        return provider_pb2.CreateResponse(id=identity, properties=request.properties)

    async def update(self, request: Any) -> Any:
        return provider_pb2.UpdateResponse(properties=request.news)

    def cancel(self) -> None:
        """Do nothing, because a deletion that has begun ends by itself."""


class GateService(StateService):
    """Creates, changes and deletes SmokeGate resources.

    Only `create` and `delete` call Google: for the check machine, and to delete remaining machines. Another cloud has a
    subclass.
    """

    ARGS: ClassVar[type[Args]] = SmokeGateArgs
    REPLACES: ClassVar[tuple[str, ...]] = ("project", "template", "pool")
    """The inputs whose change replaces the gate, which starts a new check."""
    VENDOR: ClassVar[str] = "Google"

    def __init__(self, log: EngineLog, api: Callable[[], ComputeApi] = GoogleCompute) -> None:
        super().__init__(log, _CONCURRENT_GATES, "gate")
        self._create_api = api
        self._shared_api: ComputeApi | None = None
        self._api_lock = Lock()
        self._cancel = Event()
        self._pace = Pace()

    def check(self, request: Any) -> Any:
        """Return the inputs with their defaults, or all their problems. Unknown values are accepted."""
        return checked(request, self.ARGS, _PUBLIC_INPUTS)

    async def diff(self, request: Any) -> Any:
        """Return the changed inputs. A new template replaces the gate. A new deadline or zone list keeps the verdict.

        Every preview and every `up` calls this method. So this method also warns about a gate that is unproven.
        """
        changed, state = changed_inputs(request), to_plain(request.olds)
        unproven = state.get("verdict") == UNPROVEN
        kind = provider_pb2.PropertyDiff
        details = {
            name: kind(
                kind=kind.UPDATE_REPLACE
                if name in self.REPLACES or (unproven and name == "onNoCapacity")
                else kind.UPDATE,
                inputDiff=True,
            )
            for name in changed
        }
        replaces = [name for name, detail in details.items() if detail.kind == kind.UPDATE_REPLACE]
        if unproven and not replaces:
            await asyncio.to_thread(
                self._log, request.urn, messages.unproven(request.urn, str(state.get("summary"))), True
            )
        response = provider_pb2.DiffResponse
        return response(
            changes=response.DIFF_SOME if changed else response.DIFF_NONE,
            diffs=changed,
            replaces=replaces,
            detailedDiff=details,
            hasDetailedDiff=True,
        )

    async def create(self, request: Any) -> Any:
        """Run the check, and return the outputs with the verdict. Raise Refused if no pool may use the template."""
        outputs = dict.fromkeys(map(to_camel, SmokeGate.OUTPUTS), rpc.UNKNOWN)
        if request.preview:
            return provider_pb2.CreateResponse(properties=with_outputs(request.properties, outputs))
        inputs = to_plain(request.properties)
        if request.timeout:
            inputs["deadlineSec"] = min(inputs["deadlineSec"], request.timeout)
        spec = self.spec(request.urn, inputs)
        try:
            verdict = await self._in_thread(spec, request.properties, lambda runner: runner.run(spec))
        except Refused as error:
            raise Refused(redacted(str(error), request.properties), error.code) from None
        verdict_for_state = _accepted_verdict(verdict, spec)
        unproven = verdict_for_state == UNPROVEN
        text = messages.unproven(request.urn, verdict.summary) if unproven else f"{PASS}: {verdict.summary}"
        await asyncio.to_thread(self._log, request.urn, text, unproven)
        outputs = {
            "checkedTemplate": as_sent(request.properties, "template"),  # a secret template stays secret
            "verdict": verdict_for_state,
            "summary": verdict.summary,
            "zone": verdict.zone,
        }
        return provider_pb2.CreateResponse(
            id=f"{spec.pool}/{_template_in_id(request.properties, spec)}",
            properties=with_outputs(request.properties, outputs),
        )

    async def update(self, request: Any) -> Any:
        """Keep the verdict, and store the new settings for the next check."""
        outputs = {name: as_sent(request.olds, name) for name in map(to_camel, SmokeGate.OUTPUTS)}
        return provider_pb2.UpdateResponse(properties=with_outputs(request.news, outputs))

    async def delete(self, request: Any) -> Any:
        """Delete remaining check machines, and the runner manager's stopped machines of the template.

        An error becomes a warning and does not stop a `destroy`. Pulumi deletes a gate after all resources that use its
        template. The runner manager then no longer runs, or no longer uses the template.
        """
        spec = self.spec(request.urn, to_plain(request.properties))
        try:
            await self._in_thread(spec, request.properties, lambda runner: self.remove_machines(runner, spec))
        except Refused as error:
            text = f"could not search for leftover machines: {redacted(str(error), request.properties)}"
            await asyncio.to_thread(self._log, request.urn, text, True)
        return empty_pb2.Empty()

    def cancel(self) -> None:
        """Stop all checks. Each machine is deleted before its thread ends."""
        self._cancel.set()

    async def _in_thread(self, spec: CheckSpec, inputs: struct_pb2.Struct, work: Callable[[GateRunner], Any]) -> Any:
        """Run the work in a thread, so that it blocks no other resource.

        If the call is cancelled, the thread still deletes its machine.
        """
        cancel = _CancelEvent(self._cancel)

        def run() -> Any:
            def log(text: str) -> None:
                self._log(spec.gate, redacted(text, inputs))

            try:
                api = self.api(to_plain(inputs))
                return work(GateRunner(api, log, cancel, pace=self._pace, vendor=self.VENDOR))
            except ApiError as error:
                raise Refused(self.refused(error, spec)) from None
            except Exception as error:  # Every error becomes a message for the user.
                raise Refused(
                    f"the smoke check failed with an internal error: {type(error).__name__}: {error}"
                ) from None

        thread = asyncio.get_running_loop().run_in_executor(self._threads, run)
        try:
            return await asyncio.shield(thread)
        except asyncio.CancelledError:
            cancel.set()
            raise

    def api(self, inputs: Mapping[str, Any]) -> ComputeApi:  # noqa: ARG002 - on EC2, each gate has its own
        """Return the client that all gates share. If its creation failed, try again."""
        with self._api_lock:
            self._shared_api = self._shared_api or self._create_api()
            return self._shared_api

    def spec(self, urn: str, inputs: Mapping[str, Any]) -> CheckSpec:
        """Return the check of a gate with these inputs."""
        return CheckSpec(
            gate=urn,
            project=inputs["project"],
            template=inputs["template"],
            zones=inputs["zones"],
            pool=inputs["pool"],
            labels=inputs.get("labels", {}),
            deadline_sec=int(inputs["deadlineSec"]),
            on_no_capacity=inputs["onNoCapacity"],
        )

    def refused(self, error: ApiError, spec: CheckSpec) -> str:
        """Return the message for an error with which the cloud rejected the check machine."""
        return messages.refused(error, spec)

    def remove_machines(self, runner: GateRunner, spec: CheckSpec) -> None:
        """Delete what a deleted gate may have left."""
        runner.remove_leftovers(spec)
        runner.remove_stopped(spec)


class StoppedService(DeletionService):
    """Creates, changes and deletes StoppedMachines resources.

    An update stores the new templates. The machines of an earlier template are deleted with its gate.
    """

    ARGS = StoppedMachinesArgs
    REPLACES = ("project",)

    def __init__(self, log: EngineLog, api: Callable[[], ComputeApi] = GoogleCompute) -> None:
        super().__init__(log, 1, "stopped")
        self._create_api = api

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


class _CancelEvent(Event):
    """The cancellation of one call. The event is also set if the whole service is cancelled."""

    def __init__(self, service: Event) -> None:
        super().__init__()
        self._service = service

    def is_set(self) -> bool:
        return super().is_set() or self._service.is_set()


def _template_in_id(inputs: struct_pb2.Struct, spec: CheckSpec) -> str:
    """Return the template's name, or its digest if the name is secret. Ids are never encrypted in a state."""
    if "template" in secret_names(inputs):
        return hashlib.sha256(spec.template.encode()).hexdigest()[:12]
    return spec.template.rpartition("/")[2]


def _accepted_verdict(verdict: Verdict, spec: CheckSpec) -> str:
    """Return the verdict for the state. Raise Refused for a verdict that no pool may use."""
    if verdict.outcome == PASS:
        return PASS
    if verdict.outcome == CANCELLED:
        raise Refused("the smoke check was cancelled", grpc.StatusCode.CANCELLED)
    if verdict.outcome == NO_CAPACITY and spec.on_no_capacity == UNPROVEN:
        return UNPROVEN
    raise Refused(messages.not_passed(verdict))
