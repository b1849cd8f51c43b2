"""The provider service of SmokeGate: its inputs, when a check is repeated, and how a verdict becomes state."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Lock
from typing import Any

import grpc
from google.protobuf import empty_pb2, struct_pb2
from pulumi.runtime import rpc
from pulumi.runtime.proto import provider_pb2
from pydantic.alias_generators import to_camel

from ...custom_resources import EngineLog, Refused, as_sent, checked, redacted, secret_names, to_plain, with_outputs
from ..smoke_gate import SmokeGate, SmokeGateArgs
from . import messages
from .compute_api import ApiError, ComputeApi, GoogleCompute
from .pace import Pace
from .runner import GateRunner, Question
from .verdict import CANCELLED, NO_CAPACITY, PASS, Verdict

# The number of concurrent gates: as many as a stack may have new templates. A gate waits most of its time.
_AT_ONCE = 64

# Inputs that every member of the Google project, or every reader of the state, can see.
_IN_PLAIN = {"pool": "in the check machine's name", "zones": "in the messages of the check"}

_REPLACES = ("project", "template", "pool")

UNPROVEN = "unproven"


class GateService:
    """The lifecycle of SmokeGate resources. Only Create and Delete call the cloud; a gate leaves nothing there."""

    def __init__(self, log: EngineLog, api: Callable[[], ComputeApi] = GoogleCompute) -> None:
        self._log = log
        self._make_api = api
        self._made: ComputeApi | None = None
        self._making = Lock()
        self._cancel = Event()
        self._pace = Pace()
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="gate")

    def check(self, request: Any) -> Any:
        """Return the inputs with their defaults, or all their problems. Unknown values are accepted."""
        return checked(request, SmokeGateArgs, _IN_PLAIN)

    async def diff(self, request: Any) -> Any:
        """Return the changed inputs. A new template replaces the gate; a new deadline or zone list keeps its verdict.

        Every preview and every `up` calls this method, so it warns about a gate that is still unproven.
        """
        old, new, known = to_plain(request.old_inputs), to_plain(request.news), to_plain(request.olds)
        changed = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
        unproven = known.get("verdict") == UNPROVEN
        kind = provider_pb2.PropertyDiff
        details = {
            name: kind(
                kind=kind.UPDATE_REPLACE if name in _REPLACES or (unproven and name == "onNoCapacity") else kind.UPDATE,
                inputDiff=True,
            )
            for name in changed
        }
        replaces = [name for name, detail in details.items() if detail.kind == kind.UPDATE_REPLACE]
        if unproven and not replaces:
            await asyncio.to_thread(
                self._log, request.urn, messages.unproven(request.urn, str(known.get("summary"))), True
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
        """Run the check. The resource is created if the verdict is `pass`, or unproven and onNoCapacity allows that."""
        outputs = dict.fromkeys(map(to_camel, SmokeGate.OUTPUTS), rpc.UNKNOWN)
        if request.preview:
            return provider_pb2.CreateResponse(properties=with_outputs(request.properties, outputs))
        inputs = to_plain(request.properties)
        if request.timeout:
            inputs["deadlineSec"] = min(inputs["deadlineSec"], request.timeout)
        question = _question(request.urn, inputs)
        try:
            verdict = await self._in_thread(question, request.properties, lambda runner: runner.run(question))
        except Refused as error:
            raise Refused(redacted(str(error), request.properties), error.code) from None
        accepted = _accepted(verdict, question)
        unproven = accepted == UNPROVEN
        sentence = messages.unproven(request.urn, verdict.summary) if unproven else f"{accepted}: {verdict.summary}"
        await asyncio.to_thread(self._log, request.urn, sentence, unproven)
        outputs = {
            "checkedTemplate": as_sent(request.properties, "template"),  # a secret template stays secret
            "verdict": accepted,
            "summary": verdict.summary,
            "zone": verdict.zone,
        }
        return provider_pb2.CreateResponse(
            id=f"{question.pool}/{_template_name(request.properties, question)}",
            properties=with_outputs(request.properties, outputs),
        )

    async def update(self, request: Any) -> Any:
        """Keep the verdict, and store the new settings for the next check."""
        outputs = {name: as_sent(request.olds, name) for name in map(to_camel, SmokeGate.OUTPUTS)}
        return provider_pb2.UpdateResponse(properties=with_outputs(request.news, outputs))

    async def read(self, request: Any) -> Any:
        """Return the state unchanged, because a gate exists only in the state. An import is not possible."""
        if not request.properties.fields:
            return provider_pb2.ReadResponse()
        return provider_pb2.ReadResponse(id=request.id, properties=request.properties, inputs=request.inputs)

    async def delete(self, request: Any) -> Any:
        """Delete remaining check machines, and the runner manager's stopped machines of the template.

        An error does not stop a `destroy`. Pulumi deletes a gate after all resources that use its template. At that
        time the manager has ended or has another configuration.
        """
        question = _question(request.urn, to_plain(request.properties))

        def clean(runner: GateRunner) -> None:
            runner.remove_leftovers(question)
            runner.remove_stopped(question)

        try:
            await self._in_thread(question, request.properties, clean)
        except Refused as error:
            text = f"could not search for leftover machines: {redacted(str(error), request.properties)}"
            await asyncio.to_thread(self._log, request.urn, text, True)
        return empty_pb2.Empty()

    def cancel(self) -> None:
        """Stop all checks. Each machine is deleted before its thread ends."""
        self._cancel.set()

    async def drained(self) -> None:
        """Return after every thread has cleaned up."""
        await asyncio.to_thread(self._threads.shutdown)

    async def _in_thread(self, question: Question, inputs: struct_pb2.Struct, work: Callable[[GateRunner], Any]) -> Any:
        """Run the work in a thread, so that it blocks no other resource. A cancelled call still cleans up."""
        cancel = _Either(self._cancel)

        def run() -> Any:
            def say(text: str) -> None:
                self._log(question.gate, redacted(text, inputs))

            try:
                return work(GateRunner(self._api(), say, cancel, pace=self._pace))
            except ApiError as error:
                raise Refused(messages.refused(error, question)) from None
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

    def _api(self) -> ComputeApi:
        """Return the client that all gates share. If its creation failed, try again."""
        with self._making:
            self._made = self._made or self._make_api()
            return self._made


class _Either(Event):
    """An event that is also set when the event behind it is set."""

    def __init__(self, other: Event) -> None:
        super().__init__()
        self._other = other

    def is_set(self) -> bool:
        return super().is_set() or self._other.is_set()


def _template_name(inputs: struct_pb2.Struct, question: Question) -> str:
    """Return the template's name for an id. For a secret name return its digest, because a state never encrypts ids."""
    if "template" in secret_names(inputs):
        return hashlib.sha256(question.template.encode()).hexdigest()[:12]
    return question.template.rpartition("/")[2]


def _question(urn: str, inputs: Mapping[str, Any]) -> Question:
    return Question(
        gate=urn,
        project=inputs["project"],
        template=inputs["template"],
        zones=inputs["zones"],
        pool=inputs["pool"],
        labels=inputs.get("labels", {}),
        deadline_sec=int(inputs["deadlineSec"]),
        on_no_capacity=inputs["onNoCapacity"],
    )


def _accepted(verdict: Verdict, question: Question) -> str:
    """Return the verdict for the state. Raise Refused for a verdict that no pool may use."""
    if verdict.outcome == PASS:
        return PASS
    if verdict.outcome == CANCELLED:
        raise Refused("the smoke check was cancelled", grpc.StatusCode.CANCELLED)
    if verdict.outcome == NO_CAPACITY and question.on_no_capacity == UNPROVEN:
        return UNPROVEN
    raise Refused(messages.not_passed(verdict))
