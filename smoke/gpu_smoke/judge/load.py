"""What NVML's samples under load mean: clocks held down, links that are narrow or down, processes of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .. import faults
from ..checks import PASS, SKIP, WARN, Check, failure
from ..data import health
from ..faults import Meaning
from .nvml_samples import Seen
from .subject import Subject

_FEW = "never seen under load: --profile standard loads it for seconds"


def throttle(subject: Subject, seen: Seen) -> Check:
    """Whether something holds its clocks down that should not."""
    where: dict[str, Any] = {"gpu": subject.index, "value": seen.highest.get("temperature"), "unit": "°C"}
    wrong = {name: seen.reasons[bit] for bit, name in health.WRONG_REASONS.items() if seen.reasons[bit]}
    counts = ", ".join(f"{name} in {count} of {seen.loaded} samples" for name, count in wrong.items())
    if wrong and max(wrong.values()) >= health.ENOUGH:
        text = f"{subject.place} holds its clocks down under load: {counts}"
        means = Meaning(faults.PERF, faults.REPLACE, "it is too hot or gets too little power: replace the machine")
        return failure("throttle", text, means, **where)
    if wrong:
        return Check("throttle", WARN, f"{subject.place} held its clocks down for a moment: {counts}", **where)
    if seen.loaded < health.ENOUGH:
        return Check("throttle", SKIP, _FEW, gpu=subject.index)
    if slowed := seen.reasons[health.HW_SLOWDOWN]:
        text = f"{subject.place}: HwSlowdown in {slowed} of {seen.loaded} samples, without its cause"
        return Check("throttle", WARN, text, hint="a change of clocks gives it for a moment too", **where)
    capped = seen.of(health.POWER_CAP)
    normal = " (normal on this card)" if capped and subject.key in health.CAPPED else ""
    return Check("throttle", PASS, f"at its power limit in {capped:.0%} of {seen.loaded} samples{normal}", **where)


def narrow(most: Any, seen: Seen) -> str:
    """How its PCIe link falls short under load; empty where it does not, or the machine does not tell."""
    if not isinstance(most, Mapping) or "generation" not in most or seen.loaded < health.ENOUGH:
        return ""
    has = {name: int(seen.highest.get(name, 0)) for name in ("generation", "width")}
    if not all(has.values()) or all(has[name] >= most[name] for name in has):
        return ""
    link = f"generation {has['generation']} x{has['width']}"
    return f"{link}, of generation {most['generation']} x{most['width']} that the slot and the GPU have"


def pcie(subject: Subject, was: Mapping[str, Any], now: Mapping[str, Any], seen: Seen) -> Check:
    """Whether its link to the host is as fast and as wide under load as it can be, and loses nothing."""
    replays = (now["replays"] or 0) - (was["replays"] or 0)
    where: dict[str, Any] = {"gpu": subject.index, "value": float(replays), "unit": "replays"}
    means = Meaning(faults.PERF, faults.REPLACE, "reseat the card where you can, else replace the machine")
    if short := narrow(was, seen):
        return failure("pcie", f"{subject.place} has a slow link to the host under load: {short}", means, **where)
    if replays > health.REPLAYS:
        text = f"{subject.place} had to repeat {replays} packets of PCIe, {health.REPLAYS} are too many"
        return failure("pcie", text, means, **where)
    if seen.loaded < health.ENOUGH or not seen.highest.get("width"):
        return Check("pcie", SKIP, _FEW if seen.loaded < health.ENOUGH else "not told here", gpu=subject.index)
    link = f"generation {seen.highest['generation']:g} x{seen.highest['width']:g}"
    generation, width = health.LINKS.get(subject.key, (0, 0))
    if seen.highest["generation"] < generation or seen.highest["width"] < width:
        text = f"{subject.place} has {link}, DCGM asks generation {generation} x{width} of {subject.name}"
        return Check("pcie", WARN, text, hint="a slot, or a virtual machine, that gives it no more", **where)
    if replays > 0:
        text = f"{subject.place} had to repeat {replays} packets of PCIe"
        return Check("pcie", WARN, text, hint="a few are harmless; many are a bad contact", **where)
    return Check("pcie", PASS, f"{link} under load", **where)


def nvlink(subject: Subject, was: Mapping[str, Any], now: Mapping[str, Any]) -> Check:
    """Whether links between GPUs stayed up, and lost nothing."""
    errors = now["errors"] - was["errors"]
    text = f"{now['active']} of {now['links']} links"
    where: dict[str, Any] = {"gpu": subject.index, "value": float(now["active"]), "unit": "links"}
    if now["active"] < was["active"]:
        means = Meaning(faults.GPU, faults.REPLACE, "nvidia-smi nvlink -s names it; the kernel log has the Xid")
        return failure("nvlink", f"{subject.place} lost NVLink while it worked: {text}, {was['active']} before", means,
                       **where)  # fmt: skip
    if errors > 0:
        hint = "nvidia-smi nvlink -e names the link; many errors are a bad contact"
        return Check(
            "nvlink", WARN, f"{subject.place}: {errors} errors of NVLink during this check", hint=hint, **where
        )
    return Check("nvlink", PASS, text, **where)


def unequal(up: Mapping[Subject, int]) -> list[Check]:
    """GPUs with fewer links than another of their model in this machine: some machines leave links of all unused."""
    found = []
    for subject, links in up.items():
        most = max(others for other, others in up.items() if other.name == subject.name)
        if links < most:
            text = f"{subject.place} has {links} NVLinks up, another {subject.name} here has {most}"
            means = Meaning(faults.GPU, faults.REPLACE, "a link is down: nvidia-smi nvlink -s names it")
            found.append(failure("nvlink", text, means, gpu=subject.index, value=float(links), unit="links"))
    return found


def processes(subject: Subject, before: Sequence[int], seen: Seen) -> Check:
    """Whether somebody else computes on it, before or while the check does."""
    others = max(len(before), seen.strangers)
    where: dict[str, Any] = {"gpu": subject.index, "value": float(others), "fail_above": 0}
    if not others:
        return Check("exclusive.processes", PASS, "nobody else's", **where)
    when = "before the check began" if before else "while the check worked"
    text = f"{subject.place} computes for {others} other process{'es' if others > 1 else ''} {when}"
    hint = "nvidia-smi lists them; a device plugin that shares GPUs by time-slicing hands them to several pods"
    return failure("exclusive.processes", text, Meaning(faults.ENV, faults.FIX_POOL, hint), **where)
