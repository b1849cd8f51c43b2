"""Installs one of the checkout's environments from its lock, whole or not at all.

    python3 tools/install.py uv|runtime|dev|comment|torch|policy|notebook|vertex|rented

An environment counts as installed if it has a stamp, which is written last. An environment without a stamp is the
result of an interrupted installation, so it is removed and created again.
Standard library only, because this program runs first on a new machine.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
UV = ROOT / ".tools" / "bin" / "uv"
STAMP = ".installed"
CPU_BUILD = ".cpu-build"
"""The file that marks an environment with the CPU build of torch."""

# environment -> (folder, lock, True if this project itself is installed into it)
ENVIRONMENTS = {
    "runtime": (".venv", "requirements.lock", True),
    "dev": (".venv", "tools/locks/dev.lock", True),
    "comment": (".venv-comment", "tools/locks/comment.lock", False),
    "torch": (".venv-torch", "agent/gpu_agent/torch.lock", False),
    "policy": (".venv-policy", "policies/requirements.lock", False),
    "notebook": (".venv-notebook", "tools/locks/notebook.lock", False),
    "vertex": (".venv-vertex", "tools/locks/vertex.lock", False),
    "rented": (".venv-rented", "tools/locks/jarvis.lock", False),
}
# The environments that have all packages of another one in the same folder, so `make up` after `make test` installs
# nothing.
LARGER = {"runtime": ("dev",)}
# The folders of this project that an environment without the project imports from:
# - torch: the smoke check runs in it (`.venv-torch/bin/python -m gpu_smoke`).
# - policy: the policy pack uses the catalog, and the catalog uses the smoke check's list of torch wheels.
# - comment: no build tool runs there, because its job has a token that may write on pull requests.
FOLDERS = {
    "comment": ["catalog", "common", "components", "preview"],
    "torch": ["smoke"],
    "policy": ["catalog", "common", "smoke"],
}


def log(text: str) -> None:
    print(f"install: {text}", flush=True)


def fail(problem: str, *lines: str) -> None:
    sys.exit("\n".join([f"install: {problem}", *(f"  {line}" for line in lines)]))


def run(*command: str | Path) -> None:
    with started(command) as process:
        code = process.wait()
    if code:
        raise subprocess.CalledProcessError(code, [str(argument) for argument in command])


@contextlib.contextmanager
def started(command: Sequence[str | Path], **options: Any) -> Iterator[subprocess.Popen[str]]:
    """Run a command in its own process group. Ctrl-C reaches only this program, which then ends the command."""
    arguments = [str(argument) for argument in command]
    delayed: list[int] = []
    # A Ctrl-C before Popen returns would leave the process running, so it is handled after Popen.
    previous_handler = signal.signal(signal.SIGINT, lambda number, _frame: delayed.append(number))
    try:
        with subprocess.Popen(arguments, cwd=ROOT, text=True, start_new_session=True, **options) as process:
            try:
                signal.signal(signal.SIGINT, previous_handler)
                if delayed:
                    raise KeyboardInterrupt
                yield process
            except BaseException:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGTERM)
                process.wait(timeout=30)
                raise
    finally:
        signal.signal(signal.SIGINT, previous_handler)


def sync(python: Path, lock: Path) -> None:
    """Install exactly the packages of the lock into an environment. uv's list of all packages is not printed."""
    command = [str(UV), "pip", "sync", "--require-hashes", "--python", str(python), str(lock)]
    with started(command, stderr=subprocess.PIPE) as process:
        for line in process.stderr or ():
            if not line.startswith((" + ", " - ", "Using Python")):
                print(f"  {line.rstrip()}", flush=True)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)


