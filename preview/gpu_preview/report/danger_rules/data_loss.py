"""The rules `loses-data` and `protected`: data that cannot be restored after a deletion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ...engine.states import Change, StackStates
from ...model import Finding, Operation, Severity
from ..danger_rule import LOSES_DATA, PROTECTED, REPLACE_UNKNOWN


@dataclass(frozen=True)
class Holds:
    """A type of resource that holds data."""

    lost_data: str
    """The data that is lost, as the end of a sentence."""
    empty_first: str = ""
    """The property without which the cloud refuses to delete a non-empty resource."""
    kept_if: str = ""
    """The property with which the cloud keeps a copy or archives the resource."""
    from_program: bool = False
    """True if the program has all the data, so that a replacement restores it."""


_CONTENT = "all data in it"
HOLDS: Mapping[str, Holds] = {
    "gcp:compute/disk:Disk": Holds("the disk's content"),
    "gcp:compute/regionDisk:RegionDisk": Holds("the disk's content"),
    "gcp:compute/snapshot:Snapshot": Holds("the snapshot"),
    "gcp:storage/bucket:Bucket": Holds("every object in it", empty_first="forceDestroy"),
    "gcp:artifactregistry/repository:Repository": Holds("every image and package in it"),
    "gcp:vertex/aiEndpoint:AiEndpoint": Holds("its deployed models, its traffic split and its address"),
    "gcp:secretmanager/secret:Secret": Holds("every version of it"),
    "gcp:secretmanager/regionalSecret:RegionalSecret": Holds("every version of it"),
    "gcp:secretmanager/secretVersion:SecretVersion": Holds("its value"),
    "gcp:kms/cryptoKey:CryptoKey": Holds("the data that the key encrypts, because no version of the key stays"),
    "gcp:sql/databaseInstance:DatabaseInstance": Holds("every database in it"),
    "gcp:sql/database:Database": Holds(_CONTENT),
    "gcp:bigquery/dataset:Dataset": Holds("every table in it", empty_first="deleteContentsOnDestroy"),
    "gcp:bigquery/table:Table": Holds("its rows"),
    "gcp:filestore/instance:Instance": Holds("its files"),
    "gcp:firestore/database:Database": Holds(_CONTENT),
    "gcp:spanner/instance:Instance": Holds("every database in it"),
    "gcp:spanner/database:Database": Holds(_CONTENT),
    "gcp:redis/instance:Instance": Holds(_CONTENT),
    "aws:ebs/volume:Volume": Holds("the volume's content"),
    "aws:ebs/snapshot:Snapshot": Holds("the snapshot"),
    "aws:s3/bucket:Bucket": Holds("every object in it", empty_first="forceDestroy"),
    "aws:s3/bucketV2:BucketV2": Holds("every object in it", empty_first="forceDestroy"),
    "aws:ecr/repository:Repository": Holds("every image in it", empty_first="forceDelete"),
    "aws:secretsmanager/secret:Secret": Holds("its value"),
    "aws:ssm/parameter:Parameter": Holds("its value", from_program=True),
    "aws:kms/key:Key": Holds("the data that the key encrypts, after the key's deletion window"),
    "aws:rds/instance:Instance": Holds(_CONTENT),
    "aws:rds/cluster:Cluster": Holds(_CONTENT),
    "aws:dynamodb/table:Table": Holds("its items"),
    "aws:efs/fileSystem:FileSystem": Holds("its files"),
    "aws:fsx/lustreFileSystem:LustreFileSystem": Holds("its files"),
    "aws:fsx/openZfsFileSystem:OpenZfsFileSystem": Holds("its files"),
    "aws:elasticache/replicationGroup:ReplicationGroup": Holds(_CONTENT),
    "kubernetes:core/v1:PersistentVolumeClaim": Holds(
        "the volume's content, if its storage class does not retain the volume"
    ),
    "kubernetes:core/v1:PersistentVolume": Holds("the volume's content, if its reclaim policy is not Retain"),
    "kubernetes:core/v1:Namespace": Holds("every object in it, including volume claims and secrets"),
    "kubernetes:core/v1:Secret": Holds("its value", from_program=True),
    "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition": Holds("every object of its kind"),
    "github:index/repository:Repository": Holds("its code, issues and releases", kept_if="archiveOnDestroy"),
    "github:index/actionsSecret:ActionsSecret": Holds("its value", from_program=True),
    "github:index/actionsOrganizationSecret:ActionsOrganizationSecret": Holds("its value", from_program=True),
    "github:index/actionsEnvironmentSecret:ActionsEnvironmentSecret": Holds("its value", from_program=True),
}
_UNCLEAR = "is updated or replaced: the sandbox does not know which of its properties force a replacement"
# With these properties, the cloud refuses the deletion.
_LOCKS = ("deletionProtection", "deletionProtectionEnabled", "disableApiTermination")


def check(change: Change, _stack_states: StackStates) -> Iterator[Finding]:
    before, after = change.before, change.after
    if before is None:
        return
    if before.protect and change.ends and after and not after.protect:
        text = f"{change.name} was protected: this change removes the protection, and the resource {change.ends}"
        hint = "check twice that the resource may be deleted: the engine does not ask again"
        yield PROTECTED.found(change, text, hint).model_copy(update={"severity": Severity.DANGER})
    elif before.protect and change.ends:
        text = f"{change.name} {change.ends}, but is protected: the engine refuses, and the update fails"
        yield PROTECTED.found(change, text)
    elif before.protect and after and not after.protect and not change.ends:
        hint = "make sure that no later change deletes it by mistake"
        yield PROTECTED.found(change, f"{change.name} is no longer protected: a later change can delete it", hint)
    replaced = change.resource.operation == Operation.REPLACE
    if after and after.external and not before.external and not replaced:
        hint = "import the resource again to manage it; the stack no longer deletes it"
        yield PROTECTED.found(change, f"{change.name} is only read from now on: the stack no longer manages it", hint)
    if before.retained and after and not after.retained and not replaced:
        hint = "make sure that no later change deletes it by mistake"
        text = f"{change.name} loses retain_on_delete: a later change that removes it also deletes it in the cloud"
        yield PROTECTED.found(change, text, hint)
    holds, unclear = HOLDS.get(change.type), change.resource.may_replace and not before.retained
    loses_data = holds is not None and (change.ends == "is deleted" or not holds.from_program)
    if unclear and not loses_data:
        yield REPLACE_UNKNOWN.found(change, f"{change.name} {_UNCLEAR}")
    if holds is None or not loses_data or not (change.ends or unclear):
        return
    if holds.kept_if and before.inputs.get(holds.kept_if) is True:
        return
    text = (
        f"{change.name} {change.ends}, and with it {holds.lost_data}"
        if change.ends
        else (f"{change.name} {_UNCLEAR}; a replacement loses {holds.lost_data}")
    )
    if holds.from_program:
        text += ", unless it is kept somewhere else"
    if lock := next((name for name in _LOCKS if before.inputs.get(name) is True), ""):
        text += f"; because of {lock}, the cloud refuses the deletion"
    elif holds.empty_first and before.inputs.get(holds.empty_first) is not True:
        text += f"; without {holds.empty_first} the cloud refuses the deletion until the resource is empty"
    yield LOSES_DATA.found(change, text)
