"""`gpu-ci repro` and `gpu-ci explain` about a job that has ended on a machine."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest
from click.testing import Result
from gpu_ci.machine_records import End, JobOfMachine, MachineRecord
from gpu_manager.cli import repro_command
from gpu_manager.copies import Copy
from gpu_manager.decision.faults import title
from gpu_manager.memory import GpuFault, MachineHistory
from gpu_manager.model import Insert, InsertError, Offer, OperationState, Pool
from gpu_manager.ports import InsertRefused, Refused
from gpu_manager.stores.sqlite import SqliteStore
from gpu_manager.view import view

from tests.manager.test_commands import URL, call, one_pass
from tests.manager.test_config import CONFIG
from tests.manager.test_decide import LOST, NOW, POOL, observe

GONE = datetime.now(UTC) - timedelta(hours=3)
TEMPLATE = CONFIG["pools"][0]["template"]
PASSED = End(reason="job-done", detail="it ended normally; the GPU passed its check after the failed job")
XID = End(reason="gpu-fault", detail="Xid 79: the kernel's log has it")


def record(number: int = 1, **changes: Any) -> MachineRecord:
    """Return the record of the machine of job `number` of run 11."""
    times = {"created": GONE - timedelta(hours=1), "started": GONE - timedelta(hours=1), "completed": GONE}
    job = JobOfMachine(
        repository="example-org/kernels", run=11, attempt=1, id=number, name="test", workflow="CI",
        conclusion="failure", **times,
    )  # fmt: skip
    made = MachineRecord(
        manager="staging", pool="l4", machine=f"l4-{number}", id="7", zone="us-central1-a", gpu="nvidia-l4",
        machine_type="g2-standard-8", market="spot", template=TEMPLATE, usd_per_hour=0.4, job=job, end=XID,
        requested=GONE - timedelta(hours=1), gone=GONE,
    )  # fmt: skip
    return made.model_copy(update=changes)


Ended = Callable[..., Path]


@pytest.fixture
def ended(tmp_path: Path) -> Ended:
    """Return a function that writes records, and returns the folder of a configuration and a state."""

    def write(*records: MachineRecord) -> Path:
        (tmp_path / "manager.json").write_text(json.dumps(CONFIG))
        store = SqliteStore(tmp_path / "state.sqlite")
        store.add(records)
        store.publish(view([POOL], one_pass(observe())))
        store.close()
        return tmp_path

    return write


class Vendor:
    """A supplier that starts copies."""

    TITLE, NO_COPY = "Compute Engine", ""
    asked: ClassVar[list[object]] = []
    error: ClassVar[Exception | None] = None
    state: ClassVar[OperationState] = OperationState(done=True)

    @classmethod
    def of(cls, manager: str, pools: object) -> Vendor:
        cls.asked[:] = [manager]
        return cls()

    def software(self, pool: Pool, offer: Offer) -> Mapping[str, str]:
        if offer.template == "old":
            raise Refused("the template old is gone")
        return {"image": "gpu-1", "driver": "image", "torch": "2.15.0"}

    def start_copy(self, pool: Pool, insert: Insert, hours: int) -> Copy:
        if self.error:
            raise self.error
        self.asked.extend([insert.machine, insert.rung, hours])
        return Copy("operation", "ssh it", "delete it")

    def operation(self, pool: Pool, offer: Offer, operation: str) -> OperationState:
        return self.state

    def close(self) -> None:
        self.asked.append("closed")


@pytest.fixture(autouse=True)
def vendor(monkeypatch: pytest.MonkeyPatch) -> type[Vendor]:
    monkeypatch.setattr(repro_command, "supplier", lambda _: Vendor)
    return Vendor


def repro(folder: Path, *options: str, job: int = 1) -> Result:
    return call(folder, "repro", URL.format(11, job), *options)


def test_the_machine_of_a_job_is_printed_with_the_command_that_starts_one_like_it(ended: Ended) -> None:
    answer = repro(ended(record(), record(2)))
    assert answer.output.splitlines() == [
        "job:          example-org/kernels test (job 1, attempt 1): failure",
        "machine:      l4-1",
        "end:          gpu-fault: Xid 79: the kernel's log has it",
        "pool:         l4",
        "machine type: g2-standard-8 spot in us-central1-a",
        "GPU:          nvidia-l4",
        f"template:     {TEMPLATE}",
        "image:        gpu-1",
        "driver:       image",
        "torch:        2.15.0",
        "USD per hour: 0.4",
        f"Start such a machine for at most 0.40 USD: gpu-ci repro {URL.format(11, 1)} --start --hours 1",
    ]
    assert Vendor.asked == ["staging", "closed"]


def test_without_a_configuration_the_hint_has_that_of_the_sandbox(
    ended: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = ended(record())
    monkeypatch.setenv("PULUMI_SANDBOX_DIR", str(folder))
    (folder / "manager").mkdir()
    for name in ("manager.json", "state.sqlite"):
        (folder / name).rename(folder / "manager" / name)
    assert f"--config {folder}/manager/manager.json" in repro(folder).stderr


def test_a_machine_like_it_starts_with_a_time_limit_and_its_price(ended: Ended) -> None:
    folder = ended(record())
    answer = repro(folder, "--start", "--hours", "3")
    assert answer.output.splitlines()[-3:] == [
        "repro-l4-1 starts, and is deleted after 3 h, for at most 1.20 USD.",
        "connect: ssh it",
        "end:     delete it",
    ]
    offer = Offer("us-central1-a", "g2-standard-8", "spot", "nvidia-l4", 0.4, TEMPLATE)
    assert Vendor.asked == ["staging", "repro-l4-1", offer, 3, "closed"]
    document = json.loads(repro(folder, "--start", "--json").output)
    assert document["started"] == {"name": "repro-l4-1", "connect": "ssh it", "end": "delete it"}
    assert document["machine"]["torch"] == "2.15.0"


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (InsertRefused(InsertError("no-capacity", "none left")), OperationState(done=True)),
        (Refused("none left"), OperationState(done=True)),
        (None, OperationState(True, InsertError("no-capacity", "none left"))),
    ],
)
def test_a_machine_that_does_not_start_is_a_problem(
    ended: Ended, monkeypatch: pytest.MonkeyPatch, error: Exception | None, state: OperationState
) -> None:
    monkeypatch.setattr(Vendor, "error", error)
    monkeypatch.setattr(Vendor, "state", state)
    answer = repro(ended(record()), "--start")
    assert (answer.exit_code, "repro-l4-1 could not be started in us-central1-a: none left" in answer.stderr) == (
        1,
        True,
    )


def test_a_supplier_without_time_limits_starts_none_and_says_why(ended: Ended, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Vendor, "NO_COPY", "ends no machine after a time")
    folder = ended(record())
    why = "Compute Engine ends no machine after a time"
    assert repro(folder).output.splitlines()[-1] == f"gpu-ci starts no such machine: {why}"
    answer = repro(folder, "--start")
    assert (answer.exit_code, f"--start: {why}" in answer.stderr) == (2, True)


def test_without_an_answer_of_the_supplier_the_record_is_printed(ended: Ended) -> None:
    answer = repro(ended(record(template="old")))
    assert "template:     old\nUSD per hour: 0.4\n" in answer.stdout
    assert "image, driver and torch are unknown: the template old is gone" in answer.stderr


MISTAKES: list[tuple[str, list[MachineRecord], list[str], str]] = [
    ("https://example.org/x", [], [], "JOB_URL: is not the address of a job"),
    (URL.format(11, 1), [], [], "JOB_URL: no machine of this manager has ended with this job"),
    (URL.format(11, 1).partition("/job")[0], [record(), record(2)], [], "JOB_URL: names several jobs\n  got: 1, 2\n"),
    (URL.format(11, 1), [record(template="")], [], "l4-1: its record is of an earlier gpu-ci, and has no template"),
    (URL.format(11, 1), [record(pool="t4")], [], "is not in the configuration\n  got: t4\n  expected: one of l4\n"),
    (URL.format(11, 1), [record()], ["--hours", "25"], "25 is not in the range 1<=x<=24"),
]


@pytest.mark.parametrize(("address", "records", "options", "problem"), MISTAKES)
def test_a_mistake_is_named(
    ended: Ended, address: str, records: list[MachineRecord], options: list[str], problem: str
) -> None:
    answer = call(ended(*records), "repro", address, *options)
    assert (answer.exit_code, problem in answer.stderr) == (2, True), answer.stderr


def test_explain_says_how_the_machine_of_an_ended_job_ended(ended: Ended) -> None:
    folder = ended(record(), record(2, end=PASSED))
    lines = {number: call(folder, "explain", URL.format(11, number)).output.splitlines() for number in (1, 2, 3)}
    name = "example-org/kernels CI / test (job {}): failure on l4-{}, which ended as"
    assert lines[1][-1] == f"{name.format(1, 1)} gpu-fault: Xid 79: the kernel's log has it"
    assert lines[2][-1] == f"{name.format(2, 2)} job-done: {PASSED.detail}"
    assert "The job has ended" in lines[3][-3]
    document = json.loads(call(folder, "explain", URL.format(11, 2), "--json").output)
    assert [each["end"]["detail"] for each in document["ended"]] == [PASSED.detail]


def test_explain_knows_a_fault_and_a_machine_before_the_record_is_stored(tmp_path: Path) -> None:
    found = one_pass(observe())
    found.decision.memory.faults["a"] = GpuFault(LOST, "l4-a", "l4", "Xid 79", NOW, failed=True)
    found.decision.memory.faults["b"] = GpuFault(LOST._replace(run_id=12), "l4-b", "l4", "Xid 79", NOW)
    found.decision.memory.ended["l4-a-7"] = MachineHistory("l4-a", "l4", "a", "b", "spot", NOW, gone=NOW)
    document = view([POOL], found)
    assert [each["id"] for each in document["faults"]] == [LOST.job_id]
    assert [each["machine"] for each in document["ended"]] == ["l4-a"]
    (tmp_path / "manager.json").write_text(json.dumps(CONFIG))
    store = SqliteStore(tmp_path / "state.sqlite")
    store.publish(document)
    store.close()
    line = call(tmp_path, "explain", URL.format(11, 1)).output.splitlines()[-1]
    again = "the manager runs it again once, on another machine"
    assert line == f"example-org/kernels (job 1): {title('Xid 79')}; {again}"
