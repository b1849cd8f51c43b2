"""Returns AWS's instance types as rows for a comparison: `current` from the catalog, `upstream` from the sources.

The fields are those of data/aws_machines.json. The sources are the pinned versions of botocore, moto and cfn-lint. To
refresh the catalog from newer versions, run `make lock UPGRADE=1` first.
"""

from __future__ import annotations

from gpu_catalog import data_files
from gpu_catalog.refresh import GONE, Row, Rows
from gpu_catalog.upstream import botocore, cfn_lint, moto, spellings

# The catalog's markets by EC2's usage classes, in the catalog's order.
MARKETS = {"on-demand": "standard", "spot": "spot", "capacity-block": "capacity-block"}


def covers(machine: str) -> bool:
    return machine.startswith("aws/")


def current() -> Rows:
    """Return the rows of the catalog. Unknown fields are left out."""
    return {f"aws/{row['machine_type']}": _current(row) for row in data_files.rows("aws_machines")}


def _current(row: data_files.Json) -> Row:
    shared = data_files.family("aws_families", row["family"])
    fields = ("vcpus", "memory_mib", "gpu_count", "gpu_memory_mib", "efa_interfaces", "local_nvme_gb", GONE)
    return {
        "family": row["family"],
        "gpu": shared["gpu"],
        "architecture": shared["architecture"],
        **{field: row[field] for field in fields if row.get(field) is not None},
        "markets": tuple(row["markets"]),
        "regions": tuple(sorted(row.get("regions", [*shared["regions"], *shared["govcloud_regions"]]))),
    }


def upstream(known: Rows) -> Rows:
    """Return the sources' rows for every GPU instance type in EC2's API or in the catalog."""
    rows: dict[str, Row] = {}
    for name in botocore.instance_types():
        key = f"aws/{name}"
        if name in moto.instance_types():
            mine = known.get(key, {}).get("regions")
            rows[key] = _upstream(moto.instance_types()[name], mine if isinstance(mine, tuple) else ())
        elif key in known or spellings.GPU_FAMILIES.match(name):
            # EC2's API still has the name, but no source has other facts about the instance type. An empty row counts
            # as neither missing nor different.
            rows[key] = {}
    return rows


def _upstream(found: moto.InstanceType, known_regions: tuple[str, ...]) -> Row:
    return {
        "family": found.name.split(".")[0],
        "gpu": _card(found),
        "architecture": found.architecture,
        "vcpus": found.vcpus,
        "memory_mib": found.memory_mib,
        "gpu_count": found.gpu_count,
        "gpu_memory_mib": found.gpu_memory_mib,
        "efa_interfaces": found.efa_interfaces,
        "local_nvme_gb": found.local_disk_gb,
        "markets": tuple(word for name, word in MARKETS.items() if name in found.usage_classes),
        "regions": _regions(found.name, known_regions),
    }


def _regions(name: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """Return the regions of an instance type.

    For each region, the first source that knows the region decides: EC2's recorded answer, the price list, the catalog.
    """
    offered = {region for region, types in moto.offerings().items() if name in types}
    priced = {region for region, types in cfn_lint.table().items() if name in types}
    elsewhere = {region for region in known if region not in moto.offerings() and region not in cfn_lint.table()}
    return tuple(sorted(offered | {region for region in priced if region not in moto.offerings()} | elsewhere))


def _card(found: moto.InstanceType) -> str:
    """Return the catalog's key of a GPU, or EC2's name of a GPU that the catalog does not have yet."""
    whole_mib = found.gpu_memory_mib / min(1, found.gpu_count)
    same = [card for card in data_files.gpus().values() if spellings.same_card(card.name, found.gpu_model)]
    nearest = min(same, key=lambda card: abs(card.memory_gib * 1024 - whole_mib), default=None)
    return nearest.key if nearest else found.gpu_model
