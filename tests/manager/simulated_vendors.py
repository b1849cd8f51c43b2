"""GitHub and Compute Engine of the simulated world, as the manager calls them, with random faults."""

from __future__ import annotations

import base64
import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from cryptography.hazmat.primitives.serialization import pkcs7
from gpu_ci.machine_records import JobOfMachine
from gpu_manager.decision.names import STANDBY, runner_name, slug
from gpu_manager.model import (
    Insert,
    InsertError,
    Job,
    JobKey,
    Machine,
    NewRunner,
    Offer,
    OperationState,
    Pool,
    RanJob,
    Reason,
    Report,
    Run,
    RunKey,
    Runner,
)
from gpu_manager.ports import GithubView, InsertRefused, Mailbox, Started, Unavailable

from tests.manager.machine_key import PRIVATE
from tests.manager.simulated_world import (
    CERTIFICATES,
    REPOSITORIES,
    ZONES,
    BrokenRuleError,
    Killed,
    Life,
    Vm,
    World,
    WorldJob,
)

PENDING = Reason("approval-pending", "comment /ok to test")


class Faulty:
    """Calls with random faults: before the action, after it, or with the end of the manager."""

    def __init__(self, world: World, rate: float, kill_rate: float) -> None:
        self.world, self.rate, self.kill_rate = world, rate, kill_rate
        self.had_faults = rate + kill_rate > 0

    def before(self) -> None:
        if self.world.chance.random() < self.kill_rate:
            raise Killed
        if self.world.chance.random() < self.rate:
            raise Unavailable("the request was lost")

    def after(self) -> None:
        if self.world.chance.random() < self.kill_rate:
            raise Killed
        if self.world.chance.random() < self.rate:
            raise Unavailable("the answer was lost")


