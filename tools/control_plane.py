"""Builds the control plane of Kubernetes for `make test-kubernetes`, from the Go modules of tools/kubernetes.

    python3 tools/control_plane.py

The control plane is built once for each version in go.mod. The build has the lowest priority and compiles one package
at a time, so that it needs less than 2 GB of memory. This module uses only the standard library, like the installer.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import install

MODULES = install.ROOT / "tools" / "kubernetes"
HOME = install.ROOT / ".control-plane"
COMPONENTS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
ETCD = "go.etcd.io/etcd/server/v3"
VERSION = "k8s.io/component-base/version"
ENVIRONMENT = {"CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false", "GOWORK": "off"}


def log(text: str) -> None:
    print(f"control plane: {text}", flush=True)


def fail(problem: str, *lines: str) -> None:
    sys.exit("\n".join([f"control plane: {problem}", *(f"  {line}" for line in lines)]))


def expected_stamp() -> str:
    """Return the content of the stamp of a current build."""
    return install.fingerprint(MODULES / "go.mod", MODULES / "go.sum", Path(__file__))


def version(go: str) -> str:
    """Return the version of Kubernetes in go.mod, such as v1.36.0."""
    command = [go, "list", "-C", str(MODULES), "-m", "-f", "{{.Version}}", "k8s.io/kubernetes"]
    with install.started(command, env={**os.environ, **ENVIRONMENT}, stdout=subprocess.PIPE) as process:
        output, _ = process.communicate()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return str(output).strip()


def build(go: str, into: Path) -> None:
    number = version(go)
    major, minor, _ = number.removeprefix("v").split(".", 2)
    # Only the linker sets the version of Kubernetes. Without it, an API server reports v0.0.0.
    linked_values = {"gitVersion": number, "gitMajor": major, "gitMinor": minor}
    linked = " ".join(["-s -w", *(f"-X {VERSION}.{name}={value}" for name, value in linked_values.items())])
    packages = [f"k8s.io/kubernetes/cmd/{name}" for name in COMPONENTS]
    log(f"building Kubernetes {number} and etcd; this takes six to ten minutes once, and can be stopped and continued")
    command = ["nice", "-n", "19", go, "build", "-C", MODULES, "-p", "1"]
    command += ["-trimpath", "-ldflags", linked, "-o", into, ETCD, *packages]
    with install.started(command, env={**os.environ, **ENVIRONMENT}) as process:
        code = process.wait()
    if code:
        raise subprocess.CalledProcessError(code, [str(argument) for argument in command])
    # `go build` names a program after the last segment of its path that is not a version.
    (into / "server").replace(into / "etcd")


def main() -> None:
    stamp = HOME / install.STAMP
    if stamp.is_file() and stamp.read_text() == expected_stamp():
        return
    go = shutil.which("go")
    if go is None:
        fail(
            "no `go` on PATH",
            "expected: the version in the `go` line of tools/kubernetes/go.mod, or a newer one",
            "hint: https://go.dev/doc/install",
        )
        return
    began = time.monotonic()
    shutil.rmtree(HOME, ignore_errors=True)
    HOME.mkdir()
    build(go, HOME)
    stamp.write_text(expected_stamp())
    log(f"{HOME.name} is ready after {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    try:
        with install.installer_lock():
            main()
    except subprocess.CalledProcessError as error:
        fail(
            f"`{' '.join(map(str, error.cmd))}` exits with {error.returncode}",
            "its output is above; an incomplete build will not be used",
            "hint: check `go version` against tools/kubernetes/go.mod, and that `go env GOPROXY` can be reached",
        )
    except OSError as error:
        fail(f"{error.strerror}: {error.filename}", "hint: the checkout must be a writable folder")
    except KeyboardInterrupt:
        fail("stopped; call make again to continue")
