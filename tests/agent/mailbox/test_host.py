"""A machine with a mailbox: its host in a bucket of moto, from the boot document to the opened registration."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from gpu_agent import __main__ as agent
from gpu_agent.agent import ROLE, listen
from gpu_agent.broker.registration import SEALED, Broker
from gpu_agent.config import KEY, RunnerConfig
from gpu_agent.google.compute_engine import GoogleHost
from gpu_agent.host import Notice
from gpu_agent.machine import processes
from gpu_agent.mailbox.document import VARIABLE, Document, document
from gpu_agent.mailbox.host import MailboxHost
from gpu_agent.outcomes import AgentExit
from gpu_agent.report import END
from gpu_ci.mailbox.boot import Definition, mail_key, post_boot
from gpu_ci.mailbox.objects import S3Objects
from gpu_ci.naming import payload_key
from gpu_manager.mailboxes.channel import MailboxChannel
from gpu_manager.model import End, Machine, NewRunner, Offer, Pool
from gpu_manager.registration import register

from tests.agent.google.test_compute_engine import Ticking
from tests.gpu_ci.mailbox.s3 import boot_of, s3, send

MANAGER, NAME, ID = "staging", "l4-0a1b2c3d", "0123456789ab"
CONFIG = {"pool": "l4", "check_args": ["--expect-gpus", "1"], "check_sec": 600, "torch": "2.13.0"}
SMOKE = b"PK smoke"
POOL = Pool("l4", "1", "lt-1:1", (Offer("us-east-1a", "g6.xlarge", "spot"),), 4, frozenset({"gpu"}))
MACHINE = Machine(NAME, "l4", "us-east-1a", "RUNNING", "spot", "g6.xlarge", "lt-1:1", id=ID, registered_by="manager")
RUNNER = RunnerConfig(version="2.336.0", sha256={})


@pytest.fixture(scope="module")
def bucket() -> Iterator[S3Objects]:
    with s3() as made:
        yield made


@pytest.fixture
def boot(bucket: S3Objects, tmp_path: Path) -> Path:
    """Return the boot document of a new machine."""
    for key in bucket.names(""):
        bucket.delete(key)
    sha256 = hashlib.sha256(SMOKE).hexdigest()
    bucket.write(payload_key(MANAGER, sha256), SMOKE)
    definition = Definition(CONFIG, {"agent": "a" * 64, "smoke": sha256})
    user_data = post_boot(bucket, MANAGER, NAME, ID, "ec2", definition, role="check")
    file = tmp_path / "boot.json"
    file.write_bytes(send("GET", boot_of(user_data)[0])[1])
    return file


@pytest.fixture
def found(boot: Path, monkeypatch: pytest.MonkeyPatch) -> Document:
    monkeypatch.setattr(processes, "BOOT_DOCUMENT", boot.with_name("none"))
    made = document({VARIABLE: str(boot)})
    assert made
    return made


@pytest.fixture
def host(found: Document) -> MailboxHost:
    return MailboxHost(found, Ticking())


def test_the_boot_document_is_what_metadata_is_at_google(host: MailboxHost) -> None:
    assert host.name() == f"{NAME}-{ID}"
    assert json.loads(host.attribute(KEY) or "") == CONFIG
    assert base64.b64decode(host.attribute("gpu-smoke-pyz") or "") == SMOKE
    assert (host.attribute(ROLE), host.attribute(SEALED), host.attribute("another")) == ("check", None, None)


def test_another_smoke_check_than_the_pinned_one_is_not_run(host: MailboxHost, bucket: S3Objects) -> None:
    bucket.write(payload_key(MANAGER, hashlib.sha256(SMOKE).hexdigest()), b"another")
    with pytest.raises(AgentExit, match="no-config: the smoke check is not the pinned one"):
        host.attribute("gpu-smoke-pyz")


def test_an_object_is_published_once_and_redacted(host: MailboxHost, bucket: S3Objects) -> None:
    host.publish(END, '{"detail": "ghs_' + "a" * 36 + '"}')
    assert bucket.read(mail_key(MANAGER, ID, "end")) == b'{"detail": "[redacted]"}'
    with pytest.raises(OSError, match="exists already"):
        host.publish(END, "{}")
    with pytest.raises(OSError, match="no object"):
        host.publish("gpu-build/result", "{}")


def test_a_machine_has_no_identity(host: MailboxHost) -> None:
    for call in (lambda: host.secret("x", 1, 1), lambda: host.bucket("x"), lambda: host.registry_token(1)):
        with pytest.raises(AgentExit, match=r"no-secret: .* has no identity"):
            call()
    assert {"169.254.169.254", "fd00:ec2::254"} <= set(host.blocked.addresses)


class Github:
    def register(self, pool: Pool, name: str) -> NewRunner:
        return NewRunner(7, name, "planted-jit")


def test_manager_and_machine_register_a_runner_through_the_bucket(host: MailboxHost, bucket: S3Objects) -> None:
    """The agent publishes a real key, and the manager encrypts for it while the agent waits."""
    channel = MailboxChannel(MANAGER, bucket)

    def manager() -> None:
        while not (machine := channel.listen([MACHINE])[0]).key:
            pass
        register(machine, POOL, Github(), channel)  # type: ignore[arg-type]

    thread = threading.Thread(target=manager)
    thread.start()
    clock = host._clock
    found = Broker(host, clock).register(host.name(), RUNNER, clock.now() + 100_000)
    thread.join()
    assert (found.runner_id, found.jitconfig, found.market) == (7, "planted-jit", "spot")
    assert host.attribute(SEALED)
    host.publish(END, json.dumps({"reason": "job-done"}))
    assert channel.listen([replace(MACHINE, status="TERMINATED")])[0].end == End("job-done")
    with pytest.raises(AgentExit, match=r"not-registered: .* exists already"):
        Broker(host, clock).register(host.name(), RUNNER, clock.now() + 60)


@pytest.mark.slow
def test_a_rehearsal_publishes_a_key_and_without_a_manager_no_registration_comes(host: MailboxHost) -> None:
    Broker(host, host._clock).rehearse(host._clock.now() + 60)
    assert host.awaited_attribute(SEALED, host._clock.now() + 60) is None


# -- faults, and notices ----------------------------------------------------------------------------------------------


class Server:
    """A server that answers with these statuses in turn, and then with the last one."""

    def __init__(self, *statuses: int, body: bytes = b"") -> None:
        self.statuses, self.body = list(statuses), body
        self.requests: list[tuple[str, str, dict[str, str]]] = []

    def __enter__(self) -> Server:
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                owner.requests.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}))
                status = owner.statuses.pop(0) if len(owner.statuses) > 1 else owner.statuses[0]
                if not status:
                    self.close_connection = True
                    return
                self.send_response(status)
                self.send_header("Content-Length", str(len(owner.body)))
                self.end_headers()
                self.wfile.write(owner.body)

            do_PUT = do_GET  # noqa: N815 - the base class's name

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def at(found: Document, server: Server) -> MailboxHost:
    """Return the host whose mailbox is on this server."""
    mailbox = {name: each._replace(url=f"{server.address}/{name}") for name, each in found.mailbox.items()}
    return MailboxHost(replace(found, mailbox=mailbox), Ticking())


@pytest.mark.parametrize(
    ("statuses", "problem"),
    [
        ((200,), ""),
        ((503, 409, 200), ""),
        ((0, 412), ""),  # the first attempt has written it, and its answer was lost
        ((503, 412), ""),
        ((412,), "exists already"),
        ((403,), "answered 403"),
        ((503,), "answered 503"),
    ],
)
def test_a_write_is_repeated_and_says_why_it_failed(found: Document, statuses: tuple[int, ...], problem: str) -> None:
    with Server(*statuses) as server:
        call: Callable[[], None] = lambda: at(found, server).publish("gpu-agent/key", "x", 60)  # noqa: E731
        if not problem:
            call()
        else:
            with pytest.raises(OSError, match=problem) as raised:
                call()
            assert "X-Amz" not in str(raised.value)
    assert {headers["if-none-match"] for _, _, headers in server.requests} == {"*"}


def test_a_registration_is_awaited_through_an_outage(found: Document) -> None:
    with Server(403, 503, 0, 404, 400, 200, body=b"sealed") as server:
        host = at(found, server)
        assert host.awaited_attribute(SEALED, host._clock.now() + 600) == "sealed"
    assert len(server.requests) == 6


ACTION = json.dumps({"action": "terminate", "time": "2026-11-30T08:22:00Z"}).encode()


def test_a_spot_interruption_is_a_notice_of_a_preemption(found: Document, bucket: S3Objects) -> None:
    """From the instance metadata to the agent's listener, and to the mailbox."""
    heard: list[Notice] = []
    with Server(200, 200, body=ACTION) as imds:
        host = MailboxHost(found, Ticking(), imds=imds.address)
        listen(host, lambda notice: bool(heard.append(notice)) or len(heard) > 1, 0.01)
        done = threading.Event()
        for _ in range(200):
            if bucket.read(mail_key(MANAGER, ID, "notice")):
                break
            done.wait(0.05)
    assert heard[0].reason == "preempted"
    assert "terminate at 2026-11-30T08:22:00Z" in heard[0].announcement
    (_, token, headers), (_, path, _) = imds.requests[:2]
    assert (token, path) == ("/latest/api/token", "/latest/meta-data/spot/instance-action")
    assert headers["x-aws-ec2-metadata-token-ttl-seconds"] == "60"
    assert json.loads(bucket.read(mail_key(MANAGER, ID, "notice")) or b"{}")["reason"] == "preempted"


