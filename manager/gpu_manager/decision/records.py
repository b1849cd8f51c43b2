"""Follows each machine from its request to its end, and makes its record (gpu_ci.machine_records).

A history is in the memory from the request until its record is stored, so a killed manager loses none. The functions
are pure, like all of this folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from gpu_ci.machine_records import End as RecordedEnd
from gpu_ci.machine_records import JobOfMachine, MachineRecord

from ..memory import MachineHistory, Memory
from ..model import GPU_FAULT, End, Job, Machine, Observation, Pool, RanJob, RunKey
from .machines import JOB_DONE
from .names import MOST_CHARACTERS

# The most machines about whose job a pass asks GitHub, and the least requests that GitHub must still allow then.
MOST_QUESTIONS = 5
LEAST_REQUESTS = 500
# How long GitHub may take to show the end of a job. It notices a lost runner after ten minutes.
ANSWER_WITHIN_SEC = 3600.0
_ASK_EVERY_SEC = 60.0
# Google may round a time, and a clock may differ from another one by this.
_SAME_START_SEC = 1.0
_PREEMPTED = "preempted"
_NOT_ON = ("PENDING", "PROVISIONING")
"""States of a machine that does not run yet (discovery document compute v1, Instance.status)."""


def update(pools: Mapping[str, Pool], observation: Observation, memory: Memory) -> None:
    """Update the histories. Call it before the memory of machines changes: a pending request is then still known."""
    for name, pending in memory.pending.items():
        history = memory.histories.get(name)
        if history is None and not pending.is_start:
            rung = pending.rung
            history = memory.histories[name] = MachineHistory(
                name, pending.pool, rung.zone, rung.machine_type, rung.market, pending.since, rung.gpu,
                rung.usd_per_hour, pools[pending.pool].template_of(rung) if pending.pool in pools else "",
            )  # fmt: skip
        if history is None:
            continue
        history.id = history.id or pending.id
        if pending.job:
            add_run(history, run_of(pending.job))
    if observation.machines is None:
        return
    listed = {machine.name: machine for machine in observation.machines}
    for name, machine in listed.items():
        history = memory.histories.get(name)
        if history and history.id and machine.id and history.id != machine.id:
            _end(name, observation, memory)
            history = None
        if history is None:
            history = memory.histories[name] = _of_machine(machine, pools.get(machine.pool), observation.now)
        _update_power(history, machine, observation.now)
        history.id, history.gone = machine.id or history.id, 0.0
        if machine.end and machine.end != history.earlier_end:
            history.end, history.reported = machine.end, machine.end.run or history.reported
    for job in observation.jobs or ():
        history = memory.histories.get(job.runner_name)
        # A machine that no list contained has no job: GitHub still shows that of an earlier machine of the same name.
        if job.status == "in_progress" and history and history.existed:
            history.job = job
            add_run(history, run_of(job))
    for name, history in list(memory.histories.items()):
        entry = memory.machines.get(name)
        history.registered |= entry is not None and entry.registered
        history.taken_back |= name in observation.preempted or (entry is not None and entry.taken_back)
        if name in listed or (not history.existed and name in memory.pending):
            continue
        # A list may lack a machine once.
        if history.gone or not history.existed:
            _end(name, observation, memory)
        else:
            history.gone = observation.now


def _of_machine(machine: Machine, pool: Pool | None, now: float) -> MachineHistory:
    """Return the history of a machine whose request is not in the memory."""
    rung = pool.rung_of(machine) if pool else None
    return MachineHistory(
        machine.name, machine.pool, machine.zone, machine.machine_type, machine.market, machine.on_unix or now,
        rung.gpu if rung else "", rung.usd_per_hour if rung else None, machine.template,
    )  # fmt: skip


def run_of(job: Job) -> RunKey:
    return RunKey(job.key.repository, job.key.run_id)


def add_run(history: MachineHistory, run: RunKey) -> None:
    if run not in history.runs:
        # The newest first: a machine on standby runs the last job for which it was started.
        history.runs.insert(0, run)


def _update_power(history: MachineHistory, machine: Machine, now: float) -> None:
    """Add the times at which the machine was switched on and off since the last pass."""
    if machine.waits_for_capacity:
        return
    history.existed = True
    begin, end = history.on[-1] if history.on else (0.0, 0.0)
    is_new = machine.on_unix > begin + _SAME_START_SEC
    if machine.status not in _NOT_ON and not machine.off and end is not None and not machine.on_unix:
        is_new, history.is_estimated = True, True
    if is_new:
        since = machine.on_unix or now
        if history.on and end is None:  # it was switched off and on between two passes
            history.on[-1] = (begin, since)
            history.is_estimated = True
        # What it reported is of its earlier boot. It stays readable until the machine reports another end.
        history.earlier_end, history.end, history.reported = history.end or history.earlier_end, None, None
        history.on.append((max(since, end or begin), None))
    if machine.off and history.on and history.on[-1][1] is None:
        begin = history.on[-1][0]
        history.is_estimated |= machine.off_unix < begin
        history.on[-1] = (begin, machine.off_unix if machine.off_unix >= begin else max(now, begin))


def _end(name: str, observation: Observation, memory: Memory) -> None:
    """Move the history of a machine that is gone to those whose record is due."""
    history = memory.histories.pop(name)
    if not history.existed:
        return
    # The first question is a minute later: GitHub may list a job after its machine is gone. A job that may have to run
    # again, and that no pass saw, cannot wait.
    history.gone = history.gone or observation.now
    history.asked = 0.0 if history.end and history.end.fault and not history.job else history.gone
    if history.on and history.on[-1][1] is None:
        begin = history.on[-1][0]
        history.on[-1] = (begin, max(history.gone, begin))
        history.is_estimated = True
    if history.taken_back:
        history.end = replace(history.end or End(_PREEMPTED), reason=_PREEMPTED)
    memory.ended[f"{name}-{history.id}"] = history


def may_ask(history: MachineHistory, observation: Observation) -> bool:
    """Return True if GitHub may be asked now for the job of a machine that is gone."""
    left = observation.github_requests_left
    return (left is None or left >= LEAST_REQUESTS) and observation.now - history.asked >= _ASK_EVERY_SEC


def is_late(history: MachineHistory, now: float) -> bool:
    """Return True if the record is made without further questions."""
    return now - history.gone > ANSWER_WITHIN_SEC


def runs_to_read(history: MachineHistory) -> list[RunKey]:
    """Return the runs that may contain the machine's job; none if it was never on."""
    reported = [history.reported] if history.reported and history.reported not in history.runs else []
    return [*history.runs, *reported] if history.on else []


