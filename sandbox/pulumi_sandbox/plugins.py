"""Installs the offline providers as ordinary plugins into the sandbox's PULUMI_HOME."""

from __future__ import annotations

import os
import re
import shlex
import sys
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from pulumi_sandbox.engine.model import write_whole
from pulumi_sandbox.workspace import Workspace

if TYPE_CHECKING:
    from pulumi.runtime.proto import plugin_pb2

# The emulated clouds. Each has a folder in providers/ and a package `pulumi-<name>`.
PROVIDERS = tuple(sorted(file.parent.name for file in (Path(__file__).parent / "providers").glob("*/provider.py")))
# The version becomes the name of a folder, and it comes from a file of the program.
VERSION = re.compile(r"v?[0-9][0-9A-Za-z.+-]{0,99}")
# The environment variable that passes the version of the program's SDK to a provider of another version.
PROGRAM_SDK_VERSION = "PULUMI_SANDBOX_SDK_VERSION"


def sdk_version(name: str) -> str | None:
    """Return the version of the installed SDK. The engine requires a provider of the same version."""
    try:
        return metadata.version(f"pulumi-{name}")
    except metadata.PackageNotFoundError:
        return None


def plugin_folder(home: Path, name: str, version: str) -> Path:
    return home / "plugins" / f"resource-{name}-v{version}"


def install_if_known(name: str, version: str, home: Path | None = None) -> bool:
    """Install an offline provider under this version of its SDK. Return True if the engine finds the plugin then.

    `home` defaults to PULUMI_HOME.
    """
    if not VERSION.fullmatch(version):
        return False
    home = home or Path(os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi")
    folder = plugin_folder(home, name, version.removeprefix("v"))
    if not folder.is_dir() and name in PROVIDERS and sdk_version(name):
        write_whole(folder / f"pulumi-resource-{name}", launcher(name, version.removeprefix("v")), 0o755)
    return folder.is_dir()


def installable(packages: list[plugin_pb2.PackageDependency]) -> list[plugin_pb2.PackageDependency]:
    """Return the packages whose plugin the engine finds, or may download."""
    if os.environ.get("PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION", "").lower() in ("1", "true"):
        return [package for package in packages if install_if_known(package.name, package.version)]
    return packages


def install(workspace: Workspace) -> dict[str, str]:
    """Install a plugin for each installed SDK, and return the installed versions."""
    installed = {name: version for name in PROVIDERS if (version := sdk_version(name))}
    for name, version in installed.items():
        folder = plugin_folder(workspace.home, name, version)
        write_whole(folder / f"pulumi-resource-{name}", launcher(name, version), 0o755)
    return installed


def launcher(name: str, version: str) -> str:
    variable = "" if version == sdk_version(name) else f"{PROGRAM_SDK_VERSION}={shlex.quote(version)} "
    return (
        "#!/bin/sh\n"
        f"# pulumi-sandbox's offline provider for {name}; -P keeps the project's own modules from shadowing ours.\n"
        f'{variable}exec {shlex.quote(sys.executable)} -P -m pulumi_sandbox.providers {name} "$@"\n'
    )
