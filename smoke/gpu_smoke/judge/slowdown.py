"""Find the cause of a slow GPU in NVML's samples of the slow stage, and put it into the hint of the check."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from .. import faults
from ..checks import BAD, WARN, Check
from ..data import health
from . import load
from .nvml_samples import Samples, error_of
from .subject import Subject

# The stage in which each speed is measured.
STAGES = {
    "gemm.speed": "gemm.speed", "gemm.peers": "gemm.speed", "mem.speed": "mem.speed", "mem.peers": "mem.speed",
    "h2d": "copies", "d2h": "copies", "burn": "burn",
}  # fmt: skip
_LINKS = ("h2d", "d2h")


def is_slow(check: Check) -> bool:
    """Return True if a speed was below its floor. A speed without a floor also warns, and is not slow."""
    below = check.status == WARN and check.warn_below is not None
    return check.id in STAGES and (below or (check.status in BAD and check.severity == faults.PERF))


def slow_stages(checks: Iterable[Check], gpu: int | None) -> set[str]:
    """Return the stages in which a GPU was slow.

    Copies from and to the host are left out, because they need no high clock.
    """
    return {STAGES[check.id] for check in checks if check.gpu == gpu and check.id not in _LINKS and is_slow(check)}


def with_cause(check: Check, subject: Subject, state: Mapping[str, Any], samples: Samples) -> Check:
    """Return a check of a slow speed with the cause as its hint. Any other check is returned unchanged."""
    if not is_slow(check) or samples.loaded < health.ENOUGH:
        return check
    action, hint = _cause(check, subject, state, samples)
    return replace(check, hint=hint, action=action if check.status in BAD else check.action)


def _cause(check: Check, subject: Subject, state: Mapping[str, Any], samples: Samples) -> tuple[str, str]:
    if samples.other_processes:
        return faults.FIX_POOL, "another process used the GPU at the same time: give jobs whole GPUs"
    if wrong := [name for bit, name in health.WRONG_REASONS.items() if samples.reasons[bit]]:
        hot = f" at {samples.highest['temperature']:g} °C" if "temperature" in samples.highest else ""
        return faults.REPLACE, f"{' and '.join(wrong)} throttled the GPU{hot}: replace the machine"
    if check.id in _LINKS and (short := load.narrow(state["pcie"], samples)):
        text = (
            f"its PCIe link was {short}: compare with another machine of this type, then reseat the card or replace it"
        )
        return faults.REPLACE, text
    if capped := _capped(subject, state["power"], samples):
        return capped
    return faults.REPLACE, "no throttling and no other process: the GPU itself is slow, replace it"


def _capped(subject: Subject, power: Any, samples: Samples) -> tuple[str, str] | None:
    """Return the action and the hint if the power limit explains a low speed, else None."""
    drawn = samples.highest.get("power", 0.0)
    if not samples.reasons[health.POWER_CAP] or not isinstance(power, Mapping) or error_of(power):
        return None
    limit, default = power["limit"], power["default"]
    if limit < default:
        text = f"its power limit is {limit:g} W, {default:g} W by default: nvidia-smi -pl {default:g}"
        return faults.FIX_POOL, text
    at = f"it was at its power limit, {drawn:.0f} of {limit:g} W"
    if drawn < health.AT_LIMIT * limit:
        return faults.REPLACE, f"its power limit held it at {drawn:.0f} of {limit:g} W: a fault of its power supply"
    if subject.key in health.CAPPED:
        return (
            faults.NONE,
            f"{at}, which is normal on {subject.name}; the floor was measured the same way; check its cooling",
        )
    return faults.REPLACE, f"{at}, like the GPUs that the floor was measured on: replace it if its peers are faster"
