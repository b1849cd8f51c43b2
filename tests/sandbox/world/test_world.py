"""The world's rows, faults and events, from several threads and processes."""

from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pulumi_sandbox.world.faults import Fault
from pulumi_sandbox.world.store import Exists, Record, World, WorldError

BOX = "gcp:toys/box:Box"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "a folder" / "world.db")
    yield made
    made.close()


def box(name: str, **outputs: object) -> Record:
    return Record(BOX, name, name, f"urn:pulumi:dev::toys::{BOX}::{name}", {"size": 1}, {"name": name, **outputs})


def test_a_second_row_of_the_same_type_and_id_is_refused(world: World) -> None:
    world.insert(box("a"))
    with pytest.raises(Exists, match="gcp:toys/box:Box a exists already"):
        world.insert(box("a", color="red"))
    assert world.find() == [world.get(BOX, "a")]
    assert [event.verb for event in world.events()] == ["create"]


def test_rows_are_found_by_type_and_by_plain_outputs(world: World) -> None:
    for name, color, size in (("a", "red", 1), ("b", "red", 2.0), ("c", "blue", 1)):
        world.insert(box(name, color=color, size=size))
    world.insert(Record("aws:toys/box:Box", "d", outputs={"color": "red", "on": True, "one": 1}))
    assert [row.id for row in world.find(BOX)] == ["a", "b", "c"]
    assert [row.id for row in world.find(color="red")] == ["a", "b", "d"]
    assert [row.id for row in world.find(BOX, color="red", size=2)] == ["b"]
    assert [row.id for row in world.find("*box:Box", color="red", size=1)] == ["a"]
    assert [row.id for row in world.find(on=True)] == ["d"]
    assert world.find(one=True) == []


def test_an_update_changes_what_it_names_and_what_is_found(world: World) -> None:
    world.insert(box("a", color="red"))
    changed = world.update(BOX, "a", outputs={"color": "blue"})
    assert changed is not None
    assert (changed.inputs, changed.outputs) == ({"size": 1}, {"color": "blue"})
    assert world.find(color="red") == []
    assert world.find(color="blue") == [changed]
    assert world.update(BOX, "b", outputs={}) is None


def test_a_transaction_that_fails_leaves_nothing(world: World) -> None:
    def half() -> None:
        with world.transaction():
            world.insert(box("a"))
            with world.transaction():
                world.insert(box("b"))
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError):
        half()
    assert world.find() == []
    assert world.events() == []
    world.insert(box("c"))
    assert [row.id for row in world.find()] == ["c"]


def test_a_fault_strikes_as_often_as_it_says_where_it_says(world: World) -> None:
    number = world.add_fault(Fault("slow", on="*box:Box", times=2, seconds=5, settings={"A": "b"}))
    assert world.take_fault("slow", "gcp:toys/shelf:Shelf", "mine") is None
    assert world.take_fault("crash", BOX, "mine") is None
    first = world.take_fault("slow", BOX, "mine")
    assert first == Fault("slow", "*box:Box", 2, "", 5.0, "", {"A": "b"}, number)
    assert [fault.times for fault in world.faults()] == [1]
    assert world.take_fault("slow", BOX, "mine") is not None
    assert world.take_fault("slow", BOX, "mine") is None
    assert world.faults() == []


def test_a_fault_may_name_a_resource_an_id_or_a_zone(world: World) -> None:
    world.add_fault(Fault("quota", on="l4-*", times=0))
    world.add_fault(Fault("refuse", on="boxes/7", times=0))
    world.add_fault(Fault("stockout", zone="us-central1-a", times=0))
    assert world.take_fault("quota", BOX, "l4-template") is not None
    assert world.take_fault("quota", BOX, "l4-template") is not None
    assert world.take_fault("quota", BOX, "t4-template") is None
    assert world.take_fault("refuse", BOX, "x", id="boxes/7") is not None
    assert world.take_fault("stockout", BOX, "x", zone="us-central1-b") is None
    assert world.take_fault("stockout", BOX, "x", zone="us-central1-a") is not None


def test_only_its_owner_may_read_the_file(world: World) -> None:
    world.insert(box("a"))
    for path in world.path.parent.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path.name


def test_the_key_stays_the_same_and_is_another_in_every_world(world: World, tmp_path: Path) -> None:
    again, other = World(world.path), World(tmp_path / "other.db")
    assert again.key == world.key
    assert other.key != world.key
    again.close()
    other.close()


