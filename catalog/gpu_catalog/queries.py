"""The questions one asks of the catalog. Unknown names raise a LookupError that says which name was probably meant."""

from __future__ import annotations

import re
from functools import cache

from . import data_files, n1
from .errors import UnknownGpu, UnknownMachine, UnknownMarket, UnknownSource, closest
from .locations import region_of
from .models import (
    MARKETS,
    AmiType,
    Architecture,
    Cloud,
    DriverBranches,
    Gpu,
    Machine,
    Market,
    MigProfile,
    Quota,
    Source,
)

_ATTACHED = re.compile(r"(?:gcp/)?(?P<machine>[\w-]+)\+(?P<accelerator>[\w-]+)x(?P<count>\d+)")

# What the clouds and people call the same thing.
_MARKET_ALIASES = {
    "on-demand": "standard",
    "ondemand": "standard",
    "preemptible": "spot",
    "reservation-bound": "reservation",
}


def source(key: str) -> Source:
    """Where facts with this key were read, and when."""
    if key not in data_files.sources():
        raise UnknownSource(key, data_files.sources())
    return data_files.sources()[key]


def sources_of(row: Gpu | Machine, fact: str) -> tuple[Source, ...]:
    """Where one fact of a row was read, by the name of its field; nothing for a field without a source."""
    return tuple(source(key) for key in row.sources.get(fact, ()))


def market(word: str) -> Market:
    """A market by its own name or another's: on-demand and ON_DEMAND are standard, FLEX_START is flex-start."""
    plain = word.lower().replace("_", "-")
    plain = _MARKET_ALIASES.get(plain, plain)
    for known in MARKETS:
        if plain == known:
            return known
    raise UnknownMarket(word, MARKETS)


def gpus() -> tuple[Gpu, ...]:
    """Every card, oldest architecture first."""
    return tuple(data_files.gpus().values())


def gpu(name: str) -> Gpu:
    """A card by its key, its name or a Google accelerator type: l4, "A100 80GB", nvidia-tesla-t4."""
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
    """The names of the machine types that have a GPU or can be given one; no legacy ones."""
    own = [name for name, each in data_files.machines().items() if not each.legacy and cloud in (None, each.cloud)]
    return (*own, *(data_files.n1_shapes() if cloud in (None, "gcp") else ()))


def machine(name: str, cloud: Cloud | None = None) -> Machine:
    """A machine by its machine type (g2-standard-8, g6.xlarge) or its key (gcp/n1-standard-8+nvidia-tesla-t4x1).

    Also names made from others: a3-highgpu-8g-nolssd, g2-custom-8-40960. UnknownMachine for an N1 machine type alone,
    which has no GPU: ask `attached`.
    """
    if parts := _ATTACHED.fullmatch(name):
        return n1.attached(parts["machine"], parts["accelerator"], int(parts["count"]))
    bare = name.removeprefix("gcp/").removeprefix("aws/")
    found = data_files.machines().get(bare) or n1.ordered_otherwise(bare)
    if found is None and n1.takes_accelerator(bare):
        raise UnknownMachine(name, hint=f"it has no GPU of its own; attach one, such as {bare}+nvidia-tesla-t4x1")
    if found is None or cloud not in (None, found.cloud):
        raise UnknownMachine(name, machine_types(cloud))
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
    """The machines for which all of this is true.

    `n1=False` leaves out N1 machines with attached GPUs; `legacy=True` adds what is known by name only, AMD's too.
    GPU memory is compared by nominal size, so that an L4 is 24 GiB on every cloud.
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


_market = market  # inside `machines` the name is its argument


def _card(given: str | Gpu | None) -> Gpu | None:
    return gpu(given) if isinstance(given, str) else given


def _capability(text: str) -> tuple[int, int]:
    major, _, minor = text.partition(".")
    return (int(major), int(minor or 0)) if major else (0, 0)


@cache
def _attached() -> tuple[Machine, ...]:
    return tuple(n1.all_attached())


def nominal_gpu_memory_gib(machine: Machine) -> float:
    """What one GPU has, or the fraction of it, by the card's nominal size: the same on every cloud."""
    return machine.gpu.memory_gib * min(1.0, machine.gpu_count)


def accelerators() -> tuple[str, ...]:
    """Google's accelerator types, built in and attachable."""
    return tuple(name for each in gpus() for name in each.accelerators)


def is_nvidia(machine: str | Machine) -> bool:
    """Whether its GPUs are NVIDIA's; those of g4ad are AMD's."""
    return _machine(machine).gpu.is_nvidia


def zones(machine: str | Machine, region: str = "") -> tuple[str, ...]:
    """The zones that have it, of one region or all, as far as sources name them. None on AWS: ask `regions`."""
    return tuple(zone for zone in _machine(machine).zones if region in ("", region_of(zone)))


def regions(machine: str | Machine | None = None) -> tuple[str, ...]:
    """The regions that have it; without a machine, every region the catalog names."""
    if machine is not None:
        return _machine(machine).regions
    return tuple(sorted({region for each in machines(n1=True) for region in each.regions}))


def sold_as(machine: str | Machine, market: str) -> bool | None:
    """Whether it is sold that way; None where that is not established."""
    found, word = _machine(machine), _market(market)
    return None if word in found.unverified_markets else word in found.markets


def driver_branches(card: str | Gpu | Machine) -> DriverBranches | None:
    """The driver branches that support a GPU; None for a card that is not NVIDIA's."""
    found = _card_of(card)
    if found.first_driver_branch is None:
        return None
    certain = not {"first_driver_branch", "last_driver_branch"} & {*found.uncertain}
    return DriverBranches(found.first_driver_branch, found.last_driver_branch, certain)


def mig_profiles(card: str | Gpu | Machine) -> tuple[MigProfile, ...]:
    """The ways to divide a GPU; none for a card without MIG and for a fraction of a GPU."""
    if isinstance(card, Machine) and card.gpu_count < 1:
        return ()
    key = _card_of(card).key
    return tuple(MigProfile(**row) for row in data_files.rows("mig") if row["gpu"] == key)


def ami_types(machine: str | Machine | None = None) -> tuple[AmiType, ...]:
    """The EKS AMI types for a machine, best supported first; without a machine, all there are."""
    known = {row["ami_type"]: AmiType(**row) for row in data_files.rows("ami_types")}
    return tuple(known.values() if machine is None else (known[name] for name in _machine(machine).ami_types))


def quota_metric(machine: str | Machine, market: str) -> Quota | None:
    """The quota its GPUs draw from when bought that way; None where that is not sold or not established."""
    found, word = _machine(machine), _market(market)
    metrics = found.quota.get(word, ()) if word in found.markets else ()
    if not metrics:
        return None
    certain = not {"quota", f"quota.{word}"} & {*found.uncertain}
    return _quota(metrics[0], found, metrics[1:], certain)


def quota_metrics(machine: str | Machine, market: str) -> tuple[Quota, ...]:
    """Every GPU quota it draws from: the one of its region, and on Google Cloud the one of all regions."""
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
