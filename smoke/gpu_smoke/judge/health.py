"""Checks of NVML's answers before and after the work: memory errors, Xids, link errors, MIG and other processes.

workers/nvml_monitor.py explains NVML and Xids. NVML may refuse to answer, most often because the GPU does not have the
feature. The refusal is then the value of the field: a dict with the error code as `refused`.
"""

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
from . import load
from .nvml_samples import Samples, error_of, gpu_lost_error, merged
from .subject import Subject

_MISSING = "libnvidia-ml.so.1 is missing: in a container set NVIDIA_DRIVER_CAPABILITIES=compute,utility; on a machine "
_MISSING += "install the driver's own packages"
_RESET = "run nvidia-smi --gpu-reset while no process uses the GPU, or replace the machine"
_SLICE_PROCESSES = {"refused": 3, "text": "the processes of a slice"}


def started(event: Mapping[str, Any]) -> Check:
    """Check that NVML starts. An error that also keeps torch from the GPU is a failure. Any other error is not."""
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
    """Return the skipped check `nvml`, with the reason."""
    return Check("nvml", SKIP, why)


def all_skipped(why: str, gpu: int | None = None) -> list[Check]:
    """Return every check that needs NVML as skipped, with the reason."""
    return [Check(check_id, SKIP, why, gpu=gpu) for check_id in HEALTH]


def not_listed(subject: Subject, uuid: str) -> list[Check]:
    """Warn that NVML lists no GPU with this UUID. If CUDA reports no UUID, the checks are only skipped."""
    if not uuid:
        return all_skipped("this torch reports no UUIDs, so NVML's GPUs cannot be matched", subject.index)
    text = f"NVML lists no GPU with the UUID {uuid}, which CUDA reports for {subject.place}"
    hint = "nvidia-smi -L lists NVML's GPUs; a container may have different GPUs for NVML and CUDA"
    return [Check("nvml", WARN, text, gpu=subject.index, hint=hint), *all_skipped(text, subject.index)]


def judge(
    options: Options,
    subject: Subject,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    stages: Mapping[str, Samples],
    xids: Sequence[int],
    speeds: Sequence[Check] = (),
    better_link: str = "",
) -> list[Check]:
    """Judge one GPU by NVML.

    Args:
        options: The command line.
        subject: The GPU.
        before: NVML's answers before the work.
        after: NVML's answers after the work.
        stages: NVML's samples during the work, by stage.
        xids: The Xids reported during the work.
        speeds: The checks of measured speeds.
        better_link: The GPU with a faster PCIe link; empty without one.
    """
    all_samples = merged(stages.values())
    timed_samples = merged(samples for stage, samples in stages.items() if stage in TIMED)
    h2d = next((check.value for check in speeds if (check.id, check.gpu) == ("h2d", subject.index)), None)
    slow_stages = load.slow_stages(speeds, subject.index)
    lost = lost_gpu(subject, [*before.values(), *after.values(), *all_samples.refusals.values()])
    link_error = timed_samples.refusals.get("generation") or timed_samples.refusals.get("width")
    return [
        *([lost] if lost else []),
        _check_unless_refused("mig", subject, error_of(before["mig"]), lambda: _mig(options, subject, before["mig"])),
        *(
            _check_unless_refused(
                check_id,
                subject,
                error_of(before[check_id]) or error_of(after[check_id]),
                partial(judge_values, subject, before[check_id], after[check_id]),
            )
            for check_id, judge_values in _BEFORE_AND_AFTER.items()
        ),
        _xid(subject, before["events"], xids),
        _check_unless_refused(
            "throttle",
            subject,
            all_samples.refusals.get("reasons"),
            lambda: load.throttle(subject, stages, slow_stages),
        ),
        _check_unless_refused(
            "pcie",
            subject,
            error_of(before["pcie"]) or error_of(after["pcie"]) or link_error,
            lambda: load.pcie(subject, before["pcie"], after["pcie"], timed_samples, h2d, better_link),
        ),
        _check_unless_refused(
            "exclusive.processes",
            subject,
            _SLICE_PROCESSES if subject.slice else error_of(before["processes"]),
            lambda: load.processes(subject, before["processes"], all_samples),
        ),
    ]


