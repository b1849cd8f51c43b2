"""Sources of drivers by branch, for users who choose one. The catalog has more: machines and dates."""

from __future__ import annotations

from typing import NamedTuple


class Origin(NamedTuple):
    """A source of drivers, and for each branch what to request from it."""

    name: str
    machines: tuple[str, ...]
    branches: dict[int, str]
    source: str


_BOTH = ("x86_64", "arm64")
_EKS = "awslabs/amazon-eks-ami#2768: from release v20260917 on it has two branches, 2026-09-21"

# The same as the rows of these names in the catalog's driver_sources.json.
ORIGINS = {
    "installer": Origin(
        "Google's cuda_installer",
        ("x86_64",),
        {
            580: "--installation-branch lts",
            595: "--installation-branch prod, its default",
            610: "--installation-branch nfb",
        },
        "GoogleCloudPlatform/compute-gpu-installation@e4d32d9 cuda_installer/config.py, 2026-08-05",
    ),
    "accelerator-image": Origin(
        "Google's images with a driver",
        _BOTH,
        {570: "ubuntu-os-accelerator-images, nvidia-570", 580: "ubuntu-os-accelerator-images, nvidia-580"},
        "Google Cloud documentation, accelerator images, 2026-04-06",
    ),
    "al2023": Origin(
        "EKS's AL2023 NVIDIA AMI",
        _BOTH,
        {580: "v20260917 or newer, its default", 595: "v20260917 or newer"},
        _EKS,
    ),
    "bottlerocket": Origin(
        "EKS's Bottlerocket NVIDIA variants",
        _BOTH,
        {580: "their only one"},
        "bottlerocket-os/bottlerocket: all NVIDIA variants on R580, 2026-01-29",
    ),
}
