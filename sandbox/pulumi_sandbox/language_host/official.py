"""Prepare a project for Pulumi's own Python language host: check for pip, and install the provider of each SDK.

The host is part of the official CLI. Before every `up` and `preview` it lists the packages of the program's
environment. The engine then looks for a plugin of each Pulumi SDK among them (pulumi/pulumi v3.259.0,
sdk/python/cmd/pulumi-language-python/main.go, GetRequiredPackages).
"""

from __future__ import annotations

import shlex
import subprocess
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from pulumi_sandbox import plugins
from pulumi_sandbox.language_host.interpreters import PACKAGES, OptionError, Runtime, nearest_folder_with, options_file
from pulumi_sandbox.stacks import project_settings
from pulumi_sandbox.workspace import Workspace

# The lock files from which the host reads the packages instead of pip (sdk/python/toolchain/uv.go and poetry.go).
LOCK_FILES = {"uv": "uv.lock", "poetry": "poetry.lock"}

HAS_PIP = "import importlib.util, json; print(json.dumps(importlib.util.find_spec('pip') is not None))"


def prepare(workspace: Workspace, environment: Mapping[str, str], policy_packs: Sequence[Path] = ()) -> str:
    """Install the providers that a program requires. `environment` holds the program's environment variables.

    Returns:
        The message for the user if the host would fail or hang; otherwise an empty string. The host itself reports a
        missing environment of the program and an unknown option.
    """
    for pack in policy_packs:
        if problem := missing_environment_message(pack):
            return problem
    try:
        runtime = runtime_of(workspace.project, project_settings(workspace.project))
        if runtime is None:
            return ""
        if runtime.toolchain == "pip" and not runtime.run_script(HAS_PIP, variables=environment):
            return no_pip_message(runtime)
        for name, version in sdk_versions(runtime, environment).items():
            plugins.install_if_known(name, version, workspace.home)
    except OptionError:
        return ""  # the host itself reports the option
    except (OSError, ValueError, RecursionError, subprocess.SubprocessError):
        return ""  # the environment is missing, its Python does not run, or the lock file is not TOML
    return ""


def missing_providers(workspace: Workspace, environment: Mapping[str, str]) -> list[str]:
    """Return NAME VERSION of each SDK in the program's environment whose provider the sandbox does not have."""
    try:
        runtime = runtime_of(workspace.project, project_settings(workspace.project))
        found = runtime.run_script(PACKAGES, variables=environment) if runtime else []
    except (OptionError, OSError, ValueError, RecursionError, subprocess.SubprocessError):
        return []
    sdks = [(str(each.get("name")), str(each.get("version"))) for each in found if each.get("resource")]
    return [
        f"{name} {version}"
        for name, version in sdks
        if name not in plugins.PROVIDERS and not plugins.plugin_folder(workspace.home, name, version).is_dir()
    ]


def missing_environment_message(pack: Path) -> str:
    """Return the message for a policy pack without its environment. The engine would wait forever for such a pack."""
    try:
        settings = yaml.safe_load((pack / "PulumiPolicy.yaml").read_text())
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return ""  # the engine itself reports a broken file
    try:
        runtime = runtime_of(pack.resolve(), settings if isinstance(settings, dict) else {})
        if runtime and runtime.toolchain != "poetry":
            runtime.check()
    except OptionError as error:
        return str(error)
    return ""


def runtime_of(project: Path, settings: Mapping[str, Any]) -> Runtime | None:
    """Return the runtime of a project, or None if the project is not in Python. Raise OptionError for wrong options."""
    runtime = settings.get("runtime")
    name, options = (runtime.get("name"), runtime.get("options")) if isinstance(runtime, dict) else (runtime, None)
    main = settings.get("main")
    if name != "python":
        return None
    program = (project / main).resolve() if isinstance(main, str) else project
    return Runtime.of(str(project), str(program), options if isinstance(options, dict) else {})


def sdk_versions(runtime: Runtime, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the versions of the Pulumi SDKs that the host will find, by provider."""
    name = LOCK_FILES.get(runtime.toolchain, "")
    if name and (folder := nearest_folder_with(runtime.program, name)):
        packages = tomllib.loads((folder / name).read_text()).get("package")
        prefix = "pulumi-"
    else:
        packages, prefix = runtime.run_script(PACKAGES, variables=environment), ""
    descriptions = [package for package in packages if isinstance(package, dict)] if isinstance(packages, list) else []
    version_of = {package.get("name"): package.get("version") for package in descriptions}
    return {name: str(version_of[prefix + name]) for name in plugins.PROVIDERS if version_of.get(prefix + name)}


def no_pip_message(runtime: Runtime) -> str:
    place = f"runtime.options.virtualenv: {runtime.environment_folder}" if runtime.option else runtime.python
    return (
        f"{options_file(runtime.root)}: {place}: has no pip\n"
        "  got: an environment without pip, such as `uv venv` creates\n"
        "  expected: an environment with pip, because Pulumi's Python language host lists the program's packages with "
        "`python -m pip list`\n"
        f"  hint: run `uv pip install --python {shlex.quote(runtime.python)} pip`, or set `toolchain: uv` in "
        f"{options_file(runtime.root)} if the project has a uv.lock"
    )
