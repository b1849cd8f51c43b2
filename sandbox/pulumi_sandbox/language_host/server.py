"""The Python language host: how the engine runs Python programs and plugins, over the SDK's own protocol."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent import futures
from typing import Any, NoReturn, TypeVar

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import language_pb2 as lp
from pulumi.runtime.proto import language_pb2_grpc, plugin_pb2

from pulumi_sandbox.engine import locate
from pulumi_sandbox.engine.model import VERSION, describe
from pulumi_sandbox.language_host.interpreters import DEPENDENCIES, PACKAGES, OptionError, Runtime
from pulumi_sandbox.language_host.messages import dependency, ending, plugin_arguments, program_arguments, read_options
from pulumi_sandbox.plugins import offer
from pulumi_sandbox.processes import Guarded

# pulumi-language-python-exec ends with this when it has shown the error to the person already.
SHOWN = 32

# A plugin may have something to put away when it is told to end, such as a machine it started in a cloud.
PLUGIN_GRACE = 30.0

ABOUT = "import json, sys; print(json.dumps([sys.executable, sys.version.split()[0]]))"

Context = grpc.ServicerContext
Response = TypeVar("Response")


def only_official(what: str) -> Callable[..., NoReturn]:
    """An RPC that needs Pulumi's code generator for Python, which is part of the official host alone."""

    def refuse(_self: Any, _request: Any, context: Context) -> NoReturn:
        context.abort(
            grpc.StatusCode.UNIMPLEMENTED,
            f"pulumi-sandbox's Python language host cannot generate {what}\n"
            "  expected: the official Pulumi CLI, whose pulumi-language-python can\n"
            "  hint: install Pulumi from its own installer and put it on PATH; in Python a component package needs no "
            "generated SDK, import its classes",
        )
        raise AssertionError("abort always raises")

    return refuse


