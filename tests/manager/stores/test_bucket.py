"""The manager's memory and lease in one object of either cloud: one manager acts at a time, with any faults."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Event

import pytest
from gpu_ci.mailbox.objects import Stored
from gpu_manager.cli.options import MemoryOf
from gpu_manager.memory import Cooldown, Memory
from gpu_manager.ports import InUse, Refused, Unavailable
from gpu_manager.stores import bucket
from gpu_manager.stores.bucket import CALL_SEC, LEASE_SEC, BucketStore
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.gpu_ci.mailbox.s3 import s3
from tests.manager.simulated_world import Killed
from tests.manager.stores.fake_storage import FakeS3, FakeStorage
from tests.manager.stores.test_sqlite import DAY, RECORDS
from tests.manager.test_metrics import RECORD

MEMORY = Memory(cooldowns={"us-central1-a g2-standard-8 spot": Cooldown(5.0, 1, ("us-central1-b",))})
OTHER = Memory(preferred={"us-central1-b": 7.0})


@dataclass
class Cloud:
    """Time, the bucket, and managers on computers whose clocks are wrong by minutes."""

    made: type[FakeStorage] = FakeStorage
    now: float = 1_760_000_000.0
    storage: FakeStorage = field(init=False)

    def __post_init__(self) -> None:
        self.storage = self.made(lambda: self.now)

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def store(self, holder: str, skew_sec: float = 0.0) -> BucketStore:
        return BucketStore(self.storage.bucket(), "manager.json", holder, lambda: self.now + skew_sec, self.sleep)

    def found(self) -> Stored:
        found = self.storage.bucket().stored("manager.json")
        assert found
        return found


@pytest.fixture(params=[FakeStorage, FakeS3])
def cloud(request: pytest.FixtureRequest) -> Cloud:
    return Cloud(request.param)


def once(when: str, method: str, error: BaseException) -> Callable[[str, str], None]:
    """Return a fault for only the next request of this kind."""
    left = [error]

    def fault(now: str, called: str) -> None:
        if (now, called) == (when, method) and left:
            raise left.pop()

    return fault


def test_the_next_manager_finds_what_was_saved_and_published(cloud: Cloud) -> None:
    first = cloud.store("a")
    assert first.take() == "a"
    assert first.load() == Memory()
    first.save(MEMORY)
    first.publish({"at": 5})
    first.close()
    cloud.sleep(1)
    second = cloud.store("b", skew_sec=-600)
    assert second.take() == "b"
    assert second.load() == MEMORY
    assert second.published() == {"at": 5}


def test_the_next_manager_finds_the_memory_of_each_supplier(cloud: Cloud) -> None:
    first = cloud.store("a")
    first.take()
    first.save(MEMORY)
    MemoryOf(first, "toy").save(OTHER)
    first.close()
    cloud.sleep(1)
    second = cloud.store("b")
    second.take()
    assert (second.load(), MemoryOf(second, "toy").load()) == (MEMORY, OTHER)
    second.close()


def test_records_are_in_an_object_of_their_day_and_each_is_stored_once(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket, "datetime", type("Today", (datetime,), {"now": lambda _: DAY + timedelta(days=1)}))
    store = cloud.store("a")
    store.add(RECORDS[1:2])
    cloud.sleep(1)
    store.add(reversed(RECORDS))
    lines = [each.line() for each in RECORDS]
    assert {name: each.content.decode().splitlines() for (_, name), each in cloud.storage.objects.items()} == {
        "records/2026-11-27.jsonl": lines[:1],
        "records/2026-11-29.jsonl": lines[1:],
    }
    # The manager reads its records, too, without the permission to list objects.
    assert not [each for each in cloud.storage.permissions if "list" in each.lower()]
    assert list(store.records(DAY - timedelta(days=9))) == lines
    assert list(store.records(RECORDS[1].gone)) == lines[1:]


def test_a_job_whose_name_has_line_separators_breaks_no_record(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job's author chooses its name, and JSON does not escape these characters."""
    monkeypatch.setattr(bucket, "datetime", type("Today", (datetime,), {"now": lambda _: RECORDS[1].gone}))
    assert RECORD.job
    job = RECORD.job.model_copy(update={"name": "a\u2028b\u2029c\x85d"})
    records = [RECORDS[1].model_copy(update={"id": "1", "job": job}), RECORDS[1].model_copy(update={"id": "2"})]
    store = cloud.store("a")
    for record in records:
        store.add([record])
        cloud.sleep(1)
    assert list(store.records(RECORDS[1].gone)) == [each.line() for each in records]


