"""SmokeGate over gRPC: what a verdict becomes: state, or an error an operator can act on."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
from google.protobuf import empty_pb2
from gpu_ci.gcp.gate.compute_api import ApiError, QuotaInfo
from pulumi.runtime.proto import engine_pb2, provider_pb2

from tests.gpu_ci.engine_stub import Plugin, secret
from tests.gpu_ci.gcp.gate.fake_api import EXHAUSTED, FAILED
from tests.gpu_ci.gcp.gate.setting import INPUTS, TEMPLATE, URN, ZONES, Setting, struct
from tests.gpu_ci.harness import UNKNOWN


def _tell(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    loop.call_soon_threadsafe(event.set)


def test_a_pass_becomes_state(setting: Setting) -> None:
    identity, properties = setting.create()
    assert identity == "l4/l4-template-1"
    assert properties == {
        **INPUTS,
        "checkedTemplate": TEMPLATE,
        "verdict": "pass",
        "summary": "1 x NVIDIA L4 computes",
        "zone": "us-central1-a",
    }
    assert setting.google.machines == {}


def test_gates_share_one_client_which_is_tried_again_until_there_is_one(setting: Setting) -> None:
    setting.unreachable = ApiError("unauthenticated", "no credentials")
    message = provider_pb2.CreateRequest(urn=URN, properties=struct(INPUTS))

    async def work(running: Plugin) -> None:
        with pytest.raises(grpc.aio.AioRpcError, match="no credentials"):
            await running.stub.Create(message)
        setting.unreachable = None
        for _ in range(3):
            await running.stub.Create(message)

    setting.ask(work)
    assert setting.apis_made == 1


def test_a_fail_is_an_error_in_the_checks_own_words(setting: Setting) -> None:
    setting.google.verdict = FAILED
    assert setting.refused() == (
        grpc.StatusCode.UNKNOWN,
        (
            "the smoke check failed in us-central1-a: GPU 0: wrong numbers\n"
            "  hint: no pool uses this template; the next pulumi up runs the check again"
        ),
    )


def test_without_capacity_the_template_is_unproven_if_the_pool_allows_it(setting: Setting) -> None:
    setting.google.zones = dict.fromkeys(ZONES, ApiError(EXHAUSTED, "none left"))
    _, properties = setting.create({**INPUTS, "onNoCapacity": "unproven"})
    assert (properties["verdict"], properties["checkedTemplate"], properties["zone"]) == ("unproven", TEMPLATE, "")
    assert properties["summary"] == "no zone had capacity for the check machine: us-central1-a, us-central1-b"


def test_a_template_taken_unproven_is_a_warning_that_stays(setting: Setting) -> None:
    setting.google.zones = dict.fromkeys(ZONES, ApiError(EXHAUSTED, "none left"))

    async def work(running: Plugin) -> Any:
        inputs = struct({**INPUTS, "onNoCapacity": "unproven"})
        await running.stub.Create(provider_pb2.CreateRequest(urn=URN, properties=inputs))
        return running.monitor.logs[-1]

    log = setting.ask(work)
    assert (log.urn, log.ephemeral, log.severity) == (URN, False, engine_pb2.WARNING)
    assert log.message == (
        "the pool uses a template that is unproven: no zone had capacity for the check machine: us-central1-a, "
        f"us-central1-b\n  hint: run pulumi up --replace '{URN}' to check again, or set smoke.onNoCapacity: fail"
    )


def test_a_fail_is_never_taken_unproven(setting: Setting) -> None:
    setting.google.verdict = FAILED
    assert "failed in us-central1-a" in setting.refused({**INPUTS, "onNoCapacity": "unproven"})[1]


def test_a_quota_is_googles_error_with_what_helps(setting: Setting) -> None:
    quota = QuotaInfo("GPUS-PER-GPU-FAMILY-per-project-region", "us-central1", "NVIDIA_H100", 8)
    exceeded = ApiError("QUOTA_EXCEEDED", "Quota 'NVIDIA_L4_GPUS' exceeded.", 403, quota=quota)
    setting.google.zones = {"us-central1-a": exceeded}
    assert setting.refused()[1] == (
        "Google rejected the check machine: Quota 'NVIDIA_L4_GPUS' exceeded.\n  hint: the check takes one machine in "
        "addition to the running ones: wait until one of them ends, or request more at IAM & Admin > Quotas & System "
        "Limits, filter GPUS-PER-GPU-FAMILY-per-project-region of us-central1, gpu_family NVIDIA_H100: "
        "https://console.cloud.google.com/iam-admin/quotas?project=p"
    )
    assert ("insert", "us-central1-b") not in setting.google.log


def test_a_secret_in_an_error_is_redacted(setting: Setting) -> None:
    quoted = f"The resource '{TEMPLATE}' was not found; l4-template-1 is no template of p"
    setting.unreachable = ApiError("notFound", quoted, 404)
    assert TEMPLATE in setting.refused()[1]
    _, text = setting.refused({**INPUTS, "template": secret(TEMPLATE)})
    assert text == (
        "Google rejected the check machine: The resource '[secret]' was not found; [secret] is no template of p"
    )


def test_a_secret_in_a_progress_message_is_redacted(setting: Setting) -> None:
    setting.google.leftovers = {"us-central1-a": ["l4-template-1-check"]}

    async def work(running: Plugin) -> Any:
        inputs = struct({**INPUTS, "template": secret(TEMPLATE)})
        await running.stub.Create(provider_pb2.CreateRequest(urn=URN, properties=inputs))
        return [log.message for log in running.monitor.logs]

    said = setting.ask(work)
    assert said[0] == "deleting [secret]-check, left in us-central1-a by an earlier check"


def test_in_a_preview_nothing_is_asked_and_the_answers_are_unknown(setting: Setting) -> None:
    _, properties = setting.create({**INPUTS, "template": UNKNOWN}, preview=True)
    assert {properties[name] for name in ("checkedTemplate", "verdict", "summary", "zone")} == {UNKNOWN}
    assert setting.google.log == []


def test_a_cancelled_deployment_deletes_the_check_machine(setting: Setting) -> None:
    async def work(running: Plugin) -> Any:
        started = asyncio.Event()
        loop = asyncio.get_running_loop()
        setting.google.verdict = None
        setting.google.on_status = lambda: _tell(loop, started)
        setting.clock.pause = 0.01
        call = asyncio.ensure_future(
            running.stub.Create(provider_pb2.CreateRequest(urn=URN, properties=struct(INPUTS)))
        )
        setting.google.boots_in = 0
        await started.wait()
        await running.stub.Cancel(empty_pb2.Empty())
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call
        return caught.value

    error = setting.ask(work)
    assert (error.code(), error.details()) == (grpc.StatusCode.CANCELLED, "the smoke check was cancelled")
    assert setting.google.machines == {}
