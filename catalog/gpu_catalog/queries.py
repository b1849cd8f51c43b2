"""The queries of the catalog, such as `machine` and `zones`.

An unknown name raises a LookupError that suggests the most similar name.
"""

from __future__ import annotations

import re
from functools import cache

from . import data_files, n1
from .errors import UnknownGpu, UnknownMachine, UnknownMarket, UnknownSource, closest
from .locations import region_of
from .models import (
    CLOUDS,
    MARKETS,
    AmiType,
    Architecture,
    Cloud,
    DriverBranches,
    Gpu,
    Machine,
    Market,
    Quota,
    Source,
)

_ATTACHED = re.compile(r"(?:gcp/)?(?P<machine>[\w-]+)\+(?P<accelerator>[\w-]+)x(?P<count>\d+)")

# Other names of the markets.
_MARKET_ALIASES = {
    "on-demand": "standard",
    "ondemand": "standard",
    "preemptible": "spot",
    "reservation-bound": "reservation",
}


def source(key: str) -> Source:
    """Return the source with this key."""
    if key not in data_files.sources():
        raise UnknownSource(key, data_files.sources())
    return data_files.sources()[key]


def sources_of(row: Gpu | Machine, fact: str) -> tuple[Source, ...]:
    """Return the sources of a row's field; empty for a field without a source."""
    return tuple(source(key) for key in row.sources.get(fact, ()))


def market(word: str) -> Market:
    """Return a market by any of its names: standard for on-demand and ON_DEMAND, flex-start for FLEX_START."""
    plain = word.lower().replace("_", "-")
    plain = _MARKET_ALIASES.get(plain, plain)
    for known in MARKETS:
        if plain == known:
            return known
    raise UnknownMarket(word, MARKETS)


def gpus() -> tuple[Gpu, ...]:
    """Return every GPU model, oldest architecture first."""
    return tuple(data_files.gpus().values())


def gpu(name: str) -> Gpu:
    """Return a GPU model by its key, its name or a Google accelerator type: l4, "A100 80GB", nvidia-tesla-t4."""
    plain = _plain(name)
    if found := _gpu_names().get(plain):
        return found
    several = " or ".join(each.key for each in gpus() if each.key.startswith(f"{plain}-"))
    near = closest(plain, _gpu_names())
    raise UnknownGpu(name, hint=f"which one: {several}?" if several else f"did you mean {near}?" if near else "")


def _plain(name: str) -> str:
    return name.lower().replace(" ", "-").removeprefix("nvidia-").removesuffix("-vws")


@cache
def _gpu_names() -> dict[str, Gpu]:
    return {_plain(name): each for each in gpus() for name in (each.key, each.name, *each.accelerators)}


def machine_types(cloud: Cloud | None = None) -> tuple[str, ...]:
    """Return the machine types that have a GPU or can have an attached GPU.

    Legacy machines, of which the catalog knows only the name, are left out.
    """
    own = [name for name, each in data_files.machines().items() if not each.legacy and cloud in (None, each.cloud)]
    return (*own, *(data_files.n1_shapes() if cloud in (None, "gcp") else ()))


def machine_with_gpu(name: str, cloud: Cloud | None = None) -> Machine | None:
    """Return a small machine with the GPU of this name, such as t4 or A100, or None if no GPU has the name."""
    plain = _plain(name)
    card = _gpu_names().get(plain)
    found = [each for each in machines(cloud=cloud) if each.gpu == card or each.gpu.key.startswith(f"{plain}-")]
    # A machine of a cloud with quotas is the better hint, because its GPUs are in the regions of the other machines.
    return min(
        found,
        key=lambda each: (not each.quota, each.gpu_count < 1, each.gpu_count, each.vcpus < 4, each.vcpus),
        default=None,
    )


def _hint_for_unknown_machine(name: str, cloud: Cloud | None) -> str:
    """Return a hint for the name of a GPU instead of a machine type: a machine that has it. Else return ""."""
    found = machine_with_gpu(name, cloud)
    return f"{found.gpu.name} is a GPU, and {found.key.partition('/')[2]} is a machine with it" if found else ""


def machine(name: str, cloud: Cloud | None = None) -> Machine:
    """Return a machine by its machine type (g2-standard-8, g6.xlarge) or key (gcp/n1-standard-8+nvidia-tesla-t4x1).

    Derived names also work: a3-highgpu-8g-nolssd, g2-custom-8-40960. Raise UnknownMachine for an unknown name, and for
    an N1 machine type without GPUs. `attached` returns an N1 machine type with its GPUs.
    """
    if parts := _ATTACHED.fullmatch(name):
        return n1.attached(parts["machine"], parts["accelerator"], int(parts["count"]))
    prefix, _, rest = name.partition("/")
    bare = rest if prefix in CLOUDS else name
    found = data_files.machines().get(bare) or n1.from_derived_name(bare)
    if found is None and n1.takes_accelerator(bare):
        raise UnknownMachine(name, hint=f"{bare} has no built-in GPU; attach one, such as {bare}+nvidia-tesla-t4x1")
    if found is None or cloud not in (None, found.cloud):
        # An N1 machine has no built-in GPU, so it is only suggested for another N1 machine.
        known = [each for each in machine_types(cloud) if bare.startswith("n1-") or not n1.takes_accelerator(each)]
        raise UnknownMachine(name, known, hint=_hint_for_unknown_machine(bare, cloud))
    return found


