"""Run one sandbox provider as a plugin process, which ends with the engine that started it.

The gRPC service converts the values of each call to plain Python values, and calls the operation of that name in
lifecycle.py.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent import futures
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, TypeVar

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc, plugin_pb2, provider_pb2_grpc
from pulumi.runtime.proto import provider_pb2 as pb

from pulumi_sandbox.plugins import PROGRAM_SDK_VERSION
from pulumi_sandbox.processes import EngineWatch
from pulumi_sandbox.providers import diff
from pulumi_sandbox.providers.cloud import Cloud
from pulumi_sandbox.providers.lifecycle import Lifecycle
from pulumi_sandbox.providers.readiness import NotReady
from pulumi_sandbox.providers.resource import Context, Problem, Refused, Resource
from pulumi_sandbox.providers.secret_digests import mask_secrets, secret_paths
from pulumi_sandbox.providers.values import NO_SECRETS, STRIPPED, UNKNOWN, Decoded, Secrets, is_at_or_below, leaves
from pulumi_sandbox.providers.values import Path as PropertyPath
from pulumi_sandbox.providers.wire import decode, encode, request_values
from pulumi_sandbox.workspace import Workspace
from pulumi_sandbox.world.store import World

Answer = TypeVar("Answer")
# A longer value is not repeated in the message about it.
LONGEST_SHOWN_CHARS = 80


def with_grpc_errors(call: Callable[..., Answer]) -> Callable[..., Answer]:
    """Convert the exceptions of a call to gRPC errors: the vendor's message without secrets, or a note about a bug."""

    @functools.wraps(call)
    def wrapper(self: Servicer, request: Any, context: grpc.ServicerContext) -> Answer:
        try:
            answer = call(self, request, context)
            if isinstance(answer, pb.CheckResponse):
                for check_failure in answer.failures:
                    check_failure.reason = mask_secrets(check_failure.reason, request_values(request))
            return answer
        except Refused as refusal:
            text = mask_secrets(str(refusal), request_values(request))
        except NotReady as not_ready:
            text = not_ready.add_details(context, request)
        except Exception as bug:
            subject = getattr(request, "urn", "") or getattr(request, "tok", "") or self.cloud.package
            logging.getLogger(__name__).exception("%s of %s", call.__name__, subject)
            text = (
                # The exception's own text may quote a secret.
                f"pulumi-sandbox: {call.__name__} failed because of a bug in the sandbox ({type(bug).__name__})\n"
                f"  hint: report the bug with {self.log_name}"
            )
        context.abort(grpc.StatusCode.UNKNOWN, text)
        raise AssertionError("abort does not return")

    return wrapper