class FakeGithub:
    def __init__(self, world: World, faulty: Faulty) -> None:
        self.world, self.faulty = world, faulty
        self.last: dict[str, tuple[Job, ...]] = {}

    def observe(self, runs: Collection[RunKey]) -> GithubView:
        world, lost = self.world, self.world.chance.random
        rate = self.faulty.rate
        if lost() < self.faulty.kill_rate:
            raise Killed
        # Single repositories cannot be read, and keep their last jobs, as in the adapter.
        unread = frozenset(each for each in REPOSITORIES if lost() < rate)
        runner_ids = {name: number for number, name in world.registered.items()}
        found_jobs = [
            Job(
                job.key,
                job.labels,
                job.status,  # type: ignore[arg-type]
                job.created + world.skew_sec,
                job.conclusion,
                job.runner,
                name=f"job-{job.key.run_id}",
                runner_id=runner_ids.get(job.runner, 0),
                refusal=PENDING if job.of_fork and job.key.run_id not in world.approved else None,
                event=job.event,
            )
            for job in world.jobs.values()
            if job.status != "completed"
        ]
        for repository in set(REPOSITORIES) - unread:
            self.last[repository] = tuple(job for job in found_jobs if job.key.repository == repository)
        jobs = tuple(job for repository in sorted(self.last) for job in self.last[repository])
        working = {vm.runner_id for vm in world.vms.values() if not vm.hung}
        runners = [
            Runner(number, name, number in working, world.busy(name), world.labels_of[number])
            for number, name in world.registered.items()
            # A list may lack a runner that has just been registered.
            if world.now - world.registered_at[number] > 10 or lost() >= rate
        ]
        if world.newest_runners_first:
            runners.reverse()
        found = {key: self._run(key) for key in runs if lost() >= rate}
        return GithubView(
            world.now + world.skew_sec,
            None if lost() < rate else jobs,
            None if lost() < rate else tuple(runners),
            found,
            unread,
        )

    def _run(self, key: RunKey) -> Run:
        jobs = [job for job in self.world.jobs.values() if job.key.run_id == key.run_id]
        attempt = self.world.attempts[key.run_id]
        latest = [job for job in jobs if job.key.attempt == attempt]
        done = all(job.status == "completed" for job in latest)
        bad = tuple(job.key.job_id for job in latest if job.conclusion not in ("success", ""))
        cancelled = any(job.conclusion == "cancelled" for job in latest)
        conclusion = ("cancelled" if cancelled else "failure" if bad else "success") if done else ""
        return Run(key, attempt, "completed" if done else "in_progress", conclusion, self.world.now, bad)

    def register(self, pool: Pool, name: str) -> NewRunner:
        """Register a runner as the adapter does: a taken name is freed first, unless its runner has a job."""
        if not any(name.endswith(f"-{number}") for number in self.world.inserted.values()):
            raise BrokenRuleError(f"{name}: gets a runner, and no insert returned its id")
        self.faulty.before()
        for number, known in list(self.world.registered.items()):
            if known != name:
                continue
            if self.world.busy(name):
                raise Unavailable("it has a job")
            del self.world.registered[number]
            self.faulty.before()
        made = NewRunner(self.world.register(name, pool.labels, by_manager=True), name, "secret")
        self.faulty.after()
        return made

    def remove_runner(self, runner: Runner | NewRunner) -> bool:
        self.faulty.before()
        if runner.id in self.world.registered:
            if self.world.busy(self.world.registered[runner.id]):
                return False
            del self.world.registered[runner.id]
        for vm in self.world.vms.values():
            if vm.runner_id == runner.id:
                if vm.job is not None:
                    return False
                # The agent says this of each runner that ends without a job.
                vm.runner_id, vm.ended = 0, "runner-failed"
                vm.off_at = None if vm.hung else self.world.now + 20
        self.faulty.after()
        return True

    def rerun(self, run: RunKey, job_id: int | None) -> None:
        self.faulty.before()
        attempt = self.world.attempts[run.run_id]
        latest = [job for job in self.world.jobs.values() if job.key[1] == run.run_id and job.key.attempt == attempt]
        if any(job.status != "completed" for job in latest):
            raise Unavailable("the run is already running")
        if any(self._cancelled_by_a_person(job) for job in latest):
            raise BrokenRuleError(f"run {run.run_id}: was cancelled by a person, and is run again")
        failed = {job.instance for job in latest if job.conclusion != "success"}
        if not failed & (self.world.broken | self.world.preempted.keys()):
            raise BrokenRuleError(f"run {run.run_id}: failed by itself, and is run again")
        self.world.reruns[(run.run_id, attempt)] += 1
        self.world.attempts[run.run_id] = attempt + 1
        for job in latest:
            if job.conclusion != "success":
                key = JobKey(run.repository, run.run_id, self.world.number(), attempt + 1)
                new = WorldJob(key, job.labels, self.world.now, job.duration + 5, event=job.event)
                self.world.jobs[key.job_id] = new
        self.faulty.after()

    def check_run(self, report: Report) -> None:
        self.faulty.before()
        job = self.world.jobs[report.job.job_id]
        if job.conclusion != "failure" or job.instance not in self.world.broken:
            raise BrokenRuleError(f"job {report.job.job_id}: its commit says that the machine made it fail")
        self.world.reports[report.job.job_id] += 1
        self.faulty.after()

    def cancel(self, job: JobKey) -> bool:
        self.faulty.before()
        found = self.world.jobs[job.job_id]
        if found.status != "queued":
            return False
        if found.of_fork and found.key.run_id not in self.world.approved:
            pass  # it could take the machine of an approved job
        elif self.world.now - found.created < min(each.queue_timeout_sec or 86400 for each in self.world.pools):
            raise BrokenRuleError(f"run {job.run_id}: is cancelled too early")
        for each in list(self.world.jobs.values()):
            if (each.key.run_id, each.key.attempt) == (job.run_id, job.attempt):
                self.world.cancel(each)
                self.world.timed_out.add(slug(each.key))
        self.faulty.after()
        return True

    def ran(self, run: RunKey) -> tuple[RanJob, ...]:
        self.faulty.before()
        skew, now = self.world.skew_sec, self.world.now

        def time(unix: float) -> datetime:
            return datetime.fromtimestamp(unix + skew, UTC)

        return tuple(
            RanJob(
                job.runner,
                JobOfMachine(
                    repository=run.repository, run=run.run_id, attempt=job.key.attempt, id=job.key.job_id,
                    created=time(job.created), started=time(job.started),
                    completed=time(job.completed) if job.status == "completed" else None, conclusion=job.conclusion,
                ),
            )
            for job in self.world.jobs.values()
            if job.runner and (job.key.repository, job.key.run_id) == tuple(run) and job.started <= now
        )  # fmt: skip

    def _cancelled_by_a_person(self, job: WorldJob) -> bool:
        """Return True if a person certainly cancelled the job. Within minutes of a preemption the cause is unclear."""
        _, taken = self.world.preempted.get(job.instance, ("", None))
        return job.cancelled is not None and (taken is None or taken + 240 < job.cancelled)


