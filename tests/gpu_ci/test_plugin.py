"""The plugin over gRPC: components for any language, and none of the faults of the SDK's experimental host."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
from typing import Any

import grpc
import psutil
import pytest
from google.protobuf import empty_pb2
from gpu_ci import versions
from gpu_ci.kinds.gce.component import RunnerPool
from pulumi.runtime.proto import provider_pb2

from tests.conftest import ROOT
from tests.gpu_ci.engine_stub import Plugin, asked, details, output, refused, secret
from tests.gpu_ci.harness import UNKNOWN
from tests.gpu_ci.support import WIRING

POOL = RunnerPool.TYPE
INPUTS = {**RunnerPool.EXAMPLE, **WIRING}


def test_a_component_is_built_with_its_children_and_outputs() -> None:
    async def ask(running: Plugin) -> Any:
        response = await running.construct(POOL, "l4", INPUTS)
        return response, running.monitor

    response, monitor = asked(ask)
    assert response.urn == "urn:pulumi:dev::consumer::gpu-ci:gcp:RunnerPool::l4"
    assert dict(response.state)["verdict"] == "pass"
    assert sorted(response.state) == ["instanceGroup", "serviceAccountEmail", "smokeSummary", "template", "verdict"]
    # Sorted: the template and the right to write logs wait for the same account, and either may come first.
    assert sorted(request.name for request in monitor.requests) == [
        "l4", "l4-account", "l4-gate", "l4-group", "l4-log-writer", "l4-template",
    ]  # fmt: skip


def test_an_invalid_secret_is_not_shown() -> None:
    error, _ = refused(POOL, {**INPUTS, "project": secret([{"hush": "hush-hush"}])})
    assert [path for path, _ in details(error)] == ["project"]
    assert "hush" not in str(error)


def test_in_a_preview_unknown_inputs_pass() -> None:
    async def ask(running: Plugin) -> Any:
        await running.construct(POOL, "l4", {**INPUTS, "project": UNKNOWN, "subnetwork": output()}, dryRun=True)
        return running.monitor.inputs(":Account")

    assert asked(ask)["project"] == UNKNOWN


def test_two_components_built_at_once_do_not_mix() -> None:
    async def ask(running: Plugin) -> Any:
        names = [f"p{number}" for number in range(8)]
        found = await asyncio.gather(*(running.construct(POOL, name, INPUTS) for name in names))
        return names, [response.urn.rpartition("::")[2] for response in found], running.monitor.requests

    names, built, requests = asked(ask)
    assert built == names
    assert len(requests) == 6 * len(names)
    for request in requests:
        assert request.parent.rpartition("::")[2] in ("consumer-dev", request.name.partition("-")[0])


def test_an_unknown_type_is_refused_with_the_nearest_one() -> None:
    error, _ = refused("gpu-ci:gcp:RunerPool", {})
    assert error.details() == "gpu-ci has no component gpu-ci:gcp:RunerPool; did you mean gpu-ci:gcp:RunnerPool"


def test_it_tells_its_version_its_schema_and_takes_any_configuration() -> None:
    async def ask(running: Plugin) -> Any:
        info = await running.stub.GetPluginInfo(empty_pb2.Empty())
        schema = await running.stub.GetSchema(provider_pb2.GetSchemaRequest(version=0))
        with pytest.raises(grpc.aio.AioRpcError, match="unsupported schema version 7"):
            await running.stub.GetSchema(provider_pb2.GetSchemaRequest(version=7))
        checked = await running.stub.CheckConfig(provider_pb2.CheckRequest())
        diff = await running.stub.DiffConfig(provider_pb2.DiffRequest())
        configured = await running.stub.Configure(provider_pb2.ConfigureRequest())
        await running.stub.Cancel(empty_pb2.Empty())
        return (
            info.version,
            json.loads(schema.schema)["name"],
            len(checked.failures),
            diff.changes,
            configured.acceptOutputs,
        )

    assert asked(ask) == (versions.PACKAGE, "gpu-ci", 0, provider_pb2.DiffResponse.DIFF_NONE, True)


def test_the_plugin_ends_after_its_parent_was_killed() -> None:
    # `sleep` keeps the shell alive, so the plugin's parent is the shell and not this test.
    start = f"{shlex.quote(sys.executable)} {shlex.quote(str(ROOT / 'components'))} & echo $!; sleep 600"
    with subprocess.Popen(["bash", "-c", start], stdout=subprocess.PIPE, text=True, start_new_session=True) as parent:
        assert parent.stdout is not None
        plugin, port = psutil.Process(int(parent.stdout.readline())), int(parent.stdout.readline())
        try:
            assert plugin.is_running()
            assert port > 0
            parent.kill()
            plugin.wait(timeout=60)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(parent.pid, signal.SIGKILL)
