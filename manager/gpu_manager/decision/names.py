"""Computes names of machines, request ids, and keys of the memory.

Each function returns the same text for the same arguments, so a restarted manager gets the same names and keys.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping

from ..model import JobKey, Machine

# The namespace of request ids. Any constant works, but it must not change while requests are pending.
_NAMESPACE = uuid.UUID("5d1f6f3e-9c1b-4b52-8e9a-6f1f6e7c8a10")


MOST_CHARACTERS = 64
"""GitHub's limit of a runner's name."""
STANDBY = "standby"
"""The value of the label gpu-ci-job of a machine that was created for standby. It differs from every slug."""


def slug(job: JobKey) -> str:
    """Return twelve characters that identify one attempt of a job, as a label's value and as a key of the memory."""
    return hashlib.sha256("\0".join(map(str, job)).encode()).hexdigest()[:12]


def machine_name(pool: str, job: JobKey, insert: int) -> str:
    """Return the machine name of this insert for this job. The name of a pool has at most 40 characters."""
    digest = hashlib.sha256("\0".join((*map(str, job), str(insert))).encode()).hexdigest()[:8]
    return f"{pool}-{digest}"


def standby_name(pool: str, number: int) -> str:
    """Return the name of a machine that is created for standby, from its number (StandbyMemory.made)."""
    return f"{pool}-{hashlib.sha256(f'standby/{pool}/{number}'.encode()).hexdigest()[:8]}"


def runner_name(machine: Machine) -> str:
    """Return the name of the machine's runner, as the agent chooses it."""
    return f"{machine.name}-{machine.id}"[:MOST_CHARACTERS]


def machine_of(runner: str, machines: Mapping[str, str]) -> str:
    """Return the name of a runner's machine, or the runner's name if no machine matches. `machines` maps names to ids.

    Agent and manager name a runner after the machine's name and id, cut at 64 characters. They add a suffix if GitHub
    already has a runner of that name (gpu_agent/google/compute_engine.py, gpu_agent/github/registration.py). The id
    distinguishes the machine from an earlier machine of the same name, whose runner GitHub may still list.
    """
    name = runner
    while name not in machines and "-" in name:
        name = name.rpartition("-")[0]
    if name not in machines:
        return runner
    digits = runner[len(name) + 1 :].partition("-")[0]
    return name if not machines[name] or machines[name].startswith(digits) else runner


def request_id(machine: str, zone: str) -> str:
    """Return a UUID with which Compute Engine carries out a repeated insert once (discovery document, `requestId`)."""
    return str(uuid.uuid5(_NAMESPACE, f"{zone}/{machine}"))


def start_id(machine: str, zone: str, now: float) -> str:
    """Return the request id of a start. It contains the time, because a count would restart in a manager without
    memory.
    """
    return str(uuid.uuid5(_NAMESPACE, f"{zone}/{machine}/start/{now}"))
