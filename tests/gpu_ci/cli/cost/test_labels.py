"""Why cost comes from GitHub's job: the label of a machine names the job for which the machine was requested."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from gpu_ci.cli.cost.report import NO_JOB, compute
from gpu_ci.cli.cost.window import windows
from gpu_ci.machine_records import JobOfMachine, MachineRecord
from gpu_manager.decision import names
from gpu_manager.model import JobKey

from bench.manager import MACHINE_TYPE, STANDBY, Job, Vm, simulate, usd_per_hour

_BEGIN = datetime(2026, 11, 9, tzinfo=UTC)
_REPOSITORIES = ("kernels", "detector", "asr", "tts", "llm-eval", "infra")


def repository_of(number: int) -> str:
    [found] = random.Random(f"{number} repository").choices(_REPOSITORIES, (30, 20, 15, 10, 20, 5))
    return f"acme/{found}"


def record_of(machine: Vm, until: float) -> MachineRecord:
    """Return the record of a machine. The simulation does not keep when the job of a machine began."""

    def time(sec: float) -> datetime:
        return _BEGIN + timedelta(seconds=sec)

    begins = [machine.created, *(end for _, end in machine.stops)]
    ends = [*(begin for begin, _ in machine.stops), machine.ended]
    on = [(time(begin), time(end)) for begin, end in zip(begins, ends, strict=True) if begin < end]
    job = machine.job and JobOfMachine(
        repository=repository_of(machine.job.number), run=machine.job.number, attempt=1, id=machine.job.number,
        created=on[-1][0], started=on[-1][0], completed=on[-1][1],
    )  # fmt: skip
    return MachineRecord(
        manager="prod", pool="l4", machine=machine.name, id=str(machine.number), zone=machine.place.zone,
        machine_type=MACHINE_TYPE, market=machine.place.market, usd_per_hour=usd_per_hour(machine.place),
        requested=time(machine.created), on=on, gone=time(min(machine.ended, until)), job=job,
    )  # fmt: skip


def requested_for(jobs: list[Job]) -> dict[str, str]:
    """Return the repository of the job for which a machine with a label was requested, by the label."""
    keys = (JobKey("acme/kernels", job.number, job.number * 10 + tries, tries) for job in jobs for tries in range(1, 9))
    return {names.slug(key): repository_of(key.run_id) for key in keys}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("gpu-ci, one region", {"right": 65, "another repository": 34, "no label": 0, "no job": 0}),
        (
            f"gpu-ci, three regions, standby {STANDBY}",
            {"right": 11, "another repository": 1, "no label": 87, "no job": 0},
        ),
    ],
)
def test_labels_name_the_repository_of_only_a_part_of_the_money(policy: str, expected: dict[str, int]) -> None:
    """With the real runner manager. GitHub gives a waiting job to any free runner with its labels."""
    world = simulate(policy, "us-central1", seed=1, days=1)
    by_label = requested_for(world.jobs)
    gone = [each for each in world.machines if each.ended <= world.now]
    records = [record_of(each, world.now) for each in gone]
    report = compute(records, windows("week", _BEGIN.date()), ("repository",), "week", {}, None)
    shares = dict.fromkeys(expected, 0.0)
    paid = Counter[str]()
    for machine, record in zip(gone, records, strict=True):
        ran, label = record.job.repository if record.job else "", by_label.get(machine.label, "")
        kind = "no job" if not ran else "no label" if not label else "right" if ran == label else "another repository"
        shares[kind] += record.usd or 0
        if ran:
            began, ended = record.on[-1]
            paid[ran] += (ended - began).total_seconds() / 3600 * usd_per_hour(machine.place)
    assert {kind: round(100 * usd / sum(shares.values())) for kind, usd in shares.items()} == expected
    of_report = {row["repository"]: row["usd"] for row in report["rows"] if row["repository"] != NO_JOB}
    assert of_report == pytest.approx(dict(paid), rel=1e-9), "the report has the money of GitHub's jobs"
