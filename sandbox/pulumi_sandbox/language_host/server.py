"""The Python language host: a process through which the engine runs Python programs and plugins.

The engine calls the host over Pulumi's gRPC protocol. Pulumi's own ("official") host is part of the official CLI. A
CLI that the sandbox built has no host of its own, and uses this host.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent import futures
from typing import Any, NoReturn

import grpc
from google.protobuf import empty_pb2, json_format
from pulumi.runtime.proto import language_pb2 as lp
from pulumi.runtime.proto import language_pb2_grpc, plugin_pb2

from pulumi_sandbox.engine import locate
from pulumi_sandbox.engine.model import VERSION, failure_reason
from pulumi_sandbox.language_host.interpreters import INSTALL_HINT, PACKAGES, OptionError, Runtime
from pulumi_sandbox.plugins import installable
from pulumi_sandbox.processes import Guarded

Context = grpc.ServicerContext

# The exit code of pulumi-language-python-exec after it has shown the error to the user.
ERROR_IS_SHOWN = 32

# A plugin may have to clean up before it exits. Example: it deletes a VM that it started.
PLUGIN_GRACE = 30.0


def only_official(what: str, hint: str = "install Pulumi with its own installer and put it on PATH") -> Any:
    """Return an RPC that always fails, because only the official host can answer it."""

    def refuse(_self: Any, _request: Any, context: Context) -> NoReturn:
        context.abort(
            grpc.StatusCode.UNIMPLEMENTED,
            f"pulumi-sandbox's language host cannot {what}\n  expected: the official Pulumi CLI\n  hint: {hint}",
        )
        raise AssertionError("abort always raises")

    return refuse


class LanguageHost(language_pb2_grpc.LanguageRuntimeServicer):
    """The language host of Python programs and plugins. Every command that the host starts ends with the host."""

    GenerateProgram = only_official("generate Python code (convert, import)")
    GenerateProject = only_official("generate a Python project (convert)")
    GeneratePackage = only_official("generate an SDK (package add, package gen-sdk)")
    Pack = only_official("make a Python package file (package pack-sdk)")
    InstallDependencies = only_official("install dependencies (install, new)", INSTALL_HINT)

    def __init__(self, engine_address: str) -> None:
        self._engine = engine_address
        self._running: set[Guarded] = set()
        self._lock = threading.Lock()

    def close(self, patience: float = 0.0) -> None:
        """Stop every running command, and wait up to `patience` seconds for their ends."""
        with self._lock:
            running = list(self._running)
        for guarded in running:
            guarded.cancel()
        deadline = time.monotonic() + patience
        for guarded in running:
            guarded.ended.wait(max(0.0, deadline - time.monotonic()))

    def Handshake(self, request: lp.LanguageHandshakeRequest, context: Context) -> lp.LanguageHandshakeResponse:
        self._engine = request.engine_address or self._engine
        return lp.LanguageHandshakeResponse()

    def GetPluginInfo(self, request: empty_pb2.Empty, context: Context) -> plugin_pb2.PluginInfo:
        return plugin_pb2.PluginInfo(version=VERSION)

    def GetRequiredPackages(
        self, request: lp.GetRequiredPackagesRequest, context: Context
    ) -> lp.GetRequiredPackagesResponse:
        """Return the Pulumi SDKs in the program's environment, as the official host does, with one difference.

        An installed SDK may have no provider in the sandbox. If downloads are disabled, such an SDK is left out.
        Commands that require every reported plugin then work. A program that uses the SDK fails at its resource.
        """
        described = run_script(runtime_of(request.info, context), PACKAGES, context)
        packages = [package for package in map(dependency, described) if package is not None]
        return lp.GetRequiredPackagesResponse(packages=installable(packages))

    def Run(self, request: lp.RunRequest, context: Context) -> lp.RunResponse:
        try:
            runtime = read_options(request.info)
            runtime.check()
        except OptionError as error:
            return lp.RunResponse(error=str(error))
        environment = runtime.environment(os.environ)
        environment["PULUMI_CONFIG"] = json.dumps(dict(request.config))
        environment["PULUMI_CONFIG_SECRET_KEYS"] = json.dumps(list(request.configSecretKeys))
        # The program inherits our output, which the engine shows line by line under the stack. -u turns off buffering.
        executor = os.environ.get("PULUMI_SANDBOX_EXECUTOR") or str(locate.home() / "pulumi-language-python-exec")
        command = [runtime.python, "-u", executor, *program_arguments(request, self._engine)]
        with self._started(command, request.pwd, environment, context) as program:
            code = program.wait()
        if code == ERROR_IS_SHOWN:
            return lp.RunResponse(bail=True)
        return lp.RunResponse(error="the program was cancelled" if program.cancelled else exit_message("program", code))

    def RunPlugin(self, request: lp.RunPluginRequest, context: Context) -> Iterator[lp.RunPluginResponse]:
        """Run a plugin from Python source. Its PulumiPlugin.yaml or PulumiPolicy.yaml has `runtime: python`."""
        info = lp.ProgramInfo()
        info.CopyFrom(request.info)
        uses_pip = "toolchain" not in info.options or info.options["toolchain"] == "pip"
        if request.kind != "analyzer" and uses_pip and "virtualenv" not in info.options:
            # A plugin never runs in the Python of the shell
            # (sdk/python/cmd/pulumi-language-python/main.go, parseOptions).
            info.options["virtualenv"] = "venv"
        runtime = runtime_of(info, context)
        plugin_variables = dict(entry.split("=", 1) for entry in request.env if "=" in entry)
        environment = runtime.environment({**os.environ, **plugin_variables})
        command = [runtime.python, "-u", *plugin_arguments(request)]
        with self._started(command, request.pwd, environment, context, piped=True, grace_sec=PLUGIN_GRACE) as plugin:
            for stream, data in plugin.output():
                is_error = stream == "stderr"
                yield lp.RunPluginResponse(stderr=data) if is_error else lp.RunPluginResponse(stdout=data)
            code = plugin.wait()
        yield lp.RunPluginResponse(exitcode=code if code >= 0 else 128 - code)

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


def runtime_of(info: lp.ProgramInfo, context: Context) -> Runtime:
    try:
        runtime = read_options(info)
        runtime.check()
    except OptionError as error:
        context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
    return runtime


def run_script(runtime: Runtime, script: str, context: Context) -> Any:
    try:
        return runtime.run_script(script)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        text = f"{runtime.python} failed to describe the program's environment: {failure_reason(error)}"
        context.abort(grpc.StatusCode.INTERNAL, text)


def read_options(info: lp.ProgramInfo) -> Runtime:
    return Runtime.of(info.root_directory, info.program_directory, json_format.MessageToDict(info.options))


def program_arguments(request: lp.RunRequest, engine_address: str) -> list[str]:
    """Return the arguments of pulumi-language-python-exec, without empty ones: the program would use them as values."""
    values = {
        "monitor": request.monitor_address,
        "engine": engine_address,
        "project": request.project,
        "root_directory": request.info.root_directory,
        "stack": request.stack,
        "pwd": request.info.program_directory or request.pwd,
        "dry_run": "true" if request.dryRun else "false",
        "parallel": str(request.parallel),
        "organization": request.organization,
    }
    options = [word for name, value in values.items() if value for word in (f"--{name}", value)]
    return [*options, request.info.entry_point or ".", *request.args]


def plugin_arguments(request: lp.RunPluginRequest) -> list[str]:
    """Return the arguments of Python that run a plugin.

    A policy pack runs in the SDK module `pulumi.policy`, as with the official host. The module takes the engine's
    address and then the folder of the pack, and passes the settings of the stack to the pack.
    """
    folder = request.info.program_directory
    if request.kind == "analyzer":
        engine_address, *pack_arguments = request.args
        return ["-m", "pulumi.policy", engine_address, folder, *pack_arguments]
    return [folder, *request.args]


def serve(host: LanguageHost) -> tuple[grpc.Server, int]:
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
