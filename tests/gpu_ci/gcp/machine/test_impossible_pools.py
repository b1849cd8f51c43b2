"""Pools that cannot be: each one mistake, refused in the preview at its place, with what would work."""

from __future__ import annotations

from typing import Any

from gpu_ci.gcp.runner_pool import RunnerPool

from tests.gpu_ci.gcp.machine.test_boot import CONTAINER, COS, PLAIN
from tests.gpu_ci.gcp.test_gpu_instance_template import ROCKY
from tests.gpu_ci.gcp.test_runner_pool_args import problems

OWN = "projects/acme-ci/global/images/gpu"
ACCELERATOR = "projects/ubuntu-os-accelerator-images/global/images/ubuntu-accelerator-2404-{}"
DEEP_LEARNING = "projects/deeplearning-platform-release/global/images/family/{}"
INSTALLED = {"driver": {"source": "installer", "branch": 595}, "image": PLAIN}


def n1(machine: str, card: str, count: int, zone: str = "us-central1-c", **more: Any) -> dict[str, Any]:
    guest = {"type": f"nvidia-tesla-{card}", "count": count}
    return {"machineType": machine, "guestAccelerator": guest, "zones": [zone], "image": OWN, **more}


def of(machine: str, zone: str, **more: Any) -> dict[str, Any]:
    return {"machineType": machine, "zones": [zone], "image": OWN, **more}