def test_a_file_that_is_no_world_is_named_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "world.db").write_text("not a database, and long enough to be read as the head of one" * 40)
    with pytest.raises(WorldError, match=r"(?s)^world.db: .*hint: delete world.db"):
        World(tmp_path / "world.db")


# 1 knew no clusters.
@pytest.mark.parametrize("number", [1, 99])
def test_a_world_of_another_version_is_refused(world: World, number: int) -> None:
    world.close()
    connection = sqlite3.connect(world.path)
    connection.execute(f"PRAGMA user_version = {number}")
    connection.close()
    expected = rf"(?s)another version.*got: version {number}\n  expected: version 2\n  hint: delete world.db.*$"
    with pytest.raises(WorldError, match=expected):
        World(world.path)


def test_a_provider_of_one_cluster_sees_its_own_objects_and_what_is_in_no_cluster(world: World) -> None:
    one, other = (world.for_cluster("toys", lambda name=name: name) for name in ("one", "other"))
    token = "toys:core:Toy"
    for view, color in ((one, "red"), (other, "blue")):
        view.insert(Record(token, "a", "a", outputs={"color": color}))
    one.insert(box("b"))
    assert [(row.id, row.cluster) for row in one.find()] == [("a", "one"), ("b", "")]
    assert [(row.path, row.outputs) for row in world.find(token)] == [
        (f"{token}/a@one", {"color": "red"}),
        (f"{token}/a@other", {"color": "blue"}),
    ]
    one.update(token, "a", outputs={"color": "green"})
    one.assign_to_stack(token, "a", "urn", "mine")
    assert [row.name for row in world.find(color="green")] == ["mine"]
    assert other.find(color="green") == []
    assert world.get(token, "a") is None
    assert one.delete(token, "a")
    assert (one.get(token, "a"), other.get(token, "a")) == (None, world.find(token)[0])
    assert [(event.verb, f"{event.type}/{event.id}@{event.cluster}".rstrip("@")) for event in world.events()] == [
        ("create", f"{token}/a@one"),
        ("create", f"{token}/a@other"),
        ("create", f"{BOX}/b"),
        ("update", f"{token}/a@one"),
        ("delete", f"{token}/a@one"),
    ]


def test_threads_of_one_world_do_not_lose_a_row(world: World) -> None:
    def fill(part: int) -> None:
        for number in range(20):
            world.insert(box(f"{part}-{number}"))

    threads = [threading.Thread(target=fill, args=(part,)) for part in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(world.find(BOX)) == 160
    assert len(world.events()) == 160


def test_processes_that_start_at_once_share_one_world(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from pulumi_sandbox.world.store import *\n"
        "world = World(Path(sys.argv[1]))\n"
        "for number in range(25):\n"
        "    with world.transaction():\n"
        "        count = len(world.find())\n"
        "        world.insert(Record('t:t:T', f'{sys.argv[2]}-{number}', outputs={'n': count}))\n"
    )
    path = tmp_path / "world.db"
    running = [subprocess.Popen([sys.executable, "-c", script, str(path), str(part)]) for part in range(4)]
    assert [process.wait(120) for process in running] == [0, 0, 0, 0]
    world = World(path)
    # Each counted the rows inside its transaction. No other process inserted a row between the count and the insert.
    assert sorted(row.outputs["n"] for row in world.find()) == list(range(100))
    world.close()


def test_a_world_that_one_process_opens_twice_is_still_shared_with_others(tmp_path: Path) -> None:
    """A process that closes any file descriptor of a database loses its locks on it (sqlite.org/howtocorrupt.html,
    "Posix advisory locks canceled by a separate thread doing close()"). The next process to leave then takes itself
    for the last one, and removes the log that the first one goes on writing."""
    file = tmp_path / "world.db"
    first = World(file)
    second = World(file)
    look = f"from pathlib import Path; from pulumi_sandbox.world.store import World; w = World(Path({str(file)!r})); "
    subprocess.run([sys.executable, "-c", f"{look}w.close()"], check=True)
    first.set_setting("note", "value")
    seen = subprocess.run(
        [sys.executable, "-c", f"{look}print(w.setting('note'))"], check=True, capture_output=True, text=True
    )
    assert seen.stdout == "value\n"
    second.close()
    first.close()
