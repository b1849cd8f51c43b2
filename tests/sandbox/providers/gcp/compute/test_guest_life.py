"""VMs end: switched off, deleted, at their time limit, or with the process that runs them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from pulumi_sandbox.providers.gcp.compute.vm_store import INSTANCE
from pulumi_sandbox.providers.gcp.types import REGION_TEMPLATE
from pulumi_sandbox.providers.machines.vm_processes import start_time
from pulumi_sandbox.workspace import Workspace
from pulumi_sandbox.world.store import World

from tests.sandbox.providers.gcp.api import Api, printed, script
from tests.sandbox.providers.gcp.conftest import TEMPLATE, Google

PATH = "projects/ci-project/zones/us-central1-a/instances/check"


def process_of(api: Api, name: str = "check") -> int:
    api.until(lambda: bool(printed(api.serial(name))), "a process id on the serial port")
    return int(printed(api.serial(name))[0])


def test_deleting_a_machine_ends_its_processes_even_those_that_left_its_session(api: Api) -> None:
    api.insert(api.google.template(**script("setsid sh -c 'echo $$; exec sleep 300' & wait")).id)
    pid = process_of(api)
    assert start_time(pid)
    api.ok("DELETE", "zones/us-central1-a/instances/check")
    api.until(lambda: not start_time(pid), "the end of the machine's process")
    assert api.google.world.get(INSTANCE, PATH) is None


def test_a_machine_that_ignores_the_power_button_is_switched_off_all_the_same(api: Api) -> None:
    api.insert(api.google.template(**script("trap '' TERM; echo $$; while true; do sleep 1; done")).id)
    pid = process_of(api)
    api.ok("DELETE", "zones/us-central1-a/instances/check")
    api.until(lambda: not start_time(pid), "the end of the machine's process")


def test_a_machine_ends_at_its_time_limit(api: Api) -> None:
    """One second; as Google's least is 30, the templates are made without the check of their inputs."""
    for name, action in (("stays", "STOP"), ("goes", "DELETE")):
        limit = {"maxRunDuration": {"seconds": 1}, "instanceTerminationAction": action}
        inputs = {**TEMPLATE, "name": name, "scheduling": {**TEMPLATE["scheduling"], **limit}, **script("sleep 300")}
        template = api.google.resource(REGION_TEMPLATE, name, inputs)
        api.google.lifecycle.create(template)
        api.insert(template.id, name)
    api.off("stays")
    api.until(lambda: api.call("GET", "zones/us-central1-a/instances/goes")[0] == 404, "the machine deleted")


def test_a_supervisor_that_dies_leaves_a_machine_that_is_off(api: Api) -> None:
    api.insert(api.google.template(**script("echo $$; sleep 300")).id)
    pid = process_of(api)
    record = api.google.world.get(INSTANCE, PATH)
    assert record is not None
    os.kill(record.outputs["sandboxGuest"]["pid"], signal.SIGKILL)
    api.off()
    if sys.platform == "linux":
        api.until(lambda: not start_time(pid), "the end of the machine's process")


PROVIDER = """
import sys, time
from pathlib import Path
from tests.sandbox.providers.gcp.conftest import TEMPLATE, Google
from tests.sandbox.providers.gcp.api import Api, script

google = Google(Path(sys.argv[1]))
google.cloud.configure(google.config)
api = Api(google)
api.insert(google.template(**script("setsid sh -c 'echo $$; exec sleep 300' & wait")).id)
api.until(lambda: "startup-script: " in api.serial(), "a process id")
print(api.serial().split()[1], flush=True)
time.sleep(300)
"""


def test_a_provider_that_is_killed_takes_its_machines_along_and_the_next_one_sees_them_off(tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    provider = subprocess.Popen(
        [sys.executable, "-c", PROVIDER, str(folder)], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[5]
    )
    assert provider.stdout is not None
    pid = int(provider.stdout.readline())
    assert start_time(pid)
    provider.kill()
    provider.wait()
    provider.stdout.close()
    until = time.monotonic() + 60
    while start_time(pid) and time.monotonic() < until:
        time.sleep(0.05)
    assert not start_time(pid)
    later = Google(tmp_path / "later")
    later.world.close()
    later.workspace = later.cloud.context.workspace = Workspace(folder / "sandbox", folder / "project")
    later.world = later.cloud.context.world = World(later.workspace.world)
    later.cloud.configure(later.config)
    try:
        assert later.world.find(INSTANCE)[0].outputs["status"] == "RUNNING"
        api = Api(later)
        api.until(lambda: api.instance()["status"] == "TERMINATED", "a machine that is off")
        assert later.world.find(INSTANCE)[0].outputs["status"] == "TERMINATED"
    finally:
        later.cloud.stop()
        later.world.close()
