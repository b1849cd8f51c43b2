"""Check that torch and the GPUs are those that the pool requires."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import faults
from ..checks import PASS, SKIP, WARN, Check, failure
from ..faults import Meaning
from ..options import Options, capability, name_tokens
from .subject import Subject


def torch_build(options: Options, about: dict[str, Any]) -> Check:
    """Check that this torch is built for CUDA."""
    torch, cuda = f"torch {about['version']}", about["cuda"]
    if options.on_cpu or cuda:
        return Check("torch.build", PASS, f"{torch}, built for CUDA {cuda}" if cuda else f"{torch}, built for the CPU")
    means = Meaning(faults.ENV, faults.FIX_IMAGE, "install a torch built for CUDA: its version ends in +cu...")
    return failure("torch.build", f"{torch} is built without CUDA, for the CPU only", means)


def devices(options: Options, found: Sequence[dict[str, Any]], message: str = "") -> list[Check]:
    """Check that the GPUs are those that the pool requires."""
    if options.on_cpu:
        names = ("gpu.count", "gpu.uuid", "gpu.name", "gpu.capability", "gpu.mig")
        return [Check(name, SKIP, "not checked on the CPU") for name in names]
    checks = [_count(options.expect_gpus, len(found), message)]
    if found:
        checks.append(_uuids(found))
    for gpu in found:
        checks += [_name(options.expect_gpu, gpu), _capability(options.min_compute_capability, gpu)]
        checks.append(_whole(options.expect_gpu, Subject.of(options.device, gpu)))
    return checks


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
        means = Meaning(
            faults.ENV,
            faults.FIX_POOL,
            "the machine has more GPUs than the pool's settings, or shows those of another container",
        )
    return failure("gpu.count", f"{counted} found, {expected} expected", means)


def _uuids(found: Sequence[dict[str, Any]]) -> Check:
    uuids = [gpu["uuid"] for gpu in found]
    if len(uuids) == 1:
        return Check("gpu.uuid", PASS, uuids[0] or "one GPU")
    if not all(uuids):
        return Check("gpu.uuid", WARN, "this torch reports no UUIDs, so one GPU could be counted twice")
    twice = [index for index, uuid in enumerate(uuids) if uuids.count(uuid) > 1]
    if not twice:
        return Check("gpu.uuid", PASS, "all different")
    hint = "a device plugin with time-slicing gives one GPU to several pods: give jobs whole GPUs"
    text = f"GPUs {', '.join(map(str, twice))} are not {len(twice)} GPUs: their UUIDs are the same"
    return failure("gpu.uuid", text, Meaning(faults.ENV, faults.FIX_POOL, hint))


def _name(expected: str, gpu: dict[str, Any]) -> Check:
    name, index = gpu["name"], gpu["index"]
    if not expected:
        return Check("gpu.name", SKIP, f"{name}; not checked without --expect-gpu", gpu=index)
    if name_tokens(expected) <= name_tokens(name):
        return Check("gpu.name", PASS, name, gpu=index)
    means = Meaning(faults.ENV, faults.FIX_POOL, "the pool's machine type and its settings name different GPUs")
    return failure("gpu.name", f"GPU {index} is {name}, expected {expected}", means, gpu=index)


def _capability(least: str, gpu: dict[str, Any]) -> Check:
    has, index = gpu["cc"], gpu["index"]
    if not least:
        return Check("gpu.capability", SKIP, f"{has}; not checked without --min-compute-capability", gpu=index)
    if capability(has) >= capability(least):
        return Check("gpu.capability", PASS, has, gpu=index)
    means = Meaning(faults.ENV, faults.FIX_POOL, "the GPU is of an older generation than the pool requires")
    text = f"GPU {index} ({gpu['name']}) has compute capability {has}, expected {least} or more"
    return failure("gpu.capability", text, means, gpu=index)


def _whole(expected: str, subject: Subject) -> Check:
    if not subject.slice:
        return Check("gpu.mig", PASS, "a whole GPU", gpu=subject.index)
    text = f"a MIG slice, {subject.slice} of {subject.name.partition(' MIG ')[0]}"
    if "mig" in name_tokens(expected):
        return Check("gpu.mig", PASS, text, gpu=subject.index)
    hint = f'turn MIG off (nvidia-smi -mig 0), or expect the slice: --expect-gpu "MIG {subject.slice}"'
    means = Meaning(faults.ENV, faults.FIX_POOL, hint)
    return failure("gpu.mig", f"{subject.place} is {text}, expected a whole GPU", means, gpu=subject.index)