def test_an_object_that_is_not_of_records_is_kept_and_reported(cloud: Cloud) -> None:
    store = cloud.store("a")
    store.add(RECORDS[:1])
    [place] = cloud.storage.objects.values()
    place.content = b"mine\n"
    wrong = pytest.raises(Refused, match=r"2026-11-27\.jsonl: has other content than records")
    with wrong:
        store.add(RECORDS)
    with wrong:
        list(store.records(RECORDS[0].gone))
    assert place.content == b"mine\n"
    [of_other_day] = [each.content for (_, name), each in cloud.storage.objects.items() if "11-29" in name]
    assert of_other_day.decode().splitlines() == [each.line() for each in RECORDS[1:]]


def test_a_lease_is_taken_over_only_after_its_time_by_the_clock_of_the_cloud(cloud: Cloud) -> None:
    first, second = cloud.store("a", skew_sec=600), cloud.store("b", skew_sec=-600)
    first.take()
    cloud.sleep(LEASE_SEC - 1)
    assert second.take() == "a"
    assert not second.may_act()
    cloud.sleep(1)
    assert second.take() == "b"
    assert second.may_act()


def test_a_second_manager_waits_and_acts_after_the_lease_has_ended(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket, "_POLL_SEC", 0)
    first, second = cloud.store("a"), cloud.store("b")
    first.take()
    first.save(MEMORY)
    texts: list[str] = []

    def waiting(text: str) -> None:
        texts.append(text)
        cloud.sleep(25)

    assert second.hold(Event(), waiting)
    assert texts == ["a has the lease"] * 3
    assert (first.may_act(), second.may_act(), second.load()) == (False, True, MEMORY)
    second.close()
    stopped = Event()
    assert first.hold(stopped, waiting), "a released lease is free at once"
    assert not second.hold(stopped, lambda _: stopped.set())
    first.close()


def test_a_manager_acts_only_while_its_calls_end_before_its_lease(cloud: Cloud) -> None:
    store = cloud.store("a")
    store.take()
    cloud.sleep(LEASE_SEC - CALL_SEC - 1)
    assert store.may_act()
    cloud.sleep(1)
    assert not store.may_act()
    store.save(Memory())
    assert store.may_act()


def test_a_manager_whose_lease_was_taken_over_writes_nothing_any_more(cloud: Cloud) -> None:
    first, second = cloud.store("a"), cloud.store("b")
    first.take()
    cloud.sleep(LEASE_SEC)
    second.take()
    second.save(MEMORY)
    for attempt in (lambda: first.save(OTHER), lambda: first.publish({"at": 1}), first.renew):
        with pytest.raises(InUse, match="another manager has taken the lease over"):
            attempt()
    assert not first.may_act()
    first.close()
    second.save(MEMORY)
    lease = json.loads(cloud.found().content)["lease"]
    assert (lease["holder"], lease["seconds"]) == ("b", 60)
    assert second.load() == MEMORY


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_lost_answer_to_a_write_costs_neither_the_lease_nor_the_memory(cloud: Cloud, when: str) -> None:
    store = cloud.store("a")
    store.take()
    cloud.storage.fault = once(when, cloud.storage.WRITE, ConnectionResetError())
    with pytest.raises(Unavailable):
        store.save(MEMORY)
    store.save(MEMORY)
    assert store.load() == MEMORY
    assert store.may_act()
    assert cloud.store("b").take() == "a"
    cloud.sleep(LEASE_SEC)
    second = cloud.store("b")
    assert (second.take(), second.load()) == ("b", MEMORY)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_write_whose_answer_was_lost_gives_no_more_time_to_act(cloud: Cloud, when: str) -> None:
    store = cloud.store("a")
    store.take()
    cloud.sleep(LEASE_SEC - CALL_SEC - 1)
    cloud.storage.fault = once(when, cloud.storage.WRITE, ConnectionResetError())
    with pytest.raises(Unavailable):
        store.save(MEMORY)
    assert store.may_act()
    cloud.sleep(1)
    assert not store.may_act()
    store.save(MEMORY)
    assert store.may_act()


def test_the_object_is_written_at_most_once_a_second(cloud: Cloud) -> None:
    store = cloud.store("a")
    store.take()
    begun = cloud.now
    for number in range(5):
        store.save(Memory(preferred={"us-central1-a": float(number)}))
        store.publish({"at": number})
    assert cloud.now - begun == 10


