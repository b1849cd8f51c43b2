"""The Node.js language host. It runs TypeScript and JavaScript programs with the npm package `@pulumi/pulumi`.

It has what the TypeScript examples need: `up`, `preview`, `install` with npm, and SDKs of components. Pulumi's own host
also has other package managers, `about`, plugins and policy packs.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import json_format
from pulumi.runtime.proto import language_pb2 as lp
from pulumi.runtime.proto import plugin_pb2

from pulumi_sandbox.engine.model import failure_reason
from pulumi_sandbox.language_host.host import Context, Host, dependency, exit_message, only_official
from pulumi_sandbox.plugins import installable

# The exit code of cmd/run after it has shown the error to the user.
SHOWN = 32


class ProgramError(Exception):
    """The program cannot run on this computer as it is."""


class NodejsHost(Host):
    """The language host of Node.js programs."""

    LANGUAGE = "nodejs"

    GenerateProgram = only_official("TypeScript code (convert, import)")
    GenerateProject = only_official("a TypeScript project (convert)")
    Pack = only_official("a TypeScript package file (package pack-sdk)")

    def GetRequiredPackages(
        self, request: lp.GetRequiredPackagesRequest, context: Context
    ) -> lp.GetRequiredPackagesResponse:
        packages = [sdk(found) for found in installed_packages(Path(request.info.program_directory))]
        return lp.GetRequiredPackagesResponse(packages=installable([found for found in packages if found]))

    def Run(self, request: lp.RunRequest, context: Context) -> lp.RunResponse:
        options = options_of(request.info)
        try:
            node = program_of("node")
            executor = self._executor(node, request.info.program_directory)
        except (ProgramError, OSError) as error:
            return lp.RunResponse(error=failure_reason(error))
        environment = {
            **os.environ,
            # The names of the keys have had this form since the first Node.js SDK.
            "PULUMI_CONFIG": json.dumps(
                {key.replace(":", ":config:", 1): each for key, each in request.config.items()}
            ),
            "PULUMI_CONFIG_SECRET_KEYS": json.dumps(list(request.configSecretKeys)),
        }
        if options.get("typescript", True):
            environment["PULUMI_NODEJS_TYPESCRIPT"] = "true"
        if "tsconfig" in options:
            environment["PULUMI_NODEJS_TSCONFIG_PATH"] = str(options["tsconfig"])
        command = [node, *shlex.split(options.get("nodeargs", "")), executor, *program_arguments(request, self._engine)]
        with self._started(command, request.info.program_directory, environment, context) as program:
            code = program.wait()
        if code == SHOWN:
            return lp.RunResponse(bail=True)
        return lp.RunResponse(error="the program was cancelled" if program.cancelled else exit_message("program", code))

    def _executor(self, node: str, folder: str) -> str:
        """Return the path of the SDK's program that runs a user's program, as the user's program would resolve it."""
        script = "console.log(require.resolve('@pulumi/pulumi/cmd/run'))"
        answer = subprocess.run([node, "-e", script], cwd=folder, capture_output=True, text=True, check=False)
        if answer.returncode:
            raise ProgramError(
                f"{folder}: the npm package @pulumi/pulumi is not installed\n"
                "  hint: run `npm install` in this folder, or `pulumi install`"
            )
        return answer.stdout.strip()

    def InstallDependencies(
        self, request: lp.InstallDependenciesRequest, context: Context
    ) -> Iterator[lp.InstallDependenciesResponse]:
        folder = request.info.program_directory or request.directory
        try:
            command = [program_of("npm"), "install"]
        except ProgramError as error:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
        yield lp.InstallDependenciesResponse(stdout=b"Installing dependencies...\n")
        with self._started(command, folder, os.environ, context, piped=True) as installer:
            for stream, data in installer.output():
                is_error = stream == "stderr"
                yield lp.InstallDependenciesResponse(stderr=data if is_error else b"", stdout=b"" if is_error else data)
            code = installer.wait()
        if code:
            context.abort(grpc.StatusCode.ABORTED, exit_message(f"`{' '.join(command)}`", code))
        yield lp.InstallDependenciesResponse(stdout=b"Finished installing dependencies\n")


def options_of(info: lp.ProgramInfo) -> dict[str, Any]:
    return dict(json_format.MessageToDict(info.options))


def program_of(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise ProgramError(
            f"there is no `{name}` on PATH\n  expected: Node.js 22 or newer, with its package manager\n"
            "  hint: install Node.js (https://nodejs.org)"
        )
    return found


def installed_packages(folder: Path) -> list[dict[str, Any]]:
    """Return the package.json of each package in node_modules, with a `name`."""
    found = []
    for pattern in ("*/package.json", "@*/*/package.json"):
        for file in sorted((folder / "node_modules").glob(pattern)):
            content = read(file)
            if isinstance(content.get("name"), str):
                found.append(content)
    return found


def sdk(package: dict[str, Any]) -> plugin_pb2.PackageDependency | None:
    """Return the Pulumi plugin that belongs to an npm package, or None if the package is not a Pulumi SDK."""
    described = package.get("pulumi")
    if not isinstance(described, dict):
        return None
    version = str(described.get("version") or package.get("version", "")).removeprefix("v")
    name = described.get("name") or str(package["name"]).removeprefix("@pulumi/")
    return dependency({**described, "name": name, "version": version})


def read(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def program_arguments(request: lp.RunRequest, engine_address: str) -> list[str]:
    """Return the arguments of the SDK's cmd/run, without empty ones: cmd/run would use them as values."""
    named = {
        "monitor": request.monitor_address,
        "engine": engine_address,
        "organization": request.organization,
        "project": request.project,
        "root-directory": request.info.root_directory,
        "stack": request.stack,
        "pwd": request.info.program_directory,
        "parallel": str(request.parallel),
    }
    options = [part for name, value in named.items() if value for part in (f"--{name}", value)]
    return [*options, *(["--dry-run"] if request.dryRun else []), request.info.entry_point or ".", *request.args]
