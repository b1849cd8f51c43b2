"""The check against Google's discovery documents: enums and patterns."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi_sandbox.providers.gcp import types

from tests.sandbox.providers.gcp.conftest import GROUP, TEMPLATE, Google

VERSIONS = {"versions": [{"instanceTemplate": "x"}]}

CASES: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "an enum": (
        types.REGION_TEMPLATE,
        {**TEMPLATE, "scheduling": {**TEMPLATE["scheduling"], "provisioningModel": "STANDRD"}},
        [
            (
                'scheduling.provisioningModel: expected provisioningModel to be one of ["FLEX_START" '
                '"RESERVATION_BOUND" '
                '"SPOT" "STANDARD"], got STANDRD\n  hint: did you mean STANDARD?'
            )
        ],
    ),
    "an enum under another name": (
        types.REGION_GROUP,
        {**GROUP, **VERSIONS, "distributionPolicyTargetShape": "any"},
        [
            (
                'distributionPolicyTargetShape: expected distributionPolicyTargetShape to be one of ["ANY" '
                '"ANY_SINGLE_ZONE" "BALANCED" "EVEN"], got any\n  hint: did you mean ANY?'
            )
        ],
    ),
    "an enum in a list": (
        types.REGION_TEMPLATE,
        {**TEMPLATE, "disks": [{**TEMPLATE["disks"][0], "guestOsFeatures": ["GVNIC", "UEFI"]}]},
        [
            (
                'disks[0].guestOsFeatures[1]: expected guestOsFeatures to be one of ["BARE_METAL_LINUX_COMPATIBLE" '
                '"BMSAI_CAPABLE" "CCA_CAPABLE" "GVNIC" "IDPF" "MULTI_IP_SUBNET" "SECURE_BOOT" "SEV_CAPABLE" '
                '"SEV_LIVE_MIGRATABLE" "SEV_LIVE_MIGRATABLE_V2" "SEV_SNP_CAPABLE" "SNP_SVSM_CAPABLE" '
                '"SUSPEND_SAFE_FPR" '
                '"TDX_CAPABLE" "UEFI_COMPATIBLE" "VIRTIO_SCSI_MULTIQUEUE" "WINDOWS"], got UEFI'
            )
        ],
    ),
    "a pattern": (
        types.REGION_TEMPLATE,
        {**TEMPLATE, "name": "L4_template"},
        ['name: "name" ("L4_template") doesn\'t match regexp "^(?:[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)$"'],
    ),
    "a tag": (
        types.REGION_TEMPLATE,
        {**TEMPLATE, "tags": ["ok", "Not ok"]},
        ['tags[1]: "tags" ("Not ok") doesn\'t match regexp "^(?:[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)$"'],
    ),
    "a firewall's direction": (
        "gcp:compute/firewall:Firewall",
        {"network": "default", "direction": "IN", "allows": [{"protocol": "tcp", "ports": ["22"]}]},
        ['direction: expected direction to be one of ["EGRESS" "INGRESS"], got IN'],
    ),
    "what Google takes": (
        "gcp:compute/firewall:Firewall",
        {
            "network": "default",
            "direction": "INGRESS",
            "sourceRanges": ["10.0.0.0/8"],
            "priority": 65535,
            "allows": [{"protocol": "tcp", "ports": ["22"]}],
        },
        [],
    ),
}


@pytest.mark.parametrize(("token", "inputs", "expected"), CASES.values(), ids=CASES)
def test_the_schema_of_google_says(google: Google, token: str, inputs: dict[str, Any], expected: list[str]) -> None:
    assert google.problems(token, inputs) == expected
