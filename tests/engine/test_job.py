"""Jobs from the queue to their end: the real manager, agent and check, at the sandbox's GitHub and Compute Engine."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import random
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pulumi_sandbox.providers.gcp.compute.vm_store import INSTANCE
from pulumi_sandbox.providers.gcp.types import REGION_TEMPLATE
from pulumi_sandbox.providers.github.actions.runs_api import CHECK_RUN
from pulumi_sandbox.providers.rsa_key import private_key
from pulumi_sandbox.workspace import Workspace
from pulumi_sandbox.world.store import World

from tests.conftest import bring_up, copied, project_of, sandbox_settings
from tests.engine.compute_pool import GPU_CI, config_with_l4, environment, manager_files, run_manager, served
from tests.sandbox_runner import SandboxRunner, read_until

pytestmark = [pytest.mark.engine, pytest.mark.slow]

MAX = 2
KILLS = int(os.environ.get("KILL_POINTS", "10"))


@pytest.fixture(scope="module")
def staging(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxRunner]:
    """Yield staging with its L4 pool of two machines, a capacity ladder and its GitHub resources, deployed once."""
    config = config_with_l4(max=MAX, ladder=[{"region": "us-east1"}])
    config["gpu-ci:site"]["networks"] = {"us-east1": {"ipRange": "10.10.0.0/20"}}
    project = project_of(shared, "job", config, sandbox_settings())
    runner = copied(project, bring_up(project), tmp_path_factory.mktemp("job") / "a sandbox")
    yield runner
    runner.close()


def make_job(runner: SandboxRunner, *scripts: str, example: str = "") -> subprocess.Popen[str]:
    """Start `gpu-ci job`, as `make job` does."""
    steps = [word for script in scripts for word in ("--run", script)]
    return subprocess.Popen(
        [GPU_CI, "job", "--stack", "staging", "--example", example, *steps],
        cwd=runner.project,
        env=environment(runner),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def machines(runner: SandboxRunner) -> list[dict[str, Any]]:
    return [row for row in runner.world() if row["type"].endswith(":Instance")]


def test_a_job_gets_a_machine_in_the_next_region_of_the_ladder(staging: SandboxRunner) -> None:
    for zone in ("us-central1-a", "us-central1-b", "us-central1-c"):
        staging.run("world", "break", "stockout", "--zone", zone, "--times", "0")
    try:
        output, _ = (process := make_job(staging, "true")).communicate(timeout=240)
    finally:
        staging.run("world", "mend", "--all")
    assert process.returncode == 0, output
    zones = [line.rpartition(" in ")[2].partition(":")[0] for line in output.splitlines() if " requested " in line]
    assert zones == ["us-central1-a", "us-central1-b", "us-central1-c", "us-east1-b"]
    assert machines(staging) == []


def test_a_job_that_is_cancelled_while_it_runs_ends_and_its_machine_goes(staging: SandboxRunner) -> None:
    process = make_job(staging, "echo begun; sleep 300")
    begun = read_until(process, "runs       ")
    number = next(word for line in begun.splitlines() if "job" in line for word in line.split() if word.isdecimal())
    staging.run("job", "cancel", number)
    rest, _ = process.communicate(timeout=240)
    assert process.returncode == 1, begun + rest
    assert staging.json("job", "show", number, "--json")["conclusion"] == "cancelled"
    assert machines(staging) == []


def test_a_job_whose_gpu_fails_runs_again_on_another_machine(staging: SandboxRunner) -> None:
    output, _ = (process := make_job(staging, example="broken-gpu")).communicate(timeout=240)
    assert process.returncode == 0, output
    shown = [line.split(" s  ", 1)[1].split(maxsplit=1) for line in output.splitlines() if " s  " in line]
    texts = {kind: [text for name, text in shown if name == kind] for kind, _ in shown}
    title = "GPU fault (Xid 79), not your change"
    assert [text.split(": ")[1] for text in texts["deleted"]] == ["gpu-fault", "job-done"]
    assert [len(texts[kind]) for kind in ("gpu-fault", "rerun", "requested")] == [1, 1, 2]
    assert [text.split(": ")[1] for text in texts["check-run"]] == [title]
    [check] = [row for row in staging.world() if row["type"] == CHECK_RUN]
    assert (check["outputs"]["conclusion"], check["outputs"]["output"]["title"]) == ("neutral", title)
    where = staging.folder / "manager"
    asked = [GPU_CI, "explain", check["outputs"]["details_url"], "--config", where / "manager.json"]
    explained = subprocess.run(
        [*asked, "--state", where / "state.sqlite"], cwd=staging.project, env=environment(staging), capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert f"{title}; the manager runs it again once" in explained.stdout
    assert machines(staging) == []


def test_a_job_begins_at_once_on_a_warm_machine_that_was_requested_before_it(staging: SandboxRunner) -> None:
    templates = [row["id"] for row in staging.world() if row["type"] == REGION_TEMPLATE]
    output, _ = (process := make_job(staging, example="warm")).communicate(timeout=240)
    assert process.returncode == 0, output
    lines = re.findall(r"^ *([\d.]+) s  (\S+) +(.*)$", output, re.MULTILINE)
    texts = {kind: [text for _, name, text in lines if name == kind] for _, kind, _ in lines}
    [warm, cold] = [text.partition(": machine ")[2] for text in texts["requested"]]
    steps = [
        "requested",
        "GPU  ",
        "has passed its check, and",
        "queued",
        f"{warm}: the agent checks the GPU again",
        "runs  ",
    ]
    places = [output.find(each) for each in steps]
    assert -1 not in places, output
    assert places == sorted(places), output
    assert [text.rpartition(" on ")[2] for text in texts["runs"]] == [warm, cold]
    numbers = [text.split()[1] for text in texts["queued"]]
    assert [staging.json("job", "show", each, "--json")["conclusion"] for each in numbers] == ["success"] * 2
    at = {kind: float(second) for second, kind, text in reversed(lines) if warm in text}
    boot_sec = at["warm"] - at["requested"]
    waited = [float(text.rpartition(" waited ")[2].split()[0]) for text in texts["result"]]
    assert waited[0] < boot_sec < waited[1], output
    assert machines(staging) == []
    assert [row["id"] for row in staging.world() if row["type"] == REGION_TEMPLATE] == templates


class Watch(threading.Thread):
    """Watches the processes of this computer and the emulated machines while a job runs."""

    def __init__(self, world: World) -> None:
        super().__init__(daemon=True)
        self.world, self.over = world, threading.Event()
        self.arguments: set[bytes] = set()
        self.configurations: set[str] = set()
        """The JIT configurations with which runners were started."""
        self.machines: set[str] = set()
        """The machines in the API, with their metadata, guest attributes and serial output."""

    def run(self) -> None:
        while not self.over.wait(0.05):
            for process in Path("/proc").glob("[0-9]*"):
                with contextlib.suppress(OSError):
                    self.arguments.add((process / "cmdline").read_bytes())
                    for variable in (process / "environ").read_bytes().split(b"\0"):
                        if variable.startswith(b"ACTIONS_RUNNER_INPUT_JITCONFIG="):
                            self.configurations.add(variable.partition(b"=")[2].decode())
            self.machines |= {json.dumps(record.outputs) for record in self.world.find(INSTANCE)}


def forms(secret: str) -> set[bytes]:
    """Return a secret, and its base64 forms for each possible offset."""
    found = {secret.encode()}
    for shift in range(3):
        whole = base64.b64encode(b" " * shift + secret.encode())
        found.add(whole[4 if shift else 0 : -4])
    return found


def test_a_queued_job_runs_on_a_checked_machine_which_is_deleted_after_it_and_shows_no_secret(
    staging: SandboxRunner,
) -> None:
    """The secrets are the keys of both Apps, and the configuration of the machine's runner."""
    config = staging.json("stack", "output", "manager", "--json", "--stack", "staging")
    site = yaml.safe_load((staging.project / "Pulumi.staging.yaml").read_text())["config"]["gpu-ci:site"]["github"]
    assert str(site["managerApp"]["id"]) == str(config["github"]["appId"])
    world = World(Workspace(staging.folder).world)
    keys = [private_key(world, str(site[app]["id"])) for app in ("runnerApp", "managerApp")]
    watch = Watch(world)
    watch.start()
    process = make_job(staging, "echo planted-$((40 + 7)); sleep 1", "test -d .")
    output, _ = process.communicate(timeout=240)
    watch.over.set()
    watch.join()
    assert process.returncode == 0, output
    told = ["queued", "requested", "torch checks the GPU", "GPU        pass", "the runner registers", "deleted", "cost"]
    places = [output.find(each) for each in told]
    assert -1 not in places, output
    assert places == sorted(places), output
    assert "planted-47" in output
    assert machines(staging) == []

    names = {json.loads(text)["name"] for text in watch.machines}
    of_the_runner = set()
    for blob in watch.configurations:
        # Other tests may run on this computer at the same time, and start runners with configurations of their own.
        with contextlib.suppress(ValueError, KeyError):
            files = json.loads(base64.b64decode(blob))
            settings = json.loads(base64.b64decode(files[".runner"]))
            if settings["agentName"].rpartition("-")[0] in names:
                of_the_runner |= forms(json.loads(base64.b64decode(files[".credentials"]))["token"]) | {blob.encode()}
    assert of_the_runner
    sealed = [
        item["value"]
        for text in watch.machines
        for item in json.loads(text)["metadata"]["items"]
        if item["key"] == "gpu-agent-registration"
    ]
    assert sealed, "the manager registered no runner"
    # A line of a key's middle: the first ones are alike in all keys.
    secrets = of_the_runner | {form for key in keys for form in forms(key.splitlines()[12])}
    contents = {
        "the output": output.encode(),
        "machines": "\n".join(watch.machines).encode(),
        "sealed registrations": b"\n".join(base64.b64decode(each) for each in sealed),
        "records of the world": json.dumps(staging.world()).encode(),
    }
    contents |= {f"the arguments of {each[:200]!r}": each for each in watch.arguments}
    # The world has the keys that it hands out by its Secret Manager, and `gpu-ci job` gives the manager a file.
    own = {"app-key.pem", *(file.name for file in staging.folder.glob("world*"))}
    contents |= {
        str(file): file.read_bytes() for file in staging.folder.rglob("*") if file.is_file() and file.name not in own
    }
    assert any(name.endswith("state.sqlite") for name in contents)
    leaks = [name for name, content in contents.items() if any(secret in content for secret in secrets)]
    assert leaks == []
    database = b"".join(file.read_bytes() for file in staging.folder.glob("world*") if file.is_file())
    assert not any(secret in database for secret in of_the_runner)
    world.close()


