"""Choose the Python of a program by the runtime options of Pulumi.yaml."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pulumi_sandbox.workspace import ambient_python

TOOLCHAINS = ("pip", "poetry", "uv")
INSTALL_HINT = (
    "create the environment with `python3 -m venv`, and run `python -m pip install -r requirements.txt` in it; "
    "or run `uv sync` for a project of uv"
)


class OptionError(Exception):
    """The runtime options of a project are not valid."""


def option_error(root: Path, option: str, text: str, got: object, expected: str, hint: str = "") -> OptionError:
    lines = [f"{options_file(root)}: runtime.options.{option}: {text}", f"  got: {got!r}", f"  expected: {expected}"]
    return OptionError("\n".join([*lines, f"  hint: {hint}"] if hint else lines))


def options_file(root: Path) -> str:
    """Return the name of the file with the runtime options of a program, a plugin or a policy pack."""
    return next((name for name in ("PulumiPolicy.yaml", "PulumiPlugin.yaml") if (root / name).is_file()), "Pulumi.yaml")


@dataclass(frozen=True)
class Runtime:
    """The Python of one program."""

    root: Path
    program: Path
    environment_folder: Path | None  # None: no virtual environment is configured
    option: str
    toolchain: str

    @classmethod
    def of(cls, root: str, program: str, options: Mapping[str, Any]) -> Runtime:
        """Read the options as the official host reads them: `virtualenv` is relative to the folder of Pulumi.yaml."""
        known = {"virtualenv", "toolchain"}
        root_folder = Path(root or program)
        for name, value in options.items():
            if name in known and not isinstance(value, str):
                raise option_error(root_folder, name, "not a string", value, "a string")
        program_folder = Path(program or root)
        toolchain = options.get("toolchain", "") or detected_toolchain(program_folder)
        if toolchain not in TOOLCHAINS:
            raise option_error(root_folder, "toolchain", "unknown toolchain", toolchain, ", ".join(TOOLCHAINS))
        option = options.get("virtualenv", "")
        folder = root_folder / option if option else None
        if folder is None and toolchain == "uv":
            home = (
                nearest_folder_with(program_folder, "uv.lock")
                or nearest_folder_with(program_folder, "pyproject.toml")
                or program_folder
            )
            folder = home / os.environ.get("UV_PROJECT_ENVIRONMENT", ".venv")
        return cls(root_folder, program_folder, folder, option, toolchain)

    @property
    def python(self) -> str:
        if self.environment_folder is None:
            return ambient_python()
        return str(self.environment_folder / "bin" / "python")

    def check(self) -> None:
        """Raise OptionError if the virtual environment is missing, or if only the official host can run the program."""
        if self.toolchain == "poetry":
            text, expected = "needs the official Pulumi CLI", "pip or uv, or an official Pulumi CLI on PATH"
            raise option_error(self.root, "toolchain", text, "poetry", expected)
        if self.environment_folder is not None and not Path(self.python).is_file():
            state = "is not a virtual environment" if self.environment_folder.exists() else "does not exist"
            raise option_error(
                self.root,
                "virtualenv",
                f"{self.environment_folder} {state}",
                self.option or str(self.environment_folder),
                f"a folder that `python3 -m venv` created, relative to the folder of {options_file(self.root)}",
                INSTALL_HINT,
            )

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """Return the environment variables of `base` with the virtual environment activated."""
        result = dict(base)
        if self.environment_folder is not None:
            result["PATH"] = os.pathsep.join([str(self.environment_folder / "bin"), result.get("PATH", os.defpath)])
            result["VIRTUAL_ENV"] = str(self.environment_folder)
            result.pop("PYTHONHOME", None)
        return result

    def run_script(self, script: str, timeout: float = 60, variables: Mapping[str, str] | None = None) -> Any:
        """Run a Python script in the program's interpreter and return the JSON that it prints.

        `variables` are the environment variables; the default is those of this process.
        """
        # The folder of the program is removed from sys.path, because the program's modules must not be imported.
        # Python 3.10 does not have the option -P.
        without_program_folder = "import sys; sys.path = [each for each in sys.path if each]; "
        process = subprocess.run(
            [self.python, "-c", without_program_folder + script],
            capture_output=True, text=True, timeout=timeout, check=True,
            env=self.environment(os.environ if variables is None else variables),
            cwd=self.program if self.program.is_dir() else None,
        )  # fmt: skip
        return json.loads(process.stdout)


def detected_toolchain(program: Path) -> str:
    """Return the toolchain of a program whose Pulumi.yaml names none.

    Source: sdk/python/toolchain/toolchain.go, ResolveToolchain.
    """
    return next((tool for tool in ("uv", "poetry") if nearest_folder_with(program, f"{tool}.lock")), "pip")


def nearest_folder_with(start: Path, name: str) -> Path | None:
    """Return the nearest folder that holds the file: `start` or one of its parents."""
    return next((folder for folder in (start, *start.parents) if (folder / name).is_file()), None)


# Run in the program's interpreter. Prints the pulumi-plugin.json of each installed Pulumi SDK.
PACKAGES = """
import json, os, sys

found = {}
for folder in sys.path:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        continue
    for entry in entries:
        path = os.path.join(entry.path, "pulumi-plugin.json")
        if entry.name in found or not os.path.isfile(path):
            continue
        try:
            with open(path) as file:
                found[entry.name] = json.load(file)
        except (OSError, ValueError):
            pass
print(json.dumps(list(found.values())))
"""
