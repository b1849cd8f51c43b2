"""Reads the EC2 instance types of each region from a table of cfn-lint, which checks CloudFormation templates.

cfn-lint generates the table from AWS's price lists. So the table has instance types that have a price but are no longer
sold, such as p3. It lacks types without an on-demand price, such as p5e, which is sold as capacity blocks.
docs/reference/catalog-agreement.md lists both.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gpu_catalog.upstream import UpstreamError, folder, read_json

TABLE = "data/schemas/extensions/aws_ec2_instance/instancetype_enum.json"
NO_REGIONS = ("all", "description")


@dataclass(frozen=True, slots=True)
class Offered:
    """The regions of an instance type."""

    instance_type: str
    regions: tuple[str, ...]


@cache
def table() -> dict[str, tuple[str, ...]]:
    """Return the instance types by region."""
    path = folder("cfnlint", "cfn-lint") / TABLE
    return parse(read_json(path), path)


def parse(document: dict[str, Any], path: Path) -> dict[str, tuple[str, ...]]:
    found = {region: tuple(entry["enum"]) for region, entry in document.items() if region not in NO_REGIONS}
    if empty := sorted(region for region, types in found.items() if not types):
        raise UpstreamError(f"{path}: {empty[0]}: has no instance types\n  expected: at least one in every region")
    return found


@cache
def offered() -> dict[str, Offered]:
    """Return the regions by instance type."""
    regions: dict[str, list[str]] = {}
    for region in sorted(table()):
        for name in table()[region]:
            regions.setdefault(name, []).append(region)
    return {name: Offered(name, tuple(found)) for name, found in sorted(regions.items())}


@cache
def as_of() -> str:
    """Return the day on which cfn-lint generated its tables."""
    stamp: str = read_json(folder("cfnlint", "cfn-lint") / "data/schemas/version.json")["schema_date"]
    return stamp[:10]
