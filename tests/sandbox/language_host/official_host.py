"""A fake language host that runs the same commands in a program's environment as Pulumi's own host.

The commands are those of pulumi/pulumi v3.259.0, sdk/python/cmd/pulumi-language-python/main.go and
sdk/python/toolchain/*.go. The real host is a Go program that no package registry has, so it cannot run in CI.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import json_format
from pulumi.runtime.proto import language_pb2 as lp
from pulumi.runtime.proto import plugin_pb2
from pulumi_sandbox.engine.model import HOST, Engine
from pulumi_sandbox.language_host import server

# In the real host: pulumiPluginJSONPathsScript. Each argument is a distribution's name.
PLUGIN_FILES = """
import importlib.metadata, importlib.util, json, os, sys
found = {}
for name in sys.argv[1:]:
    try:
        module = importlib.metadata.distribution(name).metadata["Name"].replace("-", "_")
        spec = importlib.util.find_spec(module)
        paths = [os.path.join(each, "pulumi-plugin.json") for each in (spec.submodule_search_locations or [])]
        found[name] = next((path for path in paths if os.path.isfile(path)), "")
    except Exception:
        found[name] = ""
print(json.dumps(found))
"""


class Program:
    """A program with `toolchain: pip`, as its Pulumi.yaml has it run."""

    def __init__(self, info: lp.ProgramInfo, context: grpc.ServicerContext, *, is_plugin: bool = False) -> None:
        options = json_format.MessageToDict(info.options)
        self.context = context
        self.folder = Path(info.program_directory)
        name = options.get("virtualenv", "") or ("venv" if is_plugin else "")
        self.environment = Path(info.root_directory) / name if name else None
        ambient = shutil.which(os.environ.get("PULUMI_PYTHON_CMD", "python3")) or "python3"
        self.python = str(self.environment / "bin" / "python") if self.environment else ambient

    def call(self, *arguments: str) -> str:
        """Return the output of the program's Python. If it fails, the call of the engine fails."""
        done = subprocess.run([self.python, *arguments], capture_output=True, text=True, check=False)
        if done.returncode:
            text = f"calling `{self.python} {' '.join(arguments)}`: exit status {done.returncode}"
            self.context.abort(grpc.StatusCode.UNKNOWN, text)
        return done.stdout

    def packages(self, *options: str) -> list[dict[str, str]]:
        listed: list[dict[str, str]] = json.loads(self.call("-m", "pip", "list", *options, "--format", "json"))
        return [{**each, "name": each["name"].lower().replace("_", "-")} for each in listed]

    def ensure_environment(self) -> None:
        if self.environment and not Path(self.python).is_file():
            subprocess.run(["python3", "-m", "venv", self.environment], check=True)

    def validate_environment(self) -> None:
        if self.environment and not Path(self.python).is_file():
            self.context.abort(
                grpc.StatusCode.UNKNOWN, f"{self.environment} doesn't appear to be a virtual environment"
            )


class OfficialHost(server.LanguageHost):
    """Everything before a program runs as the real host does it; the program itself runs as in ours."""

    def GetRequiredPackages(
        self, request: lp.GetRequiredPackagesRequest, context: grpc.ServicerContext
    ) -> lp.GetRequiredPackagesResponse:
        program = Program(request.info, context)
        program.ensure_environment()
        program.call("--version")
        program.packages("-v")  # as hosts before v3.226.0 asked (pulumi/pulumi#22127)
        found = {each["name"]: each["version"] for each in program.packages()}
        files = json.loads(program.call("-c", PLUGIN_FILES, *found))
        described: list[dict[str, Any]] = []
        for name, version in found.items():
            if file := files[name]:
                described.append({"version": version, **json.loads(Path(file).read_text())})
            elif name.startswith("pulumi-") and name not in ("pulumi-policy", "pulumi-esc-sdk"):
                described.append({"resource": True, "name": name.removeprefix("pulumi-"), "version": version})
        return lp.GetRequiredPackagesResponse(
            packages=[
                plugin_pb2.PackageDependency(kind="resource", name=each["name"], version=f"v{each['version']}")
                for each in described
                if each.get("resource")
            ]
        )

    def Run(self, request: lp.RunRequest, context: grpc.ServicerContext) -> lp.RunResponse:
        Program(request.info, context).validate_environment()
        return super().Run(request, context)

    def RunPlugin(self, request: lp.RunPluginRequest, context: grpc.ServicerContext) -> Any:
        plugin = Program(request.info, context, is_plugin=request.kind != "analyzer")
        subprocess.run([plugin.python, "-c", "import pulumi.run.plugin"], capture_output=True, check=False)
        yield from super().RunPlugin(request, context)


def distribution(folder: Path, engine: Engine) -> Path:
    """A folder such as Pulumi's installer makes it: this CLI, and the host above instead of the sandbox's own."""
    folder.mkdir(parents=True)
    for name in ("pulumi", "pulumi-language-python-exec", "pulumi-resource-pulumi-python"):
        try:
            os.link(engine.folder / name, folder / name)
        except OSError:  # another file system
            shutil.copy(engine.folder / name, folder / name)
    (folder / HOST).write_text(
        f"#!/bin/sh\nPULUMI_SANDBOX_EXECUTOR='{folder}/pulumi-language-python-exec' "
        f"exec '{sys.executable}' -P '{__file__}' \"$@\"\n"
    )
    (folder / HOST).chmod(0o755)
    return folder


def main() -> None:
    from pulumi_sandbox.language_host import __main__

    __main__.protocol_only = lambda _: None
    server.LanguageHost = OfficialHost  # type: ignore[misc]
    __main__.main()


if __name__ == "__main__":
    main()
