"""Builds the control plane of Kubernetes for `make test-kubernetes`, from the Go modules of tools/kubernetes.

python3 tools/control_plane.py
"""

from __future__ import annotations

from pathlib import Path

import go_programs
import install

PROGRAMS = go_programs.Programs(
    "control plane", install.ROOT / "tools" / "kubernetes", install.ROOT / ".control-plane", Path(__file__)
)
COMPONENTS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
ETCD = "go.etcd.io/etcd/server/v3"
VERSION = "k8s.io/component-base/version"


def build() -> None:
    number = PROGRAMS.facts("k8s.io/kubernetes", "{{.Version}}")
    major, minor, _ = number.removeprefix("v").split(".", 2)
    # Only the linker sets the version of Kubernetes. Without it, an API server reports v0.0.0.
    linked_values = {"gitVersion": number, "gitMajor": major, "gitMinor": minor}
    linked = " ".join(["-s -w", *(f"-X {VERSION}.{name}={value}" for name, value in linked_values.items())])
    PROGRAMS.log(
        f"building Kubernetes {number} and etcd; this takes ten minutes once, and can be stopped and continued"
    )
    packages = [ETCD, *(f"k8s.io/kubernetes/cmd/{name}" for name in COMPONENTS)]
    PROGRAMS.compile(PROGRAMS.home, *packages, linked=linked)
    (PROGRAMS.home / "server").replace(PROGRAMS.home / "etcd")


if __name__ == "__main__":
    PROGRAMS.main(build)