class FakeCompute:
    TITLE = "Compute Engine"

    def __init__(self, world: World, faulty: Faulty, stockouts: float) -> None:
        self.world, self.faulty, self.stockouts = world, faulty, stockouts
        self._asked: set[str] = set()

    def list(self, pools: Sequence[Pool]) -> tuple[Machine, ...]:
        self.faulty.before()
        listed = [vm.machine for vm in self.world.vms.values() if self.world.now >= vm.listed_at]
        return (*self._seen(listed), *self.world.forged)

    def _seen(self, machines: Iterable[Machine]) -> tuple[Machine, ...]:
        """Return the machines, of which the manager may write a record from now on."""
        found = tuple(machines)
        for machine in found:
            self.world.lives[machine.id].listed |= not machine.waits_for_capacity
        return found

    def boot(self, machines: Sequence[Machine]) -> None:
        pass

    def owns(self, machine: Machine) -> bool:
        if machine.id not in self._asked:
            self.faulty.before()
            self._asked.add(machine.id)
        return machine.id in self.world.inserted.values()

    def starting(self, pools: Sequence[Pool]) -> tuple[Machine, ...]:
        self.faulty.before()
        busy = {name for until, _, name in self.world.operations.values() if self.world.now < until}
        return self._seen(vm.machine for vm in self.world.vms.values() if vm.machine.name in busy)

    def operation(self, pool: Pool, offer: Offer, operation: str) -> OperationState:
        self.faulty.before()
        until, error, _ = self.world.operations[operation]
        return OperationState(True, error) if self.world.now >= until else OperationState(False)

    def preempted(self, pools: Sequence[Pool]) -> frozenset[str]:
        self.faulty.before()
        taken = self.world.preempted.items()
        return frozenset(f"{name}-{number}" for number, (name, when) in taken if self.world.now - when < 3600)

    def start(self, pool: Pool, insert: Insert) -> Started:
        self.faulty.before()
        world, rung = self.world, insert.rung
        fork = insert.job and world.jobs[insert.job.key.job_id].of_fork
        if insert.job and fork and insert.job.key.run_id not in world.once_approved:
            raise BrokenRuleError(f"{insert.machine}: starts for a commit that nobody has approved")
        if insert.job and slug(insert.job.key) in world.timed_out:
            raise BrokenRuleError(f"{insert.machine}: starts for a job whose run the manager has cancelled")
        asked, known = world.requests.get(insert.request_id, (0.0, ""))
        if known and world.now - asked < world.knows_requests_sec:
            return Started(known, world.inserted[known])
        if existing := world.vms.get((rung.zone, insert.machine)):
            return Started("", existing.machine.id)
        operation = f"operation-{world.number()}"
        until, error = world.now + world.chance.choice((0, 3, 15)), None
        if world.chance.random() < self.stockouts:
            kind = world.chance.choice(("no-capacity", "no-capacity", "over-quota", "refused"))
            others = tuple(world.chance.sample(ZONES, 1)) if world.chance.random() < 0.3 else ()
            error = InsertError(kind, f"{rung.zone} has none", others, "L4" if kind == "over-quota" else "")
            if world.chance.random() < 0.3:
                raise InsertRefused(error)
        world.requests[insert.request_id] = (world.now, operation)
        world.operations[operation] = (until, error, insert.machine)
        world.inserted[operation] = world.instance_id()
        if error is None:
            machine = Machine(
                insert.machine,
                pool.name,
                rung.zone,
                "STAGING",
                rung.market,
                rung.machine_type,
                pool.template_of(rung),
                job=slug(insert.job.key) if insert.job else STANDBY,
                id=world.inserted[operation],
                registered_by=pool.registered_by,
            )
            silent = world.faults and world.chance.random() < 0.05
            boots_in = world.chance.choice((20, 60, 150))
            hung = world.faults and world.chance.random() < world.hung_rate
            vm = Vm(machine, world.now, boots_in, until, silent=silent, hung=hung, inserted_at=world.now)
            vm.listed_at = until if world.chance.random() < 0.3 else world.now
            world.lives[machine.id] = Life(machine.name)
            world._set(vm, "STAGING")
            if rung.market == "flex-start":
                self._waits(vm, operation)
            world.vms[(rung.zone, insert.machine)] = vm
            world.machines_of_job[machine.job] += 1
            world.check_max()
        self.faulty.after()
        return Started(operation, world.inserted[operation])

    def _waits(self, vm: Vm, operation: str) -> None:
        """Start the search for capacity. No page documents if the operation ends with the wait or with the request."""
        chance = self.world.chance
        vm.machine = replace(vm.machine, status="PENDING", on_unix=0.0)
        self.world.lives[vm.machine.id].on.clear()
        vm.waits_until = vm.created = self.world.now + (chance.choice((10, 200, 1800)) if self.world.faults else 10)
        vm.runs_at = vm.waits_until + 15
        vm.in_vain = chance.random() < self.stockouts
        if chance.random() < 0.5:
            error = InsertError("no-capacity", "none within the wait") if vm.in_vain else None
            self.world.operations[operation] = (vm.waits_until, error, vm.machine.name)
            vm.listed_at = min(vm.listed_at, vm.waits_until)

    @property
    def channel(self) -> FakeCompute:
        return self

    def listen(self, machines: Sequence[Machine]) -> tuple[Machine, ...]:
        return tuple(machines)

    def mailbox(self, machine: Machine) -> Mailbox:
        self.faulty.before()
        vm = self.world.vms.get((machine.zone, machine.name))
        if vm is None or vm.machine.id != machine.id:
            raise Unavailable("it is gone, or another machine has its name")
        return Mailbox(vm.machine.sealed, _fingerprint(vm.machine))

    def send(self, machine: Machine, mailbox: Mailbox, registration: str) -> bool:
        """Accept new metadata at once, and apply it a little later."""
        self.faulty.before()
        vm = self.world.vms.get((machine.zone, machine.name))
        if vm is None:
            raise Unavailable("it is gone")
        if mailbox.version != _fingerprint(vm.machine):
            return False
        if vm.machine.sealed:
            raise BrokenRuleError(f"{machine.name}: a second registration")
        certificate = CERTIFICATES[vm.boots % len(CERTIFICATES)]
        try:
            opened = json.loads(pkcs7.pkcs7_decrypt_der(base64.b64decode(registration), certificate, PRIVATE, []))
        except ValueError:
            if self.world.forgotten < vm.inserted_at:
                raise BrokenRuleError(f"{machine.name}: sealed to the key of an earlier boot") from None
            # A manager that lost its memory cannot know this. The machine cannot decrypt the registration, and ends.
            opened = {"runnerId": -1, "machine": runner_name(vm.machine)}
        assert opened["machine"] == runner_name(vm.machine)
        if run := opened.get("run"):
            vm.only = (run["repository"], run["id"], run["attempt"])
        vm.sent, vm.arrives_at = opened["runnerId"], self.world.now + self.world.chance.choice((0, 2, 8))
        self.faulty.after()
        return True

    def stop(self, machine: Machine) -> None:
        self.faulty.before()
        vm = self.world.vms.get((machine.zone, machine.name))
        if vm is not None and not vm.machine.off:
            if vm.sent or vm.runner_id or vm.job:
                raise BrokenRuleError(f"{machine.name}: stopped although it has a runner")
            if vm.stops_at is None:
                vm.stops_at = self.world.now + self.world.chance.choice((2, 8, 25))
                if self.world.chance.random() < 0.7:
                    self.world._set(vm, "STOPPING")
        self.faulty.after()

    def start_again(self, machine: Machine, request_id: str) -> str:
        self.faulty.before()
        world, vm = self.world, self.world.vms.get((machine.zone, machine.name))
        asked, known = world.requests.get(request_id, (0.0, ""))
        if known and world.now - asked < world.knows_requests_sec:
            return known
        if vm is None:
            raise InsertRefused(InsertError("refused", "it is gone"))
        operation = f"operation-{world.number()}"
        until, error = world.now + world.chance.choice((0, 3, 15)), None
        if not vm.machine.off or vm.starts_at is not None:
            # Google does not start a machine that is on.
            world.operations[operation] = (until, None, machine.name)
            return operation
        if world.chance.random() < self.stockouts:
            error = InsertError("no-capacity", f"{machine.zone} has none")
            if world.chance.random() < 0.3:
                raise InsertRefused(error)
        world.requests[request_id] = (world.now, operation)
        world.operations[operation] = (until, error, machine.name)
        if error is None:
            if machine.id in world.broken:
                raise BrokenRuleError(f"{machine.name}: is started again after its GPU failed")
            vm.starts_at, vm.boots_in = until, world.chance.choice((5, 20))
            vm.silent = world.faults and world.chance.random() < 0.05
            world.started += 1
            world.check_max()
        self.faulty.after()
        return operation

    def delete(self, machine: Machine) -> None:
        self.faulty.before()
        vm = self.world.vms.get((machine.zone, machine.name))
        if vm is not None:
            if vm.job is not None:
                raise BrokenRuleError(f"{machine.name}: deleted while it runs job {vm.job.key.job_id}")
            self.world.remove(vm)
        self.faulty.after()


def _fingerprint(machine: Machine) -> str:
    """Return the fingerprint of a machine's metadata. It differs for all machines, even for two of one name."""
    return f"{machine.id} {machine.sealed}"