def fingerprint(*parts: str | Path) -> str:
    """Return a digest of the files and texts from which an environment was created."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.read_bytes() if isinstance(part, Path) else part.encode())
        digest.update(b"\0")
    return digest.hexdigest()


@contextlib.contextmanager
def installer_lock() -> Iterator[None]:
    """Hold the checkout's installer lock, so that two terminals do not make the same environment at once."""
    with (ROOT / ".install.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            log("waiting for another installation in this checkout")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def remove_outdated(folder: Path, reason: str = "was created from another lock, folder or Python") -> None:
    """Remove an environment that has to be created again, and print the reason."""
    if folder.is_symlink():
        # The target may belong to another checkout.
        fail(
            f"{folder.name} is a link to an environment that is not current",
            f"got: {folder.readlink()}",
            f"hint: remove the link, so that the environment is created here: rm {folder.name}",
        )
    if folder.exists():
        reason = reason if (folder / STAMP).is_file() else "is incomplete"
        log(f"{folder.name} {reason}; creating it again")
        shutil.rmtree(folder)


def make_environment(folder: Path) -> None:
    try:
        run(sys.executable, "-m", "venv", folder)
    except subprocess.CalledProcessError:
        shutil.rmtree(folder, ignore_errors=True)
        fail(
            f"{sys.executable} cannot create a virtual environment",
            "expected: Python 3.11 or newer with the venv and ensurepip modules",
            "hint: on Debian and Ubuntu, apt-get install python3-venv",
        )


def install_uv() -> None:
    """Install the pinned uv in .tools. It installs everything else."""
    folder, lock = ROOT / ".tools", ROOT / "agent/gpu_agent/uv.lock"
    stamp, expected_stamp = folder / STAMP, fingerprint(lock, sys.version)
    if stamp.is_file() and stamp.read_text() == expected_stamp:
        return
    remove_outdated(folder)
    log("installing uv, which installs everything else, into .tools")
    make_environment(folder)
    run(folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
        "--require-hashes", "-r", lock)  # fmt: skip
    stamp.write_text(expected_stamp)


def has_gpu() -> bool:
    return Path("/proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi") is not None


def install_torch(python: Path, lock: Path) -> None:
    """Install the CPU build if there is no GPU and PyTorch's index answers, or else the packages of the lock.

    The CPU build has 0.2 GB and is installed by version. The packages of the lock have 5 GB and are checked by hash.
    """
    if not has_gpu():
        log("no GPU here: trying the CPU build of torch (about 0.2 GB)")
        # uv knows the address of PyTorch's own index. Its files are not those of the lock, so no hash can be checked.
        # The time limit is short, and there is one retry, so that a machine without Internet access does not wait long.
        command = [str(UV), "pip", "install", "--python", str(python), "--torch-backend", "cpu",
                   "--constraints", str(lock), "torch", "numpy"]  # fmt: skip
        limits = {"UV_HTTP_CONNECT_TIMEOUT": "10", "UV_HTTP_RETRIES": "1"}
        with started(command, env={**os.environ, **limits}, stderr=subprocess.PIPE) as process:
            _, errors = process.communicate()
        if process.returncode == 0:
            (python.parents[1] / CPU_BUILD).touch()
            return
        reason = next((line for line in errors.splitlines() if "cause:" in line or "error" in line), "no answer")
        log(f"PyTorch's own index cannot be used ({reason.strip()}); installing the default build instead")
    log("installing torch from its lock: about 2 GB to download without a cache, 5 GB on disk")
    sync(python, lock)


def write_smoke_command(folder: Path) -> None:
    """Write the command `gpu-smoke`, because the environment with torch has only the package's folder."""
    command = folder / "bin" / "gpu-smoke"
    text = '#!/bin/sh\nexec "$(dirname "$0")/python" -m gpu_smoke "$@"\n'
    if not command.is_file() or command.read_text() != text:
        command.write_text(text)
        command.chmod(0o755)


def expected_stamp(name: str) -> str:
    """Return the content of the stamp of a current environment."""
    _, lock, with_project = ENVIRONMENTS[name]
    project = ROOT / "pyproject.toml" if with_project else ""
    return fingerprint(ROOT / lock, project, *FOLDERS.get(name, ()), str(ROOT), sys.version)


def install(name: str) -> None:
    folder_name, lock_name, with_project = ENVIRONMENTS[name]
    folder, lock = ROOT / folder_name, ROOT / lock_name
    stamp = folder / STAMP
    found_stamp = stamp.read_text() if stamp.is_file() else ""
    # If the machine got a driver after the installation, the CPU build would fail every check.
    cpu_build = name == "torch" and (folder / CPU_BUILD).exists() and has_gpu()
    if name == "torch" and found_stamp:
        write_smoke_command(folder)
    sufficient = [expected_stamp(each) for each in (name, *LARGER.get(name, ()))]
    if found_stamp in sufficient and not cpu_build:
        return
    install_uv()
    if cpu_build:
        remove_outdated(folder, "has the CPU build of torch, and this machine has a GPU now")
    elif found_stamp in [expected_stamp(each) for each, larger in LARGER.items() if name in larger]:
        remove_outdated(folder, f"lacks packages of {lock_name}")
    else:
        remove_outdated(folder)
    began = time.monotonic()
    log(f"installing {lock_name} into {folder_name}")
    run(UV, "venv", "--quiet", "--python", sys.executable, folder)
    python = folder / "bin" / "python"
    if name == "torch":
        install_torch(python, lock)
    else:
        sync(python, lock)
    if with_project:
        # Without isolation, uv uses the build tool of the lock. With isolation, it would download one without a hash.
        run(UV, "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--python", python,
            "--editable", ".")  # fmt: skip
    else:
        lines = "".join(f"{ROOT / each}\n" for each in FOLDERS.get(name, ()))
        for packages in folder.glob("lib/python*/site-packages"):
            (packages / "gpu_ci.pth").write_text(lines)
    if name == "torch":
        write_smoke_command(folder)
    stamp.write_text(expected_stamp(name))
    log(f"{folder_name} is ready after {time.monotonic() - began:.0f} s")


def main(names: list[str]) -> None:
    if sys.version_info < (3, 11):  # noqa: UP036 - an older Python runs this file first
        fail("this Python is too old", f"got: {sys.version.split()[0]}", "expected: 3.11 or newer",
             "hint: make up PYTHON=/path/to/a/newer/python3")  # fmt: skip
    unknown = [name for name in names if name not in (*ENVIRONMENTS, "uv")]
    if unknown or not names:
        fail("usage: install.py uv|" + "|".join(ENVIRONMENTS), *(f"got: {name}" for name in unknown))
    for name in names:
        try:
            with installer_lock():
                install_uv() if name == "uv" else install(name)
        except subprocess.CalledProcessError as error:
            fail(f"{name}: `{' '.join(map(str, error.cmd))}` exits with {error.returncode}",
                 "its output is above; an incomplete installation will not be used",
                 "hint: call make again; downloaded files are not downloaded again")  # fmt: skip
        except OSError as error:
            fail(f"{name}: {error.strerror}: {error.filename}", "hint: the checkout must be a writable folder")
        except KeyboardInterrupt:
            fail(f"{name}: stopped; call make again to continue")


if __name__ == "__main__":
    main(sys.argv[1:])
