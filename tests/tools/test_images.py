"""The images: the files that a build gets, and the user."""

from __future__ import annotations

import subprocess
import sys

import pytest
from gpu_ci import versions

from tests.conftest import ROOT
from tools import install

IMAGES = ("dev", "runner", "runtime")


def test_torch_without_arguments_is_the_default_of_the_pools() -> None:
    assert f"\ntorch=={versions.TORCH} " in (ROOT / "agent/gpu_agent/torch.lock").read_text()


@pytest.mark.parametrize(
    "file", [*(f"images/{name}/Dockerfile" for name in (*IMAGES, "notebook")), "manager/Dockerfile"]
)
def test_no_image_runs_as_root(file: str) -> None:
    users = [line.split()[1] for line in (ROOT / file).read_text().splitlines() if line.startswith("USER ")]
    assert int(users[-1].partition(":")[0]) > 0


def test_a_build_gets_the_same_five_paths_in_all_images_and_nothing_else() -> None:
    [text] = {(ROOT / f"images/{name}/Dockerfile.dockerignore").read_text() for name in IMAGES}
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    locks = ["agent/gpu_agent/torch.lock", "agent/gpu_agent/uv.lock"]
    shown = ["images/install-torch.sh", "agent/gpu_agent/preempt.py", *locks, "smoke/gpu_smoke"]
    assert lines == ["*", *(f"!{path}" for path in shown), "**/__pycache__"]
    assert all((ROOT / path).exists() for path in shown)


def test_the_runner_image_has_gpu_ci_preempt_which_needs_only_python() -> None:
    text = (ROOT / "images/runner/Dockerfile").read_text()
    [copied] = [line.split() for line in text.splitlines() if line.startswith("COPY --chmod=755 ")]
    assert copied[2:] == ["agent/gpu_agent/preempt.py", "/usr/local/bin/gpu-ci-preempt"]
    # Outside of its package, and without installed packages.
    command = [sys.executable, "-I", "-S", str(ROOT / copied[2]), "--", "sh", "-c", "exit 5"]
    assert subprocess.run(command, check=False).returncode == 5


def test_the_notebook_image_is_the_environment_in_which_the_tests_run_the_tasks() -> None:
    text, other = ((ROOT / f"images/{name}/Dockerfile").read_text() for name in ("notebook", "runtime"))
    [base] = [line for line in text.splitlines() if line.startswith("ARG BASE=")]
    assert base in other.splitlines()
    lock, with_project = install.ENVIRONMENTS["notebook"][1:]
    assert (lock, with_project) == ("tools/locks/notebook.lock", False)
    assert f"source={lock}" in text
    assert "--require-hashes" in text
    ignored = (ROOT / "images/notebook/Dockerfile.dockerignore").read_text().splitlines()
    assert ignored[1:] == ["*", f"!{lock}"]
