"""The component Mailbox on Google Cloud: the bucket through which the runner manager and rented machines talk."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pulumi
import pulumi_gcp as gcp
from pydantic import Field, StringConstraints

from .. import payload
from ..args import Args, ComponentArgs, Input
from ..component import Component
from ..labels import Labels, merge
from ..naming import PATTERN, payload_key
from .resource_names import REGION, Project

EXPIRE_DAYS = 8
"""The days after which mail expires. A machine's signed URLs are valid for at most 7 days."""


class MailboxArgs(ComponentArgs):
    """The arguments of a mailbox on Google Cloud."""

    WIRING: ClassVar[frozenset[str]] = frozenset({"project", "labels"})

    region: Annotated[str, Field(pattern=REGION)] = Field(description="the region of the bucket, such as us-central1")
    managers: list[Annotated[str, StringConstraints(pattern=f"^{PATTERN}$")]] = Field(
        min_length=1, max_length=100, description="the names of the runner managers, as in the stack's output `manager`"
    )
    project: Input[Project] | None = Field(
        default=None, description="the Google Cloud project of the bucket; by default the provider's project"
    )
    labels: Labels = Field(default={}, description="labels of the bucket")


class Mailbox(Component):
    """A private bucket for the messages between the runner manager and rented machines, and for their downloads.

    Creates: a bucket of Cloud Storage without public access. The boot agent and the smoke check are objects in it,
    named by their digest. Mail of machines is deleted after 8 days.
    Costs: the objects, which are a few MB, and their requests: less than a dollar a month.
    Does not: give anyone access. Machines get signed URLs, so only the runner manager and the deployer need to read and
    write objects. Who else can read the bucket can take over the registration of a runner. Old downloads are kept,
    because machines of an earlier template may still need them.
    Replaces on change of: the bucket for region.
    """

    TYPE: ClassVar[str] = "gpu-ci:gcp:Mailbox"
    ARGS: ClassVar[type[Args]] = MailboxArgs
    EXAMPLE: ClassVar[dict[str, Any]] = {"region": "us-central1", "managers": ["dev"]}

    bucket: pulumi.Output[str]
    """Name of the bucket."""

    def __init__(self, name: str, args: MailboxArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
        bucket = gcp.storage.Bucket(
            f"{name}-bucket",
            project=args.project,
            location=args.region,
            labels=merge(args.labels, {"gpu-ci-pool": name}),
            uniform_bucket_level_access=True,
            public_access_prevention="enforced",
            versioning={"enabled": False},
            # A deleted registration or boot document must not be kept for a week.
            soft_delete_policy={"retention_duration_seconds": 0},
            lifecycle_rules=[
                {
                    "action": {"type": "Delete"},
                    "condition": {"age": EXPIRE_DAYS, "matches_prefixes": [f"{each}/mail/" for each in args.managers]},
                }
            ],
            force_destroy=True,
            opts=self.child(),
        )
        written = [
            gcp.storage.BucketObject(
                f"{name}-{manager}-{each}",
                bucket=bucket.name,
                name=payload_key(manager, sha256),
                source=pulumi.FileAsset(str(_folder() / sha256)),
                content_type="application/zip",
                # A machine of the previous template may download its agent after this update.
                opts=self.child(retain_on_delete=True),
            )
            for manager in args.managers
            for each, sha256 in payload.digests().items()
        ]
        # Pools wait until their machines can download the agent.
        ready = pulumi.Output.all(bucket.name, *(each.urn for each in written))
        self.bucket = ready.apply(lambda values: str(values[0]))
        self.register()


@cache
def _folder() -> Path:
    """Return a folder with the downloads, because Pulumi's Google package takes binary content only from a file."""
    folder = Path(tempfile.mkdtemp(prefix="gpu-ci-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name, content in payload.downloads().items():
        (folder / payload.digests()[name]).write_bytes(content)
    return folder
