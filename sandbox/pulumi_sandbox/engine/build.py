"""Build the Pulumi CLI from the Go modules that tools/engine/go.mod pins."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from pulumi_sandbox.engine.model import (
    HOST,
    VERSION,
    Engine,
    SourceError,
    ask_version,
    failure_reason,
    write_whole,
)
from pulumi_sandbox.engine.progress import progress

CLI = "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"
SDK = "github.com/pulumi/pulumi/sdk/v3"
FLAGS = (
    "-trimpath",  # keeps local paths out of the binary
    "-tags", "osusergo grpcnotrace",
    "-ldflags", f"-s -w -X {SDK}/go/common/version.Version=v{VERSION}",
)  # fmt: skip

# The content is the same for every Python environment that shares the engine folder. With the path of an interpreter in
# it, each of two environments would rewrite the launcher of the other one, and an isolated process sees the folder
# read-only. -P keeps the project's own modules from shadowing the host's.
LAUNCHER = r"""#!/bin/sh
# Starts pulumi_sandbox's language host.
if ! [ -x "${{PULUMI_SANDBOX_PYTHON:-}}" ]; then
  cat >&2 <<END
{host}: PULUMI_SANDBOX_PYTHON: not the Python interpreter of pulumi-sandbox
  got: ${{PULUMI_SANDBOX_PYTHON:-(not set)}}
  expected: the value that \`pulumi-sandbox env\` prints
  hint: eval "\$(pulumi-sandbox env)"
END
  exit 1
fi
PULUMI_SANDBOX_EXECUTOR=${{PULUMI_SANDBOX_EXECUTOR:-${{0%/*}}/pulumi-language-python-exec}} \
  exec "$PULUMI_SANDBOX_PYTHON" -P -m pulumi_sandbox.language_host "$@"
"""

# Scripts of the SDK's Go module. The official distribution ships them in the CLI's folder.
SDK_SCRIPTS = ("python/cmd/pulumi-language-python-exec", "python/dist/pulumi-resource-pulumi-python")


def module_folder() -> Path:
    """Return the folder of go.mod: inside the installed package, or in the checkout."""
    packaged = Path(__file__).parent / "module"  # pyproject.toml puts tools/engine there in the wheel
    if packaged.is_dir():
        return packaged
    return Path(__file__).resolve().parents[3] / "tools" / "engine"


@contextlib.contextmanager
def installation_lock(home: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock of the engine folder. The kernel releases the lock when the process ends, also after a crash."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            say("another command is installing the Pulumi CLI; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def build(home: Path, say: Callable[[str], None]) -> Engine:
    """Compile the CLI and put it into the engine folder.

    A build without a Go cache takes 3 minutes and 1.8 GB of memory on 2 cores.
    """
    modules = module_folder()
    if not (modules / "go.mod").is_file():
        raise SourceError(
            f"{modules / 'go.mod'} is missing",
            "run from a checkout, or install Pulumi by hand and put it on PATH",
        )
    go = shutil.which("go")
    if go is None:
        raise SourceError(
            "there is no `go` on PATH", "install Go (see the `go` line of tools/engine/go.mod for the version)"
        )
    for leftover in home.glob("pulumi.*.partial"):
        leftover.unlink(missing_ok=True)
    draft = home / f"pulumi.{os.getpid()}.partial"
    say("no installed Pulumi CLI can be used; building one takes minutes, and an interrupted build can be resumed")
    try:
        with progress("building the Pulumi CLI", say) as show:
            compile_cli(go, modules, draft, show)
        if ask_version(draft) != VERSION:
            raise SourceError(
                f"the built CLI reports version {ask_version(draft)}, not {VERSION}", "report this as a bug"
            )
        copy_sdk_scripts(go, modules, home)
        write_launcher(home)
        draft.replace(home / "pulumi")
    finally:
        draft.unlink(missing_ok=True)
    return Engine(home, VERSION, "build")


def compile_cli(go: str, modules: Path, draft: Path, show: Callable[[str], None]) -> None:
    """Compile the CLI of the module in `modules` to the file `draft`.

    `-v` prints a line for each module that go fetches and for the import path of each package that it compiles.
    """
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false", "GOWORK": "off"}
    errors: list[str] = []
    compiled = 0
    with subprocess.Popen(
        [go, "build", "-v", *FLAGS, "-o", str(draft), CLI], cwd=modules, env=environment, text=True, errors="replace",
        stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stderr is not None  # noqa: S101
        try:
            for line in map(str.strip, process.stderr):
                if line.startswith("go: downloading "):
                    show(f"fetching {line.removeprefix('go: downloading ')}")
                elif line and " " not in line and not line.endswith(":"):
                    compiled += 1
                    show(f"compiling {line} ({compiled} packages)")
                elif line and not line.startswith("#"):
                    errors.append(line)
        except BaseException:
            process.terminate()  # the Go cache keeps the packages compiled so far
            raise
        if process.wait() != 0:
            raise SourceError(
                f"`go build` failed: {'; '.join(errors[:3]) or f'exit code {process.returncode}'}",
                "check `go version` against tools/engine/go.mod, and that `go env GOPROXY` can be reached",
            )


def copy_sdk_scripts(go: str, modules: Path, home: Path) -> None:
    try:
        answer = subprocess.run(
            [go, "list", "-m", "-f", "{{.Dir}}", SDK], cwd=modules, capture_output=True, text=True, check=True,
            env={**os.environ, "GOWORK": "off"},
        )  # fmt: skip
        for script in SDK_SCRIPTS:
            text = (Path(answer.stdout.strip()) / script).read_text()
            write_whole(home / Path(script).name, text, 0o755)
    except (OSError, subprocess.SubprocessError) as error:
        raise SourceError(
            f"the module {SDK} cannot be read: {failure_reason(error)}", "run `go clean -modcache`"
        ) from error


def write_launcher(home: Path) -> None:
    """Write the script that starts our language host, if it is missing or of another version of pulumi-sandbox."""
    write_whole(home / HOST, LAUNCHER.format(host=HOST), 0o755)
