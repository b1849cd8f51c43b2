"""Translate between the engine's messages and the commands that run a program."""

from __future__ import annotations

import base64

from google.protobuf import json_format
from pulumi.runtime.proto import language_pb2 as lp
from pulumi.runtime.proto import plugin_pb2

from pulumi_sandbox.language_host.interpreters import Runtime


def read_options(info: lp.ProgramInfo) -> Runtime:
    return Runtime.of(info.root_directory, info.program_directory, json_format.MessageToDict(info.options))


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


def exit_message(subject: str, code: int) -> str:
    """Return the official host's text for an exit code, or an empty string for exit code 0.

    The official host reports -1 for a signal. This text adds the number of the signal.
    """
    if code == 0:
        return ""
    by_signal = f" (signal {-code})" if code < 0 else ""
    return f"{subject} exited with non-zero exit code: {max(code, -1)}{by_signal}"
