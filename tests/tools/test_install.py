"""Tests of the installer of the environments with a fake uv: its commands, and the effect of an interruption."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

from tests.conftest import ROOT

# Notes how it was called, makes a venv as a folder with a python in it, and fails where the test says so.
UV = """#!/bin/sh
here=$(dirname "$0")
echo "$*" >> "$here/calls"
if [ -f "$here/fail" ] && echo "$*" | grep -q -- "$(cat "$here/fail")"; then
  echo "error: no route to the index" >&2
  exit 2
fi
if [ "$1" = venv ]; then for last in "$@"; do :; done; mkdir -p "$last/bin"; ln -sf /bin/true "$last/bin/python"; fi
"""


class Checkout:
    """A folder with a space in its name, with the installer, locks and the fake uv."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "a checkout"
        (self.root / "tools").mkdir(parents=True)
        (self.root / "tools" / "install.py").write_text((ROOT / "tools" / "install.py").read_text())
        for lock in (
            *("requirements.lock", "policies/requirements.lock", "tools/locks/dev.lock"),
            *("tools/locks/comment.lock", "tools/locks/notebook.lock"),
            *("agent/gpu_agent/torch.lock", "agent/gpu_agent/uv.lock"),
        ):
            (self.root / lock).parent.mkdir(parents=True, exist_ok=True)
            (self.root / lock).write_text(f"# {lock}\n")
        (self.root / "pyproject.toml").write_text("")
        self.tools = self.root / ".tools" / "bin"
        self.tools.mkdir(parents=True)
        (self.tools / "uv").write_text(UV)
        (self.tools / "uv").chmod(0o755)
        module = self.module()
        lock = self.root / "agent/gpu_agent/uv.lock"
        (self.root / ".tools" / ".installed").write_text(module.fingerprint(lock, sys.version))

    def module(self) -> ModuleType:
        spec = importlib.util.spec_from_file_location("install_under_test", self.root / "tools" / "install.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    def install(self, *names: str) -> subprocess.CompletedProcess[str]:
        script = str(self.root / "tools" / "install.py")
        return subprocess.run([sys.executable, script, *names], capture_output=True, text=True, check=False)

    def fail_on(self, command: str) -> None:
        (self.tools / "fail").write_text(command)

    def calls(self) -> list[str]:
        log = self.tools / "calls"
        return log.read_text().splitlines() if log.exists() else []


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_an_environment_is_installed_once(checkout: Checkout) -> None:
    assert checkout.install("runtime").returncode == 0
    first = checkout.calls()
    assert [call.split()[0] for call in first] == ["venv", "pip", "pip"]
    assert "--require-hashes" in first[1]
    assert first[1].endswith("requirements.lock")
    assert checkout.install("runtime").stdout == ""
    assert checkout.calls() == first


def test_an_environment_with_more_packages_replaces_one_with_less_and_serves_for_it(checkout: Checkout) -> None:
    checkout.install("runtime")
    assert ".venv lacks packages of tools/locks/dev.lock; creating it again" in checkout.install("dev").stdout
    assert checkout.install("runtime").stdout == ""


def test_a_changed_lock_makes_the_environment_anew(checkout: Checkout) -> None:
    checkout.install("runtime")
    (checkout.root / ".venv" / "leftover").write_text("")
    (checkout.root / "requirements.lock").write_text("# another\n")
    assert (
        ".venv was created from another lock, folder or Python; creating it again" in checkout.install("runtime").stdout
    )
    assert not (checkout.root / ".venv" / "leftover").exists()


def test_an_interrupted_installation_is_never_used(checkout: Checkout) -> None:
    checkout.fail_on("pip sync")
    failed = checkout.install("runtime")
    assert failed.returncode == 1
    assert "an incomplete installation will not be used" in failed.stderr
    assert "Traceback" not in failed.stderr
    assert not (checkout.root / ".venv" / ".installed").exists()

    (checkout.root / ".venv" / "half").write_text("")
    (checkout.tools / "fail").unlink()
    again = checkout.install("runtime")
    assert again.returncode == 0
    assert "is incomplete" in again.stdout
    assert not (checkout.root / ".venv" / "half").exists()


def test_an_environment_that_is_a_link_to_another_one_is_left_alone(checkout: Checkout) -> None:
    other = checkout.root / "other"
    other.mkdir()
    (checkout.root / ".venv").symlink_to(other)
    failed = checkout.install("runtime")
    assert failed.returncode == 1
    assert failed.stderr.splitlines() == [
        "install: .venv is a link to an environment that is not current",
        f"  got: {other}",
        "  hint: remove the link, so that the environment is created here: rm .venv",
    ]
    assert list(other.iterdir()) == []


def test_the_dev_environment_serves_the_runtime_too(checkout: Checkout) -> None:
    checkout.install("dev")
    before = checkout.calls()
    assert checkout.install("runtime").stdout == ""
    assert checkout.calls() == before


def test_the_cpu_build_of_torch_is_exchanged_once_the_machine_has_a_gpu(
    checkout: Checkout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if checkout.module().has_gpu():
        pytest.skip("this machine has an NVIDIA driver, so the CPU build is never taken")
    checkout.install("torch")
    assert checkout.install("torch").stdout == ""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "nvidia-smi").write_text("#!/bin/sh\n")
    (tmp_path / "bin" / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    first, *_ = checkout.install("torch").stdout.splitlines()
    assert first == (
        "install: .venv-torch has the CPU build of torch, and this machine has a GPU now; creating it again"
    )
    assert checkout.calls()[-1].endswith("agent/gpu_agent/torch.lock")
    assert checkout.install("torch").stdout == ""


def test_torch_comes_from_its_lock_where_the_index_does_not_answer(checkout: Checkout) -> None:
    checkout.fail_on("torch-backend")
    done = checkout.install("torch")
    assert done.returncode == 0
    assert "no route to the index" in done.stdout or checkout.module().has_gpu()
    assert checkout.calls()[-1].endswith("agent/gpu_agent/torch.lock")
    assert "--require-hashes" in checkout.calls()[-1]


@pytest.mark.parametrize(
    ("name", "lock", "folders"),
    [
        ("policy", "policies/requirements.lock", ["catalog", "common", "smoke"]),
        ("comment", "tools/locks/comment.lock", ["catalog", "common", "components", "preview"]),
        ("notebook", "tools/locks/notebook.lock", []),
    ],
)
def test_an_environment_without_this_project_comes_from_its_lock_and_finds_folders(
    checkout: Checkout, name: str, lock: str, folders: list[str]
) -> None:
    packages = checkout.root / f".venv-{name}" / "lib" / "python3.11" / "site-packages"
    # The fake uv creates no folder for packages, so it is extended to create one.
    uv = (checkout.tools / "uv").read_text()
    (checkout.tools / "uv").write_text(f"{uv}\nmkdir -p {shlex.quote(str(packages))}\n")
    assert checkout.install(name).returncode == 0
    assert checkout.calls()[-1].endswith(lock)
    assert not any("--editable" in call for call in checkout.calls())
    assert (packages / "gpu_ci.pth").read_text() == "".join(f"{checkout.root}/{each}\n" for each in folders)


def test_two_installations_at_once_wait_for_each_other(checkout: Checkout) -> None:
    with (checkout.root / ".install.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        command = [sys.executable, str(checkout.root / "tools" / "install.py"), "runtime"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as waiting:
            assert waiting.stdout is not None
            assert waiting.stdout.readline() == "install: waiting for another installation in this checkout\n"
            assert checkout.calls() == []
            fcntl.flock(lock, fcntl.LOCK_UN)
            assert "is ready" in waiting.stdout.read()
    assert len(checkout.calls()) == 3


def test_ctrl_c_ends_what_runs_and_says_how_to_go_on(checkout: Checkout) -> None:
    (checkout.tools / "uv").write_text(f"#!/bin/sh\necho $$ > '{checkout.root}/pid'\nexec sleep 60\n")
    script = str(checkout.root / "tools" / "install.py")
    process = subprocess.Popen(
        [sys.executable, script, "runtime"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    began = time.monotonic()
    while not (checkout.root / "pid").exists() or not (checkout.root / "pid").read_text().strip():
        assert time.monotonic() - began < 30
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 1
    assert errors == "install: runtime: stopped; call make again to continue\n"
    with pytest.raises(ProcessLookupError):
        os.kill(int((checkout.root / "pid").read_text()), 0)
