"""Faults that are found before torch is imported, or before a kernel runs: device nodes, driver, library."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from gpu_smoke import machine
from gpu_smoke.measure import setup
from gpu_smoke.workers import process

from ..conftest import FAKES, ROOT, Smoke

LIBRARY = "/usr/lib/x86_64-linux-gnu/libcuda.so.580.159.03"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The files of a machine, which a test changes."""
    return Path(shutil.copytree(FAKES / "root", tmp_path / "root"))


def on(root: Path) -> dict[str, str]:
    return {"GPU_SMOKE_ROOT": str(root)}


def torch(tmp_path: Path, version: str, cuda: str) -> dict[str, str]:
    """The folder of the fake torch, with a version file."""
    folder = tmp_path / "installed"
    shutil.copytree(FAKES, folder)
    (folder / "torch" / "version.py").write_text(f"__version__ = '{version}'\ncuda: str = '{cuda}'\n")
    return {"PYTHONPATH": f"{ROOT / 'smoke'}:{folder}"}


def test_a_missing_driver_is_reported_before_torch_is_imported(smoke: Smoke, tmp_path: Path) -> None:
    run = smoke(env={**on(tmp_path / "nothing"), "FAKE_TORCH_IMPORTS": str(tmp_path / "imports")})
    assert run.code == 2
    assert run.summary == "no CUDA device: /dev/nvidiactl is missing"
    assert run.bad() == [("devnodes", None)]
    assert run.receipt["action"] == "fix-driver"
    assert not (tmp_path / "imports").exists()


@pytest.mark.parametrize(
    ("gone", "named"),
    [(["nvidiactl"], "nvidiactl"), (["nvidia-uvm"], "nvidia-uvm"), (["nvidia0", "nvidia1"], "nvidia0")],
)
def test_device_nodes_that_are_missing_are_why_a_driver_does_not_start(
    smoke: Smoke, root: Path, gone: list[str], named: str
) -> None:
    for node in gone:
        (root / "dev" / node).unlink()
    run = smoke(env=on(root), cuinit=999)
    assert run.code == 2
    assert run.summary == f"no CUDA device: /dev/{named} is missing (and 1 more)"
    assert run.bad() == [("devnodes", None), ("libcuda.real", None)]
    # A machine makes its nodes when the driver is started first; what it names otherwise is its own business.
    run = smoke(env=on(root))
    assert run.code == 0
    [found] = [check for check in run.receipt["checks"] if check["id"] == "devnodes"]
    assert found["status"] == "warn"


def test_a_node_that_cannot_be_opened_differs_from_a_missing_one(smoke: Smoke, root: Path) -> None:
    # Root may open any file. A folder cannot be opened for writing, even by root.
    (root / "dev" / "nvidia0").unlink()
    (root / "dev" / "nvidia0").mkdir()
    run = smoke(env=on(root), cuinit=100)
    assert run.code == 2
    assert run.summary == "no CUDA device: /dev/nvidia0 cannot be opened: Is a directory"
    assert run.receipt["action"] == "reboot"


def test_a_driver_that_is_too_old_for_the_wheel_is_known_before_torch_is_imported(
    smoke: Smoke, root: Path, tmp_path: Path
) -> None:
    version = root / "proc" / "driver" / "nvidia" / "version"
    version.write_text(version.read_text().replace("580.159.03", "535.183.01"))
    imports = {"FAKE_TORCH_IMPORTS": str(tmp_path / "imports")}
    run = smoke(env={**on(root), **torch(tmp_path, "2.15.0+cu132", "13.2"), **imports})
    assert run.code == 2
    assert run.bad() == [("driver.wheel", None)]
    assert run.summary == ("driver 535.183.01 is too old for torch 2.15.0+cu132: CUDA 13.2 needs branch 580 or newer")
    assert run.first_bad()["hint"] == (
        "install a driver of branch 580 or newer, or a torch for CUDA 12, whose version ends in +cu12…"
    )
    assert not (tmp_path / "imports").exists()


@pytest.mark.parametrize(
    ("code", "said", "action"),
    [
        (803, "803 (driver mismatch)", "reboot"),
        (999, "999 (unknown error)", "reboot"),
    ],
)
def test_if_the_driver_does_not_start_the_reason_is_reported_and_torch_is_not_imported(
    smoke: Smoke, tmp_path: Path, code: int, said: str, action: str
) -> None:
    run = smoke(env={"FAKE_TORCH_IMPORTS": str(tmp_path / "imports")}, cuinit=code)
    assert run.code == 2
    assert run.summary == f"no CUDA device: cuInit gave {said}"
    assert run.bad() == [("libcuda.real", None)]
    assert run.receipt["action"] == action
    assert not (tmp_path / "imports").exists()