@pytest.mark.parametrize("content", [b"", b"[]", b'{"lease": 5}', b'{"memory": {"pending": 5}}'])
def test_an_object_with_other_content_is_replaced(cloud: Cloud, content: bytes) -> None:
    cloud.storage.bucket().write("manager.json", content)
    cloud.sleep(2)
    store = cloud.store("a")
    assert store.take() == "a"
    assert store.load() == Memory()


def test_a_bucket_that_is_missing_and_an_account_without_rights_are_named(cloud: Cloud) -> None:
    address = cloud.storage.ADDRESS
    with pytest.raises(Refused, match=f"{address.replace('state', 'other')}/manager.json: .* bucket does not exist"):
        BucketStore(cloud.storage.bucket("other"), "manager.json", "a", lambda: cloud.now, cloud.sleep).take()
    cloud.storage.permissions.clear()
    with pytest.raises(Refused, match=rf"{address}/manager\.json: \w+ answered 403.*: .*(objects\.create|PutObject)"):
        cloud.store("a").take()


def test_it_needs_each_of_its_permissions_and_no_other(cloud: Cloud) -> None:
    cloud.store("a").take()
    given = cloud.storage.permissions
    for missing in sorted(given):
        cloud.sleep(LEASE_SEC)
        cloud.storage.permissions = given - {missing}
        with pytest.raises(Refused, match=missing if missing != cloud.storage.READ else "403"):
            cloud.store("b").take()


def test_a_renewed_lease_is_not_taken_over_by_a_manager_that_has_read_the_earlier_write(cloud: Cloud) -> None:
    """In S3, a write with the same content would leave the version as it was."""
    first, second = cloud.store("a"), cloud.store("b")
    first.take()
    cloud.sleep(LEASE_SEC)

    def renewed_meanwhile(when: str, method: str) -> None:
        if (when, method) == ("before", cloud.storage.WRITE):
            cloud.storage.fault = lambda when, method: None
            first.renew()

    cloud.storage.fault = renewed_meanwhile
    assert second.take() == "another process"
    assert (first.may_act(), second.may_act()) == (True, False)


def test_moto_gives_the_lease_to_one_manager() -> None:
    """moto is an emulator of S3 that others keep."""
    with s3() as objects:
        first, second = (BucketStore(objects, "state.json", name, sleep=lambda _: None) for name in "ab")
        assert (first.take(), second.take()) == ("a", "a")
        first.save(MEMORY)
        first.add(RECORDS)
        first.close()
        assert (second.take(), second.load()) == ("b", MEMORY)
        assert list(second.records(DAY - timedelta(days=9))) == [each.line() for each in RECORDS]
        first._has_lease = True
        with pytest.raises(InUse):
            first.save(OTHER)


@settings(max_examples=int(os.environ.get("HISTORIES", "15")))
@given(st.integers(min_value=0, max_value=10**6), st.sampled_from([FakeStorage, FakeS3]))
def test_in_any_history_one_manager_acts_at_a_time(seed: int, made: type[FakeStorage]) -> None:
    """Three managers on wrong clocks; requests and answers are lost, and processes pause or are killed at any
    request.
    """
    cloud, chance = Cloud(made), random.Random(seed)
    number = 0
    acted: dict[str, float] = {}

    def new(index: int) -> BucketStore:
        nonlocal number
        number += 1
        return cloud.store(f"{index}.{number}", skew_sec=(-600.0, 0.0, 600.0)[index])

    def fault(when: str, method: str) -> None:
        cloud.sleep(chance.choice((0, 0, 0.2, 4)))
        if chance.random() < 0.05:
            raise Killed
        if chance.random() < 0.1:
            raise TimeoutError
        if chance.random() < 0.03:
            cloud.sleep(70)

    stores = [new(index) for index in range(3)]
    taken = [False] * 3
    cloud.storage.fault = fault
    for _ in range(chance.randint(20, 120)):
        cloud.sleep(chance.choice((0, 1, 5, 20, 61)))
        index = chance.randrange(3)
        store = stores[index]
        try:
            if not taken[index]:
                taken[index] = store.take() == store._holder
            else:
                chance.choice((store.renew, lambda: store.save(OTHER), lambda: store.publish({"at": 1})))()  # noqa: B023
        except (Unavailable, Refused):
            pass
        except (InUse, Killed):
            stores[index], taken[index] = new(index), False
        able = [store._holder for store in stores if store.may_act()]
        assert len(able) <= 1
        for holder in able:
            # Any action of another manager has sent its last request by now.
            assert all(cloud.now - begun >= CALL_SEC for other, begun in acted.items() if other != holder)
            acted[holder] = cloud.now
