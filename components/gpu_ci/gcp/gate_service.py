"""SmokeGate as the engine sees it: what it is given, when it is asked anew, and how its verdict becomes state."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import grpc
from google.protobuf import empty_pb2, json_format, struct_pb2
from pulumi.output import UNKNOWN
from pulumi.runtime import rpc
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc, provider_pb2
from pydantic.alias_generators import to_camel

from .compute_api import ApiError, ComputeApi, GoogleCompute
from .gate_runner import CANCELLED, NO_CAPACITY, PASS, GateRunner, Question, Verdict
from .smoke_gate import SmokeGate, SmokeGateArgs

# A gate waits most of its time; as many may wait at once as a stack is likely to have new templates.
_AT_ONCE = 64

_REPLACES = ("project", "template", "pool")


class Refused(Exception):  # noqa: N818 - it is an answer
    """Why there is no such gate, in words for whoever runs the deployment."""

    def __init__(self, text: str, code: grpc.StatusCode = grpc.StatusCode.UNKNOWN) -> None:
        super().__init__(text)
        self.code = code


class GateService:
    """The life of SmokeGate resources. Nothing of a gate stays in the cloud, so only Create and Delete go there."""

    def __init__(self, engine: Callable[[], str], api: Callable[[], ComputeApi] = GoogleCompute) -> None:
        self._engine = engine
        self._api = api
        self._cancel = Event()
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="gate")

    def check(self, request: Any) -> Any:
        """The inputs with their defaults, or every problem they have; what is not known yet is let through."""
        given = plain(request.news)
        failures = [
            provider_pb2.CheckFailure(property=problem.path, reason=problem.reason)
            for problem in SmokeGateArgs.choice_problems(given)
        ]
        inputs = struct_pb2.Struct()
        inputs.CopyFrom(request.news)
        for name, field in SmokeGateArgs.model_fields.items():
            if to_camel(name) not in given and not field.is_required():
                inputs[to_camel(name)] = field.default
        return provider_pb2.CheckResponse(inputs=inputs, failures=failures)

    def diff(self, request: Any) -> Any:
        """Another template is another gate; another deadline or zone list is the same one, already answered."""
        old, new = plain(request.old_inputs), plain(request.news)
        changed = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
        unproven = plain(request.olds).get("verdict") == "unproven"
        kind = provider_pb2.PropertyDiff
        details = {
            name: kind(
                kind=kind.UPDATE_REPLACE if name in _REPLACES or (unproven and name == "onNoCapacity") else kind.UPDATE,
                inputDiff=True,
            )
            for name in changed
        }
        response = provider_pb2.DiffResponse
        return response(
            changes=response.DIFF_SOME if changed else response.DIFF_NONE,
            diffs=changed,
            replaces=[name for name, detail in details.items() if detail.kind == kind.UPDATE_REPLACE],
            detailedDiff=details,
            hasDetailedDiff=True,
        )

    async def create(self, request: Any) -> Any:
        """Ask for the verdict; the resource is there once it is `pass`, or unproven on purpose."""
        outputs = dict.fromkeys(map(to_camel, SmokeGate.OUTPUTS), rpc.UNKNOWN)
        if request.preview:
            return provider_pb2.CreateResponse(properties=_with(request.properties, outputs))
        inputs = plain(request.properties)
        if request.timeout:
            inputs["deadlineSec"] = min(inputs["deadlineSec"], request.timeout)
        question = _question(request.urn, inputs)
        verdict = await self._in_thread(request.urn, lambda runner: runner.run(question))
        await asyncio.to_thread(self._log, request.urn, f"{verdict.outcome}: {verdict.summary}")
        outputs = {
            "checkedTemplate": _wire(request.properties, "template"),  # a secret one stays secret
            "verdict": _accepted(verdict, question),
            "summary": verdict.summary,
            "zone": verdict.zone,
        }
        return provider_pb2.CreateResponse(
            id=f"{question.pool}/{_template_name(request.properties, question)}",
            properties=_with(request.properties, outputs),
        )

    def update(self, request: Any) -> Any:
        """Keep the verdict, take the new settings for the next time."""
        outputs = {name: _wire(request.olds, name) for name in map(to_camel, SmokeGate.OUTPUTS)}
        return provider_pb2.UpdateResponse(properties=_with(request.news, outputs))

    def read(self, request: Any) -> Any:
        """A gate is nowhere but in the state, so it is what the state says; there is none to import."""
        if not request.properties.fields:
            return provider_pb2.ReadResponse()
        return provider_pb2.ReadResponse(id=request.id, properties=request.properties, inputs=request.inputs)

    async def delete(self, request: Any) -> Any:
        """Nothing stays of a gate but what an interrupted check left; that must not hold up a `destroy`."""
        question = _question(request.urn, plain(request.properties))
        try:
            await self._in_thread(request.urn, lambda runner: runner.remove_leftovers(question))
        except Refused as error:
            await asyncio.to_thread(
                self._log, request.urn, f"could not look for check machines left behind: {error}", True
            )
        return empty_pb2.Empty()

    def cancel(self) -> None:
        """Stop asking; each machine is deleted before its thread ends."""
        self._cancel.set()

    async def drained(self) -> None:
        """Return once every thread has cleaned up."""
        await asyncio.to_thread(self._threads.shutdown)

    async def _in_thread(self, urn: str, work: Callable[[GateRunner], Any]) -> Any:
        """Run it where waiting holds up nobody. A call the engine gives up still cleans up."""
        cancel = _Either(self._cancel)

        def run() -> Any:
            try:
                return work(GateRunner(self._api(), lambda text: self._log(urn, text), cancel))
            except ApiError as error:
                hint = "\n  hint: more quota helps, another try does not" if "QUOTA" in error.reason.upper() else ""
                raise Refused(f"Google refused the check machine: {error}{hint}") from None
            except Exception as error:  # whatever it is, it reaches the user as text
                raise Refused(f"the smoke check broke off: {type(error).__name__}: {error}") from None

        thread = asyncio.get_running_loop().run_in_executor(self._threads, run)
        try:
            return await asyncio.shield(thread)
        except asyncio.CancelledError:
            cancel.set()
            raise

    def _log(self, urn: str, text: str, stays: bool = False) -> None:
        """A line under the resource in the engine's own display; without an engine there is nobody to tell."""
        if not self._engine():
            return
        severity = engine_pb2.WARNING if stays else engine_pb2.INFO
        request = engine_pb2.LogRequest(severity=severity, message=text, urn=urn, ephemeral=not stays)
        try:
            with grpc.insecure_channel(self._engine()) as channel:
                engine_pb2_grpc.EngineStub(channel).Log(request, timeout=10)
        except grpc.RpcError:
            return


