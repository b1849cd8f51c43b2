"""The resources of a runner pool on Compute Engine."""

from __future__ import annotations

import json
from typing import Any

import pulumi
import pytest
from gpu_ci import versions
from gpu_ci.errors import ArgsError
from gpu_ci.kinds.gce.args import RunnerPoolArgs
from gpu_ci.kinds.gce.component import RunnerPool
from gpu_common import pulumi_wire

from tests.gpu_ci.harness import UNKNOWN, Deployment, deploy
from tests.gpu_ci.support import COMPUTED, TEMPLATE

PROJECT = "example-ci"
SUBNETWORK = "projects/example-ci/regions/us-central1/subnetworks/s"


def pool(name: str = "l4", **changes: Any) -> Deployment:
    choices = {**RunnerPool.EXAMPLE, "project": PROJECT, "subnetwork": SUBNETWORK, **changes}
    return deploy(lambda: RunnerPool(name, RunnerPoolArgs(**choices)), computed=COMPUTED)


def test_it_makes_these_resources_and_no_others() -> None:
    assert [(row.name, row.type) for row in pool().rows] == [
        ("l4", "gpu-ci:gcp:RunnerPool"),
        ("l4-account", "gcp:serviceaccount/account:Account"),
        ("l4-template", "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate"),
        ("l4-log-writer", "gcp:projects/iAMMember:IAMMember"),
        ("l4-gate", "gpu-ci:gcp:SmokeGate"),
        ("l4-group", "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager"),
    ]


def test_the_machines_may_write_logs_and_nothing_else() -> None:
    deployment = pool()
    assert deployment.one(":IAMMember").inputs == {
        "member": "serviceAccount:gpu-l4@p.iam.gserviceaccount.com",
        "project": PROJECT,
        "role": "roles/logging.logWriter",
    }
    assert deployment.one(":Account").inputs["accountId"] == "gpu-l4-stack"


def test_the_machines_have_no_public_address_and_are_closed() -> None:
    inputs = pool().one(":RegionInstanceTemplate").inputs
    assert inputs["networkInterfaces"] == [{"subnetwork": SUBNETWORK}]
    assert inputs["shieldedInstanceConfig"] == {
        "enableIntegrityMonitoring": True,
        "enableSecureBoot": True,
        "enableVtpm": True,
    }
    closed = {
        key: inputs["metadata"][key] for key in ("enable-oslogin", "block-project-ssh-keys", "serial-port-enable")
    }
    assert closed == {"enable-oslogin": "TRUE", "block-project-ssh-keys": "TRUE", "serial-port-enable": "FALSE"}


def test_the_boot_disk_is_what_the_series_takes() -> None:
    (disk,) = pool().one(":RegionInstanceTemplate").inputs["disks"]
    assert disk == {
        "autoDelete": True,
        "boot": True,
        "diskSizeGb": 100,
        "diskType": "pd-balanced",
        "labels": {"gpu-ci-pool": "l4"},
        "sourceImage": versions.GCE_IMAGE,
    }
    (disk,) = pool(machineType="g4-standard-48", zones=["us-central1-b"]).one(":RegionInstanceTemplate").inputs["disks"]
    assert disk["diskType"] == "hyperdisk-balanced"


def test_a3_and_newer_get_the_network_card_they_need() -> None:
    deployment = pool(machineType="a3-highgpu-8g", zones=["us-central1-a"])
    (interface,) = deployment.one(":RegionInstanceTemplate").inputs["networkInterfaces"]
    assert interface["nicType"] == "GVNIC"


def test_gpus_are_attached_to_n1_and_implied_by_the_rest() -> None:
    assert "guestAccelerators" not in pool().one(":RegionInstanceTemplate").inputs
    t4 = {"type": "nvidia-tesla-t4", "count": 2}
    inputs = pool(machineType="n1-standard-8", guestAccelerator=t4).one(":RegionInstanceTemplate").inputs
    assert inputs["guestAccelerators"] == [t4]
    assert json.loads(inputs["metadata"]["gpu-agent-config"])["check_args"] == [
        "--pool", "l4", "--expect-gpus", "2", "--expect-gpu", "Tesla T4", "--min-compute-capability", "7.5",
    ]  # fmt: skip


def test_the_group_takes_only_a_template_that_has_passed_the_gate() -> None:
    computed = {**COMPUTED, "gpu-ci:gcp:SmokeGate": {"checkedTemplate": "checked", "verdict": "pass", "summary": "s"}}
    choices = {**RunnerPool.EXAMPLE, "project": PROJECT, "subnetwork": SUBNETWORK}
    deployment = deploy(lambda: RunnerPool("l4", RunnerPoolArgs(**choices)), computed=computed)
    assert deployment.one(":SmokeGate").inputs["template"] == TEMPLATE
    assert deployment.one(":RegionInstanceGroupManager").inputs["versions"] == [{"instanceTemplate": "checked"}]


