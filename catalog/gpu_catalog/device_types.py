"""The names of boot disk types and network interface types, and findings about unknown names."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from . import data_files
from .errors import closest
from .finding import Finding, changes, cited
from .setup import Setup

DEVICE_TYPES = {"boot_disk": "boot disk", "nic": "network interface"}
"""The fields of a setup that have a device type, with their names in messages."""


def canonical_name(device: str, name: str) -> str:
    """Return a name in its cloud's spelling: GVNIC for gvnic. An unknown name is returned unchanged."""
    return {candidate.lower(): candidate for _, candidate in _names(device)}.get(name.lower(), name)


def is_offered_by(device: str, name: str, cloud: str) -> bool:
    """Return True if the cloud has a device type of that name."""
    return (cloud, name) in _names(device)


def findings(setup: Setup) -> Iterator[Finding]:
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
