"""What a pass saw and did, as one JSON value for people: pools, machines, and every queued job with its reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .decision import capacity, standby
from .job_states import JobState, job_states
from .loop import Pass
from .memory import Memory
from .model import Job, Machine, Pool

# What a person can do, by the reason's code.
NEXT_STEPS = {
    "at-max": "wait for a machine, or raise the pool's max",
    "no-answer": "wait, or see the manager's log: Google's API fails, or the credentials do",
    "no-capacity": "the manager goes on asking; more zones, standard machines or a reservation find one sooner",
    "over-quota": "ask Google for a higher quota (gpu-ci quota names it)",
    "price-ceiling": "raise the pool's price ceiling, or add a cheaper rung",
    "pool-stopped": "mend the cause, and bring the stack up; a new template starts the pool again",
    "refused": "the message says what is refused; `gpu-ci verify google` looks for more",
    "github-limited": "wait; GitHub names the time",
    "approval-pending": "approve the deployment on the run's page",
    "never-picked-up": "cancel the run and start it anew; GitHub gives this job to no runner",
    "expired": "start the run anew",
    "no-pool": "correct runs-on in the workflow, or add a pool with these labels",
}


def view(pools: Sequence[Pool], done: Pass) -> dict[str, Any]:
    """One pass. A source that was not known is null."""
    seen, decision = done.seen, done.decision
    machines = seen.machines
    runners = {runner.name: runner for runner in seen.runners or ()}
    working = {job.runner_name: job for job in seen.jobs or () if job.status == "in_progress"}
    return {
        "at": seen.now,
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
                    standby.is_kept_off(machine, decision.memory),
                ),
                "job": working[machine.name].url if machine.name in working else "",
            }
            for machine in machines
        ],
        "jobs": None if seen.jobs is None else [_job(state) for state in job_states(done)],
        "githubLimitedUntil": seen.github_limited_until,
        "events": [f"{event.kind} {event.subject}: {event.detail}".rstrip(": ") for event in done.events],
    }


def _pool(pool: Pool, machines: Sequence[Machine] | None, memory: Memory) -> dict[str, Any]:
    stopped = capacity.stopped(pool, memory)
    listed = [machine for machine in machines or () if machine.pool == pool.name]
    ours = [machine for machine in listed if not machine.off]
    return {
        "name": pool.name,
        "max": pool.max,
        "standby": pool.standby,
        "onStandby": sum(standby.is_kept_off(machine, memory) for machine in listed),
        "machines": None if machines is None else len(ours),
        "labels": sorted(pool.labels),
        "stopped": f"{stopped.machine}: {stopped.reason}: {stopped.detail}" if stopped else "",
    }


def machine_status(machine: Machine, registered: bool, job: Job | None, on_standby: bool) -> str:
    """One word: what the machine does for a job."""
    if machine.off:
        return "standby" if on_standby else "off"
    if job:
        return "busy"
    if registered:
        return "idle"
    return "booting" if machine.status == "RUNNING" else machine.status.lower()


def _job(state: JobState) -> dict[str, Any]:
    job, reason = state.job, state.reason
    found = {
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
        found |= {
            "reason": reason.code,
            "detail": reason.detail,
            "nextTry": reason.next_try,
            "nextStep": NEXT_STEPS[reason.code],
        }
    return found
