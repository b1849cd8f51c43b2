"""Reads machine types and accelerator types from Compute Engine's API, which lists them by zone.

`fetch` calls Google's API with application default credentials. It has only been tested with answers that match
Google's discovery document, not with a Google Cloud account.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from gpu_catalog.upstream import UpstreamError

PAGE_SIZE = 500
# The warning of a zone that has no results. Every other warning means that Google left out results.
NO_RESULTS = "NO_RESULTS_ON_PAGE"


@dataclass(frozen=True, slots=True)
class MachineType:
    """A machine type and its zones. N1 machine types have no accelerator here, because it is attached later."""

    name: str
    zones: tuple[str, ...]
    vcpus: int
    memory_mib: int
    architecture: str
    accelerator: str
    accelerator_count: int
    bundled_local_ssds: int
    deprecated: str


@dataclass(frozen=True, slots=True)
class AcceleratorType:
    """An accelerator type, its zones, and its maximum number in one machine."""

    name: str
    zones: tuple[str, ...]
    maximum_per_machine: int
    deprecated: str


Page = Mapping[str, Any]


def fetch(project: str, compute: Any = None) -> tuple[list[Page], list[Page]]:
    """Return the pages of machineTypes.aggregatedList and of acceleratorTypes.aggregatedList.

    `compute` is a google-api-python-client client. By default it is created from the application default credentials,
    which need compute.machineTypes.list and compute.acceleratorTypes.list in the project.
    """
    if compute is None:
        from googleapiclient import discovery

        compute = discovery.build("compute", "v1", static_discovery=True)
    return list(_pages(compute.machineTypes(), project)), list(_pages(compute.acceleratorTypes(), project))


def _pages(collection: Any, project: str) -> Iterator[Page]:
    # Without returnPartialSuccess, Google returns an error instead of the results of some zones.
    request = collection.aggregatedList(project=project, maxResults=PAGE_SIZE)
    while request is not None:
        page = request.execute(num_retries=5)
        yield page
        request = collection.aggregatedList_next(request, page)


def machine_types(pages: Iterable[Page]) -> dict[str, MachineType]:
    """Return machine types with GPUs, and N1 machine types. Raise UpstreamError if a type differs between zones."""
    found: dict[str, MachineType] = {}
    for each in _entries(pages, "machineTypes"):
        accelerators = each.get("accelerators", [])
        if len(accelerators) > 1:
            raise UpstreamError(f"{each['name']}: accelerators: got {len(accelerators)} kinds\n  expected: one")
        if not accelerators and not each["name"].startswith("n1-"):
            continue
        accelerator = accelerators[0] if accelerators else {}
        one = MachineType(
            name=each["name"],
            zones=(_last(each["zone"]),),
            vcpus=each["guestCpus"],
            memory_mib=each["memoryMb"],
            # Google leaves the field out for types that are older than the field.
            architecture=each.get("architecture", "").lower(),
            accelerator=accelerator.get("guestAcceleratorType", ""),
            accelerator_count=accelerator.get("guestAcceleratorCount", 0),
            bundled_local_ssds=each.get("bundledLocalSsds", {}).get("partitionCount", 0),
            deprecated=each.get("deprecated", {}).get("state", ""),
        )
        found[one.name] = _joined(found.get(one.name, one), one)
    return found


def accelerator_types(pages: Iterable[Page]) -> dict[str, AcceleratorType]:
    found: dict[str, AcceleratorType] = {}
    for each in _entries(pages, "acceleratorTypes"):
        one = AcceleratorType(
            name=each["name"],
            zones=(_last(each["zone"]),),
            maximum_per_machine=each["maximumCardsPerInstance"],
            deprecated=each.get("deprecated", {}).get("state", ""),
        )
        found[one.name] = _joined(found.get(one.name, one), one)
    return found


Listed = TypeVar("Listed", MachineType, AcceleratorType)


def _joined(first_zone: Listed, one: Listed) -> Listed:
    """Add the zone of `one` to the same type of other zones.

    `deprecated` may differ: the first zone's value is kept.
    """
    for field in fields(one):
        if field.name in ("zones", "deprecated"):
            continue
        first, value = getattr(first_zone, field.name), getattr(one, field.name)
        if first != value:
            where = f"{first} in {first_zone.zones[0]}, {value} in {one.zones[0]}"
            raise UpstreamError(f"{one.name}: {field.name}: differs between zones\n  got: {where}")
    return replace(first_zone, zones=tuple(sorted({*first_zone.zones, *one.zones})))


def _entries(pages: Iterable[Page], kind: str) -> Iterator[Mapping[str, Any]]:
    for page in pages:
        if page.get("unreachables"):
            raise _partial(kind, ", ".join(map(_last, page["unreachables"])), "unreachable")
        for scope, answer in page.get("items", {}).items():
            warning = answer.get("warning", {}).get("code", NO_RESULTS)
            if warning != NO_RESULTS:
                raise _partial(kind, _last(scope), warning)
            yield from answer.get(kind, [])


def _partial(kind: str, where: str, code: str) -> UpstreamError:
    return UpstreamError(
        f"{kind}: {where}: not answered\n  got: {code}\n  expected: every zone\n"
        "  hint: machines of that zone would look gone; try again later"
    )


def _last(url: str) -> str:
    return url.rsplit("/", 1)[-1]
