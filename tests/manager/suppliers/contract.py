"""What every supplier of machines does, as tests of a subclass of SupplierContract."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import pytest
from gpu_manager.decision.names import request_id, slug
from gpu_manager.model import End, Insert, Job, JobKey, Machine, Pool
from gpu_manager.ports import InsertRefused, Refused, Supplier, Unavailable

NAME = "l4-0a1b2c3d"
JOB = Job(JobKey("acme/kernels", 5, 55, 1), frozenset({"gpu"}), "queued", 0, workflow="CI")


class Vendor(Protocol):
    """The vendor of a supplier under test."""

    def supplier(self, manager: str = "staging") -> Supplier:
        """Return a new supplier for a manager, as after a restart of the manager."""

    def pool(self, does: str) -> Pool:
        """Return the pool `l4`, on whose machines one of these programs runs.

        ends: it writes the end `job-done` and switches the machine off.
        publishes: it publishes `a-public-key`, waits for its registration, and reports it (`received`).
        waits: it does nothing.
        """

    def received(self, name: str) -> str:
        """Return the registration that the machine has reported."""

    def fail(self) -> None:
        """Let the vendor answer no further request."""


def insert_of(pool: Pool, name: str = NAME) -> Insert:
    return Insert(pool.name, name, pool.rungs[0], JOB, request_id(name, pool.rungs[0].zone))


def machines(supplier: Supplier, pool: Pool) -> tuple[Machine, ...]:
    """Return the machines with what they have said."""
    found = supplier.list([pool])
    supplier.boot(found)
    return supplier.channel.listen(found)


def only(found: tuple[Machine, ...]) -> Machine:
    [machine] = found
    return machine


def until(condition: Callable[[], Any], what: str) -> Any:
    end = time.monotonic() + 60
    while not (found := condition()):
        assert time.monotonic() < end, f"timed out: {what}"
        time.sleep(0.1)
    return found


def public_key(machine: str) -> str:
    """Return what a machine publishes in these tests."""
    return json.dumps({"machine": machine, "certificate": "a-public-key"})


class SupplierContract:
    """A subclass has the fixture `vendor` (Vendor)."""

    def test_a_repeated_request_starts_one_machine_which_is_known_at_once(self, vendor: Vendor) -> None:
        supplier, pool = vendor.supplier(), vendor.pool("waits")
        started = supplier.start(pool, insert_of(pool))
        fresh = vendor.supplier()
        known = {machine.id for machine in (*fresh.starting([pool]), *fresh.list([pool]))}
        assert (fresh.start(pool, insert_of(pool)).id, known) == (started.id, {started.id})
        if started.operation:
            offer = pool.rungs[0]
            until(lambda: supplier.operation(pool, offer, started.operation).done, "the end of the request")
        assert fresh.starting([pool]) == ()
        machine = only(supplier.list([pool]))
        assert supplier.owns(machine)
        offer = pool.rungs[0]
        assert (machine.name, machine.pool, machine.id) == (NAME, "l4", started.id)
        assert (machine.zone, machine.machine_type, machine.market) == (offer.zone, offer.machine_type, offer.market)
        assert (machine.template, machine.account) == (pool.template, pool.account)
        assert (machine.job, machine.off, machine.registered_by) == (slug(JOB.key), False, pool.registered_by)

    def test_a_machine_that_ends_reports_why_and_is_deleted_once_or_twice(self, vendor: Vendor) -> None:
        supplier, pool = vendor.supplier(), vendor.pool("ends")
        supplier.start(pool, insert_of(pool))
        machine = until(lambda: next((each for each in machines(supplier, pool) if each.off), None), "the end")
        assert machine.end == End("job-done")
        supplier.delete(machine)
        supplier.delete(machine)
        until(lambda: supplier.list([pool]) == (), "the deletion")

    def test_a_registration_comes_once_to_the_machine_that_published_a_key(self, vendor: Vendor) -> None:
        supplier, pool = vendor.supplier(), replace(vendor.pool("publishes"), registered_by="manager")
        supplier.start(pool, insert_of(pool))
        # A supplier may limit how often it reads a key; a new one reads it at once.
        machine = until(
            lambda: next((each for each in machines(vendor.supplier(), pool) if each.key), None), "the machine's key"
        )
        assert (machine.unregistered, machine.key) == (True, "a-public-key")
        mailbox = supplier.channel.mailbox(machine)
        assert not mailbox.registered
        assert supplier.channel.send(machine, mailbox, "sealed")
        assert supplier.channel.send(machine, mailbox, "another") is False
        assert supplier.channel.mailbox(machine).registered
        assert only(supplier.list([pool])).sealed
        until(lambda: vendor.received(NAME) == "sealed", "the registration in the machine")

    def test_a_machine_of_another_manager_is_neither_listed_nor_deleted(self, vendor: Vendor) -> None:
        supplier, other, pool = vendor.supplier(), vendor.supplier("prod"), vendor.pool("waits")
        supplier.start(pool, insert_of(pool))
        machine = only(supplier.list([pool]))
        assert other.list([pool]) == ()
        with pytest.raises(Refused):
            other.delete(machine)
        assert only(supplier.list([pool])).id == machine.id

    def test_a_running_machine_is_stopped_and_started_again_or_that_is_refused(self, vendor: Vendor) -> None:
        supplier, pool = vendor.supplier(), vendor.pool("waits")
        supplier.start(pool, insert_of(pool))
        machine = until(lambda: next((each for each in supplier.list([pool]) if each.status == "RUNNING"), None), "it")
        try:
            supplier.stop(machine)
        except Refused:
            with pytest.raises(InsertRefused):
                supplier.start_again(machine, "request-1")
            return
        until(lambda: only(supplier.list([pool])).off, "the stop")
        supplier.start_again(machine, request_id(NAME, "again"))
        until(lambda: only(supplier.list([pool])).status == "RUNNING", "the start")
        assert only(supplier.list([pool])).id == machine.id

    def test_a_copy_for_a_person_is_no_machine_of_the_manager_or_is_refused(self, vendor: Vendor) -> None:
        supplier, pool = vendor.supplier(), vendor.pool("waits")
        insert = replace(insert_of(pool, "repro-l4-55"), job=None)
        assert set(supplier.software(pool, pool.rungs[0])) <= {"image", "driver", "torch"}
        if supplier.NO_COPY:
            with pytest.raises(Refused, match=supplier.NO_COPY):
                supplier.start_copy(pool, insert, 1)
        else:
            copy = supplier.start_copy(pool, insert, 1)
            assert ("repro-l4-55" in copy.connect, "repro-l4-55" in copy.end) == (True, True)
        assert (supplier.list([pool]), supplier.starting([pool])) == ((), ())

    def test_a_list_without_an_answer_is_never_empty(self, vendor: Vendor) -> None:
        supplier, pool = vendor.supplier(), vendor.pool("waits")
        supplier.start(pool, insert_of(pool))
        vendor.fail()
        with pytest.raises((Unavailable, Refused)):
            supplier.list([pool])

    def test_a_request_that_is_unknown_has_ended(self, vendor: Vendor) -> None:
        pool = vendor.pool("waits")
        state = vendor.supplier().operation(pool, pool.rungs[0], "operation-unknown")
        assert (state.done, state.error) == (True, None)
