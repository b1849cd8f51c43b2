"""A runner's machine of the sandbox, from its insert to its end: smoke check on the CPU, registration, one real job."""

from __future__ import annotations

import base64
import json
import platform
import pwd
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gpu_ci.payload import pack
from pulumi_sandbox.providers.gcp.compute.vm_store import ATTRIBUTES, INSTANCE
from pulumi_sandbox.providers.gcp.names import in_zone
from pulumi_sandbox.providers.github.actions.state import RUNNER, Actions
from pulumi_sandbox.providers.github.repositories import Repositories
from pulumi_sandbox.world.faults import Fault
from pulumi_sandbox.world.store import World

from tests.agent.fakes.boot import ROOT, SCRIPT, config, packed, says
from tests.sandbox.providers.gcp.api import Api
from tests.sandbox.providers.gcp.conftest import Google

ACCOUNT = "runner@ci-project.iam.gserviceaccount.com"
SECRET = "projects/ci-project/secrets/github-app-key"
SETTINGS = f"""
guest:
  path: [{ROOT}/.venv-torch/bin]
  scriptOutput: serial-port
  environment:
    GPU_SMOKE_DEVICE: cpu
    GPU_AGENT_PAUSE_SEC: "0"
    GPU_AGENT_SECRETMANAGER_URL: ${{secretmanager}}
    GPU_AGENT_LOGGING_URL: ${{logging}}
    GPU_AGENT_GITHUB_URL: ${{github}}
    GPU_AGENT_CONSOLE: ${{serialPort}}
    GPU_AGENT_SYSTEM: {ROOT}/agent/gpu_agent_sandbox/system.py
exists:
  gcp: ["projects/ci-project/secrets/*"]
  github: [apps/17/installations/18, acme/*]
github: {{apps: {{17: {{organization_self_hosted_runners: write}}}}}}
lookups:
  "gcp:secretmanager/getSecretVersionAccess:getSecretVersionAccess":
    - match: {{secret: "*/github-app-key"}}
      secrets: [secretData]
      result: {{secretData: "${{made.rsaPrivateKeys.17}}"}}
"""
GITHUB = {"owner": "acme", "app_id": "17", "installation_id": 18, "private_key": SECRET, "labels": ["gpu", "l4"]}
ARCHITECTURE = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), "x64")


class Pool:
    """A project with a template of runner machines."""

    def __init__(self, google: Google, smoke: str, *, by_manager: bool = False, **runner: Any) -> None:
        self.google, self.api = google, Api(google)
        google.cloud.configure(google.config)
        google.make("gcp:serviceaccount/account:Account", "one", {"accountId": "runner"})
        member = {"member": f"serviceAccount:{ACCOUNT}"}
        inputs = {"secretId": SECRET, "role": "roles/secretmanager.secretAccessor", **member}
        google.make("gcp:secretmanager/secretIamMember:SecretIamMember", "key", inputs)
        settings = {"version": "2.336.0", "sha256": {ARCHITECTURE: "a" * 64}, "idle_sec": 60, **runner}
        registers = {"registered_by": "manager"} if by_manager else {"github": GITHUB}
        machine = config(check_args=["--pool", "l4", "--expect-gpus", "1"], runner=settings, **registers)
        self.template = google.template(
            serviceAccount={"email": ACCOUNT, "scopes": ["cloud-platform"]},
            metadata={
                "enable-guest-attributes": "TRUE",
                "startup-script": SCRIPT.read_text(),
                "gpu-agent-pyz": base64.b64encode(pack(ROOT / "agent" / "gpu_agent")).decode(),
                "gpu-smoke-pyz": smoke,
                "gpu-agent-config": json.dumps(machine),
            },
        ).id

    def actions(self, world: World) -> Actions:
        """GitHub Actions of this world."""
        return Actions(world, Repositories(world, ("acme/*",)))

    def queue(self, *scripts: str) -> int:
        """Queue a job of these steps; its id."""
        actions = self.actions(self.google.world)
        repository = actions.repositories.get("acme/kernels")
        assert repository
        steps = [{"name": f"step {number}", "run": script} for number, script in enumerate(scripts, 1)]
        _, [job] = actions.queue(repository, [{"name": "train", "labels": ("gpu",), "steps": steps}])
        return int(job["id"])

    def job(self, number: int) -> dict[str, Any]:
        """Return a job as GitHub's API reports it."""
        found = self.actions(self.google.world).job(number)
        assert found
        return found

    def insert(self, name: str = "l4-1", **body: Any) -> None:
        """Start a machine."""
        operation = self.api.insert(self.template, name, labels={"gpu-ci-pool": "l4"}, **body)
        assert "error" not in operation, operation

    def until(self, job: int, status: str) -> None:
        """Wait until GitHub has the job in this status."""
        self.api.until(lambda: self.job(job)["status"] == status, status)

    def end(self, name: str = "l4-1") -> dict[str, Any]:
        """Return the machine's report about its end, once the machine is off."""
        self.api.off(name)
        found: dict[str, Any] = json.loads(self.attributes(name)["end"])
        return found

    def attributes(self, name: str = "l4-1") -> dict[str, str]:
        """The guest attributes of the machine's agent."""
        record = self.google.world.get(INSTANCE, in_zone("ci-project", "us-central1-a", "instances", name))
        assert record
        found: dict[str, str] = record.outputs.get(ATTRIBUTES, {}).get("gpu-agent", {})
        return found

    def waiting(self, boot: int) -> str:
        """The public key of the machine, once the boot of this number waits for its registration."""
        self.api.until(lambda: self.count_lines('GPU-AGENT-STEP {"step": "register"') == boot, "the registration")
        earlier = self.earlier
        self.api.until(lambda: self.attributes().get("key", earlier) != earlier, "a new key")
        self.earlier = self.attributes()["key"]
        return self.earlier

    earlier = ""

    def count_lines(self, line: str) -> int:
        """Return the number of lines of the serial port with this start."""
        return sum(each.startswith(line) for each in self.api.serial("l4-1").splitlines())


