"""Build the tools for other languages that a CLI from Go modules lacks: the SDK generator, and the YAML language host.

An official CLI has both tools in its folder. Each tool is built when a command first needs it, and again when its
pinned versions change.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pulumi_sandbox.engine import build, locate
from pulumi_sandbox.engine.model import EngineError, SourceError, read_json, write_whole
from pulumi_sandbox.progress import Progress


@dataclass(frozen=True)
class Tool:
    """A Go program of a folder of tools/."""

    name: str
    folder: str
    package: str
    title: str

    @property
    def source(self) -> Path:
        return build.module_folder().parent / self.folder

    @property
    def digest(self) -> str:
        """The SHA-256 of what is built: the pins and the program's own files."""
        files = sorted(file for ending in ("*.go", "go.mod", "go.sum") for file in self.source.glob(ending))
        return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


SDKGEN = Tool("sdkgen", "sdkgen", ".", "the generator of Pulumi SDKs")
YAML_HOST = Tool(
    "pulumi-language-yaml",
    "yaml",
    "github.com/pulumi/pulumi-yaml/cmd/pulumi-language-yaml",
    "Pulumi's language host for YAML",
)
TOOLS = (SDKGEN, YAML_HOST)


def ensure(tool: Tool, say: Callable[[str], None]) -> Path:
    """Return the tool's executable in the engine folder, after a build if it is missing or outdated."""
    home = locate.home()
    executable, stamp = home / tool.name, home / f"{tool.name}.json"

    def is_current() -> bool:
        return os.access(executable, os.X_OK) and read_json(stamp).get("sha256") == tool.digest

    if not (tool.source / "go.mod").is_file():
        raise EngineError(
            f"{tool.title} cannot be built\n  got: {tool.source / 'go.mod'} is missing\n"
            "  expected: a checkout of this repository, or an official Pulumi CLI\n"
            "  hint: install Pulumi with its own installer and put it on PATH"
        )
    if is_current():
        return executable
    with build.installation_lock(home, say):
        if not is_current():  # another process may have built it while this one waited for the lock
            compile_tool(tool, executable, say)
            write_whole(stamp, json.dumps({"sha256": tool.digest}) + "\n")
    return executable


def compile_tool(tool: Tool, executable: Path, say: Callable[[str], None]) -> None:
    go = shutil.which("go")
    if go is None:
        raise EngineError(
            f"{tool.title} cannot be built\n  got: there is no `go` on PATH\n"
            f"  hint: install Go (see the `go` line of tools/{tool.folder}/go.mod for the version)"
        )
    draft = executable.with_name(f"{tool.name}.{os.getpid()}.partial")
    say(f"building {tool.title}; the first build takes minutes, and an interrupted build can be resumed")
    try:
        with Progress(f"building {tool.title}", say) as progress:
            build.compile_package(go, tool.source, tool.package, draft, progress)
        draft.replace(executable)
    except SourceError as error:
        raise EngineError(f"{tool.title} cannot be built\n  got: {error.reason}\n  hint: {error.hint}") from error
    finally:
        draft.unlink(missing_ok=True)
