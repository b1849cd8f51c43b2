"""A hint for a machine that failed: a torch and a driver that work on it."""

from __future__ import annotations

from .compat import rules

_MACHINE_NAMES = {"aarch64": "arm64"}  # the name that Linux uses


def nearest(capability: str, driver: str, torch: str, machine: str) -> str:
    """Return the nearest torch that works, and the driver that it needs; empty if none is known."""
    try:
        found = rules.check(capability, driver or None, torch, machine=_MACHINE_NAMES.get(machine, machine)).nearest
    except (KeyError, ValueError):  # a driver, torch or machine that the tables do not have
        return ""
    on = f" on driver branch {found.branch}" if found and found.branch else ""
    return f"torch {found.torch}{on} runs on compute capability {capability}" if found else ""
