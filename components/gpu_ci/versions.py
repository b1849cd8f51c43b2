"""Every version this package pins. A change here is a change of what pools boot, and shows in the next preview."""

from __future__ import annotations

PACKAGE = "0.1.0"
"""This package's own version, which is also the plugin's; a test holds it equal to pyproject.toml."""

TORCH = "2.15.0"
"""What the boot script installs where an image brings no torch. Its default wheel is CUDA 13.2 (measured by installing
it), which needs driver 580 or newer (NVIDIA's minor version compatibility: CUDA 13.x from 580)."""

GCE_IMAGE = (
    "projects/ubuntu-os-accelerator-images/global/images/ubuntu-accelerator-2404-amd64-with-nvidia-580-v20260820"
)
"""Google's prebuilt accelerator image: signed modules, so secure boot stays on. This build is reported to run an L4
with driver 580.173.02 (a public test log of 2026-08-24). A family name would change under a pool unchecked."""

UV = "0.13.8"
"""What installs a torch for another CUDA than its default one: it knows PyTorch's own indexes. A test holds it equal to
requirements-uv.lock."""

CUDA_INSTALLER = (
    "https://github.com/GoogleCloudPlatform/compute-gpu-installation/releases/download/"
    "cuda-installer-v1.9.1/cuda_installer.pyz"
)
"""Google's driver installer, by its release: 580.159.04 (lts), 595.84 (prod) and 610.43.02 (nfb), as the README of
GoogleCloudPlatform/compute-gpu-installation says at e4d32d9."""

DOCKER_IMAGE = "docker:29.7.2-cli"
"""Docker's own client image, with buildx 0.36.1 in it (docker-library/docker@3289af8:versions.json). The docker builder
of Cloud Build has no tag that stays."""

BUILDKIT_IMAGE = "moby/buildkit:v0.29.0"
"""What buildx builds in. The engine of a build's machine cannot export a cache to a registry; a BuildKit of its own can
(docs.docker.com/build/cache/backends)."""

RUNNER = "2.336.0"
"""GitHub's runner on a machine of its own. It does not update itself there: another one is a change of this line."""

RUNNER_SHA256 = {
    "x64": "04cf0be1aff4c3ec3554466c39124ca250e3effd8873bb7e8d68535aa9505d5d",
    "arm64": "58b758e420b87093fbd4bfddd368074960053e2f1388f01848c82624b90f27d1",
}
"""Of its Linux archives, as the notes of that release have them (github.com/actions/runner/releases/tag/v2.336.0)."""

ARC_CHARTS = "0.14.2"
"""The charts of GitHub's Actions Runner Controller, its controller's and its scale sets', which go together
(actions/actions-runner-controller@9bb16ae: charts/gha-runner-scale-set-controller/Chart.yaml and
charts/gha-runner-scale-set/Chart.yaml). A test holds it equal to the definitions in kubernetes/arc_definitions.json."""

DEVICE_PLUGIN_CHART = "0.20.0"
"""NVIDIA's device plugin (NVIDIA/k8s-device-plugin@7774fe3: deployments/helm/nvidia-device-plugin/Chart.yaml)."""
