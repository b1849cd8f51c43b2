"""Runners that the manager registers: when, for which machines, only once, and which machines may be deleted early."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, pkcs7
from gpu_manager import registration
from gpu_manager.decision.decide import Decision, decide
from gpu_manager.decision.names import slug
from gpu_manager.memory import MachineMemory, Memory, Registration, from_json, to_json
from gpu_manager.model import Delete, Machine, NewRunner, Pool, Register, RemoveRunner, Runner
from gpu_manager.ports import GithubView, Mailbox, Refused, Unavailable

from tests.manager.machine_key import CERTIFICATE, PRIVATE, PUBLISHED, certificate_of, published
from tests.manager.test_decide import NOW, POOL, job, machine, observe
from tests.manager.test_loop import Scripted, manager

BROKERED = replace(POOL, registered_by="manager")
JIT = "eyJwbGFudGVkIjoxfQ=="


def ready(name: str = "l4-a", **others: Any) -> Machine:
    """Return a machine that has published its key."""
    given = {"id": "42", "registered_by": "manager", "key": PUBLISHED, **others}
    return machine(name, **given)


def decided(*machines: Machine, jobs: int = 1, memory: Memory | None = None, **others: Any) -> Decision:
    given = {"jobs": tuple(job(number) for number in range(1, jobs + 1)), "machines": machines, **others}
    return decide([BROKERED], observe(**given), memory or Memory())


# -- decisions


def test_a_machine_with_a_key_gets_a_runner_once() -> None:
    first = decided(ready())
    assert first.actions == (Register(ready()),)
    assert first.memory.registrations == {"l4-a": Registration("42", NOW)}
    assert decided(ready(), memory=first.memory).actions == ()
    assert from_json(to_json(first.memory)) == first.memory


@pytest.mark.parametrize(
    "changes",
    [
        {"key": ""},
        {"sealed": True},
        {"registered_by": "machine"},
        {"status": "STAGING"},
        {"status": "STOPPING"},
    ],
)
def test_no_runner_is_registered_for(changes: dict[str, Any]) -> None:
    assert not any(isinstance(each, Register) for each in decided(ready(**changes)).actions)


def test_a_request_whose_outcome_is_unknown_is_repeated_after_half_a_minute() -> None:
    memory = decided(ready()).memory
    assert decided(ready(), memory=memory, now=NOW + 29).actions == ()
    assert decided(ready(), memory=memory, now=NOW + 30).actions == (Register(ready()),)


def test_twenty_runners_are_registered_in_a_pass_of_all_pools_and_earlier_ones_do_not_count() -> None:
    pools = [replace(BROKERED, name=name, max=50, labels=frozenset({name})) for name in ("l4", "t4")]
    jobs = tuple(job(number, pools[number % 2].name) for number in range(30))
    machines = tuple(ready(f"{pools[at % 2].name}-{at:02}", pool=pools[at % 2].name) for at in range(30))
    earlier = tuple(ready(f"l4-{at:02}", sealed=True) for at in range(50, 75))
    memory = Memory(registrations={each.name: Registration("42", NOW - 1) for each in earlier})
    busy = tuple(Runner(at, each.name, online=True, busy=True) for at, each in enumerate(earlier))
    decision = decide(pools, observe(jobs=jobs, machines=machines + earlier, runners=busy), memory)
    begun = [each.machine.pool for each in decision.actions if isinstance(each, Register)]
    assert (begun.count("l4"), begun.count("t4")) == (15, 5)


def test_the_machine_of_a_cancelled_job_is_deleted_before_it_has_a_runner() -> None:
    """It would boot for minutes more, and cannot have a job."""
    booting = ready(key="")
    first = decided(booting, jobs=0)
    assert first.actions == ()
    second = decided(booting, jobs=0, memory=first.memory, now=NOW + 29)
    assert second.actions == ()
    third = decided(booting, jobs=0, memory=second.memory, now=NOW + 30)
    assert third.actions == (Delete(booting, "no queued job needs it, and it has no runner yet"),)
    # A new job is not assigned to this machine, although Google still lists it as running.
    assert decided(booting, jobs=1, memory=third.memory, now=NOW + 31).assigned != {job(1).key: "l4-a"}


def test_a_registration_of_an_earlier_machine_of_the_name_does_not_count() -> None:
    memory = Memory(registrations={"l4-a": Registration("41", NOW - 1)})
    assert decided(ready(), memory=memory).actions == (Register(ready()),)


@pytest.mark.parametrize("sealed", [False, True])
def test_a_machine_that_may_have_a_runner_is_not_deleted_early(sealed: bool) -> None:
    """The manager was killed after its request, or GitHub's list does not contain the runner yet."""
    memory = Memory(registrations={"l4-a": Registration("42", NOW - 100)})
    for later in (0, 30, 60):
        decision = decided(ready(sealed=sealed), jobs=0, memory=memory, now=NOW + later)
        assert not any(isinstance(each, Delete) for each in decision.actions)
        memory = decision.memory