class _Either(Event):
    """Set when it is, or when the event behind it is."""

    def __init__(self, other: Event) -> None:
        super().__init__()
        self._other = other

    def is_set(self) -> bool:
        return super().is_set() or self._other.is_set()


def plain(struct: struct_pb2.Struct) -> dict[str, Any]:
    """The values without their secret wrapping, unknown ones as `Unknown`."""
    found: dict[str, Any] = _plain(json_format.MessageToDict(struct))
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        if rpc._special_sig_key in value:
            return _plain(value.get("value", rpc.UNKNOWN))
        return {key: _plain(item) for key, item in value.items() if not key.startswith("__")}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return UNKNOWN if value == rpc.UNKNOWN else value


def _wire(struct: struct_pb2.Struct, name: str) -> Any:
    """One value as it was sent, secret wrapping and all."""
    return json_format.MessageToDict(struct).get(name)


def _template_name(inputs: struct_pb2.Struct, question: Question) -> str:
    """The template's name, for an id; of a secret one a digest, because ids are never encrypted in a state."""
    if isinstance(_wire(inputs, "template"), Mapping):
        return hashlib.sha256(question.template.encode()).hexdigest()[:12]
    return question.template.rpartition("/")[2]


def _with(inputs: struct_pb2.Struct, outputs: Mapping[str, Any]) -> struct_pb2.Struct:
    properties = struct_pb2.Struct()
    properties.CopyFrom(inputs)
    properties.update(outputs)
    return properties


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
    if verdict.outcome == NO_CAPACITY:
        if question.on_no_capacity == "unproven":
            return "unproven"
        hint = "try again later, add zones, or set smoke.onNoCapacity to unproven"
        raise Refused(f"the smoke check could not run: {verdict.summary}\n  hint: {hint}")
    hint = "nothing has taken this template; the next up asks again, with it or with another one"
    raise Refused(f"the smoke check failed in {verdict.zone}: {verdict.summary}\n  hint: {hint}")
