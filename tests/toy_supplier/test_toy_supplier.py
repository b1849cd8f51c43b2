"""A supplier from another package: it is found by its entry point, and needs no change of a file of gpu-ci."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from gpu_manager import suppliers
from gpu_manager.config import ConfigError, read
from gpu_manager.model import Offer, Pool
from gpu_manager.ports import Supplier
from pulumi_sandbox.providers.machines.local_services import LocalServices
from pulumi_sandbox.world.store import World

from tests.manager.suppliers.contract import SupplierContract, public_key
from tests.manager.test_config import CONFIG, POOL
from tests.sandbox.providers.github.actions.conftest import APP, INSTALLATION, Hub, key

_HERE = Path(__file__).parent
_KEY = public_key("$TOY_NAME").replace('"', '\\"')
_PROGRAMS = {
    "ends": "echo -n job-done > $TOY_MACHINE/end",
    "publishes": f"""echo "{_KEY}" > $TOY_MACHINE/key.new && mv $TOY_MACHINE/key.new $TOY_MACHINE/key
until [ -e $TOY_MACHINE/registration ]; do sleep 0.1; done
cp $TOY_MACHINE/registration $TOY_MACHINE/received
sleep 60""",
    "waits": "sleep 60",
}


class Toys:
    """The toy vendor: a folder with machines."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.account = folder, folder / "machines"
        self.account.mkdir()

    def supplier(self, manager: str = "staging") -> Supplier:
        return suppliers.supplier("toy")(manager)

    def pool(self, does: str) -> Pool:
        (program := self.folder / does).write_text(_PROGRAMS[does])
        rungs = (Offer("here", "process", "standard"),)
        return Pool("l4", str(self.account), str(program), rungs, 2, frozenset({"gpu"}))

    def received(self, name: str) -> str:
        file = self.account / name / "received"
        return file.read_text() if file.exists() else ""

    def fail(self) -> None:
        self.account.rename(self.folder / "elsewhere")

    def close(self) -> None:
        for file in self.folder.glob("*/*/pid"):
            with suppress(ProcessLookupError):
                os.killpg(int(file.read_text()), signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(int(file.read_text()), 0)


@pytest.fixture
def vendor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Toys]:
    monkeypatch.syspath_prepend(str(_HERE))
    toys = Toys(tmp_path)
    yield toys
    toys.close()


class TestToySupplier(SupplierContract):
    pass


def test_each_mistake_in_the_pools_of_two_suppliers_has_its_place(vendor: Toys, tmp_path: Path) -> None:
    rung = {"zone": "here", "machineType": "process", "market": "standard", "zones": []}
    toy = {**POOL, "supplier": "toy", "name": "toy", "max": 0, "rungs": [rung]}
    (tmp_path / "manager.json").write_text(json.dumps({**CONFIG, "pools": [{**POOL, "template": "l4"}, toy]}))
    with pytest.raises(ConfigError) as found:
        read(tmp_path / "manager.json")
    mistakes = [line.split(": ", 1)[1] for line in str(found.value).splitlines() if line.startswith("/")]
    assert mistakes == [
        "pools[0].template: has a form that is not accepted",
        "pools[1].rungs[0].zones: unknown key",
        "pools[1].max: must be at least 1",
    ]


@pytest.mark.slow
def test_its_machine_runs_a_job_of_the_sandbox_while_another_supplier_does_not_answer(
    vendor: Toys, tmp_path: Path
) -> None:
    world = World(tmp_path / "world.db")
    hub = Hub(world, unix=time.time())
    services = LocalServices({"github": hub.api.answer})
    plain = (serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption())
    (tmp_path / "app.pem").write_bytes(key().private_bytes(serialization.Encoding.PEM, *plain))
    (tmp_path / "boot").write_text(f"exec {sys.executable} -m toy_vendor.machine >> {tmp_path}/machine.log 2>&1")
    pool = {
        "supplier": "toy", "name": "toy", "project": str(vendor.account), "template": str(tmp_path / "boot"), "max": 1,
        "labels": ["gpu"], "registeredBy": "manager", "bootSec": 120,
        "rungs": [{"zone": "here", "machineType": "process", "market": "standard"}],
    }  # fmt: skip
    google = {**POOL, "labels": ["l4"]}
    github = {"owner": "acme", "appId": int(APP), "installationId": int(INSTALLATION)}
    (tmp_path / "manager.json").write_text(json.dumps({"name": "staging", "github": github, "pools": [google, pool]}))
    home = hub.api.repositories.get("acme/kernels")
    assert home is not None
    steps = [{"name": "says", "run": f"echo hello from $RUNNER_NAME | tee {tmp_path}/said"}]
    _, (job,) = hub.api.actions.queue(home, [{"name": "test", "labels": ("gpu",), "steps": steps}])
    command = [sys.executable, "-m", "gpu_ci.cli", "manager", "run", "--config", "manager.json", "--state", "state"]
    command += ["--app-key", "app.pem", "--interval-sec", "0.5", "--json"]
    command += ["--github-url", services.with_addresses({"url": "${github}"})["url"]]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(_HERE), *sys.path]), "NO_PROXY": "127.0.0.1"}
    environment["GOOGLE_CREDENTIALS"] = "/nowhere"
    try:
        with subprocess.Popen(
            command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as manager:
            end, said = time.monotonic() + 240, tmp_path / "said"
            while time.monotonic() < end and not (said.exists() and not list(vendor.account.iterdir())):
                hub.unix = time.time()
                time.sleep(0.1)
            manager.terminate()
            log = manager.stdout.read() if manager.stdout else ""
        assert manager.returncode == 0, log
        ended = hub.api.actions.job(job["id"])
        assert ended is not None
        assert (ended["conclusion"], "hello from toy-" in said.read_text()) == ("success", True), log
        events = [json.loads(line) for line in log.splitlines()]
        done = [each["event"] for each in events if each["event"] in ("insert", "register", "delete")]
        assert done == ["insert", "register", "delete"]
        assert ("unavailable", "Compute Engine") in [(each["event"], each["subject"]) for each in events]
    finally:
        services.close()
        world.close()
