"""What Pulumi's own Python language host needs before it runs a program: pip, and a provider for each installed SDK.

The host comes with the official CLI. Before every `up` and `preview` it lists the packages of the program's
environment, and the engine then looks for a plugin of each Pulumi SDK among them (pulumi/pulumi v3.259.0,
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
from pulumi_sandbox.language_host.interpreters import PACKAGES, OptionError, Runtime, above, manifest
from pulumi_sandbox.stacks import project_settings
from pulumi_sandbox.workspace import Workspace

# The files that the host reads the packages from, where pip is not asked (sdk/python/toolchain/uv.go and poetry.go).
LOCKS = {"uv": "uv.lock", "poetry": "poetry.lock"}

HAS_PIP = "import importlib.util, json; print(json.dumps(importlib.util.find_spec('pip') is not None))"


def prepare(workspace: Workspace, environment: Mapping[str, str], policy_packs: Sequence[Path] = ()) -> str:
    """Install the providers that a program will ask for. `environment` is the one that the program will run in.

    Returns:
        The message for the user where the host would fail, or wait for ever; empty where it would not. What the host
        reports well itself (a program's environment that is missing, an option that is unknown) is left to it.
    """
    for pack in policy_packs:
        if problem := missing_environment(pack):
            return problem
    try:
        runtime = runtime_of(workspace.project, project_settings(workspace.project))
        if runtime is None:
            return ""
        if runtime.toolchain == "pip" and not runtime.ask(HAS_PIP, around=environment):
            return without_pip(runtime)
        for name, version in sdks(runtime, environment).items():
            plugins.offer(name, version, workspace.home)
    except OptionError:
        return ""  # the host refuses the option itself
    except (OSError, ValueError, RecursionError, subprocess.SubprocessError):
        return ""  # no environment yet, one whose Python does not run, or a lock that is no TOML
    return ""


def missing_environment(pack: Path) -> str:
    """The message for a policy pack without its environment: the engine would wait for the pack, which never starts."""
    try:
        settings = yaml.safe_load((pack / "PulumiPolicy.yaml").read_text())
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return ""  # the engine says what it expects of a pack
    try:
        runtime = runtime_of(pack.resolve(), settings if isinstance(settings, dict) else {})
        if runtime:
            runtime.check()
    except OptionError as error:
        return str(error)
    return ""


def runtime_of(project: Path, settings: Mapping[str, Any]) -> Runtime | None:
    """How a project's file has it run; None for one in another language, OptionError for wrong options."""
    runtime = settings.get("runtime")
    name, options = (runtime.get("name"), runtime.get("options")) if isinstance(runtime, dict) else (runtime, None)
    main = settings.get("main")
    if name != "python":
        return None
    program = (project / main).resolve() if isinstance(main, str) else project
    return Runtime.of(str(project), str(program), options if isinstance(options, dict) else {})


def sdks(runtime: Runtime, environment: Mapping[str, str]) -> dict[str, str]:
    """The versions of the Pulumi SDKs that the host will find, by provider."""
    name = LOCKS.get(runtime.toolchain, "")
    if name and (folder := above(runtime.program, name)):
        packages = tomllib.loads((folder / name).read_text()).get("package")
        prefix = "pulumi-"
    else:
        packages, prefix = runtime.ask(PACKAGES, around=environment), ""
    named = [each for each in packages if isinstance(each, dict)] if isinstance(packages, list) else []
    found = {each.get("name"): each.get("version") for each in named}
    return {name: str(found[prefix + name]) for name in plugins.PROVIDERS if found.get(prefix + name)}


def without_pip(runtime: Runtime) -> str:
    where = f"runtime.options.virtualenv: {runtime.environment_folder}" if runtime.option else runtime.python
    return (
        f"{manifest(runtime.root)}: {where}: has no pip\n"
        "  got: an environment such as `uv venv` makes it\n"
        "  expected: pip in it, because Pulumi's Python language host lists the program's packages with "
        "`python -m pip list`\n"
        f"  hint: uv pip install --python {shlex.quote(runtime.python)} pip; or `toolchain: uv` in "
        f"{manifest(runtime.root)}, for a project with a uv.lock"
    )
