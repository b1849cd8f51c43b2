"""The rule that disks and registries are encrypted, with a customer-managed key if that is required."""

from __future__ import annotations

from collections.abc import Iterator

from .addresses import GCP_MACHINES
from .properties import UNKNOWN, at, boolean, entries
from .rule import Resource, Rule, RuleContext

OF_A_MACHINE: dict[str, tuple[str, ...]] = {"rootBlockDevice": (), "ebsBlockDevices": ()}
# AWS: the properties of a resource that list disks, and the path of the disk in an entry.
AWS_DISKS: dict[str, dict[str, tuple[str, ...]]] = {
    "aws:ec2/launchTemplate:LaunchTemplate": {"blockDeviceMappings": ("ebs",)},
    "aws:ec2/instance:Instance": OF_A_MACHINE,
    "aws:ec2/launchConfiguration:LaunchConfiguration": OF_A_MACHINE,
}
VOLUME = "aws:ebs/volume:Volume"
# The resources that store data, and the property that names the key. Any value other than an empty one counts.
KEYS = {
    VOLUME: ("kmsKeyId",),
    "aws:ecr/repository:Repository": ("encryptionConfigurations",),
    "gcp:artifactregistry/repository:Repository": ("kmsKeyName",),
    "gcp:compute/disk:Disk": ("diskEncryptionKey", "kmsKeySelfLink"),
    "gcp:storage/bucket:Bucket": ("encryption", "defaultKmsKeyName"),
}


def unencrypted_disks(resource: Resource, _context: RuleContext) -> Iterator[str]:
    for path, disk in aws_disks(resource):
        encrypted = at(disk, "encrypted")
        if encrypted is not UNKNOWN and boolean(encrypted) is not True:
            yield f"{path} is {'not set' if encrypted is None else 'off'}, and has to be on"


def missing_customer_keys(resource: Resource, context: RuleContext) -> Iterator[str]:
    if not context.settings["required"]:
        return
    path = KEYS.get(resource.type)
    if path and is_missing(at(resource.props, *path)):
        yield f"{'.'.join(path)} names no key"
    if resource.type in GCP_MACHINES:
        for index, disk in enumerate(entries(resource.props, "disks")):
            if at(disk, "type") != "SCRATCH" and is_missing(at(disk, "diskEncryptionKey", "kmsKeySelfLink")):
                yield f"disks[{index}].diskEncryptionKey.kmsKeySelfLink names no key"
    if resource.type != VOLUME:
        for where, disk in aws_disks(resource):
            if is_missing(at(disk, "kmsKeyId")):
                yield f"{where.removesuffix('encrypted')}kmsKeyId names no key"


def is_missing(value: object) -> bool:
    return value is not UNKNOWN and not value


def aws_disks(resource: Resource) -> Iterator[tuple[str, object]]:
    """Yield each EBS disk of a resource, with the path of its encryption setting."""
    if resource.type == VOLUME:
        yield "encrypted", resource.props
    for key, inner in AWS_DISKS.get(resource.type, {}).items():
        for index, entry in enumerate(entries(resource.props, key)):
            disk = at(entry, *inner)
            if disk is not None:
                yield ".".join([f"{key}[{index}]", *inner, "encrypted"]), disk


RULES = (
    Rule(
        name="encrypted-disks",
        title="EBS disks are encrypted.",
        why="An attacker with an unencrypted disk, or a snapshot of it, can read all of its data. EBS encrypts a disk "
        "only on request, or by a default of the account that a preview does not see. Google Cloud, S3 and ECR always "
        "encrypt, and EKS encrypts the data of the Kubernetes API from 1.28 on.",
        fix="Set encrypted to true on every named disk.",
        sources=(
            "https://docs.aws.amazon.com/ebs/latest/userguide/ebs-encryption.html",
            "https://docs.aws.amazon.com/eks/latest/userguide/envelope-encryption.html",
            "https://docs.cloud.google.com/docs/security/encryption/default-encryption",
        ),
        check=unencrypted_disks,
    ),
    Rule(
        name="own-keys",
        title="If required, disks, buckets and registries are encrypted with your own key.",
        why="You can revoke only your own key, and only its use is in your audit log.",
        fix="Set a KMS key: kmsKeyName, kmsKeySelfLink, defaultKmsKeyName or kmsKeyId.",
        sources=("https://docs.cloud.google.com/kms/docs/cmek",),
        check=missing_customer_keys,
        settings={"required": {"type": "boolean", "default": False, "description": "True to check the rule."}},
    ),
)
