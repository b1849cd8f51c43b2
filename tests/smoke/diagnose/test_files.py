"""Diagnosis by files: GPUs, the driver, the devices of a container, the kernel log; and a machine without faults."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from gpu_smoke.data.health import XIDS
from gpu_smoke.diagnose.finding import PROBES

from .conftest import EFI, POD, Diagnose, bind, put, without_driver


def test_a_machine_without_fault_has_none_and_everything_was_looked_at(diagnose: Diagnose) -> None:
    said = diagnose()
    assert (said.code, said.wrong(), said.record["summary"]) == (0, [], "nothing wrong was found")
    assert [check["id"] for check in said.record["checks"] if check["status"] == "skip"] == [
        "gpu.request",
        "env.capabilities",
    ]
    assert not [check for check in said.record["checks"] if check["status"] == "warn"]
    silent = {"torch.build", "gpu.init", "child", "deadline"}  # told only where they fail
    assert {check["id"] for check in said.record["checks"]} == set(PROBES) - silent


@pytest.mark.parametrize(
    ("env", "files", "place", "hint", "following"),
    [
        (POD, [], "kubernetes", "limits: nvidia.com/gpu", "kubectl get pod $HOSTNAME"),
        ({"GITHUB_ACTIONS": "true"}, [".dockerenv"], "actions", "the job's container", "options: --gpus all"),
        ({"NVIDIA_VISIBLE_DEVICES": "none"}, [".dockerenv"], "container", "NVIDIA's container toolkit", "docker run"),
        ({}, ["run/.containerenv"], "container", "NVIDIA's container toolkit", "docker run"),
        ({"container": "podman"}, [], "container", "NVIDIA's container toolkit", "docker run"),
    ],
)
def test_a_container_without_a_gpu_gets_the_command_to_request_one(
    diagnose: Diagnose, root: Path, env: dict[str, str], files: list[str], place: str, hint: str, following: str
) -> None:
    for node in (root / "dev").glob("nvidia*"):
        node.unlink()
    for file in files:
        put(root, file, "")
    said = diagnose(env=env, cuinit=100)
    assert (said.code, said.record["place"]) == (2, place)
    found = said.one("gpu.request")
    assert said.record["summary"].startswith("no GPU was given to this container: NVIDIA_VISIBLE_DEVICES is")
    assert "the machine's driver 580.159.03 runs" in found["message"]
    assert hint in found["hint"]
    assert following in found["next"]
    assert said.one("devnodes")["status"] == "skip"


def test_a_pod_with_a_gpu_passes_although_nvidia_visible_devices_is_void(diagnose: Diagnose) -> None:
    said = diagnose(env={**POD, "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"})
    assert said.code == 0
    assert said.one("gpu.request")["message"] == "this container has 2; NVIDIA_VISIBLE_DEVICES is 'void'"
    assert said.one("env.capabilities")["status"] == "pass"


def test_a_machine_without_a_gpu_on_pci_is_reported(diagnose: Diagnose, root: Path) -> None:
    without_driver(root)
    for address in ("0000:00:04.0", "0000:00:05.0"):
        shutil.rmtree(root / "sys/bus/pci/devices" / address)
    said = diagnose(cuinit="missing", nvml=None)
    assert (said.code, said.wrong()) == (2, ["gpu.hardware", "devnodes", "libcuda.real"])
    assert said.record["summary"] == "this machine has no NVIDIA GPU on PCI (and 2 more)"


def test_a_driver_that_is_not_loaded_is_reported_with_the_obstacle(diagnose: Diagnose, root: Path) -> None:
    without_driver(root)
    (root / EFI).write_bytes(b"\x06\0\0\0\x01")
    put(root, "dev/kmsg", "3,2,9,-;Loading of unsigned module is rejected\n")
    said = diagnose(cuinit="missing", nvml={"start": 9})
    assert said.code == 2
    assert said.wrong() == ["driver.loaded", "secure-boot", "devnodes", "kernel.log", "nvml", "libcuda.real"]
    assert said.one("kernel.log")["message"] == "Loading of unsigned module is rejected"
    assert said.one("nvml")["message"] == "Failed to initialize NVML: Driver Not Loaded (NVML 9)"


@pytest.mark.parametrize("by", ["binding", "module"])
def test_nouveau_is_reported(diagnose: Diagnose, root: Path, by: str) -> None:
    without_driver(root)
    if by == "binding":
        bind(root, "0000:00:04.0", "nouveau")
    else:
        put(root, "proc/modules", "nouveau 1 0 - Live 0x0\n")
    said = diagnose(cuinit="missing", nvml=None)
    assert (said.code, said.wrong()[0]) == (2, "driver.bound")
    assert "blacklist nouveau" in said.one("driver.bound")["next"]


@pytest.mark.parametrize(
    ("line", "means"),
    [
        ("NVRM: API mismatch: the client has the version 580.95.05", "env"),
        ("nvidia: version magic '6.8.0-35' should be '6.8.0-40'", "env"),
        ("NVRM: The NVIDIA GPU 0000:00:04.0 is not supported by open nvidia.ko", "env"),
        ("NVRM: GPU 0000:00:04.0: RmInitAdapter failed! (0x62:0x65:1792)", "gpu"),
        ("NVRM: GPU 0000:00:04.0 has fallen off the bus and is not responding to commands.", "gpu"),
        ("nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up", "gpu"),
    ],
)
def test_a_sign_in_the_kernel_log_is_quoted(diagnose: Diagnose, root: Path, line: str, means: str) -> None:
    put(root, "dev/kmsg", f"6,1,1,-;something else\n4,2,2,-;{line}\n6,3,3,-;something after\n")
    said = diagnose()
    assert (said.code, said.wrong()) == ({"env": 2, "gpu": 1}[means], ["kernel.log"])
    assert said.record["summary"] == line


def xid(root: Path, number: int) -> str:
    """Add an Xid to the kernel log, and return the line."""
    line = f"NVRM: Xid (PCI:0000:00:04): {number}, pid=7, name=python3"
    put(root, "dev/kmsg", f"4,2,2,-;{line}\n")
    return line


@pytest.mark.parametrize(("number", "action"), [(48, "reset-gpu"), (79, "reboot"), (54, "replace-node")])
def test_an_xid_of_the_hardware_fails_with_its_own_action(
    diagnose: Diagnose, root: Path, number: int, action: str
) -> None:
    line = xid(root, number)
    said = diagnose()
    assert (said.code, said.wrong(), said.record["action"]) == (1, ["xid"], action)
    assert said.record["summary"] == f"Xid {number} of PCI:0000:00:04: {XIDS[number].text}; the log says {line}"


def test_a_copy_of_the_kernel_log_is_read_where_the_log_itself_is_closed(diagnose: Diagnose, root: Path) -> None:
    (root / "dev/kmsg").unlink()
    assert diagnose().one("kernel.log")["status"] == "skip"
    put(root, "var/log/messages", "Nov 21 host kernel: NVRM: Xid (PCI:0000:00:04): 79, GPU has fallen off the bus.\n")
    assert diagnose().wrong() == ["xid", "kernel.log"]
