"""The file with the manager's memory: held by one process, and complete after a kill."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event

import pytest
from gpu_ci.machine_records import MachineRecord
from gpu_manager.cli.options import MemoryOf
from gpu_manager.memory import Cooldown, Memory
from gpu_manager.ports import InUse, Unavailable
from gpu_manager.stores.sqlite import SqliteStore


def test_what_was_saved_is_loaded_by_the_next_process(tmp_path: Path) -> None:
    file = tmp_path / "new" / "manager.sqlite"
    memory = Memory(cooldowns={"us-central1-a g2-standard-8 spot": Cooldown(5.0, 1, ("us-central1-b",))})
    first = SqliteStore(file)
    assert first.load() == Memory()
    first.save(memory)
    first.close()
    second = SqliteStore(file)
    assert second.load() == memory
    second.close()
    assert file.stat().st_mode & 0o777 == 0o600


def test_one_process_holds_the_file_at_a_time(tmp_path: Path) -> None:
    file = tmp_path / "manager.sqlite"
    first, second = SqliteStore(file), SqliteStore(file)
    first.hold(Event(), print)
    with pytest.raises(InUse, match="another manager runs"):
        second.hold(Event(), print)
    first.close()
    second.hold(Event(), print)
    second.close()


def test_a_memory_that_cannot_be_read_is_replaced_by_an_empty_one(tmp_path: Path) -> None:
    file = tmp_path / "manager.sqlite"
    store = SqliteStore(file)
    store.save(Memory())
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE kept SET content = ?", (b'{"pending": 5}',))
    assert store.load() == Memory()
    store.close()


def test_a_full_disk_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "manager.sqlite")
    store.save(Memory())
    store._connection.execute("PRAGMA max_page_count = 1")
    with pytest.raises(Unavailable, match="database or disk is full"):
        store.publish({"events": ["x" * 1_000_000]})
    assert store.load() == Memory()
    store.close()


def a_record(name: str, gone: datetime) -> MachineRecord:
    return MachineRecord(
        manager="ci", pool="l4", machine=name, id="7", zone="us-central1-a", machine_type="g2-standard-8",
        market="spot", requested=gone - timedelta(hours=1), gone=gone,
    )  # fmt: skip


DAY = datetime(2026, 11, 29, 12, tzinfo=UTC)
RECORDS = [a_record("l4-b", DAY - timedelta(days=2)), a_record("l4-c", DAY - timedelta(hours=1)), a_record("l4-a", DAY)]
"""Records in the order of their ends."""


def test_a_record_is_stored_once_and_read_by_its_time_in_another_process(tmp_path: Path) -> None:
    file = tmp_path / "manager.sqlite"
    first = SqliteStore(file)
    MemoryOf(first, "toy").add(RECORDS[1:])
    MemoryOf(first, "compute-engine").add([RECORDS[2].model_copy(update={"pool": "again"}), RECORDS[0]])
    first.close()
    second = SqliteStore(file)
    lines = [each.line() for each in RECORDS]
    assert list(second.records(DAY - timedelta(days=9))) == lines
    assert list(second.records(RECORDS[1].gone)) == lines[1:]
    second.close()


def test_each_supplier_has_its_own_memory_and_that_of_compute_engine_is_where_it_was(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "manager.sqlite")
    store.save(of_compute_engine := Memory(preferred={"us-central1-b": 7.0}))
    toy = MemoryOf(store, "toy")
    assert (toy.load(), MemoryOf(store, "compute-engine").load()) == (Memory(), of_compute_engine)
    toy.save(of_toy := Memory(begun=True))
    assert (toy.load(), MemoryOf(store, "compute-engine").load(), store.load()) == (
        of_toy,
        of_compute_engine,
        of_compute_engine,
    )
    store.close()