def test_without_a_memory_an_unused_runner_is_unregistered_before_its_machine_goes() -> None:
    """The memory is lost, and GitHub's list shows that the runner was registered."""
    runners = (Runner(7, "l4-a", online=False, busy=False),)
    memory = decided(ready(), jobs=0, runners=runners).memory
    decision = decided(ready(), jobs=0, runners=runners, memory=memory, now=NOW + 30)
    assert decision.actions == (RemoveRunner(runners[0], ready(), "no queued job needs it"),)


def test_of_two_machines_the_one_without_a_key_goes() -> None:
    first = decided(ready("l4-a"), ready("l4-b", key=""))
    assert first.actions == (Register(ready("l4-a")),)
    later = decided(ready("l4-a", sealed=True), ready("l4-b", key=""), memory=first.memory, now=NOW + 30)
    assert later.actions == (Delete(ready("l4-b", key=""), "no queued job needs it, and it has no runner yet"),)


def test_a_runner_that_never_reached_its_machine_does_not_age() -> None:
    """The runner is offline until its registration arrives."""
    runners = (Runner(7, "l4-a", online=False, busy=False),)
    memory = Memory(registrations={"l4-a": Registration("42", NOW - 20)})
    decision = decided(ready(), runners=runners, memory=memory)
    assert decision.memory.machines["l4-a"].offline_since is None
    sealed = decided(ready(sealed=True), runners=runners, memory=decision.memory, now=NOW + 10)
    assert sealed.memory.machines["l4-a"].offline_since == NOW + 10


def test_a_runner_whose_machine_is_gone_is_unregistered_and_then_forgotten() -> None:
    memory = Memory(registrations={"l4-a": Registration("42", NOW)})
    runner = Runner(7, "l4-a", online=False, busy=False)
    decision = decided(jobs=0, runners=(runner,), memory=memory)
    assert decision.actions == (RemoveRunner(runner, None, "its machine is gone"),)
    # A list may lack a runner that has just been registered.
    soon = decided(jobs=0, memory=decision.memory, now=NOW + 60)
    assert "l4-a" in soon.memory.registrations
    assert decided(jobs=0, memory=soon.memory, now=NOW + 60.5).memory.registrations == {}


def test_a_runner_that_stays_is_forgotten_after_a_day() -> None:
    """GitHub removes an unused runner after a day, and the manager must not remove a working one."""
    works = Runner(7, "l4-a", online=True, busy=True)
    memory = Memory(registrations={"l4-a": Registration("42", NOW)})
    day = decided(jobs=0, runners=(works,), memory=memory, now=NOW + 24 * 3600)
    assert set(day.memory.registrations) == {"l4-a"}
    assert decided(jobs=0, runners=(works,), memory=day.memory, now=NOW + 24 * 3600 + 1).memory.registrations == {}


def test_a_machine_that_is_missing_from_one_list_keeps_its_runner() -> None:
    runner = Runner(7, "l4-a", online=False, busy=False)
    memory = Memory(machines={"l4-a": MachineMemory("l4", NOW - 100)}, registrations={"l4-a": Registration("42", NOW)})
    first = decided(jobs=0, runners=(runner,), memory=memory)
    assert first.actions == ()
    assert decided(jobs=0, runners=(runner,), memory=first.memory).actions != ()


@pytest.mark.parametrize("unknown", ["machines", "runners"])
def test_no_runner_is_a_stray_while_a_source_is_unknown(unknown: str) -> None:
    memory = Memory(registrations={"l4-a": Registration("42", NOW)})
    runner = Runner(7, "l4-a", online=False, busy=False)
    decision = decided(jobs=0, memory=memory, **{"runners": (runner,), unknown: None})
    assert decision.actions == ()
    assert "l4-a" in decision.memory.registrations


