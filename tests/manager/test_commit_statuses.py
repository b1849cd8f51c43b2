"""Commit statuses of waiting jobs: their text, the time at which they are written, and the effect of failures."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from click.testing import CliRunner
from gpu_ci.cli.commands import gpu_ci
from gpu_manager.decision import commit_statuses
from gpu_manager.loop import Event, Manager
from gpu_manager.memory import Memory, WrittenStatus
from gpu_manager.model import CommitStatus, Job, Observation, Reason
from gpu_manager.ports import GithubView, Refused, Unavailable

from tests.manager.test_commands import write_key
from tests.manager.test_config import CONFIG
from tests.manager.test_decide import NOW, POOL, job, observe
from tests.manager.test_loop import Kept, Scripted

SHA = "009b8a3a9ccbb128af87f9b1c0f4c62e8a304f6d"
FULL = Reason("at-max", "2 of 2 machines are in use")


def of_commit(number: int = 1, *labels: str, age: float = 90) -> Job:
    return replace(job(number, *labels, age=age), head_sha=SHA, url=f"https://github.com/job/{number}")


def at(seconds: float, *jobs: Job) -> Observation:
    return observe(jobs=jobs, now=NOW + seconds, github_unix=NOW + seconds)


def write(observation: Observation, memory: Memory, *reasons: Reason) -> list[CommitStatus]:
    """Return the statuses that are due, and mark them as written."""
    by_job = {each.key: reason for each, reason in zip(observation.jobs or (), reasons, strict=True)}
    found = commit_statuses.due([POOL], observation, by_job, memory)
    for status in found:
        commit_statuses.written(status, memory)
    return found


def test_a_commit_has_the_reason_of_its_job_while_the_job_waits() -> None:
    memory = Memory()
    [first] = write(at(0, of_commit()), memory, FULL)
    assert first == CommitStatus(
        "example-org/kernels", SHA, "pending", "at-max: 2 of 2 machines are in use", "https://github.com/job/1"
    )
    assert write(at(70, of_commit()), memory, FULL) == []
    [last] = write(at(140), memory)
    assert last == replace(first, state="success", description="no job of this commit waits for a machine")
    assert write(at(150, of_commit()), memory, FULL) == []
    assert write(at(210), memory) == []
    assert memory.statuses == {}


def test_a_job_that_has_just_been_queued_writes_nothing() -> None:
    assert [len(write(at(0, of_commit(age=age)), Memory(), FULL)) for age in (59, 60)] == [0, 1]


def test_the_jobs_of_one_commit_have_one_status_with_the_reason_for_a_person() -> None:
    reasons = (FULL, Reason("no-pool", "no pool has the labels gpu, v5"), FULL)
    [status] = write(at(0, of_commit(1), of_commit(2), of_commit(3)), Memory(), *reasons)
    assert (status.state, status.description) == ("error", "no-pool (and 2 more): no pool has the labels gpu, v5")
    assert status.url == "https://github.com/job/2"


def test_a_reason_that_changes_often_is_written_once_a_minute() -> None:
    memory = Memory()
    reasons = (FULL, Reason("no-capacity", "no machine"))
    written = [write(at(ten * 10, of_commit()), memory, reasons[ten % 2]) for ten in range(13)]
    assert [len(each) for each in written] == [1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0]


def test_a_detail_that_changes_each_minute_is_written_every_15_minutes_within_githubs_1000_a_commit() -> None:
    memory = Memory()
    times = [
        minute
        for minute in range(24 * 60)
        if write(at(60 * minute, of_commit()), memory, Reason("no-capacity", f"no machine, asked {minute} times"))
    ]
    assert times == list(range(0, 24 * 60, 15))
    # Another reason is written at once.
    assert write(at(24 * 3600 - 300, of_commit()), memory, FULL)


def test_a_job_for_runners_of_others_writes_nothing() -> None:
    """GitHub lists all jobs of a repository, which may also have self-hosted runners outside the pools."""
    reason = Reason("no-pool", "no pool has the labels linux, self-hosted")
    assert write(at(0, of_commit(1, "self-hosted", "linux")), Memory(), reason) == []
    assert len(write(at(0, of_commit(1, "self-hosted", "gpu", "v5")), Memory(), reason)) == 1


def test_a_status_of_several_instances_of_an_earlier_version_is_dropped() -> None:
    memory = Memory(statuses={f"example-org/kernels {SHA} gpu-ci/l4": WrittenStatus("at-max", "", NOW, NOW)})
    assert write(at(0), memory) == []
    assert memory.statuses == {}


@pytest.mark.parametrize("unknown", ["jobs", "runners", "machines"])
def test_an_unknown_source_ends_no_status(unknown: str) -> None:
    memory = Memory()
    write(at(0, of_commit()), memory, FULL)
    observation = replace(at(100), **{unknown: None})  # type: ignore[arg-type]
    assert commit_statuses.due([POOL], observation, {}, memory) == []
    assert len(memory.statuses) == 1


def test_a_thousand_commits_are_written_within_githubs_limits() -> None:
    """Passes are two seconds apart, as after hints."""
    jobs = [replace(of_commit(number), head_sha=f"{number:040x}") for number in range(1000)]
    memory = Memory()
    counts = [len(write(at(2 * number, *jobs), memory, *([FULL] * 1000))) for number in range(31)]
    assert counts == [10] * 6 + [0] * 24 + [10]


@dataclass
class Refusing(Scripted):
    """A GitHub that accepts no commit status while it has an error to raise."""

    error: Exception | None = None
    statuses: list[CommitStatus] = field(default_factory=list)

    def commit_status(self, status: CommitStatus) -> None:
        if self.error:
            raise self.error
        self.statuses.append(status)


def refusing(error: Exception | None, writes: bool = True) -> tuple[Refusing, Manager]:
    """Return a manager with a job whose labels no pool has."""
    view = GithubView(NOW, (of_commit(1, "gpu", "v5"),), ())
    world = Refusing(view=view, error=error)
    return world, Manager([POOL], world, world, Kept(), lambda: world.now, writes_statuses=writes)


@pytest.mark.parametrize(("error", "kind"), [(Unavailable("502"), "unavailable"), (Refused("403"), "refused")])
def test_a_status_that_cannot_be_written_fails_no_pass_and_is_tried_again_in_a_minute(
    error: Exception, kind: str
) -> None:
    world, manager = refusing(error)
    done = manager.step()
    assert done.events == [Event(kind, "commit status", str(error))]
    assert done.decision.reasons
    world.error = None
    manager.step()
    assert world.statuses == []
    world.now += 60
    [event] = manager.step().events
    assert [each.state for each in world.statuses] == ["error"]
    assert (event.kind, event.subject) == ("commit-status", "example-org/kernels@009b8a3a9ccb")


def test_a_github_that_does_not_answer_gets_one_status_request_a_pass() -> None:
    """Each request may take half a minute, and the next pass starts machines."""
    jobs = tuple(replace(of_commit(number, "gpu", "v5"), head_sha=f"{number:040x}") for number in range(5))
    counts = []
    for error in (Unavailable("no answer"), Refused("403")):
        world = Refusing(view=GithubView(NOW, jobs, ()), error=error)
        done = Manager([POOL], world, world, Kept(), lambda: NOW, writes_statuses=True).step()
        counts.append(sum(event.subject == "commit status" for event in done.events))
    assert counts == [1, 5]


def test_a_status_that_cannot_be_written_is_given_up_after_a_day() -> None:
    memory = Memory()
    for minute in range(24 * 60 + 1):
        commit_statuses.due([POOL], at(60 * minute), {}, memory)
        if minute == 0:
            commit_statuses.due([POOL], at(0, of_commit()), {of_commit().key: FULL}, memory)
    assert len(memory.statuses) == 1
    commit_statuses.due([POOL], at(24 * 3600 + 1), {}, memory)
    assert memory.statuses == {}


def test_a_change_that_github_does_not_show_is_not_written() -> None:
    """GitHub accepts 140 characters, and 1,000 statuses of one context for a commit."""
    memory = Memory()
    zones = ", ".join(f"us-central1-{letter}" for letter in "abcdefghijkl")
    [first] = write(at(0, of_commit()), memory, Reason("no-capacity", f"{zones}, us-east1-b"))
    assert first.description == f"no-capacity: {zones}"[:140]
    assert write(at(60, of_commit()), memory, Reason("no-capacity", f"{zones}, us-east1-c")) == []


class Adapter(Refusing):
    """The world of `refusing` in place of both adapters of the command."""

    made: ClassVar[list[Adapter]] = []

    def __init__(self, *_: Any, **options: Any) -> None:
        super().__init__(view=GithubView(NOW, (of_commit(1, "gpu", "v5"),), ()))
        self.made.append(self)

    def close(self) -> None:
        """Do nothing, because nothing is open."""


@pytest.mark.parametrize("asked_for", [True, False])
def test_the_configuration_decides_whether_statuses_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked_for: bool
) -> None:
    monkeypatch.setattr("gpu_manager.github.adapter.GithubAdapter", Adapter)
    monkeypatch.setattr("gpu_manager.compute.adapter.ComputeAdapter", Adapter)
    monkeypatch.setattr(Adapter, "made", [])
    github = {**CONFIG["github"], "commitStatuses": asked_for}
    (tmp_path / "manager.json").write_text(json.dumps({**CONFIG, "github": github}))
    write_key(tmp_path)
    files = {"--config": "manager.json", "--state": "state.sqlite", "--app-key": "key.pem"}
    words = [word for option, name in files.items() for word in (option, str(tmp_path / name))]
    result = CliRunner().invoke(gpu_ci, ["manager", "run", "--once", *words])
    assert result.exit_code == 0, result.output
    assert [status.state for each in Adapter.made for status in each.statuses] == ["error"] * asked_for