# What is wrong -> the choices, where it is told, and what would work as the report has it. One row for each rule; which
# machines, cards and zones go together is held by the tests of the catalog.
IMPOSSIBLE: dict[str, tuple[dict[str, Any], str, str]] = {
    # zones
    "V100 in a zone without it": (
        n1("n1-standard-8", "v100", 1, "us-east1-d"),
        "zones[0]",
        "zones that have it: us-east1-b, us-east1-c",
    ),
    "L4 in a zone without it": (of("g2-standard-8", "us-central1-f"), "zones[0]", "us-central1-a"),
    "a zone of a region that has no GPUs": (of("g2-standard-8", "southamerica-east1-a"), "zones[0]", "us-central1-a"),
    "zones of two regions": (
        {"zones": ["us-central1-a", "us-east1-b"]},
        "zones[1]",
        "a zone of us-central1",
    ),
    "a region in the place of a zone": ({"zones": ["us-central1"]}, "zones[0]", "such as us-central1-a"),
    "four P100 beside a large machine, where only smaller ones may have them": (
        n1("n1-standard-96", "p100", 4, "us-east1-c"),
        "zones[0]",
        "4 x nvidia-tesla-p100 takes at most 64 vCPUs",
    ),
    # attached GPUs
    "24 vCPUs of a custom machine with one P100": (
        n1("n1-custom-24-65536", "p100", 1),
        "machineType",
        "such as n1-standard-16, with 16 vCPUs and 60 GiB",
    ),
    "8 vCPUs of a custom machine with much memory": (
        n1("custom-8-53248-ext", "t4", 1),
        "machineType",
        "a predefined n1 machine type, of a size that its GPUs allow such as n1-highmem-8, with 8 vCPUs and 52 GiB",
    ),
    "a custom machine with more vCPUs than any": (
        n1("n1-custom-128-131072", "t4", 4),
        "machineType",
        "such as n1-highcpu-96, with 96 vCPUs and 86.4 GiB",
    ),
    "a custom g2": (
        {"machineType": "g2-custom-8-40960"},
        "machineType",
        "a predefined g2 machine type such as g2-standard-8, with 8 vCPUs and 32 GiB",
    ),
    "32 vCPUs with one P100": (n1("n1-standard-32", "p100", 1), "guestAccelerator", "at most 16 vCPUs"),
    "three T4": (n1("n1-standard-8", "t4", 3), "guestAccelerator.count", "1, 2, 4"),
    "an L4 attached": (n1("n1-standard-8", "l4", 1), "guestAccelerator.type", "nvidia-tesla-t4"),
    "a K80, which Google no longer has": (n1("n1-standard-8", "k80", 1), "guestAccelerator.type", "nvidia-tesla-t4"),
    "n1 without a GPU": (
        {"machineType": "n1-standard-8", "image": OWN},
        "guestAccelerator",
        "such as {type: nvidia-tesla-t4, count: 1}",
    ),
    "a T4 beside a built-in L4": (
        {"guestAccelerator": {"type": "nvidia-tesla-t4", "count": 1}},
        "guestAccelerator",
        "remove guestAccelerator, because the machine type includes the GPUs",
    ),
    # machine types
    "a machine type without a GPU": ({"machineType": "n2-standard-8"}, "machineType", "g2-standard-8"),
    "a machine type of AWS": ({"machineType": "g6.xlarge"}, "machineType", "g2"),
    "a shared core with a T4": (n1("g1-small", "t4", 1), "machineType", "n1 types can have GPUs attached"),
    "a number of vCPUs g2 has not": ({"machineType": "g2-standard-9"}, "machineType", "did you mean g2-standard-8"),
    "a number of GPUs a2 has not": ({"machineType": "a2-highgpu-5g"}, "machineType", "did you mean a2-highgpu-4g"),
    "more vCPUs than any n1 has": ({"machineType": "n1-highmem-200"}, "machineType", "did you mean n1-highmem-96"),
    # markets
    "one H100 on demand": (of("a3-highgpu-1g", "us-central1-a", market="standard"), "market", "use spot or flex-start"),
    "GB200 as spot": (of("a4x-highgpu-4g", "us-central1-a", market="spot"), "market", "use reservation"),
    "a capacity block, which is Amazon's": ({"market": "capacity-block"}, "market", "spot"),
    "a reservation of L4 as a market of its own": (
        {"market": "reservation", "reservation": "l4s"},
        "market",
        "use market: standard, and set reservation to the name of the reservation",
    ),
    "a reservation of a machine that is sold neither so nor on demand": (
        of("a3-highgpu-1g", "us-central1-a", market="reservation", reservation="h100s"),
        "market",
        "use spot or flex-start",
    ),
    "flex-start without a duration": ({"market": "flex-start"}, "maxRunDurationSec", "such as 3600"),
    "flex-start for less than ten minutes": (
        {"market": "flex-start", "maxRunDurationSec": 300},
        "maxRunDurationSec",
        "600 to 604800",
    ),
    "flex-start for more than a week": (
        {"market": "flex-start", "maxRunDurationSec": 604_801},
        "maxRunDurationSec",
        "600 to 604800",
    ),
    "a market of reservations without one": (
        of("a3-ultragpu-8g", "us-central1-b", market="reservation"),
        "reservation",
        "such as h200-of-ci",
    ),
    "a reservation for spot machines": ({"reservation": "l4s"}, "reservation", "use market: standard"),
    "a reservation for flex-start machines": (
        {"reservation": "l4s", "market": "flex-start", "maxRunDurationSec": 3600},
        "reservation",
        "use market: standard",
    ),
    "spot with live migration": ({"onHostMaintenance": "MIGRATE"}, "onHostMaintenance", "always TERMINATE"),
    "spot that restarts": ({"automaticRestart": True}, "automaticRestart", "market sets the value"),
    "machines that stop instead of going": (
        {"instanceTerminationAction": "STOP"},
        "instanceTerminationAction",
        "the value is always DELETE",
    ),
    "a public address": ({"accessConfigs": [{}]}, "accessConfigs", "through the network's NAT"),
    # disks and network
    "g2 on a standard disk": ({"diskType": "pd-standard"}, "diskType", "pd-balanced, pd-ssd"),
    "g4 on a persistent disk": (of("g4-standard-48", "us-central1-b", diskType="pd-ssd"), "diskType", "hyperdisk"),
    "two local SSDs on a g2 that takes one": ({"localSsdCount": 2}, "localSsdCount", "such as 1"),
    "one local SSD on a g2 that takes two": (
        {"machineType": "g2-standard-24", "localSsdCount": 1},
        "localSsdCount",
        "such as 2",
    ),
    "nine local SSDs on N1": (n1("n1-standard-8", "t4", 1, localSsdCount=9), "localSsdCount", "such as 8"),
    "local SSDs beside a V100 in the one zone that has none": (
        n1("n1-standard-8", "v100", 1, "us-east1-c", localSsdCount=1),
        "localSsdCount",
        "use other zones",
    ),
    "local SSDs on a3, which brings its own": (
        of("a3-highgpu-1g", "us-central1-a", localSsdCount=2),
        "localSsdCount",
        "remove it",
    ),
    "a local SSD on a part of a g4, which has none": (
        of("g4-standard-6", "us-central1-b", localSsdCount=1, driver={"source": "installer"}, image=PLAIN),
        "localSsdCount",
        "remove it",
    ),
    "a3 without gVNIC": (of("a3-highgpu-1g", "us-central1-a", nicType="VIRTIO_NET"), "nicType", "GVNIC"),
    "IDPF on g2": ({"nicType": "IDPF"}, "nicType", "VIRTIO_NET, GVNIC"),
    "a boot disk smaller than the image": ({"diskGib": 20}, "diskGib", "30 to 65536"),
    # images, drivers and torch
    "a fraction of a GPU with an image's driver": (
        of("g4-standard-6", "us-central1-b"),
        "driver",
        "driver: {source: installer}",
    ),
    "the vGPU driver in a branch that has none": (
        of("g4-standard-6", "us-central1-b", driver={"source": "installer", "branch": 595}, image=PLAIN),
        "driver",
        "driver.branch: 580",
    ),
    "driver 595 on a V100": (
        n1("n1-standard-8", "v100", 1, **INSTALLED, torch="2.14.0+cu126"),
        "driver",
        "driver.branch: 580",
    ),
    "a branch the installer has not": (
        {"driver": {"source": "installer", "branch": 570}, "image": PLAIN},
        "driver.branch",
        "one of 580, 595, 610",
    ),
    "the installer on an image with a driver": (
        {"driver": {"source": "installer"}},
        "image",
        "such as projects/ubuntu-os-cloud/",
    ),
    "the installer on a system it does not know": (
        {"driver": {"source": "installer"}, "image": "projects/debian-cloud/global/images/family/debian-11"},
        "image",
        "such as projects/ubuntu-os-cloud/",
    ),
    "Rocky Linux without a driver": (
        {"image": "projects/rocky-linux-cloud/global/images/family/rocky-linux-9-optimized-gcp"},
        "image",
        "driver: {source: installer}",
    ),
    "an image without a driver": ({"image": PLAIN}, "image", "driver: {source: installer}"),
    "COS as an image with a driver": ({"image": COS}, "image", "driver: {source: cos}"),
    "COS's driver on Ubuntu": (
        {"driver": {"source": "cos", "checkImage": CONTAINER}, "image": PLAIN},
        "image",
        "such as projects/cos-cloud/",
    ),
    "COS without a container for the check": (
        {"driver": {"source": "cos"}, "image": COS},
        "driver.checkImage",
        "such as checkImage: docker.io/pytorch/pytorch:2.9.1-cuda12.8-cudnn9-runtime@sha256:…",
    ),
    "a container by its tag alone": (
        {"driver": {"source": "cos", "checkImage": CONTAINER.partition("@")[0]}, "image": COS},
        "driver.checkImage",
        "such as checkImage: docker.io/pytorch/pytorch:2.9.1-cuda12.8-cudnn9-runtime@sha256:…",
    ),
    "an image for the other processor": ({"image": ACCELERATOR.format("arm64-with-nvidia-580")}, "image", "arm64"),
    "an image of x86 on a machine of Arm": (
        of(
            "a4x-highgpu-4g",
            "us-central1-a",
            market="reservation",
            reservation="gb200s",
            image=ACCELERATOR.format("amd64-with-nvidia-580"),
        ),
        "image",
        "ubuntu-accelerator-2404-arm64-with-nvidia-580",
    ),
    "Rocky Linux with a driver its publisher does not have": (
        {"image": ROCKY.replace("580", "550")},
        "image",
        "the publisher's image with driver 580",
    ),
    "an image whose torch does not know the GPU": (
        of("g4-standard-48", "us-central1-b", image=DEEP_LEARNING.format("pytorch-2-5-cu124-ubuntu-2204-nvidia-580")),
        "image",
        "torch 2.7.0+cu128",
    ),
    "the default torch on a V100 whose driver is installed": (
        n1("n1-standard-8", "v100", 1, driver={"source": "installer", "branch": 580}, image=PLAIN),
        "torch",
        "torch: 2.14.0+cu126",
    ),
    "an image whose driver does not know the GPU": (
        of("a4-highgpu-8g", "us-central1-b", image=DEEP_LEARNING.format("common-cu129-ubuntu-2404-nvidia-550")),
        "image",
        "an image with driver branch",
    ),
    "a torch without kernels for a V100": (
        n1("n1-standard-8", "v100", 1, torch="2.15.0"),
        "torch",
        "torch: 2.14.0+cu126",
    ),
    "a torch whose CUDA the image's driver does not know": (
        {"image": ACCELERATOR.format("amd64-with-nvidia-570"), "torch": "2.12.0+cu130"},
        "torch",
        "the publisher's image with driver 580",
    ),
    "a torch beside the one the image has": (
        {
            "image": DEEP_LEARNING.format("pytorch-2-9-cu129-ubuntu-2204-nvidia-580"),
            "torch": "2.9.1",
        },
        "torch",
        "remove it",
    ),
    "a torch beside the one the container has": (
        {"driver": {"source": "cos", "checkImage": CONTAINER}, "image": COS, "torch": "2.9.1"},
        "torch",
        "remove it",
    ),
    # what a pool adds
    "flex-start machines that wait stopped": (
        {"market": "flex-start", "maxRunDurationSec": 3600, "standby": {"stoppedSize": 1}},
        "standby",
        "use market: standard, or remove standby",
    ),
    "spot machines that wait stopped": ({"standby": {"stoppedSize": 1}}, "standby", "use market: standard"),
    "more that wait than there may be": (
        {"market": "standard", "standby": {"stoppedSize": 5}},
        "standby.stoppedSize",
        "at most 4",
    ),
    "suspended machines": (
        {"market": "standard", "standby": {"suspendedSize": 1, "stoppedSize": 1}},
        "standby.suspendedSize",
        "one of stoppedSize, mode, initialDelaySec",
    ),
    "a check that outlasts its machine": (
        {"maxRunDurationSec": 900, "smoke": {"deadlineSec": 900}},
        "smoke.deadlineSec",
        "raise maxRunDurationSec",
    ),
    "a secret twice": (
        {"secrets": ["projects/acme-ci/secrets/a", "projects/acme-ci/secrets/b", "projects/acme-ci/secrets/a"]},
        "secrets[2]",
        "remove it",
    ),
    "a secret by its name alone": ({"secrets": ["token"]}, "secrets[0]", "store the value in Secret Manager"),
}  # fmt: skip


def test_each_is_refused_where_it_is_wrong_with_what_would_work() -> None:
    wrong = {}
    for name, (choices, path, instead) in IMPOSSIBLE.items():
        assert instead, "every string has nothing in it"
        found = problems(**choices)
        if [problem.path for problem in found] != [path] or instead not in f"{found[0].expected} {found[0].hint}":
            wrong[name] = [problem.render("pool") for problem in found]
    assert wrong == {}


def test_the_pool_that_they_change_is_accepted() -> None:
    assert problems() == []
    assert RunnerPool.EXAMPLE["machineType"] == "g2-standard-8"
