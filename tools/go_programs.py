"""Builds programs of other projects for the tests, from the Go modules of a folder of tools/.

Programs are built once for each go.mod. The build has the lowest priority and compiles one package at a time, so that
it needs less than 2 GB of memory. This module uses only the standard library, like the installer.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import install

_ENVIRONMENT = {"CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false", "GOWORK": "off"}


@dataclass(frozen=True)
class Programs:
    """Programs with one go.mod.

    Attributes:
        title: The name in messages.
        modules: The folder of go.mod.
        home: The folder of the built programs.
        source: The file that describes how they are built.
    """

    title: str
    modules: Path
    home: Path
    source: Path

    def log(self, text: str) -> None:
        print(f"{self.title}: {text}", flush=True)

    def fail(self, problem: str, *lines: str) -> None:
        sys.exit("\n".join([f"{self.title}: {problem}", *(f"  {line}" for line in lines)]))

    def stamp(self) -> str:
        """Return the content of the stamp of a current build."""
        return install.fingerprint(self.modules / "go.mod", self.modules / "go.sum", self.source, Path(__file__))

    def facts(self, module: str, form: str) -> str:
        """Return facts of a module in the form of `go list`, such as {{.Version}} or {{.Dir}}."""
        command = ["go", "list", "-C", str(self.modules), "-m", "-f", form, module]
        with install.started(command, env={**os.environ, **_ENVIRONMENT}, stdout=subprocess.PIPE) as process:
            output, _ = process.communicate()
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
        return str(output).strip()

    def compile(self, into: Path, *packages: str, linked: str = "-s -w") -> None:
        """Build packages, each with the last segment of its path that is not a version as the name of its program."""
        into.mkdir(parents=True, exist_ok=True)
        command = ["nice", "-n", "19", "go", "build", "-C", self.modules, "-p", "1"]
        command += ["-trimpath", "-ldflags", linked, "-o", into, *packages]
        with install.started(command, env={**os.environ, **_ENVIRONMENT}) as process:
            code = process.wait()
        if code:
            raise subprocess.CalledProcessError(code, [str(argument) for argument in command])

    def main(self, build: Callable[[], None]) -> None:
        """Build the programs, unless they are current."""
        try:
            with install.installer_lock():
                self._build(build)
        except subprocess.CalledProcessError as error:
            self.fail(
                f"`{' '.join(map(str, error.cmd))}` exits with {error.returncode}",
                "its output is above; an incomplete build will not be used",
                f"hint: check `go version` against tools/{self.modules.name}/go.mod, "
                "and that `go env GOPROXY` can be reached",
            )
        except OSError as error:
            self.fail(f"{error.strerror}: {error.filename}", "hint: the checkout must be a writable folder")
        except KeyboardInterrupt:
            self.fail("stopped; call make again to continue")

    def _build(self, build: Callable[[], None]) -> None:
        stamp = self.home / install.STAMP
        if stamp.is_file() and stamp.read_text() == self.stamp():
            return
        if shutil.which("go") is None:
            self.fail(
                "no `go` on PATH",
                f"expected: the version in the `go` line of tools/{self.modules.name}/go.mod, or a newer one",
                "hint: https://go.dev/doc/install",
            )
        began = time.monotonic()
        shutil.rmtree(self.home, ignore_errors=True)
        self.home.mkdir()
        build()
        stamp.write_text(self.stamp())
        self.log(f"{self.home.name} is ready after {time.monotonic() - began:.0f} s")