def test_the_group_is_empty_and_leaves_its_size_to_others() -> None:
    group = pool().one(":RegionInstanceGroupManager")
    assert group.inputs["targetSize"] == 0
    assert list(group.request.ignoreChanges) == ["targetSize"]
    assert group.inputs["waitForInstances"] is False
    assert group.inputs["distributionPolicyTargetShape"] == "ANY"
    assert group.inputs["updatePolicy"] == {
        "type": "OPPORTUNISTIC",
        "minimalAction": "REPLACE",
        "instanceRedistributionType": "NONE",
        "maxSurgeFixed": 0,
        "maxUnavailableFixed": 3,
    }
    assert group.inputs["instanceLifecyclePolicy"] == {"defaultActionOnFailure": "DO_NOTHING"}


def test_machines_that_wait_stopped_are_the_groups_standby() -> None:
    waiting = {"stoppedSize": 2, "mode": "scale-out-pool", "initialDelaySec": 300}
    inputs = pool(market="standard", standby=waiting).one(":RegionInstanceGroupManager").inputs
    assert inputs["targetStoppedSize"] == 2
    assert inputs["standbyPolicy"] == {"mode": "SCALE_OUT_POOL", "initialDelaySec": 300}
    none = pool().one(":RegionInstanceGroupManager").inputs
    assert (none["targetStoppedSize"], "standbyPolicy" in none) == (0, False)


def test_each_secret_that_is_named_may_be_read_and_no_other() -> None:
    names = ["projects/example-ci/secrets/registry-token", "projects/shared/secrets/registry-token"]
    rows = pool(secrets=names).of(":SecretIamMember")
    assert [row.inputs for row in rows] == [
        {
            "secretId": name,
            "member": "serviceAccount:gpu-l4@p.iam.gserviceaccount.com",
            "role": "roles/secretmanager.secretAccessor",
        }
        for name in names
    ]
    assert len({row.name for row in rows}) == 2


def test_the_gate_tries_the_pools_zones_in_their_order() -> None:
    zones = ["us-central1-c", "us-central1-a"]
    gate = pool(zones=zones, smoke={"deadlineSec": 300, "onNoCapacity": "unproven"}).one(":SmokeGate").inputs
    assert (gate["zones"], gate["deadlineSec"], gate["onNoCapacity"], gate["pool"]) == (zones, 300, "unproven", "l4")


def test_the_gate_asks_for_the_plugin_of_this_version() -> None:
    assert pool().one(":SmokeGate").request.version == versions.PACKAGE


def test_a_pool_of_sixty_labels_has_room_for_those_of_the_pool_and_of_its_check() -> None:
    labels = {f"label-{number}": "" for number in range(60)}
    assert pool(labels=labels).one(":SmokeGate").inputs["labels"] == {**labels, "gpu-ci-pool": "l4"}


def test_labels_of_the_gate_keep_their_keys() -> None:
    labels = {"deadline_sec": "a", "on_no_capacity": "b"}
    assert pool(labels=labels).one(":SmokeGate").inputs["labels"] == {**labels, "gpu-ci-pool": "l4"}


def test_max_changes_nothing_google_knows() -> None:
    assert [row.inputs for row in pool(max=4).rows] == [row.inputs for row in pool(max=5).rows]


def test_in_a_preview_the_group_waits_for_an_unknown_template() -> None:
    choices = {**RunnerPool.EXAMPLE, "project": PROJECT, "subnetwork": SUBNETWORK}
    deployment = deploy(lambda: RunnerPool("l4", RunnerPoolArgs(**choices)), computed=COMPUTED, preview=True)
    assert deployment.one(":RegionInstanceGroupManager").inputs["versions"] == [{"instanceTemplate": UNKNOWN}]


def test_a_secret_wiring_stays_secret() -> None:
    def program() -> None:
        project = pulumi.Output.secret(PROJECT)
        RunnerPool("l4", RunnerPoolArgs(**RunnerPool.EXAMPLE, project=project, subnetwork=SUBNETWORK))

    account = deploy(program, computed=COMPUTED).one(":Account")
    assert account.inputs["project"] == {
        pulumi_wire.SIGNATURE: pulumi_wire.SECRET,
        "value": PROJECT,
    }


def test_a_name_google_could_not_carry_is_refused_before_anything_is_made() -> None:
    with pytest.raises(ArgsError, match="RunnerPool: name: has a form that is not accepted"):
        pool("L4_pool")
