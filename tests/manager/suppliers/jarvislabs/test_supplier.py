"""The supplier on the fake API: the contract of suppliers with a mailbox in moto, and what is different here."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from gpu_manager.decision.names import STANDBY
from gpu_manager.model import End, Insert, Machine
from gpu_manager.ports import InsertRefused, Refused, Unavailable
from gpu_manager.reaper import reap
from gpu_manager.suppliers.jarvislabs import api
from gpu_manager.suppliers.jarvislabs.api import Api, ApiError
from gpu_manager.suppliers.jarvislabs.pool import JarvisPool
from gpu_manager.suppliers.jarvislabs.supplier import JarvisLabs

from tests.manager.suppliers.contract import NAME, SupplierContract, insert_of, machines, only, until
from tests.manager.suppliers.jarvislabs.conftest import MAILBOX, Rented, pool
from tests.manager.suppliers.jarvislabs.fake import TOKEN

CREATE = "templates/vm/create"


@pytest.mark.slow
class TestJarvisLabs(SupplierContract):
    pass


def wanted(zone: str = "IN2", machine_type: str = "1xH100") -> Insert:
    return replace(insert_of(pool()), rung=replace(pool().rungs[0], zone=zone, machine_type=machine_type))


def started(account: Rented, **values: Any) -> tuple[JarvisLabs, Machine]:
    """Return a supplier with one machine that is on."""
    supplier, own = account.supplier(**values), account.pool("waits")
    supplier.start(own, insert_of(own))
    until(lambda: only(machines(supplier, own)).status == "RUNNING", "the machine")
    return supplier, only(supplier.list([own]))


def creates(account: Rented) -> int:
    return sum(each[2] == CREATE for each in account.fake.requests)


@pytest.mark.parametrize("is_carried_out", [True, False])
def test_a_request_whose_answer_was_lost_is_not_repeated_within_a_minute_also_after_a_restart(
    account: Rented, is_carried_out: bool
) -> None:
    now, own = [0.0], account.pool("waits")
    supplier = account.supplier(monotonic=lambda: now[0])
    account.fake.answers[CREATE] = (0 if is_carried_out else 500, {})
    with pytest.raises(Unavailable):
        supplier.start(own, insert_of(own))
    account.fake.hidden.update(account.fake.machines)
    first = only(supplier.starting([own]))
    for each in (supplier, account.supplier(monotonic=lambda: now[0])):
        for _ in range(2):
            with pytest.raises(Unavailable, match="may still appear"):
                each.start(own, insert_of(own))
    assert creates(account) == 1
    if is_carried_out:
        account.fake.hidden.clear()
        assert supplier.start(own, insert_of(own)).id == first.id == only(supplier.list([own])).id
        return
    now[0] = JarvisLabs.LISTED_WITHIN_SEC + 1
    second = supplier.start(own, insert_of(own)).id
    assert (creates(account), second != first.id, only(supplier.list([own])).id) == (2, True, second)


def test_a_machine_that_the_list_lacks_for_some_moments_stays(account: Rented) -> None:
    now, own = [0.0], account.pool("waits")
    supplier, machine = started(account, monotonic=lambda: now[0])
    for _ in range(3):
        account.fake.hidden.update(account.fake.machines)
        for late_sec in (0.0, JarvisLabs.LISTED_WITHIN_SEC - 1):
            now[0] += late_sec
            assert supplier.list([own]) == ()
            supplier.delete(machine)
        account.fake.hidden.clear()
        assert only(supplier.list([own])) == machine
    account.fake.hidden.update(account.fake.machines)
    now[0] += JarvisLabs.LISTED_WITHIN_SEC
    assert (supplier.list([own]), only(supplier.starting([own])).id) == ((), machine.id)
    now[0] += JarvisLabs.LISTED_WITHIN_SEC + 1
    assert (supplier.list([own]), supplier.starting([own]), account.bucket.names("staging/records/")) == ((), (), [])


def test_a_vm_that_appears_after_its_record_is_gone_is_off_and_the_new_one_stays(account: Rented) -> None:
    now, own = [0.0], account.pool("waits")
    supplier = account.supplier(monotonic=lambda: now[0])
    account.fake.answers[CREATE] = (0, {})
    with pytest.raises(Unavailable):
        supplier.start(own, insert_of(own))
    account.fake.hidden.update(account.fake.machines)
    assert supplier.list([own]) == ()
    now[0] = JarvisLabs.LISTED_WITHIN_SEC + 1
    kept = supplier.start(own, insert_of(own)).id
    account.fake.hidden.clear()
    machine, late = sorted(supplier.list([own]), key=lambda each: each.name)
    assert (machine.id, machine.off, late.off, late.pool) == (kept, False, True, "l4")
    assert late.name not in (NAME, kept)
    supplier.delete(late)
    assert only(supplier.list([own])).id == kept


@pytest.mark.parametrize("twin_is_older", [True, False])
def test_of_two_vms_of_one_name_exactly_the_booted_one_stays(account: Rented, twin_is_older: bool) -> None:
    supplier, machine = started(account)
    [row] = account.fake.machines.values()
    until(account.ssh.scripts, "the boot script")
    number = row["machine_id"] + (-1 if twin_is_older else 1)
    account.fake.machines[number] = row | {"machine_id": number, "ssh_str": f"ssh -p {number} ubuntu@127.0.0.1"}
    for each in (supplier, account.supplier()):
        twin, real = sorted(machines(each, account.pool("waits")), key=lambda found: not found.off)
        assert (real, twin.off, twin.pool) == (machine, True, "l4")
        assert not {twin.name, twin.id} & {real.name, real.id}
    account.supplier().delete(twin)
    assert list(account.fake.machines) == [row["machine_id"]]
    assert list(account.ssh.scripts()) == [row["machine_id"]]
    assert only(supplier.list([account.pool("waits")])) == machine


def test_vms_that_are_on_count_against_the_maximum_of_their_pool(account: Rented) -> None:
    supplier, machine = started(account)
    own = replace(account.pool("waits"), max=1)
    account.bucket.write(f"staging/mail/{machine.id}/end", b'{"reason": "job-done"}')
    assert only(machines(supplier, own)).end == End("job-done")
    with pytest.raises(Unavailable, match="1 VMs of the pool are still on"):
        supplier.start(own, insert_of(own, "l4-ffffffff"))
    supplier.stop(machine)
    assert supplier.start(own, insert_of(own, "l4-ffffffff"))


def test_a_vm_without_a_record_is_listed_with_its_name_and_deleted(account: Rented) -> None:
    _, machine = started(account)
    account.bucket.delete(f"staging/records/{NAME}.json")
    account.fake.add(status="Running", region="india-noida-01", gpu_type="L4", instance_name="somebody's")
    fresh = account.supplier()
    left = only(fresh.list([account.pool("waits")]))
    assert (left.name, left.id, left.pool, left.off) == (NAME, machine.id, "l4", False)
    fresh.delete(left)
    assert [each["instance_name"] for each in account.fake.machines.values()] == ["somebody's"]
    assert fresh.list([account.pool("waits")]) == ()


def test_the_bucket_says_since_when_a_machine_is_on_or_off_and_a_list_boots_nothing(account: Rented) -> None:
    own, [now] = account.pool("waits"), [[1000.0]]
    account.bucket.unix = lambda: now[0]  # type: ignore[attr-defined]
    supplier = account.supplier()
    supplier.start(own, insert_of(own))
    until(lambda: only(supplier.list([own])).status == "RUNNING", "the machine")
    machine = only(supplier.list([own]))
    assert (machine.on_unix, machine.off_unix, account.ssh.argv) == (1000.0, 0.0, [])
    now[0] = 2000.0
    supplier.stop(machine)
    supplier.start_again(machine, "request-1")
    assert only(supplier.list([own])).on_unix == 2000.0
    now[0] = 3000.0
    until(lambda: only(supplier.list([own])).status == "RUNNING", "the machine")
    account.bucket.write(f"staging/mail/{machine.id}/end", b"{}")
    ended = only(supplier.list([own]))
    assert (ended.on_unix, ended.off, ended.off_unix) == (2000.0, True, 3000.0)
    [row] = account.fake.machines.values()
    row["status"] = "Failed"
    account.bucket.delete(f"staging/mail/{machine.id}/end")
    assert only(supplier.list([own])).off_unix == 2000.0


def test_the_reaper_deletes_a_second_vm_and_one_whose_request_was_given_up(account: Rented) -> None:
    _, machine = started(account)
    own, [row] = account.pool("waits"), account.fake.machines.values()
    account.fake.add(**{key: row[key] for key in ("gpu_type", "region", "instance_name")})
    late = row["instance_name"].replace(machine.id, "0" * 12).replace("0a1b2c3d", "ffffffff")
    account.fake.add(gpu_type="H100", region=row["region"], instance_name=late, hdd=100)
    suppliers: Any = {"jarvislabs": (account.supplier, [own])}
    reap(suppliers, None, time.time, deletes=True)
    assert list(account.fake.machines) == [row["machine_id"]]


@pytest.mark.parametrize("standby", [0, 1])
@pytest.mark.parametrize("is_resumed", [False, True])
def test_the_reaper_deletes_a_vm_whose_mail_has_expired(account: Rented, standby: int, is_resumed: bool) -> None:
    own, [now] = replace(account.pool("waits"), standby=standby, max_run_duration_sec=3600), [[1000.0]]
    started(account, unix=lambda: now[0])
    for key in account.bucket.names("staging/mail/"):
        account.bucket.delete(key)
    if is_resumed:
        record = json.loads(account.bucket.read(f"staging/records/{NAME}.json") or b"")
        account.bucket.write(f"staging/records/{NAME}.json", json.dumps({**record, "jobs": 1}).encode())
    found = []
    for now[0] in (1000.0 + 3900, 1000.0 + 3901):
        fresh = account.supplier(unix=lambda: now[0])
        reap({"jarvislabs": (lambda fresh=fresh: fresh, [own])}, None, lambda: now[0], deletes=True)
        found.append(len(account.fake.machines))
    assert found == [1, 0]


def test_a_vm_that_is_off_and_still_paid_does_not_wait_on_standby(account: Rented) -> None:
    """The vendor has stopped the VM for its pause, so the agent has reported its end. But it did not pause the VM."""
    own, [now] = replace(account.pool("waits"), standby=1), [[time.time()]]
    supplier, machine = started(account, unix=lambda: now[0])
    account.bucket.write(f"staging/mail/{machine.id}/end", b'{"reason": "stopped"}')
    assert only(supplier.list([own])).template == own.template
    now[0] += 3000
    assert only(supplier.list([own])).template == ""
    reap({"jarvislabs": (lambda: supplier, [own])}, None, lambda: now[0], deletes=True)
    assert account.fake.machines == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "content", "kind"),
    [
        (402, {"message": "Please recharge"}, "no-balance"),
        (403, {"detail": "Insufficient balance"}, "no-balance"),
        (403, {"detail": f"H100 is not available in your plan, {TOKEN}"}, "refused"),
        (422, {"detail": [{"msg": "value is not valid"}]}, "refused"),
        (400, {"message": "No H100 available"}, "no-capacity"),
        (409, {"error": "out of stock"}, "no-capacity"),
        (200, {"success": False, "message": "no capacity"}, "no-capacity"),
        (200, {"message": f"not allowed: {TOKEN}"}, "refused"),
        (401, {"detail": "Invalid token"}, "unavailable"),
        (429, {}, "unavailable"),
        (503, b"<html>", "unavailable"),
        (200, b"<html>", "unavailable"),
        (200, [], "unavailable"),
    ],
)
def test_each_error_of_a_request_for_a_vm_has_its_kind(account: Rented, status: int, content: Any, kind: str) -> None:
    supplier, own = account.supplier(), account.pool("waits")
    account.fake.answers[CREATE] = (status, content)
    with pytest.raises(Unavailable if kind == "unavailable" else InsertRefused) as found:
        supplier.start(own, insert_of(own))
    assert TOKEN not in str(found.value)
    if isinstance(found.value, InsertRefused):
        error = found.value.error
        assert error.kind == ("refused" if kind == "no-balance" else kind)
        assert error.message.startswith("no-balance: ") == (kind == "no-balance")
    # A record that stays makes the next request wait.
    assert len(account.bucket.names("staging/records/")) == (kind == "unavailable")


@pytest.mark.parametrize(
    ("zone", "machine_type", "kind", "others"),
    [
        ("IN1", "1xH100", "no-capacity", ("IN2",)),
        ("IN2", "4xH100", "no-capacity", ()),
        ("IN2", "1xH1000", "refused", ()),
    ],
)
def test_without_free_gpus_nothing_is_requested(
    account: Rented, zone: str, machine_type: str, kind: str, others: tuple[str, ...]
) -> None:
    with pytest.raises(InsertRefused) as refused:
        account.supplier().start(account.pool("waits"), wanted(zone, machine_type))
    assert (refused.value.error.kind, refused.value.error.zones_available) == (kind, others)
    assert (account.fake.posts(), account.bucket.names("staging/records/")) == ([], [])


@pytest.mark.parametrize("content", [b"", b'{"machine": 1}'])
def test_a_template_that_is_missing_or_was_changed_is_refused(account: Rented, content: bytes) -> None:
    account.bucket.write(f"staging/templates/{pool().template}.json", content)
    with pytest.raises(InsertRefused, match="another SHA-256"):
        account.supplier().start(pool(), insert_of(pool()))
    assert account.fake.posts() == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ((200, {"success": False, "message": "no"}), Refused),
        ((200, {"success": True}), Unavailable),
        ((200, {"success": True, "instances": [{"name": "l4"}]}), Unavailable),
        ((200, b"<html>"), Unavailable),
        ((401, {}), Unavailable),
        ((404, {}), Refused),
        ((502, b""), Unavailable),
        ((0, None), Unavailable),
    ],
)
def test_no_answer_is_an_empty_list(account: Rented, answer: tuple[int, Any], error: type[Exception]) -> None:
    supplier, _ = started(account)
    account.fake.answers["users/fetch"] = answer
    with pytest.raises(error):
        supplier.list([account.pool("waits")])


def test_pools_of_another_account_or_mailbox_are_refused(account: Rented) -> None:
    supplier, own = account.supplier(), account.pool("waits")
    with pytest.raises(Refused, match="got user-17, expected user-18"):
        supplier.list([replace(own, account="user-18")])
    with pytest.raises(Refused, match="pool l4: its mailbox is not gs://acme-mail"):
        supplier.list([replace(own, mailbox=replace(MAILBOX, address="gs://other"))])


def test_an_unknown_state_is_on_and_a_failed_start_has_a_reason(account: Rented) -> None:
    supplier, machine = started(account)
    own = account.pool("waits")
    [row] = account.fake.machines.values()
    states = []
    for status in ("Rebooting", "Pausing", "Destroying", "Failed"):
        row["status"] = status
        states.append(only(supplier.list([own])).status)
        if status == "Destroying":
            supplier.delete(machine)
    assert states == ["UNKNOWN", "STOPPING", "STOPPING", "TERMINATED"]
    failed = supplier.operation(own, own.rungs[0], machine.id)
    assert (failed.done, failed.error and failed.error.kind) == (True, "no-capacity")


def test_a_machine_on_standby_keeps_its_id_with_another_vm_and_gets_a_new_key(account: Rented) -> None:
    supplier, machine = started(account)
    own, mail = account.pool("waits"), f"staging/mail/{machine.id}/"
    for name in ("key", "end"):
        account.bucket.write(f"{mail}{name}", b'{"reason": "stopped"}')
    supplier.stop(machine)
    rows = [row | {"status": "Running"} for row in account.fake.machines.values()]
    account.fake.answers["users/fetch"] = (200, {"success": True, "instances": rows})
    with pytest.raises(Unavailable, match="running, and not paused"):
        supplier.start_again(machine, "request-1")
    account.fake.free["H100", "IN2"] = 0
    with pytest.raises(InsertRefused, match="0 are free"):
        supplier.start_again(machine, "request-1")
    account.fake.free["H100", "IN2"] = 1
    before = set(account.fake.machines)
    supplier.start_again(machine, "request-1")
    supplier.start_again(machine, "request-1")
    assert (len(account.fake.machines), before & set(account.fake.machines)) == (1, set())
    assert account.bucket.names(mail) == [f"{mail}boot.json", f"{mail}resumed"]
    until(lambda: only(machines(supplier, own)).status == "RUNNING", "the machine")
    assert only(supplier.list([own])).id == machine.id
    until(lambda: set(account.fake.machines) <= set(account.ssh.scripts()), "the script in the new VM")
    account.bucket.write(f"{mail}registration", b"sealed")
    with pytest.raises(Refused, match="has a runner"):
        supplier.stop(machine)


def test_a_machine_on_standby_does_not_start_while_it_has_a_second_vm(account: Rented) -> None:
    supplier, machine = started(account)
    until(account.ssh.scripts, "the boot script")
    for name in ("key", "end"):
        account.bucket.write(f"staging/mail/{machine.id}/{name}", b'{"reason": "stopped"}')
    supplier.stop(machine)
    [(number, row)] = account.fake.machines.items()
    account.fake.machines[number + 1] = row | {"machine_id": number + 1, "status": "Running"}
    with pytest.raises(Unavailable, match="second VM"):
        supplier.start_again(machine, "request-1")
    [twin] = [each for each in supplier.list([account.pool("waits")]) if each.id != machine.id]
    supplier.delete(twin)
    assert supplier.start_again(machine, "request-1") == machine.id


def ended(account: Rented, supplier: JarvisLabs, own: JarvisPool, reason: str = "job-done") -> Machine:
    """Return the only machine, after its job has ended."""
    machine = until(lambda: next((each for each in supplier.list([own]) if each.status == "RUNNING"), None), "it")
    for name, content in {"registration": b"sealed", "end": json.dumps({"reason": reason}).encode()}.items():
        account.bucket.write(f"staging/mail/{machine.id}/{name}", content)
    return only(machines(supplier, own))


def test_a_host_runs_jobs_as_new_machines_until_it_has_run_the_most(account: Rented) -> None:
    own = replace(account.pool("waits"), reuse=2, runner_group="gpu")
    supplier = account.supplier()
    supplier.start(own, insert_of(own))
    first = ended(account, supplier, own)
    [vm] = account.fake.machines.values()
    supplier.delete(first)
    paused = only(machines(supplier, own))
    assert (paused.id, paused.status, vm["status"]) == (first.id, "STOPPED", "Paused")
    supplier.delete(paused)
    for each in (supplier, account.supplier()):
        second = only(machines(each, own))
        assert (second.status, second.jobs, second.job, second.end) == ("STOPPED", 1, STANDBY, None)
        assert (second.on_unix, second.off_unix > 0, second.template) == (0.0, True, own.template)
    assert not {first.id, first.name} & {second.id, second.name}
    assert [key.split("/")[2] for key in account.bucket.names("staging/mail/")] == [second.id]
    # A reaper that has listed the first machine before does not end the job of the second one.
    supplier.start_again(second, "request-1")
    account.supplier().delete(first)
    until(lambda: machines(supplier, own) and set(account.fake.machines) <= set(account.ssh.scripts()), "its script")
    assert ended(account, supplier, own).id == second.id
    supplier.delete(only(machines(supplier, own)))
    assert (account.fake.machines, supplier.list([own])) == ({}, ())


def test_a_manager_that_is_killed_while_a_host_gets_its_next_machine_has_one_machine(
    account: Rented, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, own = [0.0], replace(account.pool("waits"), reuse=2, runner_group="gpu")
    supplier = account.supplier(monotonic=lambda: now[0])
    supplier.start(own, insert_of(own))
    first = ended(account, supplier, own)
    supplier.delete(first)
    with monkeypatch.context() as killed:
        killed.setattr(supplier._mailboxes, "close", lambda _: None)
        supplier.delete(only(machines(supplier, own)))
    assert len(account.bucket.names("staging/records/")) == 2
    second = only(supplier.list([own]))
    assert second.jobs == 1
    now[0] = JarvisLabs.LISTED_WITHIN_SEC + 1
    assert only(supplier.list([own])) == second
    assert [key.split("/")[2] for key in account.bucket.names("staging/mail/")] == [second.id]


@pytest.mark.parametrize(
    ("reason", "fault", "reuse"),
    [
        ("gpu-unhealthy", "", 2),
        ("job-done", "refused", 2),
        ("job-done", "no answer", 2),
        ("job-done", "late", 2),
        ("job-done", "", 0),
    ],
)
def test_a_host_that_cannot_be_used_again_is_destroyed(account: Rented, reason: str, fault: str, reuse: int) -> None:
    now, own = [0.0], replace(account.pool("waits"), reuse=reuse, runner_group="gpu")
    supplier = account.supplier(monotonic=lambda: now[0])
    supplier.start(own, insert_of(own))
    machine = ended(account, supplier, own, reason)
    if fault == "refused":
        account.fake.answers["templates/vm/pause"] = (400, {"detail": "it is off"})
    if fault == "late":
        account.fake.pausing = list(account.fake.machines)
        supplier.delete(machine)
        supplier.delete(machine)
        assert len(account.fake.machines) == 1
        now[0] = 601.0
    if fault == "no answer":
        for now[0] in (0.0, 599.0, 601.0):
            account.fake.answers["templates/vm/pause"] = (503, {})
            if now[0] < 600:
                with pytest.raises(Unavailable):
                    supplier.delete(machine)
    supplier.delete(machine)
    assert account.fake.machines == {}


def test_a_machine_on_standby_is_replaced_before_its_urls_end(account: Rented) -> None:
    now = [1_000_000.0]
    supplier, machine = started(account, unix=lambda: now[0])
    supplier.stop(machine)
    templates = []
    for days in (0, 5.9, 6.1):
        now[0] = 1_000_000.0 + days * 86_400
        templates.append(only(supplier.list([account.pool("waits")])).template)
    assert templates == [machine.template, machine.template, ""]


@pytest.mark.parametrize(
    ("name", "value"), [("_MOST_BYTES", 10), ("time", SimpleNamespace(monotonic=iter([0.0, 9.0]).__next__))]
)
def test_a_slow_or_endless_answer_ends_in_time(
    account: Rented, monkeypatch: pytest.MonkeyPatch, name: str, value: object
) -> None:
    client = Api(str(account.ssh.token), account.fake.urls)
    monkeypatch.setattr(api, name, value)
    with pytest.raises(ApiError, match="too slow or too long"):
        client.rows()
    client.close()


def test_the_key_of_the_api_is_read_from_its_file_for_each_request(account: Rented) -> None:
    supplier, _ = started(account)
    account.ssh.token.write_text("another")
    with pytest.raises(Unavailable, match="answered 401") as found:
        supplier.list([account.pool("waits")])
    assert "another" not in str(found.value)
    account.ssh.token.unlink()
    with pytest.raises(Unavailable, match="has no API key"):
        supplier.list([account.pool("waits")])
