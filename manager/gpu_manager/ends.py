"""The end of a machine, from the JSON text that its agent wrote (agent/gpu_agent/report.py)."""

from __future__ import annotations

import json
import re

from gpu_ci.machine_records import GpuUse

from .model import End, RunKey, printable

_CHARACTERS = 1024
# Limits that no machine reaches: three years, a petabyte of memory, and the energy of 30 kW in three years.
_MOST_SEC, _MOST_MIB, _MOST_JOULES = 1e8, 10**9, 3e12
_MOST_PHASES = 32
_PHASE = re.compile(r"[a-z][a-z0-9-]{0,39}")
_REPOSITORY = re.compile(r"[\w.-]{1,39}/[\w.-]{1,100}", re.ASCII)
_MOST_ID = 10**18


def end_of(text: str) -> End | None:
    """Return the end, or None if the machine wrote none or something that no agent writes."""
    try:
        value = json.loads(text) if text else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    reason = value.get("reason")
    if not isinstance(reason, str) or not reason:
        return None
    return End(
        _line(reason),
        _line(str(value.get("detail", ""))),
        value.get("stops_pool") is True,
        _phases_of(value.get("phases")),
        _gpu_use_of(value.get("gpuUse")),
        _run_of(value.get("job")),
    )


def _phases_of(value: object) -> dict[str, float]:
    """Return the seconds of each step. Skip what is not a step or not a time."""
    given = value.items() if isinstance(value, dict) else ()
    known = {name: sec for name, each in given if (sec := _number(each, _MOST_SEC)) is not None}
    return dict([each for each in known.items() if _PHASE.fullmatch(each[0])][:_MOST_PHASES])


def _gpu_use_of(value: object) -> GpuUse | None:
    """Return the use of the GPUs, or None if no value is valid."""
    given = value if isinstance(value, dict) else {}
    mib = _whole(given.get("memMaxMib"), 0, _MOST_MIB)
    use = GpuUse(
        util_avg=_number(given.get("utilAvg"), 1), mem_max_mib=mib, joules=_number(given.get("joules"), _MOST_JOULES)
    )
    return None if use == GpuUse() else use


def _run_of(value: object) -> RunKey | None:
    """Return the run of a job, or None if a part of it is missing or not in GitHub's form."""
    given = value if isinstance(value, dict) else {}
    repository, run = given.get("repository"), _whole(given.get("run"), 1)
    if run is None or not isinstance(repository, str) or not _REPOSITORY.fullmatch(repository):
        return None
    return RunKey(repository, run)


def _number(value: object, most: float) -> float | None:
    """Return a number from 0 to `most`, or None for anything else, such as NaN."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= most else None


def _whole(value: object, least: int, most: int = _MOST_ID) -> int | None:
    return value if type(value) is int and least <= value <= most else None


def _line(text: str) -> str:
    """Return the text as one line without terminal control characters, because a job may have written it."""
    return printable(text[:_CHARACTERS])