class Servicer(provider_pb2_grpc.ResourceProviderServicer):
    """The gRPC service of one cloud."""

    def __init__(self, cloud: Cloud, context: Context, log: EngineLog | None = None) -> None:
        self.cloud = cloud
        self.context = context
        self.lifecycle = Lifecycle(cloud, context)
        self.log = log or EngineLog()
        self.log_name = f"logs/{cloud.package}.log in the sandbox's folder"

    # -- the plugin itself ------------------------------------------------------------

    @with_grpc_errors
    def Handshake(
        self, request: pb.ProviderHandshakeRequest, context: grpc.ServicerContext
    ) -> pb.ProviderHandshakeResponse:
        # Without acceptResources a resource arrives as its id, the form that every property expects.
        return pb.ProviderHandshakeResponse(accept_secrets=True, accept_resources=False, accept_outputs=False)

    @with_grpc_errors
    def GetPluginInfo(self, request: empty_pb2.Empty, context: grpc.ServicerContext) -> plugin_pb2.PluginInfo:
        return plugin_pb2.PluginInfo(version=self._version())

    @with_grpc_errors
    def GetSchema(self, request: pb.GetSchemaRequest, context: grpc.ServicerContext) -> pb.GetSchemaResponse:
        return pb.GetSchemaResponse(schema=json.dumps({"name": self.cloud.package, "version": self._version()}))

    @with_grpc_errors
    def Cancel(self, request: empty_pb2.Empty, context: grpc.ServicerContext) -> empty_pb2.Empty:
        self.context.cancelled.set()
        return empty_pb2.Empty()

    def _version(self) -> str:
        return metadata.version(f"pulumi_{self.cloud.package}")

    @with_grpc_errors
    def CheckConfig(self, request: pb.CheckRequest, context: grpc.ServicerContext) -> pb.CheckResponse:
        config = decode(request.news)
        checked = self.cloud.shapes.check_config(config.values, config.secrets)
        return pb.CheckResponse(inputs=request.news, failures=failures(checked.problems, config))

    @with_grpc_errors
    def DiffConfig(self, request: pb.DiffRequest, context: grpc.ServicerContext) -> pb.DiffResponse:
        old, new = decode(request.old_inputs).values, decode(request.news).values
        # In this call the engine does not mark secrets (pulumi v3.259.0, provider_plugin.go, DiffConfig).
        secrets = frozenset((name,) for name, value in old.items() if value == STRIPPED and name in new)
        changes = diff.compare(old, new, ignored=request.ignoreChanges, old_secrets=secrets, new_secrets=secrets)
        return diff.response(changes, lambda path: self.cloud.config_replaces(old, new, path))

    @with_grpc_errors
    def Configure(self, request: pb.ConfigureRequest, context: grpc.ServicerContext) -> pb.ConfigureResponse:
        config = decode(request.args).values
        checked = self.cloud.shapes.check_config(config)
        # CheckConfig has reported any value that does not fit its type.
        settings = {name: value for name, value in checked.inputs.items() if value is not UNKNOWN}
        self.context.config.clear()
        self.context.config.update(settings)
        self.cloud.configure(self.context.config)
        if program_version := os.environ.get(PROGRAM_SDK_VERSION):
            self.log.say(
                f"the program uses pulumi_{self.cloud.package} {program_version}, but the sandbox checks resources "
                f"with {self._version()}; results may differ from those of {program_version}",
                "warning",
                "",
            )
        return pb.ConfigureResponse(
            acceptSecrets=True, supportsPreview=True, acceptResources=False, acceptOutputs=False
        )

    # -- resources --------------------------------------------------------------------

    def _resource(self, request: Any, inputs: Decoded, **more: Any) -> Resource:
        urn = str(request.urn)
        return self.lifecycle.resource(
            urn, inputs, log=lambda text, severity="info": self.log.say(text, severity, urn), **more
        )

    @with_grpc_errors
    def Check(self, request: pb.CheckRequest, context: grpc.ServicerContext) -> pb.CheckResponse:
        inputs = decode(request.news)
        old = decode(request.olds).values if request.HasField("olds") else None
        res = self._resource(request, inputs, old_inputs=old, seed=request.randomSeed)
        checked, problems = self.lifecycle.check(res)
        return pb.CheckResponse(inputs=encode(checked.values, checked.secrets), failures=failures(problems, inputs))

    @with_grpc_errors
    def Diff(self, request: pb.DiffRequest, context: grpc.ServicerContext) -> pb.DiffResponse:
        old = decode(request.old_inputs)
        res = self._resource(
            request, decode(request.news), old_inputs=old.values, outputs=decode(request.olds).values, id=request.id
        )
        changes, delete_first = self.lifecycle.diff(res, old, request.ignoreChanges)
        return diff.response(changes, lambda path: self.lifecycle.replaces(res, path), delete_first=delete_first)

    @with_grpc_errors
    def Create(self, request: pb.CreateRequest, context: grpc.ServicerContext) -> pb.CreateResponse:
        res = self._resource(request, decode(request.properties), preview=request.preview, timeout=request.timeout)
        outputs = self.lifecycle.create(res)
        return pb.CreateResponse(id="" if res.preview else res.id, properties=encode(outputs.values, outputs.secrets))

    @with_grpc_errors
    def Update(self, request: pb.UpdateRequest, context: grpc.ServicerContext) -> pb.UpdateResponse:
        old = decode(request.olds)
        res = self._resource(
            request,
            decode(request.news),
            old_inputs=decode(request.old_inputs).values,
            outputs=old.values,
            id=request.id,
            preview=request.preview,
            timeout=request.timeout,
        )
        outputs = self.lifecycle.update(res, old)
        return pb.UpdateResponse(properties=encode(outputs.values, outputs.secrets))

    @with_grpc_errors
    def Read(self, request: pb.ReadRequest, context: grpc.ServicerContext) -> pb.ReadResponse:
        engine_values = [decode(request.properties), decode(request.inputs)]
        token = str(request.urn).split("::")[2].rpartition("$")[2]
        found = self.lifecycle.read(token, request.id, engine_values)
        if found is None:
            return pb.ReadResponse(id="")  # an empty id tells the engine that the resource does not exist
        resource_id, outputs, inputs = found
        return pb.ReadResponse(
            id=resource_id,
            properties=encode(outputs.values, outputs.secrets),
            inputs=encode(inputs.values, inputs.secrets),
        )

    @with_grpc_errors
    def Delete(self, request: pb.DeleteRequest, context: grpc.ServicerContext) -> empty_pb2.Empty:
        inputs = decode(request.old_inputs)
        self.lifecycle.delete(self._resource(request, inputs, outputs=decode(request.properties).values, id=request.id))
        return empty_pb2.Empty()

    # -- functions --------------------------------------------------------------------

    @with_grpc_errors
    def Invoke(self, request: pb.InvokeRequest, context: grpc.ServicerContext) -> pb.InvokeResponse:
        arguments = decode(request.args)
        if any(value is UNKNOWN for _, value in leaves(arguments.values)):
            return pb.InvokeResponse()  # in a preview with unknown arguments the result is unknown
        result, secret_names = self.cloud.invoke(request.tok, arguments.values)
        secrets: set[PropertyPath] = set(secret_paths(result, arguments.values, NO_SECRETS, secret_names))
        secrets |= secret_paths(result, arguments.values, arguments.secrets, ())
        answer = pb.InvokeResponse()
        getattr(answer, "return").CopyFrom(encode(result, secrets))
        return answer


