"""The versions of images, drivers, charts and programs that pools use. The next preview shows a change of a version."""

from __future__ import annotations

PACKAGE = "0.1.0"
"""The version of this package and of its plugin. A test checks that it equals the one in pyproject.toml."""

TORCH = "2.15.0"
"""The torch version that the boot script installs if the image has none. Its default wheel is built for CUDA 13.2
(measured by installing it). That requires driver 580 or newer (NVIDIA's minor version compatibility: CUDA 13.x from
580). The files of this version and of all that it needs are checked by the hashes of agent/gpu_agent/torch.lock."""

GCE_IMAGE = (
    "projects/ubuntu-os-accelerator-images/global/images/ubuntu-accelerator-2404-amd64-with-nvidia-580-v20260820"
)
"""Google's prebuilt accelerator image. Its driver modules are signed, so secure boot stays on. A public test log of
2026-08-24 reports that this build runs an L4 with driver 580.173.02. An image family is not used, because its image
could change without a check."""

EC2_IMAGE = "/aws/service/deeplearning/ami/{architecture}/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id"
"""The public SSM parameter with the newest AWS Deep Learning Base AMI with NVIDIA driver, for x86_64 or arm64. Public
repositories use this name; it was not compared with AWS. The system is Ubuntu 24.04, because the agent needs Python
3.11 or newer: Amazon Linux 2023 has 3.9, and Ubuntu 22.04 has 3.10. `pulumi up` resolves the parameter, so a new image
is a new version of the launch template in the preview."""

CUDA_INSTALLER = (
    "https://github.com/GoogleCloudPlatform/compute-gpu-installation/releases/download/"
    "cuda-installer-v1.9.1/cuda_installer.pyz"
)
"""The release of Google's driver installer. It installs driver 580.159.04 (lts), 595.84 (prod) or 610.43.02 (nfb), per
the README of GoogleCloudPlatform/compute-gpu-installation at e4d32d9."""

PYTHON_IMAGE = "python:3.13-slim-trixie@sha256:ffb752e139c0a19692a43af8d8523b274222dd68eebad5d583b45c2201c6e30a"
"""Docker's image of Python for programs that are steps of builds, as in images/runtime/Dockerfile: Python 3.13.15. The
digest was not compared with the registry. Several public repositories pin the same digest. The libraries that the build
installs in the image are pinned by their hashes."""

GCLOUD_BUILDER = "gcr.io/cloud-builders/gcloud"
"""Cloud Build's image of gcloud. Its workers have a copy, and it has no immutable tag
(cloud.google.com/build/docs/cloud-builders)."""

DOCKER_IMAGE = "docker:29.7.2-cli@sha256:000bb62ff495f986c9f5578eb67cc2cb98b91138eda81d7762d5371eb8a497fe"
"""Docker's client image. It contains buildx 0.36.1 (docker-library/docker@3289af8:versions.json). The digest was not
compared with the registry. Several public repositories pin the same one. The docker builder of
Cloud Build is not used, because it has no immutable tag.

Clients 29.0 to 29.3 fail on Cloud Build. They support Docker API 1.44 and newer; the engine there supports 1.41 and
older (googleapis/librarian#2860, GoogleCloudPlatform/terraform-google-enterprise-application#706). Clients since 29.4
support 1.40 and newer (docker/cli v29.4.0, which has moby/client v0.4.0). Check MinAPIVersion before you pin another
version here.

This is the name on Docker Hub, not on mirror.gcr.io. Cloud Build itself tries this mirror first, and pulls from Docker
Hub if the mirror has no copy. With the mirror's name, the pull would fail in this case
(cloud.google.com/artifact-registry/docs/pull-cached-dockerhub-images)."""

COSIGN_IMAGE = (
    "gcr.io/projectsigstore/cosign:v3.1.3@sha256:9e5c2f2edc34351160407ca3416c61855bdf9403c3c5936e0f0be7fc261611b8"
)
"""Sigstore's image of cosign, which signs container images. The image has no shell, and its user is not root
(sigstore/cosign v3.1.3: .ko.yaml). The digest was not compared with the registry. Several public repositories pin this
tag with the same digest, some as ghcr.io/sigstore/cosign/cosign. cosign warns that two flags of the step `sign` are
deprecated (gcp/build/image_steps.py). Check them before you pin another version here."""

