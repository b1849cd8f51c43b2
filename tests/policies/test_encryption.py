"""encrypted-disks and own-keys."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_ci_policies.properties import UNKNOWN

from .support import LAUNCH_TEMPLATE, TEMPLATE, found

INSTANCE, VOLUME = "aws:ec2/instance:Instance", "aws:ebs/volume:Volume"
BUCKET, REGISTRY = "gcp:storage/bucket:Bucket", "gcp:artifactregistry/repository:Repository"


def mappings(*disks: Any) -> dict[str, Any]:
    return {"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": disk} for disk in disks]}


@pytest.mark.parametrize(
    ("kind", "props", "violations"),
    [
        (
            LAUNCH_TEMPLATE,
            mappings({"encrypted": "true"}, {"encrypted": "false"}, {}),
            [
                "blockDeviceMappings[1].ebs.encrypted is off, and has to be on",
                "blockDeviceMappings[2].ebs.encrypted is not set, and has to be on",
            ],
        ),
        (INSTANCE, {"rootBlockDevice": {}}, ["rootBlockDevice[0].encrypted is not set, and has to be on"]),
        (
            INSTANCE,
            {"ebsBlockDevices": [{"encrypted": False}]},
            ["ebsBlockDevices[0].encrypted is off, and has to be on"],
        ),
        (VOLUME, {}, ["encrypted is not set, and has to be on"]),
        (VOLUME, {"encrypted": True}, []),
        (VOLUME, {"encrypted": UNKNOWN}, []),
        (LAUNCH_TEMPLATE, mappings({"encrypted": UNKNOWN}, UNKNOWN), []),
        (LAUNCH_TEMPLATE, {"blockDeviceMappings": [{"deviceName": "/dev/xvdb", "noDevice": "true"}]}, []),
        (LAUNCH_TEMPLATE, {}, []),
        (TEMPLATE, {"disks": [{"boot": True}]}, []),
    ],
)
def test_every_disk_of_ebs_that_is_named_has_to_be_encrypted(
    kind: str, props: dict[str, Any], violations: list[str]
) -> None:
    assert found("encrypted-disks", kind, props) == violations


KEY = "projects/p/locations/l/keyRings/r/cryptoKeys/k"


@pytest.mark.parametrize(
    ("kind", "without", "violations", "with_key"),
    [
        (BUCKET, {}, ["encryption.defaultKmsKeyName names no key"], {"encryption": {"defaultKmsKeyName": KEY}}),
        (REGISTRY, {}, ["kmsKeyName names no key"], {"kmsKeyName": UNKNOWN}),
        (
            TEMPLATE,
            {"disks": [{"type": "SCRATCH"}, {"boot": True}]},
            ["disks[1].diskEncryptionKey.kmsKeySelfLink names no key"],
            {"disks": [{"diskEncryptionKey": {"kmsKeySelfLink": KEY}}]},
        ),
        (
            LAUNCH_TEMPLATE,
            mappings({"encrypted": "true"}),
            ["blockDeviceMappings[0].ebs.kmsKeyId names no key"],
            mappings({"kmsKeyId": "arn:aws:kms:us-east-1:1:key/k"}),
        ),
        (VOLUME, {}, ["kmsKeyId names no key"], {"kmsKeyId": "arn:aws:kms:us-east-1:1:key/k"}),
        (
            "aws:ecr/repository:Repository",
            {},
            ["encryptionConfigurations names no key"],
            {"encryptionConfigurations": [{"encryptionType": "KMS"}]},
        ),
    ],
)
def test_a_key_of_ones_own_is_asked_for_only_where_that_is_chosen(
    kind: str, without: dict[str, Any], violations: list[str], with_key: dict[str, Any]
) -> None:
    assert found("own-keys", kind, without) == []
    assert found("own-keys", kind, without, required=True) == violations
    assert found("own-keys", kind, with_key, required=True) == []