def machines(
    *,
    cloud: Cloud | None = None,
    gpu: str | Gpu | None = None,
    region: str | None = None,
    zone: str | None = None,
    market: str | None = None,
    architecture: Architecture | None = None,
    min_gpu_memory_gib: float = 0,
    min_compute_capability: str = "",
    n1: bool = True,
    legacy: bool = False,
) -> tuple[Machine, ...]:
    """Return the machines that meet all conditions.

    `n1=False` leaves out N1 machines with attached GPUs. `legacy=True` adds machines of which the catalog knows only
    the name. GPU
    memory is compared by nominal size, so that an L4 has 24 GiB on every cloud.
    """
    found = [*data_files.machines().values(), *(_attached() if n1 else ())]
    card = _card(gpu)
    sold = None if market is None else _market(market)
    least = _capability(min_compute_capability)
    return tuple(
        each
        for each in found
        if cloud in (None, each.cloud)
        and (card is None or each.gpu == card)
        and (region is None or region in each.regions)
        and (zone is None or each.is_in(zone))
        and (sold is None or sold in each.markets)
        and architecture in (None, each.architecture)
        and nominal_gpu_memory_gib(each) >= min_gpu_memory_gib
        and each.gpu.capability >= least
        and (legacy or not each.legacy)
    )


_market = market  # `machines` has an argument of that name


def _card(given: str | Gpu | None) -> Gpu | None:
    return gpu(given) if isinstance(given, str) else given


def _capability(text: str) -> tuple[int, int]:
    major, _, minor = text.partition(".")
    return (int(major), int(minor or 0)) if major else (0, 0)


@cache
def _attached() -> tuple[Machine, ...]:
    return tuple(n1.all_attached())


def nominal_gpu_memory_gib(machine: Machine) -> float:
    """Return the nominal memory of one GPU, or of the machine's fraction of a GPU. It is the same on every cloud."""
    return machine.gpu.memory_gib * min(1.0, machine.gpu_count)


def accelerators() -> tuple[str, ...]:
    """Return Google's accelerator types, built in and attachable."""
    return tuple(name for each in gpus() for name in each.accelerators)


def is_nvidia(machine: str | Machine) -> bool:
    """Return True if the GPUs of the machine are NVIDIA GPUs. The GPUs of g4ad are AMD GPUs."""
    return _machine(machine).gpu.is_nvidia


def zones(machine: str | Machine, region: str = "") -> tuple[str, ...]:
    """Return the zones that have the machine, in one region or all. AWS publishes no zones, so the result is empty."""
    return tuple(zone for zone in _machine(machine).zones if region in ("", region_of(zone)))


def regions(machine: str | Machine | None = None) -> tuple[str, ...]:
    """Return the regions that have the machine. Without a machine, return every region of the catalog."""
    if machine is not None:
        return _machine(machine).regions
    return tuple(sorted({region for each in machines(n1=True) for region in each.regions}))


def driver_branches(card: str | Gpu | Machine) -> DriverBranches | None:
    """Return the driver branches that support a GPU; None for a GPU that is not an NVIDIA GPU."""
    found = _card_of(card)
    if found.first_driver_branch is None:
        return None
    certain = not {"first_driver_branch", "last_driver_branch"} & {*found.uncertain}
    return DriverBranches(found.first_driver_branch, found.last_driver_branch, certain)


def ami_types(machine: str | Machine | None = None) -> tuple[AmiType, ...]:
    """Return the EKS AMI types for a machine, best supported first; without a machine, all AMI types."""
    known = {row["ami_type"]: AmiType(**row) for row in data_files.rows("ami_types")}
    return tuple(known.values() if machine is None else (known[name] for name in _machine(machine).ami_types))


def quota_metric(machine: str | Machine, market: str) -> Quota | None:
    """Return the GPU quota of the market. Return None if it is unknown or the machine is not sold in the market."""
    found, word = _machine(machine), _market(market)
    metrics = found.quota.get(word, ()) if word in found.markets else ()
    if not metrics:
        return None
    certain = not {"quota", f"quota.{word}"} & {*found.uncertain}
    return _quota(metrics[0], found, metrics[1:], certain)


def quota_metrics(machine: str | Machine, market: str) -> tuple[Quota, ...]:
    """Return every GPU quota that the machine uses: the quota of a region, and Google's quota of all regions."""
    found = _machine(machine)
    own = quota_metric(found, market)
    if own is None:
        return ()
    return (own, _quota("GPUS_ALL_REGIONS", found, (), certain=True)) if found.cloud == "gcp" else (own,)


def _quota(metric: str, machine: Machine, others: tuple[str, ...], certain: bool) -> Quota:
    row = next(row for row in data_files.rows("quotas") if row["metric"] == metric)
    takes = machine.api_gpu_count if row["unit"] == "GPU" else machine.vcpus
    plain = {key: value for key, value in row.items() if key != "cloud"}
    return Quota(**plain, per_machine=takes, alternatives=others, certain=certain)


def _machine(given: str | Machine) -> Machine:
    return machine(given) if isinstance(given, str) else given


def _card_of(given: str | Gpu | Machine) -> Gpu:
    if isinstance(given, Machine):
        return given.gpu
    return gpu(given) if isinstance(given, str) else given
