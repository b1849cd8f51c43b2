"""Checks of NVML's answers before and after the work: memory errors, Xids, link errors, MIG and other processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from .. import faults
from ..checks import BAD, PASS, SKIP, WARN, Check, failure
from ..data import health
from ..faults import Meaning
from ..options import Options, name_tokens
from ..plan import HEALTH, TIMED
from . import load, slowdown
from .nvml_samples import Seen, lost, refused, together
from .subject import Subject

_MISSING = "libnvidia-ml.so.1 is missing: in a container set NVIDIA_DRIVER_CAPABILITIES=compute,utility; on a machine "
_MISSING += "install the driver's own packages"
_RESET = "run nvidia-smi --gpu-reset while no process uses the GPU, or replace the machine"
_NEIGHBOURS = {"refused": 3, "text": "the processes of a slice"}


def started(event: Mapping[str, Any]) -> Check:
    """Check that NVML starts. An error that also keeps torch from the GPU is a failure."""
    code = event.get("refused")
    if code is None:
        return Check("nvml", PASS, f"driver {event['driver']}, {len(event['gpus'])} GPU(s)")
    text = f"NVML does not start: {event['text']}"
    if code == health.NO_LIBRARY:
        return skipped(_MISSING)
    if code == health.MISMATCH:
        hint = "the driver in the kernel and its libraries are of different versions: reboot the machine"
        return failure("nvml", text, Meaning(faults.ENV, faults.REBOOT, hint))
    if code == health.NO_DRIVER:
        return failure("nvml", text, Meaning(faults.ENV, faults.FIX_DRIVER, "no driver is running: try nvidia-smi"))
    return Check("nvml", WARN, text, hint="errors of memory, links and clocks cannot be checked: try nvidia-smi")


def skipped(why: str) -> Check:
    """Return a skipped check, for a machine without NVML."""
    return Check("nvml", SKIP, why)


def all_skipped(why: str, gpu: int | None = None) -> list[Check]:
    """Skip every check that needs NVML."""
    return [Check(what, SKIP, why, gpu=gpu) for what in HEALTH]


def unknown(subject: Subject, uuid: str) -> list[Check]:
    """Warn that NVML lists no GPU with this UUID. If CUDA reports no UUID, only skip the checks."""
    if not uuid:
        return all_skipped("this torch reports no UUIDs, so NVML's GPUs cannot be matched", subject.index)
    text = f"NVML lists no GPU with the UUID {uuid}, which CUDA reports for {subject.place}"
    hint = "nvidia-smi -L lists NVML's GPUs; a container may have different GPUs for NVML and CUDA"
    return [Check("nvml", WARN, text, gpu=subject.index, hint=hint), *all_skipped(text, subject.index)]


def judge(
    options: Options,
    subject: Subject,
    was: Mapping[str, Any],
    now: Mapping[str, Any],
    stages: Mapping[str, Seen],
    xids: Sequence[int],
    speeds: Sequence[Check] = (),
    better_link: str = "",
) -> list[Check]:
    """Judge one GPU by NVML.

    Args:
        options: The command line.
        subject: The GPU.
        was: NVML's answers before the work.
        now: NVML's answers after the work.
        stages: NVML's samples during the work, by stage.
        xids: The Xids reported during the work.
        speeds: The checks of measured speeds.
        better_link: The GPU or the earlier runs with a faster PCIe link; empty if there are none.
    """
    seen, timed = together(stages.values()), together(part for stage, part in stages.items() if stage in TIMED)
    h2d = next((check.value for check in speeds if (check.id, check.gpu) == ("h2d", subject.index)), None)
    slow = slowdown.stages(speeds, subject.index)
    gone = fallen(subject, [*was.values(), *now.values(), *seen.refusals.values()])
    both = {what: (refused(was[what]) or refused(now[what]), say) for what, say in _BOTH.items()}
    link = timed.refusals.get("generation") or timed.refusals.get("width")
    return [
        *([gone] if gone else []),
        _check_of("mig", subject, refused(was["mig"]), lambda: _mig(options, subject, was["mig"])),
        *(
            _check_of(what, subject, error, partial(say, subject, was[what], now[what]))
            for what, (error, say) in both.items()
        ),
        _xid(subject, was["events"], xids),
        _check_of("throttle", subject, seen.refusals.get("reasons"), lambda: load.throttle(subject, stages, slow)),
        _check_of(
            "pcie",
            subject,
            refused(was["pcie"]) or refused(now["pcie"]) or link,
            lambda: load.pcie(subject, was["pcie"], now["pcie"], timed, h2d, better_link),
        ),
        _check_of(
            "exclusive.processes",
            subject,
            _NEIGHBOURS if subject.slice else refused(was["processes"]),
            lambda: load.processes(subject, was["processes"], seen),
        ),
    ]


def hurried(subject: Subject, was: Mapping[str, Any], seen: Seen, xids: Sequence[int]) -> list[Check]:
    """Return the failures that are already certain before NVML's last answers.

    A stopped run does not wait for those.
    """
    found = [fallen(subject, [*was.values(), *seen.refusals.values()]), _xid(subject, was["events"], xids)]
    return [check for check in found if check and check.status in BAD]


def fallen(subject: Subject, values: Sequence[Any]) -> Check | None:
    """Return a failure if an answer of NVML says that the GPU is lost."""
    if not (error := lost(values)):
        return None
    action, text = health.LOST[error["refused"]]
    hint = "the kernel log has the Xid; if it happens again, replace the machine"
    return failure("gpu.lost", f"{subject.place} is lost: {text}", Meaning(faults.GPU, action, hint), gpu=subject.index)


def machine(gpus: Sequence[Mapping[str, Any]], seen_by_cuda: int) -> list[Check]:
    """Return failures of GPUs that CUDA does not list: lost GPUs, and GPUs with MIG on and no slices."""
    found = []
    for gpu in gpus:
        if error := lost([gpu["uuid"]]):
            action, text = health.LOST[error["refused"]]
            means = Meaning(faults.GPU, action, "the kernel log has the Xid")
            found.append(failure("gpu.lost", f"a GPU of this machine is lost: {text}", means))
        elif not seen_by_cuda and gpu["mig"].get("on") and not gpu["mig"]["slices"]:
            hint = "turn MIG off (nvidia-smi -mig 0), or create slices (nvidia-smi mig -cgi)"
            means = Meaning(faults.ENV, faults.FIX_POOL, hint)
            found.append(failure("mig", "MIG is on and has no slices, so CUDA sees no GPU", means))
    return found


def _check_of(what: str, subject: Subject, error: Mapping[str, Any] | None, judged: Callable[[], Check]) -> Check:
    return _untold(what, subject, error) if error else judged()


def _untold(what: str, subject: Subject, error: Mapping[str, Any]) -> Check:
    """Skip or warn about a check that NVML does not answer. Most often NVML does not support it on this GPU."""
    text = f"NVML does not report it: {error['text']}"
    if error["refused"] in health.UNSUPPORTED or error["refused"] in health.LOST:
        return Check(what, SKIP, text, gpu=subject.index)
    return Check(what, WARN, f"{subject.place}: {text}", gpu=subject.index, hint="NVML should not return this error")


def _mig(options: Options, subject: Subject, mode: Mapping[str, Any]) -> Check:
    if not mode["on"]:
        status = WARN if mode["pending"] else PASS
        text = "off until the next reset, then on" if mode["pending"] else "off"
        return Check("mig", status, text, gpu=subject.index)
    if subject.slice or "mig" in name_tokens(options.expect_gpu):
        return Check("mig", PASS, f"on; {subject.slice or 'slices'} of {len(mode['slices'])}", gpu=subject.index)
    means = Meaning(faults.ENV, faults.FIX_POOL, "turn MIG off (nvidia-smi -mig 0), or expect a slice of it")
    return failure("mig", f"MIG is on at {subject.place}, expected a whole GPU", means, gpu=subject.index)


def _ecc(subject: Subject, was: Any, now: Any) -> Check:
    where: dict[str, Any] = {"gpu": subject.index, "value": float(now["uncorrected"]), "fail_above": 0}
    if now["uncorrected"]:
        new = now["uncorrected"] - was["uncorrected"]
        text = f"{subject.place} lost data: {now['uncorrected']} uncorrected memory errors since the driver was loaded"
        text += f", {new} of them during this check" if new > 0 else ""
        return failure("ecc", text, Meaning(faults.GPU, faults.RESET, _RESET), **where)
    if not now["corrected"]:
        return Check("ecc", PASS, "no memory errors since the driver was loaded", **where)
    new = now["corrected"] - was["corrected"]
    text = f"{now['corrected']} corrected memory errors since the driver was loaded, {new} during this check"
    if new <= 0:  # A machine has some after months. They are no result of this job.
        return Check("ecc", PASS, text, **where)
    return Check(
        "ecc", WARN, f"{subject.place}: {text}", hint="many corrected errors often precede uncorrected ones", **where
    )


def _remap(subject: Subject, _: Any, now: Any) -> Check:
    where: dict[str, Any] = {"gpu": subject.index, "value": float(now["rows"])}
    if now["failed"]:
        means = Meaning(faults.GPU, faults.REPLACE, "the spare rows are used up: replace the GPU")
        return failure("remap", f"{subject.place} could not replace a bad row of memory", means, **where)
    if now["pending"]:
        text = f"{subject.place} has a bad row of memory that the next reset replaces"
        return failure("remap", text, Meaning(faults.GPU, faults.RESET, _RESET), **where)
    if short := now.get("none", 0) + now.get("low", 0):
        text = f"{subject.place}: banks of memory with few spare rows left or none: {short}"
        return Check("remap", WARN, text, hint="the next bad row there takes the GPU out of service", **where)
    return Check("remap", PASS, f"{now['rows']} rows replaced, none pending", **where)


def _retired(subject: Subject, _: Any, now: Any) -> Check:
    where: dict[str, Any] = {"gpu": subject.index, "value": float(now["pages"])}
    if now["pages"] >= health.RETIRED_PAGES:
        means = Meaning(faults.GPU, faults.REPLACE, "so many pages mean that the memory is faulty: replace the GPU")
        text = f"{subject.place} has retired {now['pages']} pages of memory, {health.RETIRED_PAGES} are too many"
        return failure("retired", text, means, **where)
    if now["pending"]:
        text = f"{subject.place} has a bad page of memory that the next reset retires"
        return failure("retired", text, Meaning(faults.GPU, faults.RESET, _RESET), **where)
    return Check("retired", PASS, f"{now['pages']} pages retired, none pending", **where)


def _recovery(subject: Subject, _: Any, now: Any) -> Check:
    if not now:
        return Check("recovery", PASS, "the driver requires none", gpu=subject.index)
    action, text = health.RECOVERY.get(
        now, (faults.REPLACE, f"recovery action {now}, which this version does not know")
    )
    means = Meaning(faults.GPU, action, "nvidia-smi -q shows it as GPU Recovery Action")
    return failure("recovery", f"the driver requires a recovery of {subject.place}: {text}", means, gpu=subject.index)


def xids(place: str, gpu: int | None, codes: Sequence[int]) -> Check | None:
    """Judge the Xids of a GPU, or of one that cannot be identified; None if there were no Xids."""
    meanings = {code: health.XIDS.get(code, health.UNKNOWN_XID) for code in codes}
    event = "; ".join(f"Xid {code}: {each.text}" for code, each in meanings.items())
    action = next((each.action for each in meanings.values() if each.action), "")
    if action:
        means = Meaning(faults.GPU, action, "see docs.nvidia.com/deploy/xid-errors; the kernel log has details")
        return failure("xid", f"{place} failed during the check: {event}", means, gpu=gpu)
    hint = "this check does not cause it: the cause is another process, or the GPU"
    return Check("xid", WARN, f"{place}: {event}", gpu=gpu, hint=hint) if event else None


def _xid(subject: Subject, events: Any, codes: Sequence[int]) -> Check:
    if found := xids(subject.place, subject.index, codes):
        return found
    if error := refused(events):
        return _untold("xid", subject, error)
    if not events:
        return Check("xid", SKIP, "this driver does not report Xids here", gpu=subject.index)
    return Check("xid", PASS, "none during the check", gpu=subject.index)


_BOTH: dict[str, Callable[[Subject, Any, Any], Check]] = {
    "ecc": _ecc,
    "remap": _remap,
    "retired": _retired,
    "recovery": _recovery,
    "nvlink": load.nvlink,
}
