"""Tests of the builder of the control plane with a fake go: its commands, and the effect of an interruption."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

# Notes how it was called, and makes the programs that it is asked for.
GO = """#!/bin/sh
here=$(dirname "$0")
echo "$*" >> "$here/calls"
[ "$1" = list ] && echo v1.36.0 && exit
[ -f "$here/fail" ] && echo "no route to the proxy" >&2 && exit 2
while [ "$1" != -o ]; do shift; done
into=$2; shift 2
for package in "$@"; do
  name=$(basename "$package")
  case $name in v[0-9]*) name=$(basename "$(dirname "$package")");; esac
  echo "$name" > "$into/$name"
done
"""
PROGRAMS = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"]


class Checkout:
    """A folder with a space in its name, with the builder and the fake go."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "a checkout"
        self.modules = self.root / "tools" / "kubernetes"
        self.modules.mkdir(parents=True)
        for name in ("control_plane.py", "go_programs.py", "install.py", "kubernetes/go.mod", "kubernetes/go.sum"):
            (self.root / "tools" / name).write_text((ROOT / "tools" / name).read_text())
        self.home = self.root / ".control-plane"
        self.go = folder / "bin" / "go"
        self.go.parent.mkdir()
        self.go.write_text(GO)
        self.go.chmod(0o755)

    def build(self, path: str | None = None) -> subprocess.CompletedProcess[str]:
        path = f"{self.go.parent}:{os.environ['PATH']}" if path is None else path
        command = [sys.executable, str(self.root / "tools" / "control_plane.py")]
        return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PATH": path})

    def calls(self, word: str) -> list[str]:
        return [line for line in (self.go.parent / "calls").read_text().splitlines() if line.startswith(word)]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_it_builds_four_programs_once_for_what_go_mod_says(checkout: Checkout) -> None:
    assert [checkout.build().returncode for _ in range(2)] == [0, 0]
    assert sorted(path.name for path in checkout.home.iterdir()) == [".installed", *PROGRAMS]
    [call] = checkout.calls("build")
    assert call.startswith(f"build -C {checkout.modules} -p 1 -trimpath -ldflags -s -w ")
    assert "-X k8s.io/component-base/version.gitVersion=v1.36.0 " in call
    with (checkout.modules / "go.mod").open("a") as file:
        file.write("// another version\n")
    assert checkout.build().returncode == 0
    assert len(checkout.calls("build")) == 2


def test_a_build_that_fails_leaves_nothing_that_counts_as_built(checkout: Checkout) -> None:
    (checkout.go.parent / "fail").touch()
    answer = checkout.build()
    assert answer.returncode == 1
    output = answer.stderr.splitlines()
    assert output[0] == "no route to the proxy"
    assert output[1].startswith("control plane: `nice -n 19 ")
    assert output[1].endswith("` exits with 2")
    assert output[-1].startswith("  hint: check `go version` against tools/kubernetes/go.mod")
    (checkout.go.parent / "fail").unlink()
    assert checkout.build().returncode == 0
    assert sorted(path.name for path in checkout.home.iterdir()) == [".installed", *PROGRAMS]


def test_the_modules_have_the_version_that_the_sandbox_emulates() -> None:
    from pulumi_sandbox.providers.kubernetes.validation import VERSION

    text = (ROOT / "tools" / "kubernetes" / "go.mod").read_text()
    [number] = [line.split()[1] for line in text.splitlines() if line.startswith("\tk8s.io/kubernetes v")]
    assert number.startswith(f"v{VERSION}.")
    staged = {line.split()[-1] for line in text.splitlines() if " => k8s.io/" in line}
    assert staged == {f"v0{number.removeprefix('v1')}"}
