"""Rules for managed instance groups, and what Google refuses about them for want of something else."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi_sandbox.providers.gcp.types import GROUP as ZONAL
from pulumi_sandbox.providers.gcp.types import REGION_GROUP
from pulumi_sandbox.providers.gcp.types import TEMPLATE as GLOBAL_TEMPLATE
from pulumi_sandbox.providers.resource import Refused
from pulumi_sandbox.providers.values import UNKNOWN

from tests.sandbox.providers.gcp.conftest import GROUP, TEMPLATE, Google

POLICY = GROUP["updatePolicy"]
VERSIONS = {"versions": [{"instanceTemplate": UNKNOWN}]}

ACCEPTED: dict[str, dict[str, Any]] = {
    "as it is": {},
    "even with redistribution": {
        "distributionPolicyTargetShape": "EVEN",
        "updatePolicy": {"type": "PROACTIVE", "minimalAction": "REPLACE"},
    },
    "an unknown policy": {"updatePolicy": UNKNOWN},
    "surge 0": {"updatePolicy": {**POLICY, "maxSurgeFixed": 0, "maxUnavailableFixed": 2}},
    "surge of all zones": {"updatePolicy": {**POLICY, "maxSurgeFixed": 2}},
    "surge in percent": {"updatePolicy": {**POLICY, "maxSurgePercent": 100, "maxUnavailablePercent": 0}},
    "surge of three without zones": {"distributionPolicyZones": None, "updatePolicy": {**POLICY, "maxSurgeFixed": 3}},
    "zones not known yet": {"distributionPolicyZones": UNKNOWN, "updatePolicy": {**POLICY, "maxSurgeFixed": 1}},
    "numbered names": {"baseInstanceName": "runner-###"},
    "autohealing": {"autoHealingPolicies": {"healthCheck": "check", "initialDelaySec": 3600}},
    "machines that wait stopped": {
        "standbyPolicy": {"mode": "SCALE_OUT_POOL", "initialDelaySec": 3600},
        "targetStoppedSize": 2,
    },
    "machines that wait, without a policy": {"targetStoppedSize": 0, "targetSuspendedSize": 1},
}


def test_a_group_that_google_takes_is_accepted(google: Google) -> None:
    assert {
        name: found
        for name, changes in ACCEPTED.items()
        if (found := google.problems(REGION_GROUP, {**GROUP, **VERSIONS, **changes}))
    } == {}


def surge(field: str, given: int, zones: int) -> str:
    return (
        f"updatePolicy.{field}Fixed: Invalid value for field 'resource.updatePolicy.{field}': '{given}'. Fixed "
        f"updatePolicy.{field} for regional managed instance group has to be either 0 or at least equal to the number "
        f"of zones ({zones})."
    )


NONE_NEEDED = (
    "updatePolicy.instanceRedistributionType: must be NONE when distributionPolicyTargetShape is {} (the default is "
    "PROACTIVE)\n  hint: set instanceRedistributionType to NONE"
)
REFUSED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "any without a policy": ({"updatePolicy": None}, [NONE_NEEDED.format("ANY")]),
    "balanced with redistribution": (
        {
            "distributionPolicyTargetShape": "BALANCED",
            "updatePolicy": {**POLICY, "instanceRedistributionType": "PROACTIVE"},
        },
        [NONE_NEEDED.format("BALANCED")],
    ),
    "a single zone by default": (
        {
            "distributionPolicyTargetShape": "ANY_SINGLE_ZONE",
            "updatePolicy": {"type": "PROACTIVE", "minimalAction": "NONE"},
        },
        [NONE_NEEDED.format("ANY_SINGLE_ZONE")],
    ),
    "two versions anywhere": (
        {"versions": [{"instanceTemplate": UNKNOWN}, {"instanceTemplate": UNKNOWN, "name": "canary"}]},
        ["versions: expected one version when distributionPolicyTargetShape is ANY, got 2"],
    ),
    "surge below the zones": (
        {"updatePolicy": {**POLICY, "maxSurgeFixed": 1}},
        [surge("maxSurge", 1, 2)],
    ),
    "unavailable below the zones": (
        {"distributionPolicyZones": None, "updatePolicy": {**POLICY, "maxUnavailableFixed": 2}},
        [surge("maxUnavailable", 2, 3)],
    ),
    "neither": (
        {"updatePolicy": {**POLICY, "maxSurgeFixed": 0, "maxUnavailableFixed": 0}},
        ["updatePolicy: At least one of either maxSurgeFixed or maxUnavailableFixed must be greater than 0"],
    ),
    "fixed and percent": (
        {"updatePolicy": {**POLICY, "maxSurgeFixed": 0, "maxSurgePercent": 10}},
        ['updatePolicy.maxSurgeFixed: "maxSurgeFixed": conflicts with maxSurgePercent'],
    ),
    "more than all": (
        {"updatePolicy": {**POLICY, "maxUnavailablePercent": 101}},
        ["updatePolicy.maxUnavailablePercent: expected maxUnavailablePercent to be in the range (0 - 100), got 101"],
    ),
    "a zone elsewhere": (
        {"distributionPolicyZones": ["us-central1-a", "us-east1-b"]},
        ["distributionPolicyZones[1]: zone us-east1-b is not in region us-central1, where the group is"],
    ),
    "a long base name": (
        {"baseInstanceName": "r" * 59},
        [
            (
                f'baseInstanceName: "baseInstanceName" ("{"r" * 59}") doesn\'t match regexp '
                '"^[a-z](([-a-z0-9]{0,57})|([-a-z0-9]{0,51}-#{1,10}(\\[[0-9]{1,10}\\])?))$"'
            )
        ],
    ),
    "a negative size": ({"targetSize": -1}, ["targetSize: expected targetSize to be at least 0, got -1"]),
    "fewer than none stopped": (
        {"targetStoppedSize": -1},
        ["targetStoppedSize: expected targetStoppedSize to be at least 0, got -1"],
    ),
    "stopped too late": (
        {"standbyPolicy": {"initialDelaySec": 3601}},
        ["standbyPolicy.initialDelaySec: expected initialDelaySec to be in the range (0 - 3600), got 3601"],
    ),
    "autohealing too late": (
        {"autoHealingPolicies": {"healthCheck": "check", "initialDelaySec": 3601}},
        ["autoHealingPolicies.initialDelaySec: expected initialDelaySec to be in the range (0 - 3600), got 3601"],
    ),
}


@pytest.mark.parametrize(("changes", "expected"), REFUSED.values(), ids=REFUSED)
def test_a_group_that_google_refuses_is_refused(google: Google, changes: dict[str, Any], expected: list[str]) -> None:
    assert google.problems(REGION_GROUP, {**GROUP, **VERSIONS, **changes}) == expected


def test_a_zonal_group_has_no_shape_and_any_surge(google: Google) -> None:
    inputs = {"baseInstanceName": "runner", "zone": "us-central1-a", **VERSIONS}
    policy = {"type": "PROACTIVE", "minimalAction": "REPLACE", "maxSurgeFixed": 1}
    assert google.problems(ZONAL, {**inputs, "updatePolicy": policy}) == []


def test_a_zonal_group_without_a_zone_gets_the_providers_words(google: Google) -> None:
    assert google.problems(ZONAL, {"baseInstanceName": "runner", **VERSIONS}) == [
        "zone: zone: required field is not set\n  hint: set gcp:zone, or zone on the resource"
    ]


def test_a_group_takes_a_template_by_id_link_and_unique_link(google: Google) -> None:
    template = google.template()
    for index, given in enumerate(
        [template.id, template.outputs["selfLink"], f"{template.outputs['selfLink']}?uniqueId=1"]
    ):
        group = google.make(
            REGION_GROUP,
            f"group-{index}",
            {**GROUP, "versions": [{"instanceTemplate": given}], "name": f"group-{index}"},
        )
        assert group.id == f"projects/ci-project/regions/us-central1/instanceGroupManagers/group-{index}"


def test_a_group_without_its_template_is_refused_in_googles_words(google: Google) -> None:
    with pytest.raises(Refused) as refused:
        google.group("projects/ci-project/regions/us-central1/instanceTemplates/gone")
    assert str(refused.value) == (
        "Error creating RegionInstanceGroupManager: googleapi: Error 404: The resource "
        "'projects/ci-project/regions/us-central1/instanceTemplates/gone' was not found, notFound"
    )


def test_a_group_in_another_region_than_its_template_is_refused(google: Google) -> None:
    template = google.template(region="us-east1")
    with pytest.raises(Refused) as refused:
        google.group(template.id)
    assert str(refused.value) == (
        "Error creating RegionInstanceGroupManager: googleapi: Error 400: Invalid value for field "
        f"'resource.versions[0].instanceTemplate': '{template.id}'. The template is not in region us-central1., invalid"
    )


def test_spot_machines_may_wait_stopped_as_no_text_of_google_says_otherwise(google: Google) -> None:
    spot = {"provisioningModel": "SPOT", "preemptible": True, "automaticRestart": False}
    group = google.group(google.template(scheduling=spot).id, standbyPolicy={"mode": "MANUAL"}, targetStoppedSize=2)
    assert group.outputs["targetStoppedSize"] == 2


def test_a_group_in_a_zone_without_the_templates_gpu_is_refused(google: Google) -> None:
    template = google.template()
    with pytest.raises(Refused) as refused:
        google.group(template.id, distributionPolicyZones=["us-central1-a", "us-central1-f"])
    assert str(refused.value) == (
        "Error creating RegionInstanceGroupManager: googleapi: Error 400: g2-standard-8 is not available in "
        "us-central1-f; zones of us-central1 that have it: us-central1-a, us-central1-b, us-central1-c, invalid"
    )


def test_a_zonal_group_in_a_zone_without_the_attached_gpu_is_refused(google: Google) -> None:
    cards = {"machineType": "n1-standard-8", "guestAccelerators": [{"type": "nvidia-tesla-p4", "count": 1}]}
    template = google.make(GLOBAL_TEMPLATE, "any", {**TEMPLATE, **cards})
    group = {"baseInstanceName": "runner", "versions": [{"instanceTemplate": template.id}]}
    assert google.make(ZONAL, "here", {**group, "name": "here", "zone": "us-central1-a"}).id == (
        "projects/ci-project/zones/us-central1-a/instanceGroupManagers/here"
    )
    with pytest.raises(Refused) as refused:
        google.make(ZONAL, "there", {**group, "zone": "us-central1-b"})
    assert str(refused.value) == (
        "Error creating InstanceGroupManager: googleapi: Error 400: nvidia-tesla-p4 is not available in us-central1-b; "
        "zones of us-central1 that have it: us-central1-a, us-central1-c, invalid"
    )


def test_four_p100_are_held_to_the_smaller_limit_of_their_zone(google: Google) -> None:
    cards = {"machineType": "n1-standard-96", "guestAccelerators": [{"type": "nvidia-tesla-p100", "count": 4}]}
    template = google.make(GLOBAL_TEMPLATE, "any", {**TEMPLATE, **cards})
    group = {"baseInstanceName": "runner", "versions": [{"instanceTemplate": template.id}]}
    with pytest.raises(Refused) as refused:
        google.make(ZONAL, "there", {**group, "zone": "us-east1-c"})
    assert str(refused.value) == (
        "Error creating InstanceGroupManager: googleapi: Error 400: n1-standard-96 (96 vCPUs, 360 GB) is larger than "
        "4 x nvidia-tesla-p100 allows there: 64 vCPUs, 208 GB, invalid"
    )


def test_a_template_that_a_group_uses_cannot_be_deleted(google: Google) -> None:
    template = google.template()
    group = google.group(template.outputs["selfLink"])
    with pytest.raises(Refused) as refused:
        google.delete(template)
    assert str(refused.value) == (
        "Error deleting instance template: googleapi: Error 400: The instance_template resource "
        f"'{template.id}' is already being used by '{group.id}', resourceInUseByAnotherResource"
    )
    google.delete(group)
    google.delete(template)
    assert google.world.find() == []
