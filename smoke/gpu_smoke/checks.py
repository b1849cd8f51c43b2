"""The verdict: pure functions from what was measured to what it means."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from . import faults, plan
from .faults import Meaning
from .options import Options, capability, words

PASS, WARN, FAIL, SKIP, ERROR = "pass", "warn", "fail", "skip", "error"
BAD = (FAIL, ERROR)
# The worst first: a hang or a broken GPU stays one even where the environment is wrong too.
EXIT_CODES = {faults.HANG: 4, faults.GPU: 1, faults.ENV: 2}


@dataclass(frozen=True)
class Check:
    """One thing looked at: what came out, and for a failure whose fault it is and what to do."""

    id: str
    status: str
    message: str
    gpu: int | None = None
    dtype: str = ""
    severity: str = ""
    action: str = ""
    hint: str = ""
    value: float | None = None
    fail_above: float | None = None

    def record(self) -> dict[str, Any]:
        """For the receipt: without what it does not have."""
        return {key: value for key, value in asdict(self).items() if value is not None and value != ""}


def failure(what: str, message: str, means: Meaning, *, status: str = FAIL, **where: Any) -> Check:
    """A failed check, with its meaning."""
    return Check(what, status, message, severity=means.severity, action=means.action, hint=means.hint, **where)


def place(device: str, index: int | None) -> str:
    """The device as a sentence names it."""
    return "the CPU" if device == "cpu" else f"GPU {index}"


def torch_build(options: Options, about: dict[str, Any]) -> Check:
    """Whether this torch can reach a GPU at all."""
    torch, cuda = f"torch {about['version']}", about["cuda"]
    if options.on_cpu or cuda:
        return Check("torch.build", PASS, f"{torch}, built for CUDA {cuda}" if cuda else f"{torch}, built for the CPU")
    means = Meaning(faults.ENV, faults.FIX_IMAGE, "install a torch built for CUDA: its version ends in +cu...")
    return failure("torch.build", f"{torch} is built without CUDA, for the CPU only", means)


def devices(options: Options, found: Sequence[dict[str, Any]], message: str = "") -> list[Check]:
    """Whether the GPUs are those that the pool is meant to have."""
    if options.on_cpu:
        names = ("gpu.count", "gpu.uuid", "gpu.name", "gpu.capability")
        return [Check(name, SKIP, "not looked at on the CPU") for name in names]
    checks = [_count(options.expect_gpus, len(found), message)]
    if found:
        checks.append(_uuids(found))
    for gpu in found:
        checks += [_name(options.expect_gpu, gpu), _capability(options.min_compute_capability, gpu)]
    return checks


def product(options: Options, index: int, measured: dict[str, Any]) -> list[Check]:
    """Whether a matrix product is finite, right, and the same every time."""
    dtype, on = measured["dtype"], place(options.device, index)
    hint = f"{on} corrupts data: take the machine out of service and keep this receipt"
    broken = Meaning(faults.GPU, faults.REPLACE, hint)

    def judge(what: str, right: bool, good: str, bad: str, **numbers: Any) -> Check:
        where = {"gpu": None if options.on_cpu else index, "dtype": dtype, **numbers}
        if right:
            return Check(what, PASS, f"{dtype}: {good}", **where)
        return failure(what, f"{on} gave {bad}", broken, **where)

    def error(kind: str, text: str) -> Check:
        limit = getattr(plan.LIMITS[dtype], kind)
        value = measured.get(f"{kind}_error")
        says = f"{text} {'NaN' if value is None else format(value, '.1e')}"
        wrong = f"a wrong {dtype} product: {says}, at most {limit:.0e} is right"
        right = value is not None and value <= limit
        return judge(f"gemm.{kind}", right, says, wrong, value=value, fail_above=limit)

    same, repeats = int(measured.get("same", 0)), int(measured.get("repeats", 0))
    another = f"another {dtype} product for the same numbers: {same} of {repeats} repetitions had the same bits"
    return [
        judge("gemm.finite", measured.get("finite") is True, "all finite", f"NaN or infinity in a {dtype} product"),
        error("norm", "error"),
        error("element", "worst element off by"),
        judge("gemm.bitwise", same == repeats > 0, f"the same bits {repeats} times more", another),
    ]


def complete(options: Options, found: Sequence[dict[str, Any]], checks: Iterable[Check]) -> list[Check]:
    """A device whose kernels never answered is no pass, whatever the reason; nor is a run without devices."""
    done = {(check.gpu, check.dtype) for check in checks if check.id == "gemm.element"}
    means = Meaning(faults.ENV, faults.NONE, "the check itself is at fault: report it with this receipt")
    missing = [] if found else ["nothing was computed"]
    for device in found:
        gpu, cc = (None, None) if options.on_cpu else (device["index"], capability(device["cc"]))
        on = place(options.device, gpu)
        missing += [f"{on} computed no {dtype} product" for dtype in plan.dtypes(cc) if (gpu, dtype) not in done]
    return [failure("complete", f"{text}, so nothing is proven", means, status=ERROR) for text in missing]


def bad(checks: Iterable[Check]) -> list[Check]:
    """What went wrong, the worst first and otherwise in the order found."""
    order = list(EXIT_CODES)
    return sorted((check for check in checks if check.status in BAD), key=lambda check: order.index(check.severity))


def summary(options: Options, found: Sequence[dict[str, Any]], checks: Sequence[Check]) -> str:
    """The whole run in one sentence."""
    pool = f"{options.pool}: " if options.pool else ""
    wrong = bad(checks)
    if wrong:
        return f"{pool}{wrong[0].message}" + (f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else "")
    right = ", ".join(dict.fromkeys(check.dtype for check in checks if check.id == "gemm.element"))
    if options.on_cpu:
        return f"{pool}{right} products are right on the CPU: proves the check, not a GPU"
    names = " and ".join(dict.fromkeys(gpu["name"] for gpu in found))
    return f"{pool}{len(found)} x {names}: {right} products are right, and the same every time"


def _count(expected: int, count: int, message: str) -> Check:
    if count == 0:
        text = f"no CUDA device: {faults.one_line(message) or 'CUDA starts and lists none'}"
        return failure("gpu.count", text, faults.meaning(message or "no CUDA-capable device", "devices"))
    counted = "1 GPU" if count == 1 else f"{count} GPUs"
    if count == expected:
        return Check("gpu.count", PASS, counted)
    if count < expected:
        hint = "a GPU is broken or not handed to this container: compare nvidia-smi -L here and on the machine"
        means = Meaning(faults.ENV, faults.REPLACE, hint)
    else:
        means = Meaning(faults.ENV, faults.FIX_POOL, "the machine has more GPUs than the pool says, or shows another's")
    return failure("gpu.count", f"{counted} found, {expected} expected", means)


def _uuids(found: Sequence[dict[str, Any]]) -> Check:
    uuids = [gpu["uuid"] for gpu in found]
    if len(uuids) == 1:
        return Check("gpu.uuid", PASS, uuids[0] or "one GPU")
    if not all(uuids):
        return Check("gpu.uuid", WARN, "this torch names no UUIDs, so one GPU could be counted twice")
    twice = [index for index, uuid in enumerate(uuids) if uuids.count(uuid) > 1]
    if not twice:
        return Check("gpu.uuid", PASS, "all different")
    hint = "a device plugin that shares GPUs by time-slicing hands one out several times: give jobs whole GPUs"
    text = f"GPUs {', '.join(map(str, twice))} are not {len(twice)} GPUs: their UUIDs are the same"
    return failure("gpu.uuid", text, Meaning(faults.ENV, faults.FIX_POOL, hint))


def _name(expected: str, gpu: dict[str, Any]) -> Check:
    name, index = gpu["name"], gpu["index"]
    if not expected:
        return Check("gpu.name", SKIP, f"{name}; any will do without --expect-gpu", gpu=index)
    if words(expected) <= words(name):
        return Check("gpu.name", PASS, name, gpu=index)
    means = Meaning(faults.ENV, faults.FIX_POOL, "the pool's machine type and its settings name different GPUs")
    return failure("gpu.name", f"GPU {index} is {name}, expected {expected}", means, gpu=index)


def _capability(least: str, gpu: dict[str, Any]) -> Check:
    has, index = gpu["cc"], gpu["index"]
    if not least:
        return Check("gpu.capability", SKIP, f"{has}; any will do without --min-compute-capability", gpu=index)
    if capability(has) >= capability(least):
        return Check("gpu.capability", PASS, has, gpu=index)
    means = Meaning(faults.ENV, faults.FIX_POOL, "the GPU is of an older generation than the pool is meant to have")
    text = f"GPU {index} ({gpu['name']}) has compute capability {has}, expected {least} or more"
    return failure("gpu.capability", text, means, gpu=index)