@pytest.mark.timeout(900)
def test_a_manager_that_is_killed_often_still_brings_every_job_to_its_end(
    staging: SandboxRunner, tmp_path: Path
) -> None:
    """kill -9 of the real process at moments by chance. Five jobs, two machines at most, none left."""
    config, options = manager_files(staging, tmp_path)
    server = staging.start("serve")
    variables = environment(staging) | served(staging, server)
    command = run_manager(options, tmp_path)
    labels = ",".join(config["pools"][0]["labels"])
    jobs = [
        staging.json("job", "queue", "--repository", "kernels", "--labels", labels, "--run", f"echo {n}", "--json")[
            "id"
        ]
        for n in range(5)
    ]
    chance, most, kills = random.Random(7), 0, 0
    try:
        while True:
            process = subprocess.Popen(command, env=variables, cwd=staging.project)
            try:
                code = process.wait(timeout=chance.uniform(1.0, 6.0) if kills < KILLS else 240)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                kills += 1
            else:
                assert code == 0
                if kills >= KILLS:
                    break
            alive = [each for each in machines(staging) if each.get("status") not in ("TERMINATED", "STOPPING")]
            most = max(most, len(alive))
        conclusions = [staging.json("job", "show", str(job), "--json")["conclusion"] for job in jobs]
        assert conclusions == ["success"] * 5
        assert machines(staging) == []
        assert most <= MAX
    finally:
        server.terminate()
        server.wait(timeout=60)