def job_of(history: MachineHistory, jobs: Iterable[RanJob]) -> JobOfMachine | None:
    """Return the job whose runner had the name and the id of the machine, which no job's author can choose."""
    own = [each.job for each in jobs if history.id and _is_runner_of(each.runner_name, history)]
    return max(own, key=lambda job: job.started, default=None)


def _is_runner_of(runner: str, history: MachineHistory) -> bool:
    """Return True for the name that agent and manager choose (names.machine_of), also with a suffix."""
    full = f"{history.machine}-{history.id}"
    base, _, suffix = runner.rpartition("-")
    return runner == full[:MOST_CHARACTERS] or base == full[: MOST_CHARACTERS - len(suffix) - 1]


def is_complete(history: MachineHistory, job: JobOfMachine | None) -> bool:
    """Return True if GitHub has shown what the machine did."""
    if not runs_to_read(history):
        return True
    if job is None:
        return history.job is None and not _names_job(history.end)
    return job.completed is not None


def _names_job(end: End | None) -> bool:
    """Return True if the machine has reported that it ran a job, also one that it refused."""
    return end is not None and (end.reason == JOB_DONE or (end.reason == GPU_FAULT and end.run is not None))


def make(history: MachineHistory, job: JobOfMachine | None, manager: str, supplier: str) -> MachineRecord:
    """Return the record of a machine that is gone. `job` is GitHub's answer."""
    end, on = history.end, [(begin, begin if end is None else end) for begin, end in history.on]
    job = job or (_as_seen(history.job) if history.job else None)
    missing = {
        "job": job is None and _names_job(end),
        "job-times": job is not None and job.completed is None,
        "price": history.usd_per_hour is None,
        "on": history.is_estimated or not on,
    }
    return MachineRecord(
        manager=manager,
        supplier=supplier,
        pool=history.pool,
        machine=history.machine,
        id=history.id,
        zone=history.zone,
        machine_type=history.machine_type,
        market=history.market,
        gpu=history.gpu,
        template=history.template,
        usd_per_hour=history.usd_per_hour,
        requested=_time(min(history.requested, *(begin for begin, _ in on[:1]), history.gone)),
        on=[(_time(begin), _time(end)) for begin, end in on],
        gone=_time(max(history.gone, *(end for _, end in on[-1:]), history.requested)),
        end=RecordedEnd(reason=end.reason, detail=end.detail) if end else None,
        taken_back=history.taken_back,
        phases=dict(end.phases) if end else {},
        gpu_use=end.gpu_use if end else None,
        job=job,
        incomplete=[name for name, is_missing in missing.items() if is_missing],
    )


def _as_seen(job: Job) -> JobOfMachine:
    """Return what a pass saw of the job. Its end is unknown."""
    return JobOfMachine(
        repository=job.key.repository,
        run=job.key.run_id,
        attempt=job.key.attempt,
        id=job.key.job_id,
        workflow=job.workflow,
        name=job.name,
        created=_time(job.created_unix),
        started=_time(job.started_unix or job.created_unix),
    )


def _time(unix: float) -> datetime:
    return datetime.fromtimestamp(unix, UTC)