def failures(problems: Sequence[Problem], inputs: Decoded) -> list[pb.CheckFailure]:
    """Convert problems to the engine's form, which prints `property x value {y} has a problem: …`.

    The engine looks up the value by the whole path and prints it. It finds no value for a nested path, and would print
    the value of a secret. For both, the path is put in the text instead.
    """
    return [failure(problem, inputs.values, inputs.secrets) for problem in problems]


def failure(problem: Problem, values: dict[str, Any], secrets: Secrets) -> pb.CheckFailure:
    value = values.get(problem.path)
    is_short = isinstance(value, str | int | float) and len(str(value)) <= LONGEST_SHOWN_CHARS
    if is_short and not is_at_or_below((problem.path,), secrets):
        return pb.CheckFailure(property=problem.path, reason=str(problem))
    return pb.CheckFailure(reason=f"{problem.path}: {problem}" if problem.path else str(problem))


SEVERITIES = {
    "debug": engine_pb2.DEBUG,
    "info": engine_pb2.INFO,
    "warning": engine_pb2.WARNING,
    "error": engine_pb2.ERROR,
    "status": engine_pb2.INFO,  # shown next to the resource during its operation
}
LARGEST_FILE_BYTES = 1 << 20
TIMEOUT_SECONDS = 5.0


class EngineLog:
    """A client of the engine's log. If the engine does not answer, messages are dropped without an error."""

    def __init__(self, address: str = "") -> None:
        self._channel = grpc.insecure_channel(address) if address else None

    def say(self, text: str, severity: str = "info", urn: str = "") -> None:
        if self._channel is None:
            return
        request = engine_pb2.LogRequest(
            severity=SEVERITIES.get(severity, engine_pb2.INFO), message=text, urn=urn, ephemeral=severity == "status"
        )
        try:
            engine_pb2_grpc.EngineStub(self._channel).Log(request, timeout=TIMEOUT_SECONDS)
        except (grpc.RpcError, ValueError) as error:  # the engine has exited, or the channel was closed meanwhile
            logging.getLogger(__name__).debug("the engine took no log message: %s", error)

    def close(self) -> None:
        if self._channel:
            self._channel.close()


def log_to_file(path: Path) -> None:
    """Write the log of Python's logging to this file. The engine shows a provider's standard error to the user."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_file() and path.stat().st_size > LARGEST_FILE_BYTES:
        path.replace(path.with_suffix(".old.log"))
    logging.basicConfig(filename=path, level=logging.INFO, format="%(asctime)s %(process)d %(name)s %(message)s")
    path.chmod(0o600)


# The limit of the engine (pulumi/sdk v3.259.0, go/common/util/rpcutil/serve.go).
LARGEST_MESSAGE = 400 << 20
OPTIONS = [("grpc.max_receive_message_length", LARGEST_MESSAGE), ("grpc.max_send_message_length", LARGEST_MESSAGE)]
WORKERS = 64
GRACE_SECONDS = 2.0


def cloud_of(package: str) -> Cloud:
    """Return an instance of the one subclass of `Cloud` in providers/<package>/provider.py."""
    module = import_module(f"pulumi_sandbox.providers.{package}.provider")
    classes = [one for one in vars(module).values() if isinstance(one, type) and issubclass(one, Cloud)]
    (cloud_class,) = (
        one for one in classes if one.__module__ == module.__name__ and getattr(one, "package", "") == package
    )
    return cloud_class()


def start(servicer: Servicer) -> tuple[grpc.Server, int]:
    """Start the gRPC server. Return it and its port."""
    server = grpc.server(futures.ThreadPoolExecutor(WORKERS, thread_name_prefix="rpc"), options=OPTIONS)
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, port


def serve(cloud: Cloud, engine: str = "") -> None:
    """Serve until the engine exits. The port is printed to standard output for the engine."""
    engine_watch = EngineWatch(engine)
    workspace = Workspace.find()
    log_to_file(workspace.root / "logs" / f"{cloud.package}.log")
    threading.excepthook = lambda failure: logging.getLogger(__name__).error(
        "in thread %s", failure.thread and failure.thread.name, exc_info=failure.exc_value
    )
    log = EngineLog(engine)
    context = Context(workspace, World(workspace.world), engine_gone=engine_watch.orphaned, log=log.say)
    cloud.context = context
    cloud.start(context)
    server, port = start(Servicer(cloud, context, log))
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    try:
        engine_watch.watch()
    finally:
        context.cancelled.set()
        server.stop(GRACE_SECONDS).wait()
        cloud.stop()
        log.close()
        context.world.close()
