"""Check that a run that passes is complete: every check of its profile has a result on every device."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from .. import faults
from ..checks import ERROR, PASS, SKIP, Check, failure
from ..faults import Meaning
from ..plan import GEMM, HEALTH, Profile, Stage, dtypes
from .subject import Subject

_MEANS = Meaning(faults.ENV, faults.NONE, "this is a bug of gpu-smoke: report it with this receipt")


def complete(profile: Profile, subjects: Sequence[Subject], checks: Iterable[Check]) -> list[Check]:
    """Return a failure for each missing result, also if no device was found."""
    found = [*checks]
    products = {(check.gpu, check.dtype, check.id) for check in found}
    answers = {(check.gpu, check.id): check for check in found}
    nvml = answers.get((None, "nvml"))
    missing = [] if subjects else ["nothing was computed"]
    missing += ["NVML did not answer"] if any(not subject.on_cpu for subject in subjects) and not nvml else []
    for subject in subjects:
        missing += _products(subject, products)
        required = [each for each in _checks_of(profile.gpu) if each not in GEMM]
        required += HEALTH if nvml and nvml.status == PASS else []
        required += ["allreduce"] if profile.rank and len(subjects) > 1 else []
        missing += [
            f"{subject.place} has no result for {each}" for each in required if (subject.index, each) not in answers
        ]
        missing += _untimed(subject, profile.gpu, answers)
    of_machine = [*_checks_of(profile.host), *(_checks_of(profile.peers) if len(subjects) > 1 else [])]
    missing += [f"{each} has no result" for each in of_machine if (None, each) not in answers]
    return [failure("complete", f"{text}, so the run cannot pass", _MEANS, status=ERROR) for text in missing]


def _checks_of(stages: Iterable[Stage]) -> list[str]:
    return [each for stage in stages for each in stage.checks]


def _products(subject: Subject, found: set[tuple[int | None, str, str]]) -> list[str]:
    missing = [
        dtype for dtype in dtypes(subject.capability) if any((subject.index, dtype, each) not in found for each in GEMM)
    ]
    return [f"{subject.place} computed no {dtype} product" for dtype in missing]


def _untimed(subject: Subject, stages: Iterable[Stage], answers: Mapping[tuple[int | None, str], Check]) -> list[str]:
    """Report a GPU with known speeds if none of its speeds was judged."""
    speeds = [each for stage in stages for each in stage.speeds]
    if not speeds or not (subject.gemm or subject.copy):
        return []
    judged = [each for each in speeds if (a := answers.get((subject.index, each))) and a.status != SKIP]
    return [] if judged else [f"no speed of {subject.place} was judged"]