@pytest.fixture
def google(monkeypatch: pytest.MonkeyPatch) -> Iterator[Google]:
    # A short path: the agent's socket is below it.
    with tempfile.TemporaryDirectory(prefix="vm") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        made = Google(Path(folder) / "g", settings=SETTINGS)
        yield made
        made.cloud.stop()
        made.world.close()


FINE = packed(says("fine"))
COMPUTER = ("/run/gpu-agent", "/var/lib/gpu-agent", "/var/lib/gpu-ci", "/etc/gpu-agent", "/home/gpu-runner")


def test_a_machine_runs_the_steps_of_one_job_and_leaves_the_computer_as_it_is(google: Google) -> None:
    before = [Path(path).exists() for path in COMPUTER]
    pool = Pool(google, FINE)
    number = pool.queue("echo one > kept", "cat kept; echo $GITHUB_REPOSITORY $USER; sleep 1", "exit 3", "echo never")
    pool.insert()
    end = pool.end()
    assert (end["reason"], end["step"]) == ("job-done", "recheck"), pool.api.serial("l4-1")
    assert end["job"] == {"repository": "acme/kernels", "run": pool.job(number)["runId"], "attempt": 1}
    assert list(end["phases"]) == [
        *("config", "driver", "check", "key", "runner", "register", "waiting", "job", "after-job", "recheck")
    ]
    assert (end["gpuUse"]["utilAvg"], end["gpuUse"]["memMaxMib"]) == (0.41, 9120)
    assert end["gpuUse"]["joules"] > 0
    job = pool.job(number)
    assert job["conclusion"] == "failure"
    assert [step["conclusion"] for step in job["steps"]] == ["success", "success", "failure", "skipped"]
    lines = [line for line in job["log"].splitlines() if not line.startswith("##[")]
    assert lines[1:-2] == ["one", "acme/kernels gpu-runner"]
    assert re.fullmatch(
        r"gpu-ci: the job started \d+ s after power-on; GPU use 41%, most memory of one GPU 9120 MiB, energy \d+ J",
        lines[-1],
    )
    assert google.world.find(RUNNER) == []
    assert [Path(path).exists() for path in COMPUTER] == before
    with pytest.raises(KeyError):
        pwd.getpwnam("gpu-runner")


@pytest.mark.slow
def test_a_machine_that_was_stopped_while_it_waited_checks_itself_again_and_has_another_key(google: Google) -> None:
    pool = Pool(google, FINE, by_manager=True)
    path = "zones/us-central1-a/instances/l4-1"
    pool.insert()
    first = pool.waiting(1)
    pool.api.ok("POST", f"{path}/stop")
    end = pool.end()
    assert (end["reason"], end["step"], end["stops_pool"]) == ("stopped", "register", False), pool.api.serial("l4-1")
    assert pool.attributes()["key"] == first
    pool.api.ok("POST", f"{path}/start")
    # What is published now is still the key of the earlier boot.
    assert (pool.attributes()["key"], pool.api.instance("l4-1")["status"]) == (first, "RUNNING")
    second = pool.waiting(2)
    assert json.loads(second)["machine"] == json.loads(first)["machine"]
    assert pool.count_lines("SMOKE-RESULT ") == 2


@pytest.mark.slow
def test_a_machine_with_a_runner_version_that_github_refuses_stops_its_pool(google: Google) -> None:
    pool = Pool(google, FINE, version="2.334.0")
    number = pool.queue("true")
    pool.insert()
    end = pool.end()
    assert (end["reason"], end["stops_pool"]) == ("runner-deprecated", True), pool.api.serial("l4-1")
    assert pool.job(number)["status"] == "queued"


@pytest.mark.slow
def test_a_cancelled_job_ends_its_step_and_the_machine(google: Google) -> None:
    pool = Pool(google, FINE)
    number = pool.queue("trap 'echo interrupted; exit 1' INT; while true; do sleep 0.1; done", "echo never")
    pool.insert()
    pool.until(number, "in_progress")
    pool.actions(google.world).cancel(pool.job(number)["runId"])
    assert pool.end()["reason"] == "job-done"
    job = pool.job(number)
    assert [step["conclusion"] for step in job["steps"]] == ["cancelled", "cancelled"]
    assert (job["conclusion"], "interrupted" in job["log"].splitlines()) == ("cancelled", True)


@pytest.mark.slow
def test_a_preempted_machine_tells_github_of_its_job_and_says_why_it_ended(google: Google) -> None:
    pool = Pool(google, FINE)
    # GitHub's runner interrupts the first process of a step alone, and bash would wait for its child.
    number = pool.queue("exec sleep 300")
    pool.insert(scheduling={"provisioningModel": "SPOT", "preemptible": True, "onHostMaintenance": "TERMINATE"})
    pool.api.until(lambda: "Run exec sleep 300" in pool.api.serial("l4-1"), "the job's own step")
    google.world.add_fault(Fault("preempt"))
    end = pool.end()
    assert (end["reason"], end["step"], end["job"]["attempt"]) == ("preempted", "job", 1), pool.api.serial("l4-1")
    assert pool.job(number)["conclusion"] == "cancelled"
