"""What NVML's samples under load mean: clocks held down, links that are narrow or down, processes of others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from .. import faults
from ..checks import PASS, SKIP, WARN, Check, failure
from ..data import health
from ..faults import Meaning
from ..plan import TIMED
from .nvml_samples import Seen, together
from .subject import Subject

_FEW = "never seen under load: --profile standard loads it for seconds"
_WIRED = "clouds and slots wire GPUs so: compare h2d and pcie with another machine of this type"


class Link(NamedTuple):
    """A link of PCIe."""

    generation: int
    width: int

    def __str__(self) -> str:
        return f"generation {self.generation} x{self.width}"

    @property
    def gbs(self) -> float:
        """What its lanes carry, one way; 0 for a generation that is newer than our table."""
        return health.LANE_GBS.get(self.generation, 0.0) * self.width


def throttle(subject: Subject, stages: Mapping[str, Seen], slow: Collection[str]) -> Check:
    """Judge what holds clocks down that should not; it fails only a stage that was timed and came out slow.

    Args:
        subject: the GPU.
        stages: what NVML reported of it, by stage.
        slow: the stages whose speed was below what it should be.
    """
    seen = together(stages.values())
    where: dict[str, Any] = {"gpu": subject.index, "value": seen.highest.get("temperature"), "unit": "°C"}
    if counts := _held(seen):
        watched = together(seen for stage, seen in stages.items() if stage in TIMED)
        lasting = [_held(part) for stage in sorted(slow) if (part := stages.get(stage)) and _lasts(part)]
        if lasting and watched.loaded >= health.THROTTLED_SAMPLES:
            text = f"{subject.place} is slow and holds its clocks down: {lasting[0]}"
            means = Meaning(faults.PERF, faults.REPLACE, "it is too hot or gets too little power: replace the machine")
            return failure("throttle", text, means, **where)
        hint = "moments are normal on cards without a fan; where it lasts, look at cooling and power"
        return Check("throttle", WARN, f"{subject.place} held its clocks down: {counts}", hint=hint, **where)
    if seen.loaded < health.ENOUGH:
        return Check("throttle", SKIP, _FEW, gpu=subject.index)
    if slowed := seen.reasons[health.HW_SLOWDOWN]:
        text = f"{subject.place}: HwSlowdown in {slowed} of {seen.loaded} samples, without its cause"
        return Check("throttle", WARN, text, hint="a change of clocks gives it for a moment too", **where)
    capped = seen.of(health.POWER_CAP)
    normal = " (normal on this card)" if capped and subject.key in health.CAPPED else ""
    return Check("throttle", PASS, f"at its power limit in {capped:.0%} of {seen.loaded} samples{normal}", **where)


def _held(seen: Seen) -> str:
    """Which reasons that should not be held its clocks down, and how often; empty where none did."""
    wrong = [(name, seen.reasons[bit]) for bit, name in health.WRONG_REASONS.items() if seen.reasons[bit]]
    return ", ".join(f"{name} in {count} of {seen.loaded} samples" for name, count in wrong)


def _lasts(seen: Seen) -> bool:
    return max(seen.of(bit) for bit in health.WRONG_REASONS) >= health.THROTTLED_SHARE


def link(seen: Seen) -> Link | None:
    """The best link that a GPU had under load; None where it was seen too seldom, or not told."""
    if seen.loaded < health.ENOUGH:
        return None
    found = Link(*(int(seen.highest.get(name, 0)) for name in Link._fields))
    return found if all(found) else None


def narrow(most: Any, seen: Seen) -> str:
    """How its PCIe link under load is less than its maximum; empty where it is not, or NVML does not tell."""
    has = link(seen)
    if not isinstance(most, Mapping) or "generation" not in most or not has:
        return ""
    if has.generation >= most["generation"] and has.width >= most["width"]:
        return ""
    return f"{has}, of a maximum of {Link(most['generation'], most['width'])}"


def wider(subject: Subject, links: Mapping[Subject, Link]) -> str:
    """Which other GPU of its model in this machine has a faster link; empty where none has."""
    own = links[subject].gbs
    better = [(other, each) for other, each in links.items() if other.name == subject.name and each.gbs > own]
    return "".join(f"{other.place} has {each}" for other, each in better[:1])


def pcie(
    subject: Subject, was: Mapping[str, Any], now: Mapping[str, Any], seen: Seen, h2d: float | None, better: str
) -> Check:
    """Judge its link to the host.

    A link below its maximum fails below what DCGM requires of the model, or where something else shows that it is
    degraded: copies from the host that are slow even for such a link, or a better link elsewhere.

    Args:
        subject: the GPU.
        was: NVML's answers before the work, with the maximum.
        now: NVML's answers after it.
        seen: its samples in timed stages.
        h2d: how fast copies from the host were, in GB/s; None where none was timed.
        better: who has a better link; empty where nobody has.
    """
    replays = (now["replays"] or 0) - (was["replays"] or 0)
    where: dict[str, Any] = {"gpu": subject.index, "value": float(replays), "unit": "replays"}
    means = Meaning(faults.PERF, faults.REPLACE, "reseat the card where you can, else replace the machine")
    has, least = link(seen), Link(*health.LINKS.get(subject.key, (0, 0)))
    short = narrow(was, seen)
    if short and has and (why := _degraded(subject, has, least, h2d, better)):
        return failure(
            "pcie", f"{subject.place} has a slow link to the host under load: {short}; {why}", means, **where
        )
    if replays > health.REPLAYS:
        text = f"{subject.place} had to repeat {replays} packets of PCIe, {health.REPLAYS} are too many"
        return failure("pcie", text, means, **where)
    if not has:
        return Check("pcie", SKIP, _FEW if seen.loaded < health.ENOUGH else "not told here", gpu=subject.index)
    if has.gbs < least.gbs:
        text = f"{subject.place} has {has}, DCGM requires {least} of {subject.name}"
        return Check("pcie", WARN, text, hint="a slot, or a virtual machine, that gives it no more", **where)
    if short:
        return Check("pcie", WARN, f"{subject.place} has {short}", hint=_WIRED, **where)
    if replays > 0:
        text = f"{subject.place} had to repeat {replays} packets of PCIe"
        return Check("pcie", WARN, text, hint="a few are harmless; many are a bad contact", **where)
    return Check("pcie", PASS, f"{has} under load", **where)


def _degraded(subject: Subject, has: Link, least: Link, h2d: float | None, better: str) -> str:
    """What shows that a link below its maximum is a fault, and not how the machine is made."""
    if has.gbs < least.gbs:
        return f"DCGM requires {least} of {subject.name}"
    if h2d is not None and h2d < health.SLOW_COPY * has.gbs:
        return f"copies from the host reach {h2d:.3g} GB/s of the {has.gbs:.3g} that it carries"
    return better


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
