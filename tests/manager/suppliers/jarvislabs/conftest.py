"""The vendor of the contract: the fake API, a bucket of moto, and machines that are threads of the test.

A program `ssh` keeps the script of each machine, as the VM would get it.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gpu_ci.mailbox.boot import Definition
from gpu_ci.mailbox.objects import Objects, S3Objects, Signed
from gpu_manager.suppliers.jarvislabs.api import Api
from gpu_manager.suppliers.jarvislabs.boot import Boots
from gpu_manager.suppliers.jarvislabs.pool import Bucket, JarvisOffer, JarvisPool
from gpu_manager.suppliers.jarvislabs.supplier import JarvisLabs

from tests.gpu_ci.mailbox.s3 import boot_of, s3, send
from tests.manager.suppliers.contract import public_key
from tests.manager.suppliers.ec2.conftest import Memory
from tests.manager.suppliers.jarvislabs.fake import ACCOUNT, TOKEN, FakeJarvisLabs, served

MAILBOX = Bucket("gs://acme-mail")


def definition(does: str) -> bytes:
    return Definition({"does": does}, {"agent": "a" * 64, "smoke": "b" * 64}).text().encode()


def write_template(objects: Objects, does: str = "waits", manager: str = "staging") -> str:
    """Write what `pulumi up` writes, and return the name of the template."""
    template = hashlib.sha256(definition(does)).hexdigest()
    objects.write(f"{manager}/templates/{template}.json", definition(does))
    return template


def pool(does: str = "waits", **fields: Any) -> JarvisPool:
    template = hashlib.sha256(definition(does)).hexdigest()
    given = {"name": "l4", "account": ACCOUNT, "template": template, "max": 2, "labels": {"gpu"}}
    rungs = (JarvisOffer(zone="IN2", machine_type="1xH100"), JarvisOffer(zone="IN1", machine_type="1xH100"))
    return JarvisPool(**{**given, "rungs": rungs, "mailbox": MAILBOX, **fields})


class Ssh:
    """A program `ssh` of the test, which keeps what it gets by the port, and its arguments."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.key, self.token = folder, folder / "key", folder / "token"
        self.key.write_text("a private key")
        self.token.write_text(f"{TOKEN}\n")
        self.says('cat >"$FOLDER/$port.new" && mv "$FOLDER/$port.new" "$FOLDER/$port.sh"')
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def says(self, command: str) -> None:
        program = self.folder / "ssh"
        program.write_text(
            f'#!/bin/sh\nFOLDER={self.folder}\nprintf "%s\\n" "$*" >>"$FOLDER/argv"\nport="${{*##* -p }}"\n'
            f'port="${{port%% *}}"\n{command}\n'
        )
        program.chmod(0o755)

    @property
    def argv(self) -> list[str]:
        file = self.folder / "argv"
        return file.read_text().splitlines() if file.exists() else []

    def scripts(self) -> dict[int, str]:
        """Return the script of each machine by its number."""
        return {int(each.stem): each.read_text() for each in self.folder.glob("*.sh")}


class Rented:
    """The vendor of the contract."""

    def __init__(self, fake: FakeJarvisLabs, bucket: Objects, ssh: Ssh) -> None:
        self.fake, self.bucket, self.ssh, self._received = fake, bucket, ssh, dict[str, str]()
        self._stopped, self._threads = threading.Event(), list[threading.Thread]()
        self._suppliers: list[JarvisLabs] = []
        if isinstance(bucket, S3Objects):
            self._run(self._boot_machines)

    def supplier(self, manager: str = "staging", **values: Any) -> JarvisLabs:
        api = Api(str(self.ssh.token), self.fake.urls)
        made = JarvisLabs(manager, MAILBOX, lambda _: self.bucket, api=api, boots=Boots(str(self.ssh.key)), **values)
        self._suppliers.append(made)
        return made

    def pool(self, does: str) -> JarvisPool:
        write_template(self.bucket, does)
        return pool(does)

    def received(self, name: str) -> str:
        return self._received.get(name, "")

    def fail(self) -> None:
        self.fake.urls.update(dict.fromkeys(self.fake.urls, "http://127.0.0.1:9"))

    def close(self) -> None:
        self._stopped.set()
        for each in self._threads:
            each.join()
        for supplier in self._suppliers:
            supplier.close()

    def _run(self, target: Any, *args: Any) -> None:
        self._threads.append(threading.Thread(target=target, args=args, daemon=True))
        self._threads[-1].start()

    def _boot_machines(self) -> None:
        booted: set[int] = set()
        while not self._stopped.wait(0.02):
            for number, script in self.ssh.scripts().items():
                if number not in booted:
                    booted.add(number)
                    self._run(self._boot, script)

    def _boot(self, script: str) -> None:
        """Do what the boot script and the agent do with the boot document."""
        boot, digest = boot_of(script)
        status, content = send("GET", boot)
        assert (status, hashlib.sha256(content).hexdigest()) == (200, digest)
        document = json.loads(content)
        mail = {name: Signed(**each) for name, each in document["mailbox"].items()}
        name = document["machine"]
        assert document["host"] == "rented"
        if document["config"]["does"] == "ends":
            send("PUT", mail["end"], b'{"reason": "job-done"}')  # the vendor still says that it is on
        elif document["config"]["does"] == "publishes":
            send("PUT", mail["key"], public_key(name).encode())
            while not self._stopped.wait(0.05):
                status, content = send("GET", mail["registration"])
                if status == 200:
                    self._received[name.rpartition("-")[0]] = content.decode()
                    return


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rented]:
    """Return an account with a mailbox in memory, whose machines do nothing."""
    with served() as fake:
        rented = Rented(fake, Memory(), Ssh(tmp_path, monkeypatch))
        yield rented
        rented.close()


@pytest.fixture(scope="session")
def bucket() -> Iterator[S3Objects]:
    with s3() as made:
        yield made


@pytest.fixture
def vendor(bucket: S3Objects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rented]:
    for key in bucket.names(""):
        bucket.delete(key)
    with served() as fake:
        rented = Rented(fake, bucket, Ssh(tmp_path, monkeypatch))
        yield rented
        rented.close()
