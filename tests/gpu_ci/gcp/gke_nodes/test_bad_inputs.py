"""Invalid arguments of a node pool, each with the one problem that its user reads."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_ci.errors import report
from gpu_ci.gcp.gke_gpu_node_pool import GkeGpuNodePool, GkeGpuNodePoolArgs

from tests.gpu_ci.gcp.gke_nodes.node_pools import B200, DISK_IMAGE, FLEX, OLD_GKE, T4, Late, pool, problems

UBUNTU = {"image_type": "UBUNTU_CONTAINERD"}
H100 = {"machine_type": "a3-highgpu-8g", "zones": ["us-central1-a"]}
FORM = "has a form that is not accepted"

# What changes, then the path, the text and the hint of the problem.
BAD: list[tuple[dict[str, Any], str, str, str]] = [
    (
        {"machine_type": "g2-standard-9"},
        "machineType",
        "is not a machine type with a GPU",
        "did you mean g2-standard-8",
    ),
    (
        {"machine_type": "g6.xlarge"},
        "machineType",
        "is not a machine type with a GPU",
        "an EC2 instance type belongs in instanceTypes of a pool of the kind eks-runners",
    ),
    (
        {"machine_type": "custom-8-32768"},
        "machineType",
        "is a custom n1 machine type, which pools do not support",
        "such as n1-standard-8, with 8 vCPUs and 30 GiB",
    ),
    (
        {"machine_type": "g4-standard-12", "zones": ["us-central1-b"]},
        "machineType",
        "has a fraction of a GPU, which needs NVIDIA's vGPU driver; no source says that GKE installs it",
        "use g4-standard-48, the smallest type with a whole GPU",
    ),
    (
        {"machine_type": "n1-standard-8"},
        "guestAccelerator",
        "is missing: n1-standard-8 has no GPU of its own",
        "such as {type: nvidia-tesla-t4, count: 1}",
    ),
    (
        {"guest_accelerator": {"type": "nvidia-tesla-t4"}},
        "guestAccelerator",
        "is only for n1 machine types: g2-standard-8 has built-in GPUs",
        "remove guestAccelerator, because the machine type includes the GPUs",
    ),
    (
        {**T4, "guest_accelerator": {"type": "nvidia-tesla-t4", "count": 3}},
        "guestAccelerator.count",
        "no machine has this many nvidia-tesla-t4",
        "such as count: 2",
    ),
    (
        {**T4, "guest_accelerator": {"type": "nvidia-l4"}},
        "guestAccelerator.type",
        "is not an accelerator for n1 machine types",
        "did you mean nvidia-tesla-t4",
    ),
    (
        {"image_repositories": ["us-central1-docker.pkg.dev/acme-ci/ci"]},
        "imageRepositories[0]",
        "has a form that is not accepted",
        "",
    ),
    ({"zones": ["us-central1"]}, "zones[0]", "is a region, not a zone", ""),
    ({"zones": ["us-central1-a", "us-central1-a"]}, "zones[1]", "is a duplicate", "remove it"),
    (
        {"zones": ["us-central1-f"]},
        "zones[0]",
        "has no nvidia-l4",
        "zones that have it: us-central1-a, us-central1-b, us-central1-c",
    ),
    (
        {"zones": ["us-central1-a", "us-east1-b"]},
        "zones[1]",
        "is in another region; all zones of a pool must be in one region",
        "",
    ),
    (
        {"zones": ["us-east1-b", "us-east1-c"]},
        "zones",
        "are in us-east1, but the cluster is in us-central1",
        "use zones of us-central1",
    ),
    (
        {"location": "us-east1-b"},
        "zones",
        "are in us-central1, but the cluster is in us-east1",
        "use zones of us-east1",
    ),
    ({"zones": []}, "zones", "needs at least one", ""),
    (
        {"market": "on-demand"},
        "market",
        "must be one of 'spot', 'standard', 'flex-start' or 'reservation'",
        "did you mean standard",
    ),
    (
        {"market": "reservation"},
        "market",
        "g2-standard-8 is not available for this market",
        "use market: standard, and set reservation to the name of the reservation",
    ),
    (
        {"market": "reservation", "machine_type": "a3-megagpu-8g"},
        "reservation",
        "is missing; market: reservation requires it",
        "such as h200-of-ci",
    ),
    (
        {"reservation": "ours"},
        "reservation",
        "cannot be used by spot machines",
        "use market: standard or reservation, or remove it",
    ),
    ({"market": "standard", "reservation": "Ours"}, "reservation", FORM, ""),
    (
        {"market": "flex-start"},
        "maxRunDurationSec",
        "is missing; market: flex-start requires a time limit",
        "such as 3600",
    ),
    (
        {**FLEX, "control_plane_version": "1.31.9-gke.1044000"},
        "market",
        "the control plane has 1.31.9-gke.1044000, but flex-start with GPUs requires 1.32.2-gke.1652000 or newer",
        "upgrade the control plane, or use spot",
    ),
    ({**FLEX, "max_run_duration_sec": 604_801}, "maxRunDurationSec", "must be at most 604800", ""),
    ({**FLEX, "max_run_duration_sec": 599}, "maxRunDurationSec", "must be at least 600", ""),
    (
        {**FLEX, "reservation": "ours"},
        "reservation",
        "cannot be used by flex-start machines",
        "use market: standard or reservation, or remove it",
    ),
    ({"max": 0}, "max", "must be at least 1", ""),
    ({"max": 1001}, "max", "must be at most 1000", ""),
    ({"image_type": "COS"}, "imageType", "must be one of 'COS_CONTAINERD' or 'UBUNTU_CONTAINERD'", ""),
    ({"driver": "580"}, "driver", "must be one of 'DEFAULT' or 'LATEST'", ""),
    (
        {"driver": "LATEST", **UBUNTU},
        "driver",
        "is available on COS_CONTAINERD only",
        "driver: DEFAULT, or remove imageType",
    ),
    (
        {**B200, **OLD_GKE},
        "driver",
        (
            "driver branch 535 does not support the B200: the first branch that does is 570; 535 is the "
            "driver DEFAULT of GKE 1.33.5-gke.1080000"
        ),
        "driver: LATEST",
    ),
    (
        {**B200, **UBUNTU},
        "driver",
        (
            "driver branch 535 does not support the B200: the first branch that does is 570; 535 is the "
            "driver DEFAULT of Ubuntu"
        ),
        "driver: LATEST and imageType: COS_CONTAINERD",
    ),
    (
        {"torch": "2.15.0", **OLD_GKE},
        "torch",
        (
            "torch 2.15.0+cu132 needs driver branch 580 or newer for CUDA 13.2, not 535, the driver DEFAULT of GKE "
            "1.33.5-gke.1080000"
        ),
        "driver: LATEST",
    ),
    (
        {"torch": "2.15.0", **UBUNTU},
        "torch",
        "torch 2.15.0+cu132 needs driver branch 580 or newer for CUDA 13.2, not 535, the driver DEFAULT of Ubuntu",
        "driver: LATEST and imageType: COS_CONTAINERD",
    ),
    (
        {**T4, "guest_accelerator": {"type": "nvidia-tesla-p100"}, "zones": ["us-central1-c"], "torch": "2.15.0"},
        "torch",
        "torch 2.15.0+cu132 has no kernels for compute capability 6.0: it has sm_75 sm_80 sm_86 sm_90 sm_100 sm_120",
        "torch: 2.14.0+cu126",
    ),
    ({"disk_gib": 10}, "diskGib", "must be at least 30", ""),
    ({"disk_type": "pd-standard"}, "diskType", "g2-standard-8 cannot boot from it", ""),
    (
        {"local_ssd_count": 2},
        "localSsdCount",
        "g2-standard-8 does not support this number of local SSDs",
        "such as 1",
    ),
    (
        {**H100, "local_ssd_count": 1},
        "localSsdCount",
        "is not allowed for a3-highgpu-8g, which has a fixed number of local SSDs",
        "remove it",
    ),
    (
        {"image_streaming": True, **UBUNTU},
        "imageStreaming",
        "requires COS_CONTAINERD",
        "remove imageType, or imageStreaming",
    ),
    (
        {"secondary_boot_disk": DISK_IMAGE},
        "secondaryBootDisk",
        "requires image streaming, which reads images from the disk",
        "imageStreaming: true",
    ),
    (
        {"secondary_boot_disk": "runner-images", "image_streaming": True},
        "secondaryBootDisk",
        FORM,
        "such as secondaryBootDisk: projects/acme-ci/global/images/runner-images-1",
    ),
    (
        {"upgrade_strategy": "BLUE_GREEN", **OLD_GKE},
        "upgradeStrategy",
        (
            "the control plane has 1.33.5-gke.1080000, but an autoscaled blue-green upgrade requires "
            "1.34.0-gke.2201000 or newer"
        ),
        "SURGE, or remove upgradeStrategy",
    ),
    (
        {"upgrade_strategy": "SURGE", **FLEX},
        "upgradeStrategy",
        "is set by GKE for flex-start nodes, which live a limited time",
        "remove it",
    ),
    ({"upgrade_strategy": "SHORT_LIVED"}, "upgradeStrategy", "must be one of 'SURGE' or 'BLUE_GREEN'", ""),
    ({"cluster_name": "CI"}, "clusterName", FORM, "such as clusterName: ci"),
    ({"location": "us-moon1"}, "location", "is not a region or a zone of Google Cloud", "such as us-central1"),
    ({"control_plane_version": "1.34"}, "controlPlaneVersion", FORM, ""),
    (
        {"control_plane_version": "1.29.8-gke.1031000"},
        "controlPlaneVersion",
        "does not install the NVIDIA driver on nodes",
        "upgrade the control plane",
    ),
    (
        {"autopilot": True},
        "autopilot",
        "the cluster is an Autopilot cluster, which has no node pools",
        "use a Standard cluster of GKE",
    ),
    (
        {"subnetwork": "default"},
        "subnetwork",
        FORM,
        "such as subnetwork: projects/acme-ci/regions/us-central1/subnetworks/gpu",
    ),
    (
        {"nodeCount": 1},
        "nodeCount",
        "cannot be set",
        "remove it: a pool starts without nodes, and the cluster autoscaler then sets its size",
    ),
    (
        {"maxNodeCount": 2},
        "maxNodeCount",
        "cannot be set",
        "remove it: use max instead, because this limit would apply to each zone",
    ),
    (
        {"queuedProvisioning": {"enabled": True}},
        "queuedProvisioning",
        "cannot be set",
        "remove it: its nodes are for one workload each, so that no other job could use them",
    ),
    (
        {"placementPolicy": {"type": "COMPACT"}, **FLEX},
        "placementPolicy",
        "cannot be set",
        "remove it: nodes of a CI pool start one by one, where capacity is available",
    ),
    ({"spot": True, **FLEX}, "spot", "cannot be set", "remove it: use market: spot instead"),
    ({"devicePlugin": {}}, "devicePlugin", "cannot be set", "remove it: GKE installs its own device plugin"),
]


@pytest.mark.parametrize(
    ("changes", "path", "text", "hint"), BAD, ids=["-".join(f"{k}={v}" for k, v in row[0].items()) for row in BAD]
)
def test_a_bad_input_has_one_problem_and_its_hint(changes: dict[str, Any], path: str, text: str, hint: str) -> None:
    assert [(each.path, each.text, each.hint) for each in problems(**changes)] == [(path, text, hint)]


def test_a_problem_is_reported_with_file_path_got_expected_and_hint() -> None:
    found = [
        problem.under("gpu-ci:pools.l4")
        for problem in GkeGpuNodePoolArgs.choice_problems({**GkeGpuNodePool.EXAMPLE, "localSsdCount": 2})
    ]
    assert report("Pulumi.staging.yaml", found) == (
        "Pulumi.staging.yaml: gpu-ci:pools.l4.localSsdCount: g2-standard-8 does not support this number of local SSDs\n"
        "  got: 2\n"
        "  expected: 0, 1\n"
        "  hint: such as 1"
    )


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"image_type": "COS", "driver": "LATEST"}, "imageType"),
        ({"image_type": "COS", "image_streaming": True}, "imageType"),
        ({"machine_type": "g2-standard-9", "torch": "2.15.0", **OLD_GKE}, "machineType"),
        ({"image_streaming": "yes", "secondary_boot_disk": DISK_IMAGE}, "imageStreaming"),
        ({"driver": "580", "torch": "2.15.0", **OLD_GKE}, "driver"),
        ({"location": "us-moon1", "subnetwork": "projects/example-ci/regions/us-east1/subnetworks/ci"}, "location"),
    ],
)
def test_a_field_that_depends_on_an_invalid_field_is_no_second_problem(changes: dict[str, Any], path: str) -> None:
    assert [problem.path for problem in problems(**changes)] == [path]


def test_independent_mistakes_are_reported_together() -> None:
    found = problems(zones=["us-central1"], market="x", max=0, driver="580", disk_gib=1, upgrade_strategy="FAST")
    assert [problem.path for problem in found] == ["zones[0]", "market", "max", "driver", "diskGib", "upgradeStrategy"]


@pytest.mark.parametrize(
    ("late", "changes", "message"),
    [
        ({"location": "us-east1"}, {}, "zones: are in us-central1, but the cluster is in us-east1"),
        ({"control_plane_version": "1.33.5-gke.1080000"}, B200, "driver: driver branch 535 does not support the B200"),
        (
            {"control_plane_version": "1.29.8-gke.1031000"},
            {},
            "controlPlaneVersion: does not install the NVIDIA driver",
        ),
        ({"autopilot": True}, {}, "autopilot: the cluster is an Autopilot cluster"),
        ({"cluster_name": "-ci"}, {}, f"clusterName: {FORM}"),
        (
            {"subnetwork": "projects/example-ci/regions/us-east1/subnetworks/ci"},
            {},
            "subnetwork: is in us-east1, but the cluster is in us-central1",
        ),
        (
            {"location": "us-central1", "subnetwork": "projects/example-ci/regions/us-east1/subnetworks/ci"},
            {},
            "subnetwork: is in us-east1, but the cluster is in us-central1",
        ),
    ],
    ids=["location", "version", "old-version", "autopilot", "name", "subnetwork", "both"],
)
def test_wiring_that_is_known_later_is_checked_with_the_same_text(
    late: dict[str, Any], changes: dict[str, Any], message: str
) -> None:
    wiring: dict[str, Any] = {key: Late(value) for key, value in late.items()}
    with pytest.raises(Exception, match=f"GkeGpuNodePool 'l4': {message}"):
        pool(**changes, **wiring)
