"""Rules about the market, zone, boot disk, network interface and AMI of a machine.

`driver_rules` has the rules about its driver. A rule yields a `Finding` for a choice that cannot work. `unknown` yields
a sentence for a choice about which the sources say nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from . import data_files, queries
from .errors import closest
from .locations import nearest_locations
from .models import Machine
from .setup import Finding, Setup, changes, cited, machines_like, origin

DEVICE_TYPES = {"boot_disk": "boot disk", "nic": "network interface"}
"""The fields of a setup that have a device type, with their names in messages."""


def canonical_name(device: str, name: str) -> str:
    """Return a name in its cloud's spelling: GVNIC for gvnic. An unknown name is returned unchanged."""
    return {candidate.lower(): candidate for _, candidate in _names(device)}.get(name.lower(), name)


def is_offered_by(device: str, name: str, cloud: str) -> bool:
    """Return True if the cloud has a device type of that name."""
    return (cloud, name) in _names(device)


def device_findings(setup: Setup) -> Iterator[Finding]:
    """Yield findings about device types of another cloud, and about unknown ones."""
    machine = setup.machine
    for device, label in DEVICE_TYPES.items():
        chosen_name = getattr(setup, device)
        if not chosen_name or is_offered_by(device, chosen_name, machine.cloud):
            continue
        own_names = [name for cloud, name in _names(device) if cloud == machine.cloud]
        supported = getattr(machine, f"{device}s") or own_names
        rule = device.replace("_", "-")
        if other_clouds := [cloud for cloud, name in _names(device) if name == chosen_name]:
            text = f"{chosen_name} is a {label} of {other_clouds[0]}, but {machine.key} is on {machine.cloud}"
            yield Finding(f"{rule}.cloud", device, text, _cited(device, other_clouds[0]), changes(device, supported))
            continue
        near = canonical_name(device, closest(chosen_name, [name.lower() for name in own_names]))
        text = f"{machine.cloud} has no {label} {chosen_name}" + (f"; did you mean {near}?" if near else "")
        instead = changes(device, [near, *supported] if near in supported else supported)
        yield Finding(f"{rule}.unknown", device, text, _cited(device, machine.cloud), instead)


@cache
def _names(device: str) -> tuple[tuple[str, str], ...]:
    """Return cloud and name of every type of a device."""
    rows = [row for row in data_files.rows("device_types") if row["device"] == device]
    return tuple((row["cloud"], name) for row in rows for name in row["names"])


def _cited(device: str, cloud: str) -> str:
    row = next(row for row in data_files.rows("device_types") if (row["device"], row["cloud"]) == (device, cloud))
    return cited(row["sources"]["names"])


# The keys of sources, for facts whose rows name no source.
_API, _GUIDE = ("botocore",), ("eksdoc",)
_ZONES = {"gcp": ("gdoc_zones", "gdoc_regions"), "aws": ("awsreg",)}


def unusable(machine: Machine) -> Iterator[Finding]:
    """Yield a finding for a machine that cannot be used at all: its GPU is made by AMD, or is retired."""
    if machine.gpu.is_nvidia and not machine.legacy:
        return
    text = f"{machine.key} has a {machine.gpu.name}, an AMD GPU: it has no NVIDIA driver and no CUDA"
    rule = "machine.no-cuda"
    if machine.gpu.is_nvidia:
        text = f"{machine.key} has a {machine.gpu.name}, which is retired: current drivers and torch do not support it"
        rule = "machine.retired"
    yield Finding(rule, "machine", text, origin(machine, "gpu"), changes("machine", machines_like(machine)))


def findings(setup: Setup) -> Iterator[Finding]:
    """Yield every finding about a usable machine, except those about its driver."""
    yield from _market_and_zone(setup)
    yield from _boot_disk_and_nic(setup)
    yield from _ami(setup)