def certain_failures(subject: Subject, before: Mapping[str, Any], samples: Samples, xids: Sequence[int]) -> list[Check]:
    """Return the failures that are certain without NVML's answers after the work, for a run that was stopped."""
    found = [lost_gpu(subject, [*before.values(), *samples.refusals.values()]), _xid(subject, before["events"], xids)]
    return [check for check in found if check and check.status in BAD]


def lost_gpu(subject: Subject, values: Sequence[Any]) -> Check | None:
    """Return a failure if an answer of NVML says that the GPU is lost."""
    if not (error := gpu_lost_error(values)):
        return None
    action, text = health.LOST[error["refused"]]
    hint = "the kernel log has the Xid; if it happens again, replace the machine"
    return failure("gpu.lost", f"{subject.place} is lost: {text}", Meaning(faults.GPU, action, hint), gpu=subject.index)


def hidden_from_cuda(gpus: Sequence[Mapping[str, Any]], seen_by_cuda: int) -> list[Check]:
    """Return a failure for each GPU that CUDA cannot list: a lost GPU, or a GPU with MIG on and no slices."""
    found = []
    for gpu in gpus:
        if error := gpu_lost_error([gpu["uuid"]]):
            action, text = health.LOST[error["refused"]]
            means = Meaning(faults.GPU, action, "the kernel log has the Xid")
            found.append(failure("gpu.lost", f"a GPU of this machine is lost: {text}", means))
        elif not seen_by_cuda and gpu["mig"].get("on") and not gpu["mig"]["slices"]:
            hint = "turn MIG off (nvidia-smi -mig 0), or create slices (nvidia-smi mig -cgi)"
            means = Meaning(faults.ENV, faults.FIX_POOL, hint)
            found.append(failure("mig", "MIG is on and has no slices, so CUDA sees no GPU", means))
    return found


def _check_unless_refused(
    check_id: str, subject: Subject, error: Mapping[str, Any] | None, judge_answer: Callable[[], Check]
) -> Check:
    """Judge NVML's answer, or report the error that NVML gave instead."""
    return _unanswered(check_id, subject, error) if error else judge_answer()


def _unanswered(check_id: str, subject: Subject, error: Mapping[str, Any]) -> Check:
    """Return a check that NVML refused: skipped if NVML does not support it on this GPU, else a warning."""
    text = f"NVML does not report it: {error['text']}"
    if error["refused"] in health.UNSUPPORTED or error["refused"] in health.LOST:
        return Check(check_id, SKIP, text, gpu=subject.index)
    return Check(
        check_id, WARN, f"{subject.place}: {text}", gpu=subject.index, hint="NVML should not return this error"
    )


def _mig(options: Options, subject: Subject, mode: Mapping[str, Any]) -> Check:
    if not mode["on"]:
        status = WARN if mode["pending"] else PASS
        text = "off until the next reset, then on" if mode["pending"] else "off"
        return Check("mig", status, text, gpu=subject.index)
    if subject.slice or "mig" in name_tokens(options.expect_gpu):
        return Check("mig", PASS, f"on; {subject.slice or 'slices'} of {len(mode['slices'])}", gpu=subject.index)
    means = Meaning(faults.ENV, faults.FIX_POOL, "turn MIG off (nvidia-smi -mig 0), or expect a slice of it")
    return failure("mig", f"MIG is on at {subject.place}, expected a whole GPU", means, gpu=subject.index)


