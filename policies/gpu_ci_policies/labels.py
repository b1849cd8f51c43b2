"""The rule that resources which cost money have labels or tags."""

from __future__ import annotations

from collections.abc import Iterator

from .properties import UNKNOWN, at, mapping
from .rule import Resource, Rule, RuleContext

# The resources that have labels or tags, and cost money or store data.
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
    # Labels that the provider adds to all its resources count too.
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
        title="Resources that cost money have labels (Google Cloud) or tags (AWS) that name their owner.",
        why="Labels and tags group a bill, and show whom to ask about a forgotten machine.",
        fix="Set gpu-ci:site.labels. In another program, set the labels or tags of the resource, or the defaults of "
        "its provider.",
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
                "description": "Required names of labels or tags.",
            }
        },
    ),
)
