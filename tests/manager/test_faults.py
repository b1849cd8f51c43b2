"""Jobs on machines whose GPU failed: when they are run again, and when their commit says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import pytest
from gpu_ci.machine_records import JobOfMachine
from gpu_manager.cli.run_command import is_idle
from gpu_manager.decision.decide import Decision, decide
from gpu_manager.decision.names import slug
from gpu_manager.loop import Manager
from gpu_manager.memory import GpuFault, LostJob, MachineMemory, Memory
from gpu_manager.model import Delete, End, JobKey, RanJob, Report, Rerun, Run
from gpu_manager.ports import GithubView, Refused, Unavailable

from tests.manager.test_decide import LOST, NOW, POOL, RUN, failed_run, machine, observe
from tests.manager.test_loop import Kept, Scripted

XID = End("gpu-fault", "Xid 79: the kernel's log has it")
BROKEN = machine("l4-a", "TERMINATED", end=XID)
TITLE = "GPU fault (Xid 79), not your change"


def ran(job: JobKey = LOST) -> Memory:
    """Return the memory of a manager that saw the job on the machine l4-a."""
    return Memory(machines={"l4-a": MachineMemory("l4", NOW - 900, registered=True, job=job)})


def after(run: Run, memory: Memory, later: float = 10) -> Decision:
    """Return the decision of the pass that sees the machine's end, and the run in this state."""
    decision = decide([POOL], observe(machines=(BROKEN,)), memory)
    assert decision.actions == (Delete(BROKEN, "gpu-fault: Xid 79: the kernel's log has it"),)
    return decide([POOL], observe(machines=(BROKEN,), runs={RUN: run}, now=NOW + later), decision.memory)


def test_a_job_that_failed_with_its_gpu_is_run_again_and_its_commit_says_so() -> None:
    decision = after(failed_run(), ran())
    [deleted, report, rerun] = decision.actions
    assert isinstance(report, Report)
    assert (report.job, report.title, rerun) == (LOST, TITLE, Rerun(RUN, 1, None))
    assert isinstance(deleted, Delete)
    assert "runs it again once, on another machine" in report.summary.lower()
    # A preempted job gets a standard machine. This one needs only another GPU.
    assert decision.memory.steady == {}


@pytest.mark.parametrize(
    "run",
    [
        failed_run(failed_jobs=()),
        failed_run(failed_jobs=(7,)),
        failed_run(conclusion="cancelled"),
        failed_run(attempt=2, failed_jobs=(1,)),
    ],
    ids=["the run passed", "another job failed", "a person cancelled it", "a person runs it again"],
)
def test_nothing_is_run_again_for_a_job_whose_end_is_not_that_of_its_gpu(run: Run) -> None:
    memory = after(run, ran()).memory
    decision = decide([POOL], observe(machines=(BROKEN,), runs={RUN: run}, now=NOW + 20), memory)
    assert [type(each) for each in decision.actions] == [Delete]
    assert (decision.memory.lost, [each.failed for each in decision.memory.faults.values()]) == ({}, [False])


def test_a_job_waits_for_the_end_of_its_run() -> None:
    memory = after(failed_run(status="in_progress", conclusion=""), ran()).memory
    assert memory.lost == {}
    assert len(decide([POOL], observe(runs={RUN: failed_run()}, now=NOW + 600), memory).actions) == 2


def test_a_second_attempt_is_reported_and_not_run_again() -> None:
    again = LOST._replace(attempt=2, job_id=5)
    decision = after(failed_run(attempt=2, failed_jobs=(5,)), ran(again))
    [report] = [each for each in decision.actions if not isinstance(each, Delete)]
    assert isinstance(report, Report)
    assert "so a person decides" in report.summary
    assert decision.memory.lost == {}


def test_no_job_of_a_cancelled_run_is_run_again_because_of_a_preemption() -> None:
    """A job that failed with its GPU shows that the preemption did not cancel the run."""
    other = JobKey(LOST.repository, LOST.run_id, 2, 1)
    memory = ran()
    memory.lost[slug(other)] = LostJob(other, "l4", NOW, 1)
    decision = after(failed_run(conclusion="cancelled", failed_jobs=(1, 2)), memory)
    assert [type(each) for each in decision.actions] == [Delete]


def test_a_check_run_without_an_answer_is_requested_three_times_a_minute_apart() -> None:
    memory, asked = after(failed_run(status="in_progress", conclusion=""), ran()).memory, []
    for later in range(0, 300, 30):
        decision = decide([POOL], observe(runs={RUN: failed_run(attempt=1)}, now=NOW + later), memory)
        memory = decision.memory
        asked += [later for each in decision.actions if isinstance(each, Report)]
    assert asked == [0, 60, 120]


