"""The reaper: which machines it deletes, what it does without an answer, and that it needs no manager."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from gpu_ci.cli.commands import gpu_ci
from gpu_manager.cli import reap_command
from gpu_manager.model import Machine, Pool, Runner
from gpu_manager.ports import Refused, Unavailable
from gpu_manager.reaper import Report, overdue, reap

from tests.manager.dead_managers import killed_manager, reap_alone
from tests.manager.simulated_vendors import FakeCompute
from tests.manager.simulated_world import World
from tests.manager.test_config import CONFIG
from tests.manager.test_decide import NOW, POOL, machine
from tests.manager.test_histories import POOLS

LIMITED = replace(POOL, max_run_duration_sec=3600)
"""Its boot has 300 s, its runner 600 s, and its machine 3600 s."""
GRACE_SEC = 300
IDLE, BUSY = (Runner(1, "l4-a-7", online=True, busy=busy) for busy in (False, True))


def on(age: float, **others: Any) -> Machine:
    return machine("l4-a", **{"id": "7", "on_unix": NOW - age, **others})


def off(on_sec: float, off_sec: float | None = None, **others: Any) -> Machine:
    found = on(on_sec, status="TERMINATED", registered_by="manager", **others)
    return found if off_sec is None else replace(found, off_unix=NOW - off_sec)


BOOT, TAKEN, LIMIT = 300 + GRACE_SEC, 900 + GRACE_SEC, 3600 + GRACE_SEC


@pytest.mark.parametrize(
    ("found", "runners", "reason"),
    [
        (on(BOOT), (), ""),
        (on(BOOT + 1), (), "GitHub has no runner of it"),
        (on(BOOT + 1), None, ""),
        (on(TAKEN), (IDLE,), ""),
        (on(TAKEN + 1), (IDLE,), "its runner is idle"),
        (on(TAKEN + 1), (IDLE, replace(BUSY, id=2, name="l4-a-7-2")), ""),
        (on(TAKEN + 1), (replace(BUSY, name="l4-a-8"),), "GitHub has no runner of it"),
        (on(LIMIT), (BUSY,), ""),
        (on(LIMIT + 1), (BUSY,), "on for more than 3600 s"),
        (on(LIMIT + 1), None, "on for more than 3600 s"),
        (on(LIMIT + 1, status="STOPPING"), (), ""),
        (on(LIMIT + 1, status="PENDING"), (), ""),
        (on(LIMIT + 1, on_unix=0.0), (), ""),
        (on(TAKEN, pool="removed"), (), "GitHub has no runner of it"),
        (on(LIMIT + 1, pool="removed"), (BUSY,), ""),
        (off(9999, BOOT), (), ""),
        (off(9999, BOOT + 1), None, "it is off"),
        (off(LIMIT), (), ""),
        (off(LIMIT + 1), (), "it is off"),
    ],
)
def test_a_machine_is_overdue_when_its_agent_the_supplier_and_a_manager_had_their_time(
    found: Machine, runners: Sequence[Runner] | None, reason: str
) -> None:
    assert [each.reason for each in overdue([LIMITED], [found], runners, NOW)] == ([reason] if reason else [])


def test_older_than_counts_for_machines_without_a_job_only() -> None:
    found = [on(61), replace(on(61), name="l4-b"), replace(on(61), name="l4-c"), replace(on(59), name="l4-d")]
    runners = (BUSY, replace(IDLE, id=2, name="l4-b-7"))
    assert [each.machine.name for each in overdue([LIMITED], found, runners, NOW, 60)] == ["l4-b", "l4-c"]
    assert list(overdue([LIMITED], found, None, NOW, 60)) == []


def test_a_copy_of_a_machine_in_another_zone_takes_no_runner_from_it() -> None:
    copy = replace(on(TAKEN), zone="us-central1-b", id="8")
    assert [each.machine.id for each in overdue([LIMITED], [on(TAKEN), copy], (BUSY,), NOW)] == ["8"]


def test_as_many_machines_as_the_pool_has_on_standby_stay_off() -> None:
    pool = replace(POOL, standby=1, registered_by="manager")
    found = [replace(off(9999, 9998), name=name) for name in ("l4-a", "l4-b")]
    with_a_job = replace(off(9999, 9998, sealed=True), name="l4-0")
    assert [each.machine.name for each in overdue([pool], [*found, with_a_job], (), NOW)] == ["l4-0", "l4-b"]


class Vendor:
    """A supplier whose machines stay until their deletion is requested."""

    def __init__(self, *machines: Machine, refuses: str = "") -> None:
        self.machines, self.refuses = list(machines), refuses
        self.closed = False

    def of(self, manager: str, pools: Sequence[Pool]) -> Vendor:
        return self

    def list(self, pools: Sequence[Pool]) -> tuple[Machine, ...]:
        if self.refuses == "list":
            raise Unavailable("no answer")
        return tuple(self.machines)

    def delete(self, found: Machine) -> None:
        if self.refuses == found.name:
            raise Refused("no permission")
        self.machines.remove(found)

    def close(self) -> None:
        self.closed = True


class Runners:
    def __init__(self, *runners: Runner, is_down: bool = False, has_just_got_a_job: bool = False) -> None:
        self.found, self.is_down, self.has_just_got_a_job = runners, is_down, has_just_got_a_job

    def runners(self) -> tuple[Runner, ...]:
        if self.is_down:
            raise Unavailable("no answer")
        return self.found

    def unix(self) -> float:
        return NOW

    def remove_runner(self, runner: Runner) -> bool:
        return not self.has_just_got_a_job


def run(github: Runners | None, deletes: bool = True, **vendors: Vendor) -> Report:
    suppliers: Any = {name: (lambda vendor=vendor: vendor, [LIMITED]) for name, vendor in vendors.items()}
    report = reap(suppliers, github, lambda: NOW, deletes=deletes)
    assert all(vendor.closed for vendor in vendors.values())
    return report


def test_a_supplier_without_an_answer_and_a_refused_deletion_stop_no_other_deletion() -> None:
    others = Vendor(on(9999), replace(on(9999), name="l4-b"), refuses="l4-a")
    report = run(Runners(), broken=Vendor(on(9999), refuses="list"), others=others)
    assert [each.name for each in others.machines] == report.left == ["l4-a"]
    assert report.problems == ["broken: no answer"]
    assert [result for *_, result in report.found] == ["no permission", "deleted"]


def test_without_githubs_answer_only_the_time_limit_counts() -> None:
    vendor = Vendor(on(LIMIT), replace(on(LIMIT + 1), name="l4-b"))
    assert run(Runners(is_down=True), vendor=vendor).problems == ["GitHub: no answer"]
    assert [each.name for each in vendor.machines] == ["l4-a"]
    assert run(None, vendor=vendor).problems == []


def test_a_runner_that_has_just_got_a_job_keeps_its_machine_and_a_list_deletes_nothing() -> None:
    vendor = Vendor(on(TAKEN + 1))
    assert [result for *_, result in run(Runners(IDLE), False, vendor=vendor).found] == ["listed"]
    assert [result for *_, result in run(Runners(IDLE, has_just_got_a_job=True), vendor=vendor).found] == ["busy"]
    assert len(vendor.machines) == 1
    run(Runners(IDLE), vendor=vendor)
    assert vendor.machines == []


# Without credentials of AWS, the key in this secret cannot be read.
UNREADABLE = "arn:aws:secretsmanager:us-east-1:111122223333:secret:github-manager-app-key"


@pytest.mark.parametrize(
    ("vendor", "options", "code", "left"),
    [
        (Vendor(machine("l4-a", on_unix=1.0)), [], 0, 1),
        (Vendor(machine("l4-a", on_unix=1.0)), ["--yes"], 0, 0),
        (Vendor(machine("l4-a", on_unix=1.0), refuses="l4-a"), ["--yes"], 3, 1),
        (Vendor(refuses="list"), ["--yes"], 1, 0),
        (Vendor(), ["--app-key", "missing.pem"], 2, 0),
        (Vendor(machine("l4-a", on_unix=1.0)), ["--yes", "--app-key", UNREADABLE], 1, 0),
    ],
)
def test_the_command_lists_or_deletes_and_its_exit_code_says_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vendor: Vendor, options: list[str], code: int, left: int
) -> None:
    (tmp_path / "manager.json").write_text(json.dumps(CONFIG))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setattr(reap_command, "supplier", lambda name: vendor)
    arguments = ["manager", "reap", "--config", str(tmp_path / "manager.json"), *options]
    answer = CliRunner().invoke(gpu_ci, arguments)
    assert (answer.exit_code, len(vendor.machines)) == (code, left)
    if code != 2:
        document = json.loads(answer.stdout)
        assert [each["machine"] for each in document["machines"]] == (["l4-a"] if vendor.refuses != "list" else [])
        assert bool(document["notRead"]) == (code == 1)
        assert vendor.refuses != "l4-a" or "l4-a: on for more than 604800 s: no permission" in answer.stderr


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 4))])
def test_if_the_manager_is_dead_from_any_request_on_the_reaper_alone_ends_all_machines(seed: int) -> None:
    """FakeCompute raises BrokenRuleError if a machine is deleted while it runs a job."""

    def killed(last: int) -> World | None:
        world = World(seed, list(POOLS), skew_sec=(-600.0, 0.0, 600.0)[seed % 3])
        return world if killed_manager(world, FakeCompute, last) else None

    # One history has all requests only if each is tried; the fast one tries some of them.
    step, reaps = 1 if seed else 9, 0
    for last in range(1, 100_000, step):
        if (world := killed(last)) is None:
            assert (last > 60, reaps > 0) == (True, True)
            return
        reaps += bool(world.left_over())
        reap_alone(world, FakeCompute, lambda: bool(world.left_over()), (0.0, 0.3)[last % 2])
        assert world.left_over() == [], f"after the request {last}"