@pytest.mark.parametrize(("online", "busy"), [(True, False), (False, True), (True, True)])
def test_a_runner_that_works_or_has_a_job_is_no_stray(online: bool, busy: bool) -> None:
    memory = Memory(registrations={"l4-a": Registration("42", NOW)})
    assert decided(jobs=0, runners=(Runner(7, "l4-a", online, busy),), memory=memory).actions == ()


# -- what is done


@dataclass
class Both:
    """GitHub and a channel; `fails` is raised by the call of that name."""

    sent: str = ""
    changed: bool = False
    fails: dict[str, Exception] = field(default_factory=dict)
    did: list[str] = field(default_factory=list)

    def does(self, what: str) -> None:
        self.did.append(what)
        if what in self.fails:
            raise self.fails[what]

    def register(self, pool: Pool, name: str) -> NewRunner:
        self.does("register")
        return NewRunner(7, name, JIT)

    def remove_runner(self, runner: Runner | NewRunner) -> bool:
        self.did.append(f"remove {runner.id}")
        return True

    def mailbox(self, machine: Machine) -> Mailbox:
        self.does("read")
        return Mailbox(bool(self.sent))

    def send(self, machine: Machine, mailbox: Mailbox, registration: str) -> bool:
        self.does("send")
        if self.changed:
            return False
        self.sent = registration
        return True


def carried_out(both: Both, target: Machine | None = None) -> str:
    return registration.register(target or ready(), BROKERED, both, both)  # type: ignore[arg-type]


def test_the_registration_is_sealed_to_the_machines_key() -> None:
    both = Both()
    assert carried_out(both) == "l4-a-42"
    assert both.did == ["read", "register", "send"]
    sealed = base64.b64decode(both.sent)
    assert json.loads(pkcs7.pkcs7_decrypt_der(sealed, CERTIFICATE, PRIVATE, [])) == {
        "machine": "l4-a-42",
        "runnerId": 7,
        "jitConfig": JIT,
        "usdPerHour": 0.4,
        "market": "spot",
    }
    assert JIT.encode() not in sealed
    other = rsa.generate_private_key(65537, 2048)
    with pytest.raises(ValueError):  # noqa: PT011 - cryptography has no text of its own for it
        pkcs7.pkcs7_decrypt_der(sealed, certificate_of(other), other, [])


def test_the_registration_has_the_price_of_the_machine() -> None:
    both, spot = Both(), replace(POOL.rungs[0], usd_per_hour=0.35)
    target = replace(ready(), market="standard")
    firm = replace(spot, zone=target.zone, market="standard", usd_per_hour=0.85)
    registration.register(target, replace(BROKERED, rungs=(spot, firm)), both, both)  # type: ignore[arg-type]
    message = json.loads(pkcs7.pkcs7_decrypt_der(base64.b64decode(both.sent), CERTIFICATE, PRIVATE, []))
    assert (message["usdPerHour"], message["market"]) == (0.85, "standard")


def test_a_machine_that_has_a_registration_by_now_gets_no_second_one() -> None:
    both = Both(sent="sealed")
    assert carried_out(both) == ""
    assert both.did == ["read"]


def test_a_runner_that_did_not_reach_its_machine_is_unregistered() -> None:
    both = Both(changed=True)
    with pytest.raises(Unavailable, match="was changed by another request meanwhile"):
        carried_out(both)
    assert both.did[-1] == "remove 7"
    refused = Both(fails={"send": Refused("no permission")})
    with pytest.raises(Refused):
        carried_out(refused)
    assert refused.did[-1] == "remove 7"


def test_a_runner_that_may_have_reached_its_machine_stays() -> None:
    both = Both(fails={"send": Unavailable("no answer")})
    with pytest.raises(Unavailable):
        carried_out(both)
    assert both.did[-1] == "send"


def of_key(make: Callable[[], Any]) -> str:
    return published(certificate_of(make()))


def of_bits(bits: int) -> str:
    """Return a certificate of an RSA key of this size. Its private key is not created, which would take seconds."""
    own = CERTIFICATE
    builder = x509.CertificateBuilder().subject_name(own.subject).issuer_name(own.subject).serial_number(1)
    builder = builder.public_key(rsa.RSAPublicNumbers(65537, (1 << bits - 1) | 1).public_key())
    builder = builder.not_valid_before(own.not_valid_before_utc).not_valid_after(own.not_valid_after_utc)
    return published(builder.sign(PRIVATE, SHA256()))