@pytest.mark.parametrize(("status", "body"), [(404, b""), (200, b"[]"), (200, b"{}"), (500, ACTION), (0, b"")])
def test_without_an_interruption_there_is_no_notice(found: Document, status: int, body: bytes) -> None:
    with Server(200, status, body=body) as imds:
        assert MailboxHost(found, Ticking(), imds=imds.address).notice(0) is None


def test_a_rented_host_reads_no_metadata(found: Document) -> None:
    with Server(200, body=ACTION) as imds:
        assert MailboxHost(replace(found, host="rented"), Ticking(), imds=imds.address).notice(30) is None
    assert imds.requests == []


# -- the choice of the host -------------------------------------------------------------------------------------------


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], object]:
    """Return a function that runs the agent up to its supervisor, and returns the host."""
    hosts: list[object] = []

    class Supervisor:
        def __init__(self, host: object, *_: object, **__: object) -> None:
            hosts.append(host)

        def run(self, *_: object) -> None: ...

    for name in ("GCE_METADATA_HOST", "GPU_AGENT_STATE", "GPU_AGENT_SYSTEM", VARIABLE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(agent, "Supervisor", Supervisor)
    monkeypatch.setattr(agent, "PRODUCT", tmp_path / "product_name")
    return lambda: hosts.pop() if agent.main(["run"]) == 0 else None


def test_the_file_of_the_boot_script_chooses_the_host(
    started: Callable[[], object], boot: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "BOOT_DOCUMENT", boot.with_name("none"))
    assert started() is None
    monkeypatch.setenv(VARIABLE, str(boot))
    assert isinstance(started(), MailboxHost)
    # A Compute Engine VM does not read the variable.
    agent.PRODUCT.write_text("Google Compute Engine\n")
    assert isinstance(started(), GoogleHost)
    if os.geteuid() == 0:
        boot.chmod(0o600)
        monkeypatch.setattr(processes, "BOOT_DOCUMENT", boot)
        assert isinstance(started(), MailboxHost)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"mailbox": {"key": 1}}'])