BUILDKIT_IMAGE = "moby/buildkit:v0.29.0@sha256:0039c1d47e8748b5afea56f4e85f14febaf34452bd99d9552d2daa82262b5cc5"
"""The BuildKit image in which buildx builds. The Docker engine of the machine cannot export a cache to a registry. A
separate BuildKit can (docs.docker.com/build/cache/backends). The digest was not compared with the registry. Several
public repositories pin the same one."""

RUNNER = "2.338.0"
"""The version of GitHub's runner on machines. The runner does not update itself there. To update it, change this line.
GitHub sends no jobs to a runner 30 days after a newer release. No newer release was known on 2026-11-22."""

RUNNER_SHA256 = {
    "x64": "af4b794c1bc41d73d40535e3fe092a39f9679cd8d965954c2aca25a05ca41d32",
    "arm64": "628b4a7258487b80c1d3c221095a7ded349f5ae0175fd3dfab708d07428f041b",
}
"""The SHA-256 hashes of the runner's Linux archives. They were not compared with the release notes of GitHub. Several
public repositories pin the same hashes, and some name the release notes as their source. Keel-Linux compared the hash
of x64 with GitHub's API (2026-10-07)."""

ARC_CHARTS = "0.14.2"
"""The version of both charts of GitHub's Actions Runner Controller: the controller and the scale set
(actions/actions-runner-controller@9bb16ae: charts/gha-runner-scale-set-controller/Chart.yaml and
charts/gha-runner-scale-set/Chart.yaml). A test checks that it equals the one in kubernetes/arc_definitions.json."""

ARC_CHART_DIGESTS = {
    "gha-runner-scale-set-controller": "sha256:3081ba15c41f0aa791058dedd2a7406fece24c9aeaa94956c268e5099427a452",
    "gha-runner-scale-set": "sha256:579e3a1bdf4032b3c3de3e9b0880a4a6d3c1989a67c06010f680c1cc49524d11",
}
"""The digests of these charts in the registry. They were not compared with the registry here. Two public repositories
have the same ones: f5-sales-demo/self-hosted-runner@086d7ddb, whose scripts/arc-deploy.sh compares them with the
registry, and Tom-Mendy/homelab@1160c12b, in a report of its upgrade to this version."""

DEVICE_PLUGIN_CHART = "0.20.0"
"""The version of the chart of NVIDIA's device plugin
(NVIDIA/k8s-device-plugin@7774fe3: deployments/helm/nvidia-device-plugin/Chart.yaml). It has no digest: its registry is
a web page with archives, and there Helm and its Pulumi resource compare no digest."""

DCGM_EXPORTER_CHART = "4.8.2"
"""The version of the chart of NVIDIA's dcgm-exporter (NVIDIA/dcgm-exporter@d5e5f51: deployment/Chart.yaml, the same at
its tag 4.5.3-4.8.2). Its image has the tag 4.5.3-4.8.2-distroless. The chart has no digest: its registry is a web page
with archives, and there Helm and its Pulumi resource compare no digest."""

KUEUE_CHART = "0.19.2"
"""The version of Kueue's chart (kubernetes-sigs/kueue@8eab687, tag v0.19.2: charts/kueue/Chart.yaml, as it is in the Go
module sigs.k8s.io/kueue v0.19.2). It has no digest, because no source at hand has the one of this release."""

KUEUE_IMAGE = "registry.k8s.io/kueue/kueue"
"""Kueue's image, whose tag is v and the version of the chart. The values of the chart in the source name a staging
registry and a moving tag, so the release names the image itself. Its digest is not known here."""

PAUSE_IMAGE = "registry.k8s.io/pause:3.10.1@sha256:278fb9dbcca9518083ad1e11276933a2e96f23de604a3a08cc3c80002767d24c"
"""Kubernetes' pause image, for x86_64 and arm64. Its only process waits for a signal. The digest was not compared with
the registry. Several public repositories pin the same digest."""

TEKTON_CHART = "0.81.1"
"""The version of the chart of Tekton's operator (tektoncd/operator@1510682b, tag v0.81.1: charts/tekton-operator). It
installs Tekton Pipelines 1.15.0, of a line with long-term support to 2027-07-31, and Tekton Triggers 0.37.0 (the same
commit: components.yaml). It has no digest, because no source at hand has the one of this release. A test checks that it
equals the one in kubernetes/tekton_definitions.json."""