def changed(before: bytes, after: bytes) -> str:
    """Return a machine's certificate with other bytes in one place."""
    content = base64.b64decode(PUBLISHED)
    assert content.count(before) == 1
    return base64.b64encode(content.replace(before, after)).decode()


VERSION = b"\xa0\x03\x02\x01\x02"
# The last byte of the modulus, and the exponent 65,537.
MODULUS_END = CERTIFICATE.public_bytes(Encoding.DER).partition(b"\x02\x03\x01\x00\x01")[0][-4:]


@pytest.mark.parametrize(
    "key",
    [
        "no base64!",
        f"{PUBLISHED[:40]}!{PUBLISHED[40:]}",
        base64.b64encode(b"no certificate").decode(),
        of_key(lambda: rsa.generate_private_key(65537, 1024)),  # noqa: S505 - that is the point
        of_bits(2047),
        of_bits(4097),
        of_key(lambda: ec.generate_private_key(ec.SECP256R1())),
        changed(VERSION, VERSION[:-1] + b"\x07"),
        changed(MODULUS_END + b"\x02\x03\x01\x00\x01", MODULUS_END[:-1] + b"\x00\x02\x03\x01\x00\x01"),
    ],
    ids=["base64", "one other character", "der", "1024", "2047", "4097", "ec", "version 8", "even modulus"],
)
def test_nothing_is_registered_for_a_key_that_nothing_can_be_sealed_to(key: str) -> None:
    both = Both()
    with pytest.raises(registration.UnusableKey, match="l4-a has published is not a certificate of an RSA key"):
        carried_out(both, ready(key=key))
    assert both.did == []


@pytest.mark.parametrize("bits", [2048, 4096])
def test_a_runner_is_registered_for_keys_of_2048_to_4096_bits(bits: int) -> None:
    assert carried_out(Both(), ready(key=of_bits(bits))) == "l4-a-42"


@pytest.mark.parametrize(("characters", "taken"), [(4096, True), (4097, False)])
def test_a_certificate_of_more_than_4096_characters_is_ignored(characters: int, taken: bool) -> None:
    text = json.dumps({"machine": "l4-a-42", "certificate": "x" * characters})
    assert registration.key_of(text, "l4-a", "42") == ("x" * characters if taken else "")


# -- in the loop


@dataclass
class Registering(Scripted):
    both: Both = field(default_factory=Both)

    def register(self, pool: Pool, name: str) -> NewRunner:
        return self.both.register(pool, name)

    def mailbox(self, machine: Machine) -> Mailbox:
        return self.both.mailbox(machine)

    def send(self, machine: Machine, mailbox: Mailbox, registration: str) -> bool:
        return self.both.send(machine, mailbox, registration)


def test_a_pass_registers_a_runner_and_keeps_no_secret(capsys: pytest.CaptureFixture[str]) -> None:
    world = Registering(listed=(ready(),), view=GithubView(NOW, (job(),), ()))
    loop, store = manager(world)
    done = loop.step()
    assert [(event.kind, event.subject, event.detail) for event in done.events] == [
        ("register", "l4-a", "runner l4-a-42")
    ]
    kept = to_json(store.memory).decode() + repr(done) + capsys.readouterr().out
    assert JIT not in kept
    assert world.both.sent not in kept


def test_a_pool_whose_runners_github_refuses_starts_no_more_machines() -> None:
    world = Registering(listed=(ready(),), view=GithubView(NOW, (job(1), job(2)), ()))
    world.both.fails["register"] = Refused("POST /orgs/x/actions/runners/generate-jitconfig: GitHub answered 403")
    loop, store = manager(world)
    events = loop.step().events
    assert [event.kind for event in events] == ["insert", "refused"]
    until, why = store.memory.refusals["l4"]
    assert until == NOW + 300
    assert why.startswith("no runner could be registered: POST /orgs/x")
    assert slug(job(2).key) in store.memory.jobs


def test_an_invalid_key_of_one_machine_stops_no_pool() -> None:
    world = Registering(listed=(ready(key="no base64!"),), view=GithubView(NOW, (job(),), ()))
    loop, store = manager(world)
    assert [event.kind for event in loop.step().events] == ["refused"]
    assert store.memory.refusals == {}
