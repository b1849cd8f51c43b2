"""Install the Pulumi CLI: from Pulumi's archive, or built from the Go modules that tools/engine/go.mod pins."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import tarfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from http.client import HTTPException
from pathlib import Path

from pulumi_sandbox.engine.model import (
    HOST,
    VERSION,
    Engine,
    SourceError,
    ask_version,
    failure_reason,
    new_enough,
    write_launcher,
    write_whole,
)

CLI = "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"
SDK = "github.com/pulumi/pulumi/sdk/v3"
FLAGS = (
    "-trimpath",  # keeps local paths out of the binary
    "-tags", "osusergo grpcnotrace",
    "-ldflags", f"-s -w -X {SDK}/go/common/version.Version=v{VERSION}",
)  # fmt: skip

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
            f"{modules / 'go.mod'} is missing", "run from a checkout, or install Pulumi by hand and put it on PATH"
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


INTERVAL_SEC = 15.0


@contextlib.contextmanager
def progress(title: str, say: Callable[[str], None]) -> Iterator[Callable[[str], None]]:
    """Report a step while the block runs. The function that is yielded sets the item to report."""
    started_at, ended, items = time.monotonic(), threading.Event(), [""]

    def report() -> None:
        while not ended.wait(INTERVAL_SEC):
            minutes, seconds = divmod(int(time.monotonic() - started_at), 60)
            say(f"{title}: {minutes}:{seconds:02d} {items[-1]}".rstrip())

    thread = threading.Thread(target=report, daemon=True)
    say(title)
    thread.start()
    try:
        yield items.append
    finally:
        ended.set()
        thread.join()
    say(f"{title}: done after {time.monotonic() - started_at:.0f} s")


ADDRESS = f"https://get.pulumi.com/releases/sdk/pulumi-v{VERSION}"
# The checksums of the archives of this version, by Linux or macOS and the processor
# (pulumi/homebrew-tap@51fb494: Formula/pulumi.rb).
SHA256 = {
    "linux-x64": "94ba357acac23d01474084c4b00098dc0f7bc70ce13f34c777459254a5f718e5",
    "linux-arm64": "edc8327463a72160bb36cf82cf5062da9c8a244290a706d9980988e7bf486853",
    "darwin-x64": "eaca4c3b8277bfa3ab061fa3b270d1c66358a0b2e613da8c5587a04b7226c534",
    "darwin-arm64": "57c27f179e527e2cf9f62b841a448af72a020e44b2fb4ee0d9bd85556c00c864",
}
PROCESSORS = {"x86_64": "x64", "aarch64": "arm64", "arm64": "arm64"}
TIMEOUT_SECONDS = 10


def install_archive(home: Path, say: Callable[[str], None]) -> Engine:
    """Download the official build into the engine folder."""
    system = f"{platform.system().lower()}-{PROCESSORS.get(platform.machine())}"
    if system not in SHA256:
        raise SourceError("not tried on this system", "install Pulumi by hand and put it on PATH")
    address = f"{ADDRESS}-{system}.tar.gz"
    # A draft folder keeps other processes from running a partial installation.
    draft, root = home / f"official-{os.getpid()}.partial", home / f"official-{VERSION}"
    shutil.rmtree(draft, ignore_errors=True)
    try:
        with progress(f"getting Pulumi {VERSION} from {address}", say):
            fetch(address, SHA256[system], draft)
        if not os.access(draft / "bin" / HOST, os.X_OK) or not new_enough(ask_version(draft / "bin" / "pulumi")):
            raise SourceError("its installation is incomplete or too old", "try again, or install Pulumi by hand")
        shutil.rmtree(root, ignore_errors=True)
        draft.rename(root)
    except (OSError, ValueError, HTTPException) as error:
        hint = "allow access to this address (https_proxy is honoured), or install Pulumi by hand and put it on PATH"
        raise SourceError(f"{address}: {failure_reason(error)}", hint) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return Engine(root / "bin", VERSION, "official")


def fetch(address: str, checksum: str, folder: Path) -> None:
    """Write the programs of an archive with this checksum into the folder `bin` of a new folder."""
    folder.mkdir(parents=True)
    archive = folder / "pulumi.tar.gz"
    with urllib.request.urlopen(address, timeout=TIMEOUT_SECONDS) as answer, archive.open("wb") as file:  # noqa: S310
        shutil.copyfileobj(answer, file)
    with archive.open("rb") as file:
        got = hashlib.file_digest(file, "sha256").hexdigest()
    if got != checksum:
        raise SourceError(
            f"{address} has another SHA-256\n     got: {got}\n     expected: {checksum}",
            "do not run this archive; try another network, or install Pulumi by hand",
        )
    with tarfile.open(archive) as opened:
        # Debian 12 has Python 3.11.2, without tarfile's filter "data" of 3.11.4. The checksum was compared.
        opened.extraction_filter = getattr(tarfile, "data_filter", None)
        opened.extractall(folder)  # noqa: S202 - see above
    archive.unlink()
    (folder / "pulumi").rename(folder / "bin")