def test_a_fault_is_forgotten_after_a_day() -> None:
    memory = Memory(faults={"a": GpuFault(LOST, "l4-a", "l4", "Xid 79", NOW)})
    assert list(decide([POOL], observe(now=NOW + 86_399), memory).memory.faults) == ["a"]
    assert decide([POOL], observe(now=NOW + 86_400), memory).memory.faults == {}


@pytest.mark.parametrize(
    ("reason", "detail", "fault"),
    [
        ("gpu-fault", "uncorrected ECC errors: GPU-1 has 2", "uncorrected ECC errors"),
        ("gpu-unhealthy", "Xid 79: x", ""),
        # A job that is root can write the end of its machine.
        ("gpu-fault", "[x](https://example.com) @admin: x", ""),
        ("gpu-fault", f"{'x' * 61}: x", ""),
    ],
)
def test_only_plain_characters_of_a_fault_reach_a_commit(reason: str, detail: str, fault: str) -> None:
    assert End(reason, detail).fault == fault


@dataclass
class Answering(Scripted):
    """A GitHub that accepts check runs and reruns, or raises an error."""

    error: Exception | None = None
    did: list[object] = field(default_factory=list)

    def check_run(self, report: Report) -> None:
        if self.error:
            raise self.error
        self.did.append(report.title)

    def rerun(self, run: object, job_id: int | None) -> None:
        self.did.append("rerun")


def events_of(error: Exception | None, passes: int) -> tuple[Answering, Sequence[str], bool]:
    """Return the log of a manager after a fault, and if it is idle at the end."""
    view = GithubView(NOW, (), (), {RUN: failed_run()})
    world, store = Answering(listed=(BROKEN,), view=view, error=error), Kept()
    store.memory = ran()
    loop = Manager([POOL], world, world, store, lambda: world.now)
    lines: list[str] = []
    for _ in range(passes):
        result = loop.step()
        lines += [f"{each.kind} {each.subject}: {each.detail}" for each in result.events]
        world.listed, world.now = (), world.now + 10
        if "rerun" in world.did:
            # GitHub shows the new attempt.
            world.view = replace(view, runs={RUN: failed_run(attempt=2, failed_jobs=())})
    return world, [each for each in lines if not each.startswith("delete")], is_idle(result)


def test_the_log_names_the_machine_the_check_run_and_the_rerun() -> None:
    world, lines, idle = events_of(None, 4)
    assert world.did == [TITLE, "rerun"]
    assert lines == [
        "gpu-fault l4-a: Xid 79: example-org/kernels#1",
        f"check-run example-org/kernels run 11: {TITLE}",
        "rerun example-org/kernels run 11: all failed jobs",
    ]
    assert idle


def test_without_the_permission_one_line_names_it_and_the_job_still_runs_again() -> None:
    world, lines, idle = events_of(Refused("GitHub answered 422: not granted"), 10)
    assert world.did == ["rerun"]
    needs = "to write it on the commit, the App needs Checks: read and write (docs/guides/github.md)"
    refused = f"refused example-org/kernels run 11: {TITLE}; {needs}: GitHub answered 422: not granted"
    assert lines[1:] == [refused, "rerun example-org/kernels run 11: all failed jobs"]
    assert idle


def test_a_check_run_that_github_does_not_answer_keeps_the_manager_at_work() -> None:
    world, _, idle = events_of(Unavailable("502"), 3)
    assert (world.did, idle) == (["rerun"], False)


def test_a_job_that_no_pass_saw_is_found_at_once_by_the_runner_of_its_machine() -> None:
    """A machine refuses a job within a second."""
    at = datetime.fromtimestamp(NOW - 700, UTC)
    of_job = JobOfMachine(
        repository=LOST.repository, run=11, attempt=1, id=1, created=at, started=at, completed=at, conclusion="failure"
    )
    listed = replace(BROKEN, id="7", on_unix=NOW - 800, off_unix=NOW - 600, end=replace(XID, run=RUN))
    view = GithubView(NOW, (), (), {RUN: failed_run()})
    world = Answering(listed=(listed,), view=view, jobs_of_runs=(RanJob("l4-a-7", of_job),))
    loop = Manager([POOL], world, world, Kept(), lambda: world.now)
    kinds, idle = [], []
    for _ in range(4):
        result = loop.step()
        kinds += [each.kind for each in result.events]
        idle.append(is_idle(result))
        world.listed, world.now = (), world.now + 1
    assert (kinds, idle) == (["delete", "gpu-fault", "check-run", "rerun"], [False] * 4)
    assert world.did == [TITLE, "rerun"]
