"""The records and the channel of machines with a mailbox, in a bucket of moto."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any

import pytest
from gpu_ci.mailbox.boot import Definition, mail_key
from gpu_ci.mailbox.objects import S3Objects
from gpu_manager.decision.names import STANDBY, slug
from gpu_manager.mailboxes.mailboxes import Mailboxes, Record
from gpu_manager.model import End, Insert, Job, JobKey, Machine, NewRunner, Offer, Pool
from gpu_manager.ports import Refused, Unavailable
from gpu_manager.registration import register

from tests.gpu_ci.mailbox.s3 import Faulty, boot_of, s3, send
from tests.manager.machine_key import PUBLISHED

OFFER = Offer("us-east-1a", "g6.xlarge", "spot")
POOL = Pool("l4", "123456789012", "lt-0a1b:3", (OFFER,), 4, frozenset({"gpu"}), registered_by="manager", boot_sec=900)
JOB = Job(JobKey("acme/kernels", 5, 55, 1), frozenset({"gpu"}), "queued", 0)
INSERT = Insert("l4", "l4-0a1b2c3d", OFFER, JOB, "request-1")
DEFINITION = Definition({"pool": "l4", "note": "planted"}, {"agent": "a" * 64, "smoke": "b" * 64})
MANAGER = "staging"


@pytest.fixture(scope="module")
def bucket() -> Iterator[S3Objects]:
    with s3() as made:
        yield made


@pytest.fixture(autouse=True)
def empty(bucket: S3Objects) -> None:
    for key in bucket.names(""):
        bucket.delete(key)


@pytest.fixture
def boxes(bucket: S3Objects) -> Mailboxes:
    return opened(bucket)


def opened(objects: Any, manager: str = MANAGER) -> Mailboxes:
    return Mailboxes(manager, objects, lambda: 1_800_000_000.0)


def machine(record: Record, status: str = "RUNNING") -> Machine:
    return Machine(
        record.name, record.pool, record.zone, status, record.market, record.machine_type, record.template,
        account=record.account, job=record.job, id=record.id, registered_by=record.registered_by,
    )  # fmt: skip


# -- records ----------------------------------------------------------------------------------------------------------


def test_a_record_says_what_was_requested_and_a_repeated_open_is_byte_identical(
    boxes: Mailboxes, bucket: S3Objects
) -> None:
    record = boxes.open(POOL, INSERT, DEFINITION)
    assert {**asdict(record), "user_data": "", "id": ""} == {
        "name": "l4-0a1b2c3d", "id": "", "pool": "l4", "job": slug(JOB.key), "template": "lt-0a1b:3",
        "zone": "us-east-1a", "machine_type": "g6.xlarge", "market": "spot", "account": "123456789012",
        "registered_by": "manager", "since_unix": 1_800_000_000.0, "user_data": "", "vm": "", "jobs": 0,
    }  # fmt: skip
    # Another process, another definition and another offer do not change the request.
    other = replace(INSERT, rung=replace(OFFER, market="standard"))
    again = opened(bucket).open(POOL, other, replace(DEFINITION, config={}))
    assert again == record
    assert opened(bucket).records() == boxes.records() == (record,)
    assert opened(bucket, "prod").records() == ()


def test_a_record_has_one_signed_url_that_ends_with_the_boot(boxes: Mailboxes, bucket: S3Objects) -> None:
    record = boxes.open(replace(POOL, max_run_duration_sec=3600), INSERT, DEFINITION)
    assert "\nRuntimeMaxSec=3600\n" in record.user_data
    stored = (bucket.read(f"{MANAGER}/records/{record.name}.json") or b"").decode()
    assert stored.count("X-Amz-Signature") == 1
    assert "X-Amz-Expires=900&" in boot_of(record.user_data)[0].url
    assert "X-Amz-" not in repr(record)
    standby = boxes.open(replace(POOL, standby=1), replace(INSERT, machine="l4-00000001", job=None), DEFINITION)
    assert ("X-Amz-Expires=604800&" in boot_of(standby.user_data)[0].url, standby.job) == (True, STANDBY)


def test_two_managers_that_open_a_name_at_once_get_one_record(bucket: S3Objects) -> None:
    class Late(S3Objects):
        """Another manager opens the name after the first read."""

        def write(self, key: str, data: bytes, *, only_new: bool = False) -> bool:
            if key.endswith("boot.json"):
                others.append(opened(bucket).open(POOL, INSERT, DEFINITION))
            return super().write(key, data, only_new=only_new)

    others: list[Record] = []
    late = Late("acme-mailbox", "eu-west-1")
    assert [opened(late).open(POOL, INSERT, DEFINITION)] == others
    assert [key for key in bucket.names("") if key.endswith("boot.json")] == [
        mail_key(MANAGER, others[0].id, "boot.json")
    ]


CALLS = ["read", *["signed"] * 7, "write", "signed", "write"]
"""The calls of an open. A signature is no request."""


@pytest.mark.parametrize("at", [at for at, call in enumerate(CALLS, 1) if call != "signed"])
@pytest.mark.parametrize("is_sent", [False, True])
def test_a_lost_answer_at_any_call_leaves_one_record(bucket: S3Objects, at: int, is_sent: bool) -> None:
    objects = Faulty(bucket, at, is_sent=is_sent)
    with pytest.raises(Unavailable):
        opened(objects).open(POOL, INSERT, DEFINITION)
    assert objects.calls == CALLS[:at]
    record = opened(bucket).open(POOL, INSERT, DEFINITION)
    status, content = send("GET", boot_of(record.user_data)[0])
    assert (status, hashlib.sha256(content).hexdigest()) == (200, boot_of(record.user_data)[1])
    assert opened(bucket).records() == (record,)


def test_a_closed_machine_leaves_nothing_and_a_later_one_of_its_name_stays(boxes: Mailboxes, bucket: S3Objects) -> None:
    first = boxes.open(POOL, INSERT, DEFINITION)
    boxes.close(machine(first))
    assert (bucket.names(f"{MANAGER}/"), boxes.records()) == ([], ())
    second = boxes.open(POOL, INSERT, DEFINITION)
    assert second.id != first.id
    boxes.close(first)
    assert boxes.records() == (second,)
    for at in range(1, 5):
        with suppress(Unavailable):
            opened(Faulty(bucket, at, is_sent=False)).close(second)
    opened(bucket).close(second)
    assert bucket.names(f"{MANAGER}/") == []


def test_records_are_read_once_and_gone_ones_are_dropped(bucket: S3Objects) -> None:
    first = opened(bucket).open(POOL, INSERT, DEFINITION)
    objects = Faulty(bucket, -1, is_sent=True)
    boxes = opened(objects)
    assert boxes.records() == boxes.records() == (first,)
    assert objects.calls == ["names", "read", "names"]
    opened(bucket).close(first)
    assert boxes.records() == ()


def test_other_content_than_a_record_is_refused(boxes: Mailboxes, bucket: S3Objects) -> None:
    bucket.write(f"{MANAGER}/records/l4-0a1b2c3d.json", b'{"name": 1}')
    for call in (boxes.records, lambda: boxes.open(POOL, INSERT, DEFINITION)):
        with pytest.raises(Refused, match=r"records/l4-0a1b2c3d\.json"):
            call()


def test_a_missing_bucket_is_refused_and_an_outage_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Refused):
        opened(S3Objects("acme-none", "eu-west-1")).records()
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
    with pytest.raises(Unavailable):
        opened(S3Objects("acme-mailbox", "eu-west-1")).records()


# -- the channel ------------------------------------------------------------------------------------------------------


def says(bucket: S3Objects, record: Record, name: str, text: str) -> int:
    """Write as the machine does: with the signed request of its boot document."""
    document = json.loads(send("GET", boot_of(record.user_data)[0])[1])
    request = replace(boot_of(record.user_data)[0], **document["mailbox"][name])
    return send("PUT", request, text.encode())[0]


def key_text(record: Record, certificate: str = "a-public-key") -> str:
    return json.dumps({"machine": f"{record.name}-{record.id}", "certificate": certificate})


def test_key_and_end_of_a_machine_are_heard_once(bucket: S3Objects) -> None:
    objects = Faulty(bucket, -1, is_sent=True)
    boxes = opened(objects)
    record = boxes.open(POOL, INSERT, DEFINITION)
    running, off = machine(record), machine(record, "TERMINATED")
    assert boxes.channel.listen([running]) == (running,)
    assert says(bucket, record, "key", key_text(record)) == 200
    assert says(bucket, record, "key", key_text(record, "another")) == 412
    objects.calls.clear()
    for _ in range(2):
        assert [each.key for each in boxes.channel.listen([running])] == ["a-public-key"]
    assert objects.calls == ["names", "read", "names"]
    assert says(bucket, record, "end", json.dumps({"reason": "job-done"})) == 200
    assert [each.end for each in boxes.channel.listen([off])] == [End("job-done")]
    assert {key: set(found) for key, found in boxes.mail().items()} == {record.id: {"boot.json", "key", "end"}}
    sealed = replace(running, sealed=True)
    objects.calls.clear()
    assert (boxes.channel.listen([sealed]), objects.calls) == ((sealed,), [])


@pytest.mark.parametrize(
    "text", [b"", b"\xff\xfe", b"[]", b'{"machine": "l4-0a1b2c3d-000000000000", "certificate": "x"}']
)
def test_what_is_no_key_of_this_machine_is_no_key(boxes: Mailboxes, bucket: S3Objects, text: bytes) -> None:
    record = boxes.open(POOL, INSERT, DEFINITION)
    bucket.write(mail_key(MANAGER, record.id, "key"), text)
    assert [each.key for each in boxes.channel.listen([machine(record)])] == [""]


def test_a_large_key_is_no_key_and_is_not_read(boxes: Mailboxes, bucket: S3Objects) -> None:
    record = boxes.open(POOL, INSERT, DEFINITION)
    bucket.write(mail_key(MANAGER, record.id, "key"), b" " * 1_000_000 + key_text(record).encode())
    assert [each.key for each in boxes.channel.listen([machine(record)])] == [""]
    assert max(map(len, boxes.channel._texts.values())) == 65_536


class Github:
    """GitHub, for the registration of one runner."""

    def __init__(self) -> None:
        self.registered: list[str] = []
        self.removed: list[int] = []

    def register(self, pool: Pool, name: str) -> NewRunner:
        self.registered.append(name)
        return NewRunner(len(self.registered), name, "planted-jit")

    def remove_runner(self, runner: NewRunner) -> bool:
        self.removed.append(runner.id)
        return True


def test_a_machine_gets_one_registration(boxes: Mailboxes, bucket: S3Objects) -> None:
    record, github = boxes.open(POOL, INSERT, DEFINITION), Github()
    found = replace(machine(record), key=PUBLISHED)
    assert register(found, POOL, github, boxes.channel) == f"{record.name}-{record.id}"  # type: ignore[arg-type]
    assert register(found, POOL, github, boxes.channel) == ""  # type: ignore[arg-type]
    assert (len(github.registered), github.removed) == (1, [])
    assert "registration" in boxes.mail()[record.id]
    assert b"planted-jit" not in (bucket.read(mail_key(MANAGER, record.id, "registration")) or b"")


@pytest.mark.parametrize("is_sent", [False, True])
@pytest.mark.parametrize("at", [1, 2])
def test_a_lost_answer_registers_no_second_runner_that_stays(bucket: S3Objects, at: int, is_sent: bool) -> None:
    record, github = opened(bucket).open(POOL, INSERT, DEFINITION), Github()
    found = replace(machine(record), key=PUBLISHED)
    with pytest.raises(Unavailable):
        register(found, POOL, github, opened(Faulty(bucket, at, is_sent=is_sent)).channel)  # type: ignore[arg-type]
    register(found, POOL, github, opened(bucket).channel)  # type: ignore[arg-type]
    sent = 2 if (at, is_sent) == (2, False) else 1
    assert (len(github.registered), opened(bucket).channel.mailbox(found).registered) == (sent, True)


def test_a_write_that_is_repeated_after_its_lost_answer_was_sent(boxes: Mailboxes, bucket: S3Objects) -> None:
    """botocore repeats a request without an answer. The second one is then refused, because the first one came."""
    found = machine(boxes.open(POOL, INSERT, DEFINITION))
    bucket.write(mail_key(MANAGER, found.id, "registration"), b"sealed")
    mailbox = boxes.channel.mailbox(found)
    assert boxes.channel.send(found, mailbox, "sealed")
    assert not boxes.channel.send(found, mailbox, "another")


def test_a_machine_on_standby_writes_again_after_its_start(boxes: Mailboxes, bucket: S3Objects) -> None:
    record = boxes.open(POOL, INSERT, DEFINITION)
    found = machine(record)
    says(bucket, record, "key", key_text(record, "first"))
    assert [each.key for each in boxes.channel.listen([found])] == ["first"]
    boxes.renew(found)
    assert says(bucket, record, "key", key_text(record, "second")) == 200
    assert [each.key for each in boxes.channel.listen([found])] == ["second"]
    boxes.channel.send(found, boxes.channel.mailbox(found), "sealed")
    with pytest.raises(Refused):
        boxes.renew(found)
