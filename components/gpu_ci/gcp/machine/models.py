"""Parts of a GPU machine's arguments that are models of their own: attached GPUs, and where the driver comes from."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import ConfigDict, Field, ValidationInfo, field_validator

from ...args import Args, Whole
from . import rules, software, stack_schema


class GuestAccelerator(Args):
    """GPUs attached to an N1 machine."""

    model_config = ConfigDict(json_schema_extra=stack_schema.add_accelerators)

    type: str = Field(description="an accelerator type n1 takes, such as nvidia-tesla-t4")
    count: Whole = Field(default=1, description="how many of them one machine gets")

    @field_validator("type")
    @classmethod
    def _type(cls, value: str) -> str:
        return rules.accelerator_type(value)

    @field_validator("count")
    @classmethod
    def _count(cls, value: int, info: ValidationInfo) -> int:
        return rules.accelerator_count(value, info.data)


class ImageDriver(Args):
    """The boot image brings the driver: Google's accelerator and Deep Learning VM images, and those of one's own."""

    source: Literal["image"] = Field(description="the image brings the driver")


class InstallerDriver(Args):
    """Google's cuda_installer puts the driver on a plain image at the first boot, which takes minutes and a restart.

    Its modules are not signed, so secure boot is off. Source: github.com/GoogleCloudPlatform/compute-gpu-installation,
    version 1.9.1.
    """

    source: Literal["installer"] = Field(description="Google's cuda_installer installs the driver at the first boot")
    branch: Whole = Field(
        default=580,
        description="the driver's branch: 580 (its lts), 595 (its prod) or 610 (its nfb)",
    )

    @field_validator("branch")
    @classmethod
    def _branch(cls, value: int) -> int:
        return software.installer_branch(value)


class CosDriver(Args):
    """Container-Optimized OS installs the driver itself, and the check runs in a container, as COS has no Python."""

    source: Literal["cos"] = Field(
        description="Container-Optimized OS installs its own signed driver at the first boot"
    )
    branch: Whole = Field(default=580, ge=470, le=999, description="the driver's branch, such as 580")
    check_image: str = Field(
        pattern=r"^[a-z0-9][a-z0-9.-]*(:[0-9]+)?(/[a-z0-9._-]+)+(:[A-Za-z0-9._-]+)?@sha256:[0-9a-f]{64}$",
        description="the container image with Python and torch that the check runs in, by its digest, as "
        "registry/name:tag@sha256:…",
        examples=["docker.io/pytorch/pytorch:2.9.1-cuda12.8-cudnn9-runtime@sha256:…"],
    )


Driver: TypeAlias = Annotated[ImageDriver | InstallerDriver | CosDriver, Field(discriminator="source")]
