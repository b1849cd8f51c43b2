"""The faults of the SDK's experimental component host, a to k as they were found: the plugin has none of them."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import grpc
import pulumi
import pytest
from gpu_ci import plugin as plugin_module
from gpu_ci.args import Args, ComponentArgs, Input, Integer
from gpu_ci.component import Component
from gpu_ci.kinds.gce.args import RunnerPoolArgs
from gpu_ci.kinds.gce.component import RunnerPool
from pulumi.runtime.proto import plugin_pb2, provider_pb2
from pydantic import Field
from pydantic.alias_generators import to_camel

from tests.gpu_ci.engine_stub import Plugin, asked, details, output, refused, secret
from tests.gpu_ci.support import WIRING

POOL = RunnerPool.TYPE
INPUTS = {**RunnerPool.EXAMPLE, **WIRING}


class ProbeArgs(ComponentArgs):
    """Every shape of input the experimental host gets wrong."""

    count: Input[Integer] = Field(default=1, description="a number")
    colours: list[Literal["red", "blue"]] = Field(default=[], description="colours")
    colour: Input[Literal["red", "blue"]] = Field(default="red", description="a colour")
    names: Input[list[str]] = Field(default=[], description="names")


class Probe(Component):
    """Registers its arguments as they arrive."""

    TYPE: ClassVar[str] = "gpu-ci:test:Probe"
    ARGS: ClassVar[type[Args]] = ProbeArgs
    seen: ClassVar[dict[str, Any]] = {}
    fails_in_an_apply: ClassVar[bool] = False

    count: pulumi.Output[int]
    """The number."""

    def __init__(self, name: str, args: ProbeArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
        Probe.seen = {"args": args, "opts": opts}
        self.count = pulumi.Output.from_input(args.count)
        if self.fails_in_an_apply:
            pulumi.Output.from_input("x").apply(_fail)
        self.register()


def _fail(_: str) -> str:
    raise pulumi.RunError("nothing waits for this")


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> str:
    known = plugin_module.component_of
    monkeypatch.setattr(plugin_module, "component_of", lambda token: Probe if token == Probe.TYPE else known(token))
    return Probe.TYPE


def probed(token: str, inputs: dict[str, Any], **request: Any) -> Any:
    """Build a Probe; its arguments with what was late resolved, and the response."""

    async def ask(running: Plugin) -> Any:
        await running.construct(token, "probe", inputs, **request)
        args = Probe.seen["args"]
        return {name: await pulumi.Output.from_input(getattr(args, name)).future() for name in ProbeArgs.model_fields}

    return asked(ask)


def test_a_number_may_be_an_output_and_stays_a_number(probe: str) -> None:
    """Faults a and b: `int()` of an Output, and integers that arrive as floats."""
    for value in (3.0, output(3.0), secret(3.0), output(3.0, is_secret=True)):
        found = probed(probe, {"count": value})["count"]
        assert (found, type(found)) == (3, int)


def test_a_list_of_enums_keeps_its_values(probe: str) -> None:
    """Fault c."""
    assert probed(probe, {"colours": ["red", "blue"]})["colours"] == ["red", "blue"]


def test_an_enum_may_be_an_output(probe: str) -> None:
    """Fault d."""
    assert probed(probe, {"colour": output("blue")})["colour"] == "blue"


def test_a_whole_list_or_one_of_its_entries_may_be_an_output(probe: str) -> None:
    """Fault e."""
    assert probed(probe, {"names": output(["a", "b"])})["names"] == ["a", "b"]
    assert probed(probe, {"names": ["a", output("b")]})["names"] == ["a", "b"]


def test_wrong_arguments_are_reported_by_property_without_a_traceback() -> None:
    """Faults f and i: errors wrapped beyond recognition, and unknown arguments dropped."""
    error, running = refused(POOL, {**INPUTS, "machineType": "g2-standrad-8", "max": 0, "maxx": 3})
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert details(error) == [
        (
            "machineType",
            "; ".join(
                (
                    "is not a machine type with a GPU",
                    "expected: a Compute Engine machine type with a GPU, such as g2-standard-8",
                    "hint: did you mean g2-standard-8",
                )
            ),
        ),
        (
            "max",
            "must be at least 1; expected: the maximum number of machines at any time, 1 to 1000",
        ),
        (
            "maxx",
            (
                f"unknown key; expected: one of {', '.join(map(to_camel, RunnerPoolArgs.model_fields))}; "
                "hint: did you mean max"
            ),
        ),
    ]
    assert running.monitor.requests == []


def test_every_late_value_is_checked_before_anything_is_registered() -> None:
    """Faults g and h: errors in applies that are chains, or lost."""
    error, running = refused(
        POOL, {**INPUTS, "project": output(5.0), "subnetwork": secret(6.0), "network": output(7.0)}
    )
    assert [path for path, _ in details(error)] == ["project", "subnetwork", "network"]
    assert running.monitor.requests == []


def test_an_error_in_an_apply_that_nothing_waits_for_reaches_the_user(
    probe: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault h, for a component's own applies."""
    monkeypatch.setattr(Probe, "fails_in_an_apply", True)
    error, _ = refused(probe, {})
    assert (error.code(), error.details()) == (grpc.StatusCode.UNKNOWN, "nothing waits for this")


def test_the_callers_time_limits_arrive(probe: str) -> None:
    """Fault j."""
    probed(probe, {}, customTimeouts=provider_pb2.ConstructRequest.CustomTimeouts(create="7m"))
    limits = Probe.seen["opts"].custom_timeouts
    assert (limits.create, limits.update, limits.delete) == ("7m", None, None)
    probed(probe, {})
    assert Probe.seen["opts"].custom_timeouts is None


@pytest.mark.parametrize("protect", [True, False])
def test_protection_arrives_as_the_engine_decided_it(probe: str, protect: bool) -> None:
    """Fault j. The engine has already looked at the parent, which the SDK could not: it knows only its URN here."""
    probed(probe, {}, protect=protect)
    assert Probe.seen["opts"].protect is protect


def test_the_engine_can_attach_and_shake_hands() -> None:
    """Fault k."""

    async def ask(running: Plugin) -> Any:
        await running.stub.Attach(plugin_pb2.PluginAttach(address="127.0.0.1:1"))
        attached = running.servicer.engine_address
        answer = await running.stub.Handshake(provider_pb2.ProviderHandshakeRequest(engine_address="127.0.0.1:2"))
        return attached, running.servicer.engine_address, answer

    attached, shaken, answer = asked(ask)
    assert (attached, shaken) == ("127.0.0.1:1", "127.0.0.1:2")
    assert (answer.accept_secrets, answer.accept_resources, answer.accept_outputs) == (True, True, True)
