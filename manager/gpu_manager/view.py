"""The view: the result of one pass as JSON, for `gpu-ci manager status` and `gpu-ci explain`.

It has the pools, the machines, and each waiting or running job with its machine or its reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from .decision import capacity, faults, records, standby
from .loop import PassResult
from .memory import Memory
from .model import Job, Machine, Pool, Reason

# The next step for a person, by the code of the reason.
NEXT_STEPS = {
    "at-max": "wait for a machine, or raise the pool's max",
    "cost-cap": "wait for the next day in UTC, or raise maxUsdPerDay of the pool",
    "no-answer": "wait, or check the manager's log for failed requests and credentials",
    "no-capacity": "wait, or get a machine sooner with more zones, standard machines or a reservation",
    "over-quota": "ask Google for a higher quota (gpu-ci quota names it)",
    "price-ceiling": "raise the pool's price ceiling, or add a cheaper step to its ladder",
    "pool-stopped": "correct the cause and run `pulumi up`; a new template starts the pool again",
    "refused": "correct the cause in the message; `gpu-ci doctor` checks for more problems",
    "over-budget": "raise usdPerMonth of the team in gpu-ci:teams, or wait for the next month",
    "github-limited": "wait until the time that GitHub names",
    "approval-pending": "approve the deployment on the run's page, or the commit as the reason says",
    "never-picked-up": "compare the group in runs-on with the pool's; else cancel the run and start a new one",
    "queue-timeout": "correct what the pool lacks, and run the jobs again; else raise queueTimeoutSec of the pool",
    "expired": "start a new run",
    "no-pool": "correct runs-on or the event of the workflow, or add a pool with these labels",
}


class JobState(NamedTuple):
    """The state of one job: waiting for a reason, with a machine that starts, or running."""

    job: Job
    machine: str = ""
    """The name of the machine that starts for the job or runs it."""
    reason: Reason | None = None


def job_states(result: PassResult) -> list[JobState]:
    """Return the jobs of the last sweep that wait for a machine of the pools or run on one.

    The list is empty if the jobs are unknown.
    """
    names = {machine.name for machine in result.observation.machines or ()}
    assigned, reasons = result.decision.assigned, result.decision.reasons
    return [
        JobState(job, job.runner_name or assigned.get(job.key, ""), reasons.get(job.key))
        for job in result.observation.jobs or ()
        if job.key in assigned or job.key in reasons or job.runner_name in names
    ]


def view(pools: Sequence[Pool], result: PassResult) -> dict[str, Any]:
    """Return the result of one pass as JSON. An unknown source is null."""
    observation, decision = result.observation, result.decision
    machines = observation.machines
    runners = {runner.name: runner for runner in observation.runners or ()}
    working = {job.runner_name: job for job in observation.jobs or () if job.status == "in_progress"}
    return {
        "at": observation.now,
        "pools": [_pool(pool, machines, decision.memory) for pool in pools],
        "machines": None
        if machines is None
        else [
            {
                "name": machine.name,
                "pool": machine.pool,
                "zone": machine.zone,
                "machineType": machine.machine_type,
                "market": machine.market,
                "status": machine_status(
                    machine,
                    machine.name in runners,
                    working.get(machine.name),
                    decision.memory,
                ),
                "job": working[machine.name].url if machine.name in working else "",
            }
            for machine in machines
        ],
        "jobs": None if observation.jobs is None else [_job(state) for state in job_states(result)],
        "cancelled": [
            {"repository": each.run.repository, "run": each.run.run_id, "attempt": each.attempt, "detail": each.detail}
            for each in decision.memory.cancelled.values()
        ],
        "faults": [
            {
                "repository": each.key.repository,
                "run": each.key.run_id,
                "id": each.key.job_id,
                "attempt": each.key.attempt,
                "machine": each.machine,
                "detail": faults.title(each.fault),
                "nextStep": faults.next_step(each.key.attempt),
            }
            for each in decision.memory.faults.values()
            if each.failed
        ],
        "ended": [*_unstored(decision.memory, pools[0].supplier)],
        "githubLimitedUntil": observation.github_limited_until,
        "events": [f"{event.kind} {event.subject}: {event.detail}".rstrip(": ") for event in result.events],
    }


def _unstored(memory: Memory, supplier: str) -> Iterator[dict[str, Any]]:
    """Yield the records of machines that are gone, until GitHub has shown the end of their jobs."""
    for history in memory.ended.values():
        with suppress(ValueError, OverflowError, OSError):  # of a time that no machine has
            yield records.make(history, None, "", supplier).model_dump(mode="json", by_alias=True)


def merged(views: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return one view of the passes of several loops. Machines or jobs are null if one of the loops does not know."""
    first, *others = views
    found = dict(first)
    for other in others:
        for key in ("pools", "machines", "jobs", "cancelled", "faults", "ended", "events"):
            found[key] = None if found[key] is None or other[key] is None else [*found[key], *other[key]]
    return found


def _pool(pool: Pool, machines: Sequence[Machine] | None, memory: Memory) -> dict[str, Any]:
    stopped = capacity.stopped_pool(pool, memory)
    listed = [machine for machine in machines or () if machine.pool == pool.name]
    machines_on = [machine for machine in listed if not machine.off]
    return {
        "name": pool.name,
        "max": pool.max,
        "standby": pool.standby,
        "onStandby": sum(standby.is_on_standby(machine, memory) for machine in listed),
        "machines": None if machines is None else len(machines_on),
        "labels": sorted(pool.labels),
        "stopped": f"{stopped.machine}: {stopped.reason}: {stopped.detail}" if stopped else "",
    }


def machine_status(machine: Machine, registered: bool, job: Job | None, memory: Memory) -> str:
    """Return the status of the machine as one word."""
    if machine.off:
        return "standby" if standby.is_on_standby(machine, memory) else "off"
    if job:
        return "busy"
    if registered:
        return "idle"
    entry = memory.machines.get(machine.name)
    running = "warm" if entry and entry.warm_sec else "booting"
    return running if machine.status == "RUNNING" else machine.status.lower()


def _job(state: JobState) -> dict[str, Any]:
    job, reason = state.job, state.reason
    row = {
        "repository": job.key.repository,
        "run": job.key.run_id,
        "id": job.key.job_id,
        "attempt": job.key.attempt,
        "name": job.name,
        "workflow": job.workflow,
        "url": job.url,
        "labels": sorted(job.labels),
        "status": job.status,
        "machine": state.machine,
    }
    if reason:
        row |= {
            "reason": reason.code,
            "detail": reason.detail,
            "nextTry": reason.next_try,
            "nextStep": NEXT_STEPS[reason.code],
        }
    return row