def unknown(setup: Setup) -> Iterator[str]:
    """Yield a sentence for each choice that could not be checked, or only against facts without a vendor's source."""
    machine = setup.machine
    uncertain_market = "markets" in machine.uncertain and setup.market not in machine.markets
    if setup.market and (setup.market in machine.unverified_markets or uncertain_market):
        yield f"no source confirms that {machine.key} is sold as {setup.market}"
    if setup.zone and not machine.regions:
        yield f"no source names a region of {machine.key}"
    for name, chosen, known in (("boot_disk", setup.boot_disk, machine.boot_disks), ("nic", setup.nic, machine.nics)):
        if (
            chosen
            and is_offered_by(name, chosen, machine.cloud)
            and chosen not in known
            and (not known or f"{name}s" in machine.uncertain)
        ):
            yield f"no source says if {machine.key} supports {chosen}"


def _market_and_zone(setup: Setup) -> Iterator[Finding]:
    machine, market, zone = setup.machine, setup.market, setup.zone
    if market and market not in (*machine.markets, *machine.unverified_markets) and "markets" not in machine.uncertain:
        text = f"{machine.key} is not sold as {market}: only as {', '.join(machine.markets)}"
        yield Finding("market.not-sold", "market", text, origin(machine, "markets"), changes("market", machine.markets))
    if zone and machine.regions and not machine.is_in(zone):
        where = machine.zones_near(zone) or nearest_locations(zone, machine.regions)
        text = f"{zone} has no {machine.key}; {', '.join(where[:3])} {'has' if len(where) == 1 else 'have'}"
        yield Finding("zone.without", "zone", text, cited(_ZONES[machine.cloud]), changes("zone", where))


def _boot_disk_and_nic(setup: Setup) -> Iterator[Finding]:
    machine = setup.machine
    disks = sorted(machine.boot_disks, key=lambda disk: disk != "pd-balanced")
    for name, chosen, known in (("boot_disk", setup.boot_disk, disks), ("nic", setup.nic, [*machine.nics])):
        if (
            is_offered_by(name, chosen or "", machine.cloud)
            and known
            and chosen not in known
            and f"{name}s" not in machine.uncertain
        ):
            text = f"{machine.key} does not support the {name.replace('_', ' ')} {chosen}: only {', '.join(known)}"
            rule = f"{name.replace('_', '-')}.refused"
            yield Finding(rule, name, text, origin(machine, f"{name}s"), changes(name, known))


def _ami(setup: Setup) -> Iterator[Finding]:
    machine, name = setup.machine, setup.ami_type
    if not name:
        return
    known = {each.ami_type: each for each in queries.ami_types()}
    others = changes("ami_type", machine.ami_types)
    ami = known.get(name)
    if machine.cloud != "aws":
        text = f"{machine.key} is not a machine of AWS, so it has no AMI"
        yield Finding("ami.cloud", "ami_type", text, cited(_API), changes("ami_type", [None]))
    elif ami is None:
        text = f"EKS has no AMI type {name}"
        yield Finding("ami.unknown", "ami_type", text, cited(_API), others)
    elif ami.retired:
        text = f"{name} has had no new images since {ami.retired}"
        yield Finding("ami.retired", "ami_type", text, cited(_GUIDE), others)
    elif ami.architecture and ami.architecture != machine.architecture:
        text = f"{name} is for {ami.architecture}, and {machine.key} is {machine.architecture}"
        yield Finding("ami.architecture", "ami_type", text, cited(_API), others)
    elif not ami.nvidia and ami.os != "custom" and setup.driver_source != "operator":
        text = f"{name} has no NVIDIA driver"
        yield Finding("ami.no-driver", "ami_type", text, cited(_GUIDE), others)
    elif ami.nvidia and name not in machine.ami_types:
        text = f"{name} is not for {machine.family}: take {' or '.join(machine.ami_types)}"
        yield Finding("ami.machine", "ami_type", text, origin(machine, "ami_types"), others)
