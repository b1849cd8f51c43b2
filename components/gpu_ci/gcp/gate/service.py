"""SmokeGate as the engine sees it: what it is given, when it is asked anew, and how its verdict becomes state."""

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

# A gate waits most of its time; as many may wait at once as a stack is likely to have new templates.
_AT_ONCE = 64

# What every member of a Google project, and every reader of a state, can see.
_IN_PLAIN = {"pool": "in the check machine's name", "zones": "in what the check says"}

_REPLACES = ("project", "template", "pool")

UNPROVEN = "unproven"


class GateService:
    """The life of SmokeGate resources. Nothing of a gate stays in the cloud, so only Create and Delete go there."""

    def __init__(self, log: EngineLog, api: Callable[[], ComputeApi] = GoogleCompute) -> None:
        self._log = log
        self._make_api = api
        self._made: ComputeApi | None = None
        self._making = Lock()
        self._cancel = Event()
        self._pace = Pace()
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="gate")

    def check(self, request: Any) -> Any:
        """The inputs with their defaults, or every problem they have; what is not known yet is let through."""
        return checked(request, SmokeGateArgs, _IN_PLAIN)

    async def diff(self, request: Any) -> Any:
        """Another template is another gate; another deadline or zone list is the same one, already answered.

        Every preview and every `up` comes here, so what is still unproven is said here.
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
        """Ask for the verdict; the resource is there once it is `pass`, or unproven on purpose."""
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
            "checkedTemplate": as_sent(request.properties, "template"),  # a secret one stays secret
            "verdict": accepted,
            "summary": verdict.summary,
            "zone": verdict.zone,
        }
        return provider_pb2.CreateResponse(
            id=f"{question.pool}/{_template_name(request.properties, question)}",
            properties=with_outputs(request.properties, outputs),
        )

    async def update(self, request: Any) -> Any:
        """Keep the verdict, take the new settings for the next time."""
        outputs = {name: as_sent(request.olds, name) for name in map(to_camel, SmokeGate.OUTPUTS)}
        return provider_pb2.UpdateResponse(properties=with_outputs(request.news, outputs))

    async def read(self, request: Any) -> Any:
        """A gate is nowhere but in the state, so it is what the state says; there is none to import."""
        if not request.properties.fields:
            return provider_pb2.ReadResponse()
        return provider_pb2.ReadResponse(id=request.id, properties=request.properties, inputs=request.inputs)

    async def delete(self, request: Any) -> Any:
        """Delete what an interrupted check left, and the runner manager's machines of the template that are off.

        Neither may hold up a `destroy`. Pulumi deletes a gate after all that was given its template, so after the
        manager has ended or has another configuration.
        """
        question = _question(request.urn, to_plain(request.properties))

        def clean(runner: GateRunner) -> None:
            runner.remove_leftovers(question)
            runner.remove_stopped(question)

        try:
            await self._in_thread(question, request.properties, clean)
        except Refused as error:
            text = f"could not look for machines left behind: {redacted(str(error), request.properties)}"
            await asyncio.to_thread(self._log, request.urn, text, True)
        return empty_pb2.Empty()

    def cancel(self) -> None:
        """Stop asking; each machine is deleted before its thread ends."""
        self._cancel.set()

    async def drained(self) -> None:
        """Return once every thread has cleaned up."""
        await asyncio.to_thread(self._threads.shutdown)

    async def _in_thread(self, question: Question, inputs: struct_pb2.Struct, work: Callable[[GateRunner], Any]) -> Any:
        """Run it where waiting holds up nobody. A call the engine gives up still cleans up."""
        cancel = _Either(self._cancel)

        def run() -> Any:
            def say(text: str) -> None:
                self._log(question.gate, redacted(text, inputs))

            try:
                return work(GateRunner(self._api(), say, cancel, pace=self._pace))
            except ApiError as error:
                raise Refused(messages.refused(error, question)) from None
            except Exception as error:  # whatever it is, it reaches the user as text
                raise Refused(f"the smoke check broke off: {type(error).__name__}: {error}") from None

        thread = asyncio.get_running_loop().run_in_executor(self._threads, run)
        try:
            return await asyncio.shield(thread)
        except asyncio.CancelledError:
            cancel.set()
            raise

    def _api(self) -> ComputeApi:
        """All gates share one, made for the first; one that cannot be made is tried again."""
        with self._making:
            self._made = self._made or self._make_api()
            return self._made


class _Either(Event):
    """Set when it is, or when the event behind it is."""

    def __init__(self, other: Event) -> None:
        super().__init__()
        self._other = other

    def is_set(self) -> bool:
        return super().is_set() or self._other.is_set()


def _template_name(inputs: struct_pb2.Struct, question: Question) -> str:
    """The template's name, for an id; of a secret one a digest, because ids are never encrypted in a state."""
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
    """The verdict as it goes into the state. Refused for one that no pool may take."""
    if verdict.outcome == PASS:
        return PASS
    if verdict.outcome == CANCELLED:
        raise Refused("the smoke check was cancelled", grpc.StatusCode.CANCELLED)
    if verdict.outcome == NO_CAPACITY and question.on_no_capacity == UNPROVEN:
        return UNPROVEN
    raise Refused(messages.not_passed(verdict))
