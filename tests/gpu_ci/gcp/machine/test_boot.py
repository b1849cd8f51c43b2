"""The boot metadata of a machine: its expected GPU, its driver source, and custom keys."""

from __future__ import annotations

import base64
import io
import zipfile
from typing import Any

from gpu_ci.gcp.gpu_instance_template import GpuInstanceTemplate, GpuInstanceTemplateArgs
from gpu_ci.gcp.machine import boot
from gpu_ci.payload import without_comments

from tests.conftest import ROOT
from tests.gpu_ci.support import WIRING

PLAIN = "projects/ubuntu-os-cloud/global/images/family/ubuntu-2404-lts-amd64"
COS = "projects/cos-cloud/global/images/family/cos-stable"
CONTAINER = f"docker.io/pytorch/pytorch:2.9.1-cuda12.6-cudnn9-runtime@sha256:{'0' * 64}"


def args(**choices: Any) -> GpuInstanceTemplateArgs:
    wiring = {**WIRING, "service_account_email": "gpu@acme-ci.iam.gserviceaccount.com"}
    return GpuInstanceTemplateArgs(**{**GpuInstanceTemplate.EXAMPLE, **wiring, **choices})


def test_the_metadata_is_a_script_two_programs_and_a_configuration() -> None:
    assert sorted(boot.metadata("l4", args(), 300)) == [
        "enable-guest-attributes",
        "gpu-agent-config",
        "gpu-agent-pyz",
        "gpu-smoke-pyz",
        "startup-script",
    ]


def test_the_agent_in_the_metadata_is_that_of_this_repository() -> None:
    packed = base64.b64decode(str(boot.metadata("l4", args(), 300)["gpu-agent-pyz"]))
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        names = {path.relative_to(ROOT / "agent").as_posix() for path in (ROOT / "agent/gpu_agent").rglob("*.py")}
        assert {*archive.namelist()} == {"__main__.py", *names, "gpu_agent/torch.lock", "gpu_agent/uv.lock"}
        source = (ROOT / "agent/gpu_agent/config.py").read_text()
        assert archive.read("gpu_agent/config.py").decode() == without_comments(source)
