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
locks/uv.lock."""

CUDA_INSTALLER = (
    "https://github.com/GoogleCloudPlatform/compute-gpu-installation/releases/download/"
    "cuda-installer-v1.9.1/cuda_installer.pyz"
)
"""Google's driver installer, by its release: 580.159.04 (lts), 595.84 (prod) and 610.43.02 (nfb), as the README of
GoogleCloudPlatform/compute-gpu-installation says at e4d32d9."""

DOCKER_IMAGE = "docker:29.7.2-cli"
"""Docker's own client image, with buildx 0.36.1 in it (docker-library/docker@3289af8:versions.json). The docker builder
of Cloud Build has no tag that stays.

Clients 29.0 to 29.3 fail on Cloud Build: they speak Docker API 1.44 and newer, and its engine 1.41 and older
(googleapis/librarian#2860, GoogleCloudPlatform/terraform-google-enterprise-application#706). Clients since 29.4 speak
1.40 and newer (docker/cli v29.4.0, which has moby/client v0.4.0): look at MinAPIVersion before another version is
pinned here.

The name is Docker Hub's, not mirror.gcr.io's. Cloud Build asks that mirror by itself and takes Docker Hub where it has
no copy; a pull from the mirror's own name would fail there
(cloud.google.com/artifact-registry/docs/pull-cached-dockerhub-images)."""

BUILDKIT_IMAGE = "moby/buildkit:v0.29.0"
"""What buildx builds in. The engine of a build's machine cannot export a cache to a registry; a BuildKit of its own can
(docs.docker.com/build/cache/backends)."""

RUNNER = "2.338.0"
"""GitHub's runner on a machine of its own. It does not update itself there: another one is a change of this line.
GitHub gives no jobs to one that is 30 days behind a release; no later one was known on 2026-11-22."""

RUNNER_SHA256 = {
    "x64": "af4b794c1bc41d73d40535e3fe092a39f9679cd8d965954c2aca25a05ca41d32",
    "arm64": "628b4a7258487b80c1d3c221095a7ded349f5ae0175fd3dfab708d07428f041b",
}
"""Of its Linux archives. The release's own notes could not be read here: both are what several public repositories pin,
some of which say that they took them from there; Keel-Linux compared the one of x64 with GitHub's API (2026-10-07)."""

ARC_CHARTS = "0.14.2"
"""The charts of GitHub's Actions Runner Controller, its controller's and its scale sets', which go together
(actions/actions-runner-controller@9bb16ae: charts/gha-runner-scale-set-controller/Chart.yaml and
charts/gha-runner-scale-set/Chart.yaml). A test holds it equal to the definitions in kubernetes/arc_definitions.json."""

DEVICE_PLUGIN_CHART = "0.20.0"
"""NVIDIA's device plugin (NVIDIA/k8s-device-plugin@7774fe3: deployments/helm/nvidia-device-plugin/Chart.yaml)."""