def _ecc(subject: Subject, before: Any, after: Any) -> Check:
    where: dict[str, Any] = {"gpu": subject.index, "value": float(after["uncorrected"]), "fail_above": 0}
    if after["uncorrected"]:
        new = after["uncorrected"] - before["uncorrected"]
        text = (
            f"{subject.place} lost data: {after['uncorrected']} uncorrected memory errors since the driver was loaded"
        )
        text += f", {new} of them during this check" if new > 0 else ""
        return failure("ecc", text, Meaning(faults.GPU, faults.RESET, _RESET), **where)
    if not after["corrected"]:
        return Check("ecc", PASS, "no memory errors since the driver was loaded", **where)
    new = after["corrected"] - before["corrected"]
    text = f"{after['corrected']} corrected memory errors since the driver was loaded, {new} during this check"
    if new <= 0:  # a machine has some after months, so only errors during this check are a finding
        return Check("ecc", PASS, text, **where)
    return Check(
        "ecc", WARN, f"{subject.place}: {text}", hint="many corrected errors often precede uncorrected ones", **where
    )


def _remap(subject: Subject, _: Any, after: Any) -> Check:
    where: dict[str, Any] = {"gpu": subject.index, "value": float(after["rows"])}
    if after["failed"]:
        means = Meaning(faults.GPU, faults.REPLACE, "the spare rows are used up: replace the GPU")
        return failure("remap", f"{subject.place} could not replace a bad row of memory", means, **where)
    if after["pending"]:
        text = f"{subject.place} has a bad row of memory that the next reset replaces"
        return failure("remap", text, Meaning(faults.GPU, faults.RESET, _RESET), **where)
    if short := after.get("none", 0) + after.get("low", 0):
        text = f"{subject.place}: banks of memory with few spare rows left or none: {short}"
        return Check("remap", WARN, text, hint="the next bad row there takes the GPU out of service", **where)
    return Check("remap", PASS, f"{after['rows']} rows replaced, none pending", **where)


def _retired(subject: Subject, _: Any, after: Any) -> Check:
    where: dict[str, Any] = {"gpu": subject.index, "value": float(after["pages"])}
    if after["pages"] >= health.RETIRED_PAGES:
        means = Meaning(faults.GPU, faults.REPLACE, "so many pages mean that the memory is faulty: replace the GPU")
        text = f"{subject.place} has retired {after['pages']} pages of memory, {health.RETIRED_PAGES} are too many"
        return failure("retired", text, means, **where)
    if after["pending"]:
        text = f"{subject.place} has a bad page of memory that the next reset retires"
        return failure("retired", text, Meaning(faults.GPU, faults.RESET, _RESET), **where)
    return Check("retired", PASS, f"{after['pages']} pages retired, none pending", **where)


def _recovery(subject: Subject, _: Any, after: Any) -> Check:
    if not after:
        return Check("recovery", PASS, "the driver requires none", gpu=subject.index)
    action, text = health.RECOVERY.get(
        after, (faults.REPLACE, f"recovery action {after}, which this version does not know")
    )
    means = Meaning(faults.GPU, action, "nvidia-smi -q shows it as GPU Recovery Action")
    return failure("recovery", f"the driver requires a recovery of {subject.place}: {text}", means, gpu=subject.index)


def xids(place: str, gpu: int | None, codes: Sequence[int]) -> Check | None:
    """Judge the Xids of a GPU. Returns None if there were none. `gpu` is None for a GPU that is not in the run."""
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
    if error := error_of(events):
        return _unanswered("xid", subject, error)
    if not events:
        return Check("xid", SKIP, "this driver does not report Xids here", gpu=subject.index)
    return Check("xid", PASS, "none during the check", gpu=subject.index)


# The function that judges each field of NVML by its values before and after the work.
_BEFORE_AND_AFTER: dict[str, Callable[[Subject, Any, Any], Check]] = {
    "ecc": _ecc,
    "remap": _remap,
    "retired": _retired,
    "recovery": _recovery,
    "nvlink": load.nvlink,
}