def test_another_document_changes_nothing(
    started: Callable[[], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    file = tmp_path / "other.json"
    file.write_text(text)
    monkeypatch.setenv(VARIABLE, str(file))
    assert started() is None


def test_a_file_that_is_not_roots_own_is_refused_and_its_variable_is_not_read(
    started: Callable[[], object],
    boot: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(processes, "BOOT_DOCUMENT", boot)
    monkeypatch.setenv(VARIABLE, str(boot))
    boot.chmod(0o644)
    assert started() is None
    assert "its mode is not 0600" in capsys.readouterr().out
    if os.geteuid() == 0:
        boot.chmod(0o600)
        os.chown(boot, 65534, 65534)
        assert started() is None
        os.chown(boot, 0, 0)
    link = boot.with_name("link.json")
    link.symlink_to(boot)
    boot.chmod(0o600)
    monkeypatch.setattr(processes, "BOOT_DOCUMENT", link)
    assert started() is None


def test_the_power_is_cut_only_on_a_machine(boot: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cut: list[int] = []
    monkeypatch.setattr(processes, "_PRODUCT", boot.with_name("none"))
    monkeypatch.setattr(processes.ctypes, "CDLL", lambda _: type("C", (), {"reboot": lambda _, how: cut.append(how)})())
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(processes, "BOOT_DOCUMENT", boot.with_name("none"))
    processes.cut_power()
    assert cut == []
    monkeypatch.setattr(processes, "BOOT_DOCUMENT", boot)
    processes.cut_power()
    assert len(cut) == (1 if boot.stat().st_uid == 0 else 0)
