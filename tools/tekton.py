"""Builds Tekton's controllers, webhooks and listener for `make test-tekton`, from the Go modules of tools/tekton.

    python3 tools/tekton.py

The programs are built once for each version in go.mod, at the lowest priority and one package at a time, into .tekton.
A folder `config` there has the objects with which Tekton is installed. This module uses only the standard library.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import install

MODULES = install.ROOT / "tools" / "tekton"
HOME = install.ROOT / ".tekton"
ORGANIZATION = "github.com/tektoncd"
# The name of each program, because both modules have a controller and a webhook.
PROGRAMS = {
    "entrypoint": "pipeline/cmd/entrypoint",
    "pipeline-controller": "pipeline/cmd/controller",
    "pipeline-webhook": "pipeline/cmd/webhook",
    "triggers-controller": "triggers/cmd/controller",
    "triggers-webhook": "triggers/cmd/webhook",
    "interceptors": "triggers/cmd/interceptors",
    "eventlistenersink": "triggers/cmd/eventlistenersink",
}
ENVIRONMENT = {"CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false -p=1", "GOWORK": "off"}


def log(text: str) -> None:
    print(f"tekton: {text}", flush=True)


def fail(problem: str, *lines: str) -> None:
    sys.exit("\n".join([f"tekton: {problem}", *(f"  {line}" for line in lines)]))


def _run(*command: object) -> None:
    with install.started(["nice", "-n", "19", *map(str, command)], env={**os.environ, **ENVIRONMENT}) as process:
        code = process.wait()
    if code:
        raise subprocess.CalledProcessError(code, [str(each) for each in command])


def build(go: str, into: Path) -> None:
    for number, (name, package) in enumerate(PROGRAMS.items(), 1):
        log(f"building {name} ({number} of {len(PROGRAMS)}); all together take three minutes or more, once")
        _run(
            go, "build", "-C", MODULES, "-trimpath", "-ldflags", "-s -w", "-o", into / name, f"{ORGANIZATION}/{package}"
        )
    for module in ("pipeline", "triggers"):
        command = [go, "list", "-C", str(MODULES), "-m", "-f", "{{.Dir}}", f"{ORGANIZATION}/{module}"]
        folder = subprocess.run(command, env={**os.environ, **ENVIRONMENT}, check=True, capture_output=True, text=True)
        shutil.copytree(Path(folder.stdout.strip()) / "config", into / "config" / module)


def main() -> None:
    stamp = HOME / install.STAMP
    expected = install.fingerprint(MODULES / "go.mod", MODULES / "go.sum", Path(__file__))
    if stamp.is_file() and stamp.read_text() == expected:
        return
    go = shutil.which("go")
    if go is None:
        fail(
            "no `go` on PATH",
            "expected: the version in tools/tekton/go.mod, or a newer one",
            "hint: https://go.dev/doc/install",
        )
        return
    began = time.monotonic()
    shutil.rmtree(HOME, ignore_errors=True)
    HOME.mkdir()
    build(go, HOME)
    stamp.write_text(expected)
    log(f"{HOME.name} is ready after {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    try:
        with install.installer_lock():
            main()
    except subprocess.CalledProcessError as error:
        fail(
            f"`{' '.join(error.cmd)}` exits with {error.returncode}", "its output is above; call make again to continue"
        )
    except OSError as error:
        fail(f"{error.strerror}: {error.filename}", "hint: the checkout must be a writable folder")
    except KeyboardInterrupt:
        fail("stopped; call make again to continue")