def test_little_shared_memory_is_a_warning_that_strict_takes_for_a_failure(
    smoke: Smoke, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(root / "dev" / "shm")
    assert smoke("--strict", env=on(root)).code == 0  # none at all cannot be asked
    (root / "dev" / "shm").symlink_to("/dev/pts")  # a file system without any room
    run = smoke(env=on(root))
    [found] = [check for check in run.receipt["checks"] if check["id"] == "shm"]
    assert (run.code, found["status"]) == (0, "warn")
    assert found["message"] == "only 0 GiB in /dev/shm: DataLoader workers and NCCL need more"
    run = smoke("--strict", env=on(root))
    assert (run.code, run.bad()) == (3, [("shm", None)])


@pytest.mark.parametrize(
    ("variable", "value"),
    [("CUDA_MODULE_LOADING", "EAGER"), ("CUDA_LAUNCH_BLOCKING", "1"), ("PYTORCH_NO_CUDA_MEMORY_CACHING", "1")],
)
def test_variables_of_an_image_change_no_verdict_and_are_in_the_receipt(
    smoke: Smoke, variable: str, value: str
) -> None:
    # With the first one `exclusive` fails, with the others `gemm.speed` and `mem.speed`.
    run = smoke("--profile", "standard", env={variable: value})
    assert (run.code, run.bad()) == (0, [])
    assert run.receipt["host"]["dropped_variables"] == [variable]


def test_workers_get_what_chooses_gpus_and_networks_and_nothing_that_changes_bits_or_speed() -> None:
    kept = {
        "CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_MPS_PIPE_DIRECTORY": "/mps",
        "LD_LIBRARY_PATH": "/lib", "NCCL_SOCKET_IFNAME": "eth0", "NCCL_DEBUG": "INFO", "PATH": "/bin",
        "PYTORCH_VERSION": "2.11", "TORCH_CUDA_ARCH_LIST": "9.0",
    }  # fmt: skip
    dropped = [
        "ATEN_CPU_CAPABILITY", "CUBLASLT_WORKSPACE_SIZE", "CUBLAS_EMULATE_SINGLE_PRECISION", "CUBLAS_WORKSPACE_CONFIG",
        "CUDA_ENABLE_COREDUMP_ON_EXCEPTION", "CUDA_FORCE_PTX_JIT", "CUDA_INJECTION64_PATH", "CUDA_LAUNCH_BLOCKING",
        "NCCL_ALGO", "NCCL_MAX_NCHANNELS", "NCCL_P2P_DISABLE", "OMP_NUM_THREADS", "PYTORCH_ALLOC_CONF",
        "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
        "TORCH_BLAS_PREFER_CUBLASLT",
    ]  # fmt: skip
    given = {**kept, **dict.fromkeys(dropped, "1"), "NVIDIA_TF32_OVERRIDE": "1", "CUDA_MODULE_LOADING": "LAZY"}
    fixed = {"CUDA_MODULE_LOADING": "LAZY", "NVIDIA_TF32_OVERRIDE": "0", "PYTHONUNBUFFERED": "1"}
    assert process.of_worker(given) == kept | fixed
    assert process.changed(given) == sorted([*dropped, "NVIDIA_TF32_OVERRIDE"])
    assert process.changed(kept) == []


@pytest.mark.parametrize(
    ("files", "count"),
    [
        ({}, 8),
        ({"cpu.max": "max 100000\n"}, 8),
        ({"cpu.max": "250000 100000\n"}, 2),
        ({"cpu.max": "50000 100000\n"}, 1),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 8),
        ({"cpu/cpu.cfs_quota_us": "400000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 4),
        ({"cpu.max": "1600000 100000\n"}, 8),
    ],
    ids=str,
)
def test_a_process_has_as_many_processors_as_its_affinity_and_its_quota_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], count: int
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(machine, "CGROUP", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(8))
    assert machine.processors() == count


def test_eight_workers_share_the_processors_of_a_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "processors", lambda: 20)
    asked: list[int] = []
    cuda = SimpleNamespace(set_device=lambda _: None, device_count=lambda: 8)
    setup.target(SimpleNamespace(cuda=cuda, set_num_threads=asked.append, device=lambda *_: None), "cuda", 3)
    assert asked == [2]


def test_cudas_compatibility_package_may_make_up_for_an_old_driver(smoke: Smoke, root: Path, tmp_path: Path) -> None:
    version = root / "proc" / "driver" / "nvidia" / "version"
    version.write_text(version.read_text().replace("580.159.03", "535.183.01"))
    package = root / "usr" / "local" / "cuda-13.0" / "compat"
    package.mkdir(parents=True)
    (package / "libcuda.so.580.159.03").touch()
    maps = root / "proc" / "self" / "maps"
    maps.write_text(maps.read_text().replace(LIBRARY, "/usr/local/cuda-13.0/compat/libcuda.so.580.159.03"))
    run = smoke(env={**on(root), **torch(tmp_path, "2.15.0+cu132", "13.2")})
    assert run.code == 0
    found = {check["id"]: check["status"] for check in run.receipt["checks"]}
    assert (found["driver.wheel"], found["driver.match"]) == ("warn", "skip")
