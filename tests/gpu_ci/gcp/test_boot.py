"""What a machine is given to boot with: what it should have, where its driver comes from, and nobody else's keys."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_ci import versions
from gpu_ci.errors import ArgsError
from gpu_ci.gcp import boot
from gpu_ci.gcp.gpu_instance_template import GpuInstanceTemplate, GpuInstanceTemplateArgs

from tests.conftest import ROOT
from tests.gpu_ci.support import WIRING

PLAIN = "projects/ubuntu-os-cloud/global/images/family/ubuntu-2404-lts-amd64"
COS = "projects/cos-cloud/global/images/family/cos-stable"
CONTAINER = f"docker.io/pytorch/pytorch:2.9.1-cuda12.6-cudnn9-runtime@sha256:{'0' * 64}"


def args(**choices: Any) -> GpuInstanceTemplateArgs:
    wiring = {**WIRING, "service_account_email": "gpu@acme-ci.iam.gserviceaccount.com"}
    return GpuInstanceTemplateArgs(**{**GpuInstanceTemplate.EXAMPLE, **wiring, **choices})


def test_the_metadata_says_what_the_machine_should_have() -> None:
    metadata = boot.metadata("l4", args(machineType="g2-standard-24"), 300)
    assert sorted(metadata) == [
        "enable-guest-attributes",
        "gpu-smoke-args",
        "gpu-smoke-deadline-sec",
        "gpu-smoke-pyz",
        "gpu-smoke-torch",
        "gpu-smoke-uv",
        "startup-script",
    ]
    assert metadata["gpu-smoke-args"].split("\n") == [
        "--pool", "l4", "--expect-gpus", "2", "--expect-gpu", "NVIDIA L4", "--min-compute-capability", "8.9",
    ]  # fmt: skip
    assert (metadata["gpu-smoke-deadline-sec"], metadata["gpu-smoke-torch"]) == ("240", versions.TORCH)


def test_a_machine_with_one_gpu_expects_it_by_its_name_too() -> None:
    assert boot.metadata("l4", args(), 300)["gpu-smoke-args"].split("\n") == [
        "--pool", "l4", "--expect-gpus", "1", "--expect-gpu", "NVIDIA L4", "--min-compute-capability", "8.9",
    ]  # fmt: skip


def test_a_fraction_of_a_gpu_is_one_device_of_an_unknown_name() -> None:
    part = args(machineType="g4-standard-6", zones=["us-central1-b"], driver={"source": "installer"}, image=PLAIN)
    assert boot.metadata("part", part, 300)["gpu-smoke-args"].split("\n") == [
        "--pool", "part", "--expect-gpus", "1", "--min-compute-capability", "12.0",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("choices", "expected"),
    [
        ({}, {}),
        (
            {"driver": {"source": "installer", "branch": 595}, "image": PLAIN},
            {
                "gpu-driver-source": "installer",
                "gpu-driver-branch": "prod",
                "gpu-driver-installer": versions.CUDA_INSTALLER,
            },
        ),
        (
            {"driver": {"source": "cos", "branch": 580, "checkImage": CONTAINER}, "image": COS},
            {"gpu-driver-source": "cos", "gpu-driver-branch": "R580", "gpu-smoke-image": CONTAINER},
        ),
    ],
)
def test_a_driver_that_no_image_brings_is_told_to_the_script(choices: Any, expected: dict[str, str]) -> None:
    found = boot.metadata("l4", args(**choices), 300)
    assert {key: value for key, value in found.items() if "driver" in key or key == "gpu-smoke-image"} == expected


def test_the_torch_that_was_chosen_is_the_one_it_installs() -> None:
    assert boot.metadata("l4", args(torch="2.9.1+cu126"), 300)["gpu-smoke-torch"] == "2.9.1+cu126"


def test_uv_on_the_machines_is_the_uv_of_this_repository() -> None:
    assert f"uv=={versions.UV} " in (ROOT / "requirements-uv.lock").read_text()


@pytest.mark.parametrize(
    "key",
    [
        "startup-script", "startup-script-url", "Startup-Script", "shutdown-script", "user-data", "enable-oslogin",
        "enable-osconfig", "gpu-smoke-args", "ssh-keys", "sshKeys", "gce-container-declaration", "serial-port-enable",
        "enable-guest-attributes", "block-project-ssh-keys",
    ],
)  # fmt: skip
def test_metadata_of_ones_own_may_not_undo_the_check_or_the_protection(key: str) -> None:
    with pytest.raises(ArgsError) as caught:
        args(metadata={key: "x", "agent-url": "y"})
    assert [(problem.path, problem.hint) for problem in caught.value.problems] == [
        (f"metadata.{key}", "rename it"),
    ]


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("", "x", "is no key Google takes"),
        ("a b", "x", "is no key Google takes"),
        ("k" * 128, "x", "is no key Google takes"),
        ("agent", "x" * 262_145, "has more than 262144 bytes"),
    ],
)
def test_metadata_google_would_refuse_is_refused_here(key: str, value: str, text: str) -> None:
    with pytest.raises(ArgsError) as caught:
        args(metadata={key: value})
    assert [problem.text for problem in caught.value.problems] == [text]
    assert args(metadata={"k" * 127: "x" * 262_144}).metadata
