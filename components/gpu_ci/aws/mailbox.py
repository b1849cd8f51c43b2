"""The component Mailbox: the bucket through which the runner manager and machines on EC2 exchange messages."""

from __future__ import annotations

import base64
import json
from typing import Annotated, Any, ClassVar

import pulumi
import pulumi_aws as aws
from pydantic import Field, StringConstraints

from .. import payload
from ..args import Args, ComponentArgs
from ..component import Component
from ..labels import merge
from ..mailbox.boot import GATE
from ..naming import PATTERN, payload_key
from .resource_names import Region, Tags, partition

EXPIRE_DAYS = 30
"""The days after which mail and records expire. A machine's signed URLs are valid for at most 7 days."""


class MailboxArgs(ComponentArgs):
    """The arguments of a mailbox."""

    WIRING: ClassVar[frozenset[str]] = frozenset({"tags"})

    region: Region = Field(description="the region of the bucket, such as us-east-1")
    managers: list[Annotated[str, StringConstraints(pattern=f"^{PATTERN}$")]] = Field(
        min_length=1, max_length=100, description="the names of the runner managers, as in the stack's output `manager`"
    )
    gate: bool = Field(default=False, description="write the downloads of check machines too, for an aws.SmokeGate")
    tags: Tags = Field(default={}, description="tags of every resource that supports tags")

    @property
    def owners(self) -> list[str]:
        """The first parts of all keys."""
        return [*self.managers, *([GATE] if self.gate else [])]


class Mailbox(Component):
    """A private bucket for the messages between the runner manager and its machines on EC2, and for their downloads.

    Creates: an S3 bucket with encryption, without public access, and with a policy that refuses requests without TLS.
    The boot agent and the smoke check are objects in it, named by their digest. Mail and records of machines expire
    after 30 days.
    Costs: the objects, which are a few MB, and their requests: less than a dollar a month.
    Does not: give anyone access. Machines get signed URLs, so only the runner manager and the deployer need to read and
    write objects. Who else can read the bucket can take over the registration of a runner. Old downloads are kept,
    because machines of an earlier template may still need them.
    Replaces on change of: the bucket for region.
    """

    TYPE: ClassVar[str] = "gpu-ci:aws:Mailbox"
    ARGS: ClassVar[type[Args]] = MailboxArgs
    EXAMPLE: ClassVar[dict[str, Any]] = {"region": "us-east-1", "managers": ["dev"]}

    bucket: pulumi.Output[str]
    """Name of the bucket."""

    def __init__(self, name: str, args: MailboxArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
        tags = merge(args.tags, {"gpu-ci-pool": name})
        bucket = aws.s3.Bucket(f"{name}-bucket", region=args.region, force_destroy=True, tags=tags, opts=self.child())
        private = aws.s3.BucketPublicAccessBlock(
            f"{name}-private",
            bucket=bucket.bucket,
            region=args.region,
            block_public_acls=True,
            block_public_policy=True,
            ignore_public_acls=True,
            restrict_public_buckets=True,
            opts=self.child(),
        )
        # S3 refuses concurrent changes of a bucket's policy and of its public access, so one waits for the other.
        policy = aws.s3.BucketPolicy(
            f"{name}-tls",
            bucket=bucket.bucket,
            region=args.region,
            policy=bucket.bucket.apply(lambda created: _only_tls(created, args.region)),
            opts=self.child(depends_on=[private]),
        )
        aws.s3.BucketServerSideEncryptionConfiguration(
            f"{name}-encryption",
            bucket=bucket.bucket,
            region=args.region,
            rules=[{"apply_server_side_encryption_by_default": {"sse_algorithm": "AES256"}}],
            opts=self.child(),
        )
        aws.s3.BucketLifecycleConfiguration(
            f"{name}-expiry",
            bucket=bucket.bucket,
            region=args.region,
            rules=[
                {
                    "id": f"{owner}-{kind}",
                    "status": "Enabled",
                    "filter": {"prefix": f"{owner}/{kind}/"},
                    "expiration": {"days": EXPIRE_DAYS},
                }
                for owner in args.owners
                for kind in ("mail", "records")
            ],
            opts=self.child(),
        )
        written: list[pulumi.Resource] = [
            aws.s3.BucketObjectv2(
                f"{name}-{owner}-{each}",
                bucket=bucket.bucket,
                region=args.region,
                key=payload_key(owner, payload.digests()[each]),
                content_base64=base64.b64encode(content).decode(),
                content_type="application/zip",
                tags=tags,
                # A machine of the previous template may download its agent after this update.
                opts=self.child(retain_on_delete=True),
            )
            for owner in args.owners
            for each, content in payload.downloads().items()
        ]
        # Pools wait until their machines can download the agent.
        ready = pulumi.Output.all(bucket.bucket, policy.id, *(each.urn for each in written))
        self.bucket = ready.apply(lambda values: str(values[0]))
        self.register()


def _only_tls(bucket: str, region: str) -> str:
    """Return the policy that refuses requests without TLS."""
    arn = f"arn:{partition(region)}:s3:::{bucket}"
    statement = {
        "Sid": "OnlyTls",
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:*",
        "Resource": [arn, f"{arn}/*"],
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})
