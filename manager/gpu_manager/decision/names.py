"""Names that follow from what they name, so that a manager that starts anew makes the same ones."""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Mapping

from ..model import JobKey, Machine, Rung

# Any constant does; requests of one machine in one zone are to have one id.
_NAMESPACE = uuid.UUID("5d1f6f3e-9c1b-4b52-8e9a-6f1f6e7c8a10")


STANDBY = "standby"
"""The label gpu-ci-job of a machine that was made for standby. No slug is the same: it has other characters."""


def slug(job: JobKey) -> str:
    """Twelve characters for one attempt of a job: a label's value, and a key of the memory."""
    return hashlib.sha256("\0".join(map(str, job)).encode()).hexdigest()[:12]


def machine_name(pool: str, job: JobKey, insert: int) -> str:
    """The name of the machine that this insert for this job makes. A pool's name has at most 40 characters."""
    digest = hashlib.sha256("\0".join((*map(str, job), str(insert))).encode()).hexdigest()[:8]
    return f"{pool}-{digest}"


def standby_name(pool: str, number: int) -> str:
    """The name of a machine that is made for standby (StandbyMemory.made)."""
    return f"{pool}-{hashlib.sha256(f'standby/{pool}/{number}'.encode()).hexdigest()[:8]}"


def runner_name(machine: Machine) -> str:
    """The name of the machine's runner, as its agent would choose it. GitHub takes 64 characters."""
    return f"{machine.name}-{machine.id}"[:64]


def pool_of(machine: str) -> str:
    """The pool of a machine with such a name; empty for another name."""
    found = re.fullmatch(r"(.+)-[0-9a-f]{8}", machine)
    return found[1] if found else ""


def machine_of(runner: str, machines: Mapping[str, str]) -> str:
    """The machine whose runner has this name; the name itself where it is none of these. `machines` are ids by name.

    Agent and manager put the instance's id behind the machine's name, and a suffix where GitHub has that name already
    (gpu_agent/google/compute_engine.py, gpu_agent/github/registration.py). The name is cut at 64 characters. The id
    tells a machine from an earlier one of its name, whose runner GitHub may still list.
    """
    name = runner
    while name not in machines and "-" in name:
        name = name.rpartition("-")[0]
    if name not in machines:
        return runner
    digits = runner[len(name) + 1 :].partition("-")[0]
    return name if not machines[name] or machines[name].startswith(digits) else runner


def request_id(machine: str, zone: str) -> str:
    """A UUID with which Compute Engine carries out a repeated insert once (discovery document, `requestId`)."""
    return str(uuid.uuid5(_NAMESPACE, f"{zone}/{machine}"))


def start_id(machine: str, zone: str, now: float) -> str:
    """The same for a start of a stopped machine, by its time: a count would begin anew in a manager without memory."""
    return str(uuid.uuid5(_NAMESPACE, f"{zone}/{machine}/start/{now}"))


def place(rung: Rung) -> str:
    """Where machines can run out: one zone, machine and market."""
    return f"{rung.zone} {_machine(rung)}"


def offer(pool: str, rung: Rung) -> str:
    """What Google can refuse to a pool: a machine and market in a region."""
    return f"{pool} {rung.region} {_machine(rung)}"


def _machine(rung: Rung) -> str:
    """The machine type and market. N1 machines of one type have different GPUs attached, so that these are named."""
    attached = f" {rung.gpu}" if rung.machine_type.startswith("n1-") else ""
    return f"{rung.machine_type} {rung.market}{attached}"


def spot_place(region: str, machine_type: str) -> str:
    """What the spot breaker counts by."""
    return f"{region} {machine_type}"
