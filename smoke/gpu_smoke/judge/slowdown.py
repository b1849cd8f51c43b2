"""Why a GPU is slow: what NVML saw in the stage that was slow, as the hint and the action of what was found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from .. import faults
from ..checks import BAD, WARN, Check
from ..data import health
from . import load
from .nvml_samples import Seen, refused
from .subject import Subject

# Which stage each speed was measured in.
STAGES = {
    "gemm.speed": "gemm.speed", "gemm.peers": "gemm.speed", "mem.speed": "mem.speed", "mem.peers": "mem.speed",
    "h2d": "copies", "d2h": "copies", "burn": "burn",
}  # fmt: skip
_LINKS = ("h2d", "d2h")


def slow(check: Check) -> bool:
    """Whether a speed was below what it should be; one that is only reported warns too, and has no such floor."""
    below = check.status == WARN and check.warn_below is not None
    return check.id in STAGES and (below or (check.status in BAD and check.severity == faults.PERF))


def stages(checks: Iterable[Check], gpu: int | None) -> set[str]:
    """The stages in which a GPU was slow, but for copies with the host: its clocks do not slow these down."""
    return {STAGES[check.id] for check in checks if check.gpu == gpu and check.id not in _LINKS and slow(check)}


def blame(check: Check, subject: Subject, state: Mapping[str, Any], seen: Seen) -> Check:
    """The same finding with its cause; only what is slow has one, and only if it was seen often enough."""
    if not slow(check) or seen.loaded < health.ENOUGH:
        return check
    action, hint = _cause(check, subject, state, seen)
    return replace(check, hint=hint, action=action if check.status in BAD else check.action)


def _cause(check: Check, subject: Subject, state: Mapping[str, Any], seen: Seen) -> tuple[str, str]:
    if seen.strangers:
        return faults.FIX_POOL, "another process computed on it at the same time: give jobs whole GPUs"
    if wrong := [name for bit, name in health.WRONG_REASONS.items() if seen.reasons[bit]]:
        hot = f" at {seen.highest['temperature']:g} °C" if "temperature" in seen.highest else ""
        return faults.REPLACE, f"{' and '.join(wrong)} held its clocks down{hot}: replace the machine"
    if check.id in _LINKS and (short := load.narrow(state["pcie"], seen)):
        text = (
            f"its PCIe link was {short}: compare with another machine of this type, then reseat the card or replace it"
        )
        return faults.REPLACE, text
    if capped := _capped(subject, state["power"], seen):
        return capped
    return faults.REPLACE, "nothing held its clocks down and nobody else used it: the GPU itself is slow, replace it"


def _capped(subject: Subject, power: Any, seen: Seen) -> tuple[str, str] | None:
    """What its power limit explains."""
    drawn = seen.highest.get("power", 0.0)
    if not seen.reasons[health.POWER_CAP] or not isinstance(power, Mapping) or refused(power):
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
            f"{at}, which is normal on {subject.name}; the floor was measured so, and its cooling decides",
        )
    return faults.REPLACE, f"{at}, as the others that the floor was measured on: replace it if its peers are faster"
