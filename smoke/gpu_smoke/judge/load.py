"""Checks of NVML's samples under load: throttled clocks, degraded links, processes of other users.

The monitor takes samples while stages run (workers/nvml_monitor.py). `Samples` in nvml_samples.py sums them up.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from .. import faults
from ..checks import BAD, PASS, SKIP, WARN, Check, failure
from ..data import health
from ..faults import Meaning
from ..plan import TIMED
from .nvml_samples import Samples, error_of, merged
from .subject import Subject

_FEW = "too few samples under load: --profile standard loads the GPU for seconds"
_WIRED = "some clouds and slots connect GPUs this way: compare h2d and pcie with another machine of this type"


class Link(NamedTuple):
    """A PCIe link."""

    generation: int
    width: int

    def __str__(self) -> str:
        return f"generation {self.generation} x{self.width}"

    @property
    def gbs(self) -> float:
        """The one-way bandwidth of the lanes in GB/s; 0 for a generation that the table does not have."""
        return health.LANE_GBS.get(self.generation, 0.0) * self.width


def throttle(subject: Subject, stages: Mapping[str, Samples], slow: Collection[str]) -> Check:
    """Judge the reasons that lower a GPU's clocks. The check warns, and fails if a throttled stage was slow too.

    Args:
        subject: The GPU.
        stages: NVML's samples of the GPU, by stage.
        slow: The stages whose speed was below its floor.
    """
    samples = merged(stages.values())
    where: dict[str, Any] = {"gpu": subject.index, "value": samples.highest.get("temperature"), "unit": "°C"}
    if counts := _abnormal_reasons(samples):
        timed_samples = merged(part for stage, part in stages.items() if stage in TIMED)
        lasting = [
            _abnormal_reasons(part)
            for stage in sorted(slow)
            if (part := stages.get(stage)) and _throttled_for_long(part)
        ]
        if lasting and timed_samples.loaded >= health.THROTTLED_SAMPLES:
            text = f"{subject.place} is slow and throttled: {lasting[0]}"
            means = Meaning(
                faults.PERF, faults.REPLACE, "the GPU is too hot or gets too little power: replace the machine"
            )
            return failure("throttle", text, means, **where)
        hint = "short moments are normal on cards without a fan; if it lasts, check cooling and power"
        return Check("throttle", WARN, f"{subject.place} was throttled: {counts}", hint=hint, **where)
    if samples.loaded < health.ENOUGH:
        return Check("throttle", SKIP, _FEW, gpu=subject.index)
    if slowed := samples.reasons[health.HW_SLOWDOWN]:
        text = f"{subject.place}: HwSlowdown in {slowed} of {samples.loaded} samples, without a cause"
        return Check("throttle", WARN, text, hint="a change of clocks also causes this for a moment", **where)
    capped = samples.share_of(health.POWER_CAP)
    normal = " (normal on this card)" if capped and subject.key in health.CAPPED else ""
    return Check("throttle", PASS, f"at its power limit in {capped:.0%} of {samples.loaded} samples{normal}", **where)


def _abnormal_reasons(samples: Samples) -> str:
    """Return the abnormal reasons for low clocks, each with its number of samples; empty if there were none."""
    wrong = [(name, samples.reasons[bit]) for bit, name in health.WRONG_REASONS.items() if samples.reasons[bit]]
    return ", ".join(f"{name} in {count} of {samples.loaded} samples" for name, count in wrong)


def _throttled_for_long(samples: Samples) -> bool:
    return max(samples.share_of(bit) for bit in health.WRONG_REASONS) >= health.THROTTLED_SHARE


def link(samples: Samples) -> Link | None:
    """Return the best link that a GPU had under load; None if there are too few samples or NVML does not report it."""
    if samples.loaded < health.ENOUGH:
        return None
    found = Link(*(int(samples.highest.get(name, 0)) for name in Link._fields))
    return found if all(found) else None


def narrow(maximum: Any, samples: Samples) -> str:
    """Describe a PCIe link that is below its maximum under load. The text is empty for any other or unknown link."""
    has = link(samples)
    if not isinstance(maximum, Mapping) or "generation" not in maximum or not has:
        return ""
    if has.generation >= maximum["generation"] and has.width >= maximum["width"]:
        return ""
    return f"{has}, of a maximum of {Link(maximum['generation'], maximum['width'])}"


def wider(subject: Subject, links: Mapping[Subject, Link]) -> str:
    """Describe a GPU of the same model in this machine with a faster link. The text is empty if there is none."""
    own = links[subject].gbs
    better = [(other, each) for other, each in links.items() if other.name == subject.name and each.gbs > own]
    return "".join(f"{other.place} has {each}" for other, each in better[:1])


def pcie(
    subject: Subject,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    samples: Samples,
    h2d: float | None,
    better: str,
) -> Check:
    """Judge the link of a GPU to the host.

    A link below its maximum fails in one of three cases:

    - it is below what DCGM requires of the model
    - copies from the host are slow even for such a link
    - another GPU has a better link

    Args:
        subject: The GPU.
        before: NVML's answers before the work, with the maximum of the link.
        after: NVML's answers after the work.
        samples: The samples in timed stages.
        h2d: The speed of copies from the host in GB/s; None if it was not measured.
        better: The GPU with a better link; empty without one.
    """
    replays = (after["replays"] or 0) - (before["replays"] or 0)
    where: dict[str, Any] = {"gpu": subject.index, "value": float(replays), "unit": "replays"}
    means = Meaning(faults.PERF, faults.REPLACE, "reseat the card if possible, otherwise replace the machine")
    has, least = link(samples), Link(*health.LINKS.get(subject.key, (0, 0)))
    short = narrow(before, samples)
    if short and has and (why := _degraded(subject, has, least, h2d, better)):
        return failure(
            "pcie", f"{subject.place} has a slow link to the host under load: {short}; {why}", means, **where
        )
    if replays > health.REPLAYS:
        text = f"{subject.place} had to repeat {replays} packets of PCIe, {health.REPLAYS} are too many"
        return failure("pcie", text, means, **where)
    if not has:
        return Check(
            "pcie", SKIP, _FEW if samples.loaded < health.ENOUGH else "NVML does not report it", gpu=subject.index
        )
    if has.gbs < least.gbs:
        text = f"{subject.place} has {has}, DCGM requires {least} of {subject.name}"
        return Check("pcie", WARN, text, hint="the slot or the virtual machine may not support more", **where)
    if short:
        return Check("pcie", WARN, f"{subject.place} has {short}", hint=_WIRED, **where)
    if replays > 0:
        text = f"{subject.place} had to repeat {replays} packets of PCIe"
        return Check("pcie", WARN, text, hint="a few are harmless; many mean a bad contact", **where)
    return Check("pcie", PASS, f"{has} under load", **where)


def _degraded(subject: Subject, has: Link, least: Link, h2d: float | None, better: str) -> str:
    """Return the evidence that a link below its maximum is a fault; empty without evidence.

    Without evidence the link may be a property of the machine.
    """
    if has.gbs < least.gbs:
        return f"DCGM requires {least} of {subject.name}"
    if h2d is not None and h2d < health.SLOW_COPY * has.gbs:
        return f"copies from the host reach {h2d:.3g} GB/s of the {has.gbs:.3g} that it carries"
    return better


def nvlink(subject: Subject, before: Mapping[str, Any], after: Mapping[str, Any]) -> Check:
    """Check that the links between GPUs stayed up and had no errors."""
    errors = after["errors"] - before["errors"]
    text = f"{after['active']} of {after['links']} links"
    where: dict[str, Any] = {"gpu": subject.index, "value": float(after["active"]), "unit": "links"}
    if after["active"] < before["active"]:
        means = Meaning(faults.GPU, faults.REPLACE, "nvidia-smi nvlink -s lists the links; the kernel log has the Xid")
        lost = f"{subject.place} lost NVLink during the check: {text}, {before['active']} before"
        return failure("nvlink", lost, means, **where)
    if errors > 0:
        hint = "nvidia-smi nvlink -e names the link; many errors mean a bad contact"
        return Check(
            "nvlink", WARN, f"{subject.place}: {errors} errors of NVLink during this check", hint=hint, **where
        )
    return Check("nvlink", PASS, text, **where)


def unequal(active_links: Mapping[Subject, int]) -> list[Check]:
    """Fail GPUs with fewer active links than another GPU of their model here. A link that no GPU uses is no fault."""
    found = []
    for subject, links in active_links.items():
        most = max(others for other, others in active_links.items() if other.name == subject.name)
        if links < most:
            text = f"{subject.place} has {links} NVLinks up, another {subject.name} here has {most}"
            means = Meaning(faults.GPU, faults.REPLACE, "a link is down: nvidia-smi nvlink -s lists the links")
            found.append(failure("nvlink", text, means, gpu=subject.index, value=float(links), unit="links"))
    return found


def processes(subject: Subject, before: Sequence[int], samples: Samples) -> Check:
    """Check that no other process used the GPU before or during the check."""
    others = max(len(before), samples.other_processes)
    where: dict[str, Any] = {"gpu": subject.index, "value": float(others), "fail_above": 0}
    if not others:
        return Check("exclusive.processes", PASS, "no other process", **where)
    when = "before the check began" if before else "during the check"
    text = f"{subject.place} was used by {others} other process{'es' if others > 1 else ''} {when}"
    hint = "nvidia-smi lists them; a device plugin with time-slicing gives one GPU to several pods"
    return failure("exclusive.processes", text, Meaning(faults.ENV, faults.FIX_POOL, hint), **where)


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
    if check.id in _LINKS and (short := narrow(state["pcie"], samples)):
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
