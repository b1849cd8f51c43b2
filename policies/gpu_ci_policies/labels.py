"""Whatever costs money says whose it is."""

from __future__ import annotations

from collections.abc import Iterator

from .properties import UNKNOWN, at, mapping
from .rule import Resource, Rule, RuleContext

# What has labels or tags of its own, and costs money or holds data.
LABELLED = {
    "aws:ebs/volume:Volume": "tags",
    "aws:ec2/instance:Instance": "tags",
    "aws:ec2/launchTemplate:LaunchTemplate": "tags",
    "aws:ecr/repository:Repository": "tags",
    "aws:eks/cluster:Cluster": "tags",
    "aws:eks/nodeGroup:NodeGroup": "tags",
    "aws:s3/bucket:Bucket": "tags",
    "gcp:artifactregistry/repository:Repository": "labels",
    "gcp:compute/disk:Disk": "labels",
    "gcp:compute/instance:Instance": "labels",
    "gcp:compute/instanceTemplate:InstanceTemplate": "labels",
    "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate": "labels",
    "gcp:container/cluster:Cluster": "resourceLabels",
    "gcp:storage/bucket:Bucket": "labels",
}


def missing_labels(resource: Resource, context: RuleContext) -> Iterator[str]:
    key = LABELLED.get(resource.type)
    if not key:
        return
    own = at(resource.props, key)
    # What a provider puts on everything it makes counts too.
    shared = [at(resource.provider, "defaultLabels"), at(resource.provider, "defaultTags", "tags")]
    maps = [own, *shared]
    if any(each is UNKNOWN for each in maps):
        return
    present = {name for each in maps for name, value in mapping(each).items() if value not in (None, "")}
    missing = [name for name in context.settings["required"] if name not in present]
    if missing:
        yield f"{key} has no {' and no '.join(missing)}"


RULES = (
    Rule(
        name="required-labels",
        title="What costs money has labels (Google Cloud) or tags (AWS) that say whose it is.",
        why="A bill is grouped by them, and somebody has to be asked when a machine is left over.",
        fix="Put them under gpu-ci:site.labels; elsewhere, set labels or tags, or those that a provider puts on all it "
        "makes.",
        sources=(
            "https://docs.cloud.google.com/resource-manager/docs/best-practices-labels",
            "https://docs.aws.amazon.com/whitepapers/latest/tagging-best-practices/tagging-best-practices.html",
        ),
        check=missing_labels,
        settings={
            "required": {
                "type": "array",
                "items": {"type": "string"},
                "default": ["team"],
                "description": "The names that have to be there.",
            }
        },
    ),
)