class LanguageHost(language_pb2_grpc.LanguageRuntimeServicer):
    """One host serves one engine; every command it starts ends with it."""

    GeneratePackage = only_official("a Python SDK (package add, package gen-sdk)")
    GenerateProgram = only_official("Python code (convert, import)")
    GenerateProject = only_official("a Python project (convert)")
    Link = only_official("a link to a Python SDK (package add)")
    Pack = only_official("a Python package file (package pack-sdk)")

    def __init__(self, engine_address: str) -> None:
        self._engine = engine_address
        self._running: set[Guarded] = set()
        self._lock = threading.Lock()

    def close(self, patience: float = 0.0) -> None:
        """End everything that still runs, and wait a while for it."""
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

    def About(self, request: lp.AboutRequest, context: Context) -> lp.AboutResponse:
        runtime = runtime_of(request.info, context)
        executable, version = ask(runtime, ABOUT, context)
        return lp.AboutResponse(executable=executable, version=version, metadata={"toolchain": runtime.toolchain})

    def GetProgramDependencies(
        self, request: lp.GetProgramDependenciesRequest, context: Context
    ) -> lp.GetProgramDependenciesResponse:
        found = sorted(ask(runtime_of(request.info, context), DEPENDENCIES, context))
        chosen = [entry for entry in found if entry[2] or request.transitiveDependencies]
        return lp.GetProgramDependenciesResponse(
            dependencies=[lp.DependencyInfo(name=name, version=version) for name, version, _ in chosen]
        )

    def GetRequiredPackages(
        self, request: lp.GetRequiredPackagesRequest, context: Context
    ) -> lp.GetRequiredPackagesResponse:
        """The Pulumi SDKs in the program's environment, as the official host reports them, with one difference.

        An SDK that is merely installed may have no offline provider. Where nothing may be downloaded it is left out, so
        that commands which insist on every reported plugin work; a program that does use it is told at the resource.
        """
        described = ask(runtime_of(request.info, context), PACKAGES, context)
        packages = [package for package in map(dependency, described) if package is not None]
        if os.environ.get("PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION", "").lower() in ("1", "true"):
            packages = [package for package in packages if offer(package.name, package.version)]
        return lp.GetRequiredPackagesResponse(packages=packages)

    def GetRequiredPlugins(
        self, request: lp.GetRequiredPluginsRequest, context: Context
    ) -> lp.GetRequiredPluginsResponse:
        return lp.GetRequiredPluginsResponse()  # asked only by engines older than GetRequiredPackages

    def Run(self, request: lp.RunRequest, context: Context) -> lp.RunResponse:
        try:
            runtime = read_options(request.info)
            runtime.check()
        except OptionError as error:
            return lp.RunResponse(error=str(error))
        environment = runtime.environment(os.environ)
        if runtime.typechecker:
            command = [runtime.python, "-m", runtime.typechecker, "."]
            with self._started(command, str(runtime.program), environment, context) as checker:
                if checker.wait():
                    return lp.RunResponse(error=f"{runtime.typechecker} found problems in the program")
        environment["PULUMI_CONFIG"] = json.dumps(dict(request.config))
        environment["PULUMI_CONFIG_SECRET_KEYS"] = json.dumps(list(request.configSecretKeys))
        # The program inherits our output, which the engine shows line by line under the stack; -u keeps Python from
        # holding it back.
        executor = os.environ.get("PULUMI_SANDBOX_EXECUTOR") or str(locate.home() / "pulumi-language-python-exec")
        command = [runtime.python, "-u", executor, *program_arguments(request, self._engine)]
        with self._started(command, request.pwd, environment, context) as program:
            code = program.wait()
        if code == SHOWN:
            return lp.RunResponse(bail=True)
        return lp.RunResponse(error="the program was cancelled" if program.cancelled else ending("program", code))

    def RunPlugin(self, request: lp.RunPluginRequest, context: Context) -> Iterator[lp.RunPluginResponse]:
        """Run a plugin that is Python source: PulumiPlugin.yaml or PulumiPolicy.yaml with `runtime: python`."""
        info = lp.ProgramInfo()
        info.CopyFrom(request.info)
        uses_pip = "toolchain" not in info.options or info.options["toolchain"] == "pip"
        if request.kind != "analyzer" and uses_pip and "virtualenv" not in info.options:
            # sdk/python/cmd/pulumi-language-python/main.go, parseOptions: no plugin runs in the Python of the shell.
            info.options["virtualenv"] = "venv"
        runtime = runtime_of(info, context)
        asked = dict(entry.split("=", 1) for entry in request.env if "=" in entry)
        environment = runtime.environment({**os.environ, **asked})
        command = [runtime.python, "-u", *plugin_arguments(request)]
        with self._started(command, request.pwd, environment, context, piped=True, grace_sec=PLUGIN_GRACE) as plugin:
            for stream, data in plugin.output():
                is_error = stream == "stderr"
                yield lp.RunPluginResponse(stderr=data) if is_error else lp.RunPluginResponse(stdout=data)
            code = plugin.wait()
        yield lp.RunPluginResponse(exitcode=code if code >= 0 else 128 - code)

    def InstallDependencies(
        self, request: lp.InstallDependenciesRequest, context: Context
    ) -> Iterator[lp.InstallDependenciesResponse]:
        info = lp.ProgramInfo()
        info.CopyFrom(request.info)
        info.program_directory = info.program_directory or request.directory
        try:
            runtime = read_options(info)
            steps = list(runtime.installation())
        except OptionError as error:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
        for step in steps:
            yield lp.InstallDependenciesResponse(stdout=f"{step.title}...\n".encode())
            environment = runtime.environment(os.environ)
            with self._started(step.command, str(runtime.program), environment, context, piped=True) as installer:
                for stream, data in installer.output():
                    is_error = stream == "stderr"
                    yield lp.InstallDependenciesResponse(
                        stderr=data if is_error else b"", stdout=b"" if is_error else data
                    )
                code = installer.wait()
            if code:
                context.abort(
                    grpc.StatusCode.ABORTED, f"{step.title}: {ending('`' + ' '.join(step.command) + '`', code)}"
                )
        yield lp.InstallDependenciesResponse(stdout=b"Finished installing dependencies\n")

    def Cancel(self, request: empty_pb2.Empty, context: Context) -> empty_pb2.Empty:
        self.close()
        return empty_pb2.Empty()

    @contextlib.contextmanager
    def _started(
        self, command: list[str], cwd: str, environment: Mapping[str, str], context: Context, **how: Any
    ) -> Iterator[Guarded]:
        """A command that is ended when the call is cancelled, the host is closed, or the caller fails."""
        guarded = Guarded(command, cwd=cwd, environment=environment, **how)
        with self._lock:
            self._running.add(guarded)
        try:
            if not context.add_callback(guarded.cancel):
                guarded.cancel()  # the call had ended before the command was started
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


def ask(runtime: Runtime, script: str, context: Context) -> Any:
    try:
        return runtime.ask(script)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        text = f"{runtime.python} gave no answer about the program: {describe(error)}"
        context.abort(grpc.StatusCode.INTERNAL, text)


def serve(host: LanguageHost) -> tuple[grpc.Server, int]:
    # A call that runs a program or a plugin keeps its thread for as long as that runs.
    server = grpc.server(futures.ThreadPoolExecutor(64), options=[("grpc.max_receive_message_length", -1)])
    language_pb2_grpc.add_LanguageRuntimeServicer_to_server(host, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, port
