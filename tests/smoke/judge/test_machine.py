"""The judges of driver, torch, device nodes and GPUs: right and wrong values, and the names of the checks."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_smoke.judge import devices, static
from gpu_smoke.judge.subject import Subject
from gpu_smoke.machine import Installed
from gpu_smoke.options import Options

from ..subjects import CPU, SLICE, gpu, verdict

NODES = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia0")


@pytest.mark.parametrize("missing", NODES)
def test_device_nodes(missing: str) -> None:
    assert static.nodes(NODES, False, started=False).status == "pass"
    here = [node for node in NODES if node != missing]
    found, started = (static.nodes(here, False, started=each) for each in (False, True))
    assert (found.status, found.message) == ("fail", f"no CUDA device: {missing} is missing")
    assert (started.status, started.message) == ("warn", f"{missing} is missing, but the driver starts")
    assert static.nodes([], False, started=False).message == "no CUDA device: /dev/nvidiactl is missing"
    assert static.nodes([], True, started=False).status == "skip"


@pytest.mark.parametrize(
    ("driver", "torch", "compatible", "status", "said"),
    [
        ("580.1", Installed("2.15.0", "13.2"), False, "pass", "driver 580.1 and torch 2.15.0 for CUDA 13.2"),
        ("579.1", Installed("2.15.0", "13.2"), False, "fail", "CUDA 13.2 needs branch 580 or newer"),
        ("579.1", Installed("2.15.0", "13.2"), True, "warn", "unless the installed compatibility package"),
        ("410.48", Installed("1.3.0", "10"), False, "pass", "driver 410.48 and torch 1.3.0 for CUDA 10"),
        ("410.48", Installed("1.3.0", "10.1"), False, "fail", "CUDA 10.1 needs branch 418 or newer"),
        ("580.1", Installed("2.15.0", "99.0"), False, "skip", "the driver that it needs is unknown"),
        ("", Installed("2.15.0", "13.2"), False, "skip", "the driver's version is unknown"),
        ("580.1", Installed("", ""), False, "skip", "the CUDA of the torch that is installed is unknown"),
    ],
)
def test_the_driver_and_the_wheel(driver: str, torch: Installed, compatible: bool, status: str, said: str) -> None:
    found = static.wheel(driver, torch, compatible)
    assert found.status == status
    assert said in found.message


def test_the_hint_names_a_torch_to_install_if_one_is_known() -> None:
    assert (
        "or a torch for CUDA 12, whose version ends in +cu12…"
        in static.wheel("575.57.08", Installed("2.15.0", "13.2"), False).hint
    )
    assert static.wheel("300.1", Installed("2.15.0", "13.2"), False).hint == "install a driver of branch 580 or newer"


def library(**more: Any) -> dict[str, Any]:
    right = {
        "refused": {},
        "path": "/usr/lib/libcuda.so.580.1",
        "code": 0,
        "cuda": "13.0",
        "library": "580.1",
        "nodes": NODES,
    }
    return {**right, "windows": False, **more}


@pytest.mark.parametrize(
    ("more", "expected", "said"),
    [
        ({}, {"libcuda.real": "pass", "driver.match": "pass"}, "CUDA 13.0 from /usr/lib/libcuda.so.580.1"),
        ({"path": ""}, {"libcuda.real": "pass", "driver.match": "pass"}, "CUDA 13.0 from a file that is not named"),
        ({"path": "/cuda/stubs/libcuda.so"}, {"libcuda.real": "fail", "driver.match": "pass"}, "is not a driver"),
        ({"code": None, "missing": "gone"}, {"libcuda.real": "fail", "driver.match": "pass"}, "no CUDA device: gone"),
        *(
            ({"code": code}, {"libcuda.real": "fail", "driver.match": "pass"}, f"cuInit gave {code} ({name})")
            for code, name in {
                3: "not initialized", 34: "stub library", 100: "no device", 802: "system not ready",
                803: "driver mismatch", 804: "compatibility not supported on this device", 999: "unknown error",
                1: "an error",
            }.items()
        ),
        ({"library": "570.1"}, {"libcuda.real": "pass", "driver.match": "fail"}, "CUDA 13.0"),
        ({"library": ""}, {"libcuda.real": "pass", "driver.match": "skip"}, "CUDA 13.0"),
        ({"library": "9", "path": "/c/compat/libcuda.so.9"}, {"libcuda.real": "pass", "driver.match": "skip"}, "9"),
        ({"library": "9", "path": "/c/compat-13/libcuda.so.9"}, {"libcuda.real": "pass", "driver.match": "skip"}, "9"),
        ({"library": "9", "path": "/lib/compat.so/../"}, {"libcuda.real": "pass", "driver.match": "skip"}, ""),
        # Nodes of other people's GPUs: Slurm's and systemd's device cgroups, LXC, pods that are not privileged.
        (
            {"refused": {"/dev/nvidia1": "no"}},
            {"devnodes": "warn", "libcuda.real": "pass", "driver.match": "pass"},
            "/dev/nvidia1 cannot be opened: no, but the driver starts",
        ),
        (
            {"refused": {"/dev/nvidia0": "no"}, "code": 100},
            {"devnodes": "fail"},
            "no CUDA device: /dev/nvidia0 cannot be opened: no",
        ),
        ({"refused": {"/dev/nvidia0": "no"}, "code": None}, {"devnodes": "fail"}, "cannot be opened: no"),
    ],
    ids=str,
)  # fmt: skip
def test_the_drivers_library(more: dict[str, Any], expected: dict[str, str], said: str) -> None:
    found = [
        check for check in static.library("580.1", library(**more)) if check.status != "pass" or check.id != "devnodes"
    ]
    assert verdict(found) == expected
    assert said in found[0].message


@pytest.mark.parametrize(("code", "status"), [(0, "warn"), (100, "fail"), (None, "fail")])
def test_a_driver_that_starts_needs_no_node_more(code: int | None, status: str) -> None:
    found = static.library("580.1", library(nodes=[], code=code, missing="gone"))
    assert verdict(found)["devnodes"] == status
    assert verdict(static.library("580.1", library(nodes=[], windows=True)))["devnodes"] == "skip"


HINTS = {
    3: "kernel log", 34: "stub for linking", 100: "CUDA_VISIBLE_DEVICES", 802: "fabric manager",
    803: "different versions", 804: "compatibility package", 999: "nvidia-modprobe", 1: "enum cudaError_enum",
}  # fmt: skip


@pytest.mark.parametrize("code", HINTS)
def test_each_code_of_the_driver_has_its_own_hint(code: int) -> None:
    assert HINTS[code] in static.library("580.1", library(code=code))[1].hint


def test_without_the_drivers_version_nothing_is_compared() -> None:
    assert verdict(static.library("", library()))["driver.match"] == "skip"


@pytest.mark.parametrize(
    ("cc", "names", "status", "said"),
    [
        ("8.9", ["sm_80", "sm_86"], "pass", "sm_86 runs on 8.9"),
        ("8.9", ["sm_90"], "fail", "it has sm_90"),
        ("8.9", ["sm_90", "compute_89"], "warn", "its driver has to compile"),
        ("8.9", ["sm_90", "compute_80"], "warn", "its driver has to compile"),
        ("8.9", ["sm_90", "compute_90"], "fail", "it has sm_90 compute_90"),
        ("8.9", [], "skip", "does not report"),
        ("9.0", ["sm_x9"], "fail", "it has sm_x9"),
        ("9.0", ["compute_x9"], "fail", "it has compute_x9"),
        ("9.0", ["sm_90a"], "fail", "it has sm_90a"),
        ("9.0", ["compute_90a"], "fail", "it has compute_90a"),
    ],
)
def test_the_kernels_of_torch_must_run_on_the_gpu(cc: str, names: list[str], status: str, said: str) -> None:
    found = static.arch(Subject(0, "NVIDIA L4", cc), "2.15.0", names)
    assert found.status == status
    assert said in found.message


@pytest.mark.parametrize(
    ("size", "status"), [(2**30, "pass"), (2**30 - 1, "warn"), (2**26, "warn"), (0, "warn"), (None, "skip")]
)
def test_shared_memory(size: int | None, status: str) -> None:
    found = static.shm(size)
    assert (found.status, found.value) == (status, None if size is None else size / 2**30)
    assert (found.warn_below, found.unit) == ((None, "") if size is None else (1.0, "GiB"))
    if size == 2**26:
        assert found.message == "only 0.0625 GiB in /dev/shm: DataLoader workers and NCCL need more"


def test_data_of_two_processes() -> None:
    [right], [wrong] = (static.loader(CPU, {"right": each, "bytes": 16_800_000}) for each in (True, False))
    assert (right.status, right.message) == ("pass", "16.8 MB from two processes")
    assert (wrong.status, wrong.severity) == ("fail", "env")


@pytest.mark.parametrize(
    ("found", "count", "uuid"),
    [
        ([gpu()], "fail", "pass"),
        ([gpu(), gpu(1)], "pass", "pass"),
        ([gpu(), gpu(1), gpu(2)], "fail", "pass"),
        ([gpu(), gpu(1, uuid="u0")], "pass", "fail"),
        ([gpu(), gpu(1, uuid="")], "pass", "warn"),
    ],
)
def test_the_number_of_gpus_must_be_the_expected_one(found: list[dict[str, Any]], count: str, uuid: str) -> None:
    said = verdict(devices.devices(Options("cuda", expect_gpus=2), found))
    assert (said["gpu.count"], said["gpu.uuid"]) == (count, uuid)


def test_the_message_has_the_number_of_gpus() -> None:
    def said(expected: int, *found: dict[str, Any], message: str = "") -> tuple[str, str, str]:
        check = devices.devices(Options("cuda", expect_gpus=expected), found, message)[0]
        return check.status, check.message, check.action

    assert said(1, gpu()) == ("pass", "1 GPU", "")
    assert said(2, gpu(), gpu(1)) == ("pass", "2 GPUs", "")
    assert said(2, gpu()) == ("fail", "1 GPU found, 2 expected", "replace-node")
    assert said(1, gpu(), gpu(1)) == ("fail", "2 GPUs found, 1 expected", "fix-pool")
    assert said(1) == ("fail", "no CUDA device: CUDA starts and lists none", "fix-driver")
    assert said(1, message="out of memory")[1:] == ("no CUDA device: out of memory", "none")
    [_, uuid, *_] = devices.devices(Options("cuda"), [gpu(uuid="")])
    assert (uuid.status, uuid.message) == ("pass", "one GPU")
    twice = devices.devices(Options("cuda", expect_gpus=3), [gpu(), gpu(1), gpu(2, uuid="u1")])[1]
    assert twice.message == "GPUs 1, 2 are not 2 GPUs: their UUIDs are the same"


@pytest.mark.parametrize(
    ("options", "check", "status"),
    [
        ({}, "gpu.name", "skip"),
        ({"expect_gpu": "l4"}, "gpu.name", "pass"),
        ({"expect_gpu": "L40S"}, "gpu.name", "fail"),
        ({"expect_gpu": "NVIDIA L4 big"}, "gpu.name", "fail"),
        ({}, "gpu.capability", "skip"),
        ({"min_compute_capability": "8.9"}, "gpu.capability", "pass"),
        ({"min_compute_capability": "8.8"}, "gpu.capability", "pass"),
        ({"min_compute_capability": "10.0"}, "gpu.capability", "fail"),
        ({}, "gpu.mig", "pass"),
    ],
    ids=str,
)
def test_the_model_of_the_gpu_must_be_the_expected_one(options: dict[str, Any], check: str, status: str) -> None:
    assert verdict(devices.devices(Options("cuda", **options), [gpu()]))[check] == status


@pytest.mark.parametrize(("expected", "status"), [("", "fail"), ("A100", "fail"), ("A100 MIG", "pass")])
def test_a_slice_is_taken_where_it_is_named(expected: str, status: str) -> None:
    found = devices.devices(Options("cuda", expect_gpu=expected), [gpu(name=SLICE.name)])
    assert verdict(found)["gpu.mig"] == status
    assert found[-1].message.endswith(
        "a MIG slice, 1g.10gb of NVIDIA A100-SXM4-80GB" + (", expected a whole GPU" if status == "fail" else "")
    )


@pytest.mark.parametrize(
    ("device", "cuda", "status", "said"),
    [
        ("cuda", "13.2", "pass", "torch 2, built for CUDA 13.2"),
        ("cuda", None, "fail", "torch 2 is built without CUDA, for the CPU only"),
        ("cpu", None, "pass", "torch 2, built for the CPU"),
        ("cpu", "13.2", "pass", "torch 2, built for CUDA 13.2"),
    ],
)
def test_torch_must_be_built_for_cuda(device: str, cuda: str | None, status: str, said: str) -> None:
    found = devices.torch_build(Options(device), {"version": "2", "cuda": cuda})
    assert (found.status, found.message) == (status, said)
