"""Machine types and accelerator types as Compute Engine lists them, zone by zone.

`fetch` asks Google with application default credentials. It has only been tried with recorded-shape answers, which the
tests check against Google's discovery document: no Google Cloud account was at hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from gpu_catalog.upstream import UpstreamError

PAGE_SIZE = 500
# What a scope answers when it simply has none; every other warning means that an answer is missing.
NO_RESULTS = "NO_RESULTS_ON_PAGE"


@dataclass(frozen=True, slots=True)
class MachineType:
    """A machine type, and the zones that have it. N1 types carry no accelerator: there it is attached."""

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
    """An accelerator type, the zones that have it, and the most of them one machine takes."""

    name: str
    zones: tuple[str, ...]
    maximum_per_machine: int
    deprecated: str


Page = Mapping[str, Any]


def fetch(project: str, compute: Any = None) -> tuple[list[Page], list[Page]]:
    """The pages of machineTypes.aggregatedList and of acceleratorTypes.aggregatedList.

    `compute` is a client of google-api-python-client; without one, it is made from the application default
    credentials, which need compute.machineTypes.list and compute.acceleratorTypes.list in the project.
    """
    if compute is None:
        from googleapiclient import discovery

        compute = discovery.build("compute", "v1", static_discovery=True)
    return list(_pages(compute.machineTypes(), project)), list(_pages(compute.acceleratorTypes(), project))


def _pages(collection: Any, project: str) -> Iterator[Page]:
    # Without returnPartialSuccess, Google answers with an error rather than with half of the zones.
    request = collection.aggregatedList(project=project, maxResults=PAGE_SIZE)
    while request is not None:
        page = request.execute(num_retries=5)
        yield page
        request = collection.aggregatedList_next(request, page)


def machine_types(pages: Iterable[Page]) -> dict[str, MachineType]:
    """Machine types with GPUs, and N1, which takes them; every zone must agree on what a type is."""
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
            # Left out by Google for types that are older than the field.
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
    """The same thing in one more zone. `deprecated` is a zone's own word, so the first zone's stays."""
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
