"""The base class of the language hosts. It starts and stops commands, and generates SDKs with sdkgen."""

from __future__ import annotations

import base64
import contextlib
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent import futures
from typing import Any, NoReturn, TypeVar

import grpc
from google.protobuf import empty_pb2, json_format
from google.protobuf.message import Message
from pulumi.runtime.proto import language_pb2 as lp
from pulumi.runtime.proto import language_pb2_grpc, plugin_pb2

from pulumi_sandbox.engine import language_tools
from pulumi_sandbox.engine.model import VERSION, EngineError, failure_reason
from pulumi_sandbox.processes import Guarded

Context = grpc.ServicerContext
Response = TypeVar("Response", bound=Message)


def only_official(what: str) -> Callable[..., NoReturn]:
    """Return an RPC that always fails, because only the official host can answer it."""

    def refuse(_self: Any, _request: Any, context: Context) -> NoReturn:
        context.abort(
            grpc.StatusCode.UNIMPLEMENTED,
            f"pulumi-sandbox's language host cannot generate {what}\n"
            "  expected: the official Pulumi CLI, whose language host has this code generator\n"
            "  hint: install Pulumi with its own installer and put it on PATH",
        )
        raise AssertionError("abort always raises")

    return refuse


class Host(language_pb2_grpc.LanguageRuntimeServicer):
    """The language host of one engine. Every command that the host starts ends with the host."""

    LANGUAGE: str

    def __init__(self, engine_address: str) -> None:
        self._engine = engine_address
        self._running: set[Guarded] = set()
        self._lock = threading.Lock()

    def close(self, patience: float = 0.0) -> None:
        """Stop every running command, and wait up to `patience` seconds for each."""
        with self._lock:
            running = list(self._running)
        for guarded in running:
            guarded.cancel()
        for guarded in running:
            guarded.ended.wait(patience)

    def Handshake(self, request: lp.LanguageHandshakeRequest, context: Context) -> lp.LanguageHandshakeResponse:
        self._engine = request.engine_address or self._engine
        return lp.LanguageHandshakeResponse()

    def GetPluginInfo(self, request: empty_pb2.Empty, context: Context) -> plugin_pb2.PluginInfo:
        return plugin_pb2.PluginInfo(version=VERSION)

    def RuntimeOptionsPrompts(self, request: lp.RuntimeOptionsRequest, context: Context) -> lp.RuntimeOptionsResponse:
        return lp.RuntimeOptionsResponse()

    def GetRequiredPlugins(
        self, request: lp.GetRequiredPluginsRequest, context: Context
    ) -> lp.GetRequiredPluginsResponse:
        return lp.GetRequiredPluginsResponse()  # only engines without GetRequiredPackages call this

    def GeneratePackage(self, request: lp.GeneratePackageRequest, context: Context) -> lp.GeneratePackageResponse:
        return self._sdkgen("generate", request, lp.GeneratePackageResponse(), context)

    def Link(self, request: lp.LinkRequest, context: Context) -> lp.LinkResponse:
        return self._sdkgen("link", request, lp.LinkResponse(), context)

    def _sdkgen(self, command: str, request: Message, response: Response, context: Context) -> Response:
        """Pass a request on to sdkgen (tools/sdkgen), which runs Pulumi's own code for it."""
        try:
            executable = language_tools.ensure(language_tools.SDKGEN, say)
            answer = subprocess.run(
                [executable, command, self.LANGUAGE], input=json_format.MessageToJson(request), capture_output=True,
                text=True, check=False,
            )  # fmt: skip
        except (OSError, EngineError) as error:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, failure_reason(error))
        if answer.returncode:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, answer.stderr.strip())
        return json_format.Parse(answer.stdout, response)

    def Cancel(self, request: empty_pb2.Empty, context: Context) -> empty_pb2.Empty:
        self.close()
        return empty_pb2.Empty()

    @contextlib.contextmanager
    def _started(
        self, command: list[str], cwd: str, environment: Mapping[str, str], context: Context, **options: Any
    ) -> Iterator[Guarded]:
        """Start a command, and stop it when the call is cancelled, the host is closed or the caller fails.

        `options` are those of Guarded.
        """
        guarded = Guarded(command, cwd=cwd, environment=environment, **options)
        with self._lock:
            self._running.add(guarded)
        try:
            if not context.add_callback(guarded.cancel):
                guarded.cancel()  # the call ended before the command started
            yield guarded
        finally:
            guarded.cancel()
            with self._lock:
                self._running.discard(guarded)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - the engine shows this stream


def serve(host: Host) -> tuple[grpc.Server, int]:
    # A call that runs a program or a plugin occupies its thread until that command ends.
    server = grpc.server(futures.ThreadPoolExecutor(64), options=[("grpc.max_receive_message_length", -1)])
    language_pb2_grpc.add_LanguageRuntimeServicer_to_server(host, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, port


def dependency(described: object) -> plugin_pb2.PackageDependency | None:
    """Convert a pulumi-plugin.json to the engine's message. Return None if it does not describe a resource plugin."""
    if not isinstance(described, dict) or not described.get("resource") or not described.get("name"):
        return None
    package = plugin_pb2.PackageDependency(
        kind="resource",
        name=described["name"],
        version=described.get("version", ""),
        server=described.get("server", ""),
    )
    parameters = described.get("parameterization")
    if parameters:
        package.parameterization.name = parameters["name"]
        package.parameterization.version = parameters["version"]
        package.parameterization.value = base64.b64decode(parameters["value"])
    return package


def exit_message(subject: str, code: int) -> str:
    """Return the official host's text for an exit code, or an empty string for exit code 0.

    The official host reports -1 for a signal. This text adds the number of the signal.
    """
    if code == 0:
        return ""
    by_signal = f" (signal {-code})" if code < 0 else ""
    return f"{subject} exited with non-zero exit code: {max(code, -1)}{by_signal}"
