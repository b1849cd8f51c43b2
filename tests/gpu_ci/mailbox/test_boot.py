"""The boot document, and the boot script as a process: each fault is reported and switches the machine off."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gpu_ci.mailbox.boot import Definition, mail_key, post_boot, script
from gpu_ci.mailbox.objects import S3Objects, Signed
from gpu_ci.naming import payload_key

from tests.agent.fakes.boot import BASH, PATH, Tools, packed
from tests.gpu_ci.mailbox.s3 import boot_of, s3, send

MANAGER, NAME, ID = "staging", "l4-0a1b2c3d", "0123456789ab"
SMOKE = hashlib.sha256(b"smoke").hexdigest()
CONFIG = {"pool": "l4", "agent": {"url": "http://127.0.0.1:1", "sha256": "f" * 64}}
NEEDED = ("bash", "cat", "mkdir", "mktemp", "mv", "rm", "sha256sum", "timeout", "flock", "curl")


@pytest.fixture(scope="module")
def bucket() -> Iterator[S3Objects]:
    with s3() as made:
        yield made


class Machine:
    """A machine that boots with the real script."""

    def __init__(self, folder: Path, bucket: S3Objects, agent: str) -> None:
        self.bucket, self.folder = bucket, folder
        for key in bucket.names(""):
            bucket.delete(key)
        content = base64.b64decode(packed(agent))
        self.agent_key = payload_key(MANAGER, hashlib.sha256(content).hexdigest())
        bucket.write(self.agent_key, content)
        self.payloads = {"agent": self.agent_key.rpartition("/")[2], "smoke": SMOKE}
        self.script = folder / "part-001"
        self.script.write_text(post_boot(bucket, MANAGER, NAME, ID, "ec2", Definition(CONFIG, self.payloads)))
        self.tools = Tools(folder / "tools")
        self.tools.add("shutdown", 'echo "SHUTDOWN $*"')
        self.tools.add("sleep", "true")
        self.tools.add("systemctl", "exit 1")
        self.tools.add("python3", f'exec "{sys.executable}" "$@"')
        self.boot = folder / "run" / "boot.json"
        self.environ = {"TMPDIR": str(folder), "GPU_AGENT_BOOT": str(self.boot)}

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [BASH, str(self.script), *arguments],
            env={"PATH": self.tools.path, **self.environ},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *arguments: str) -> str:
        process = self.start(*arguments)
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 0, output
        return output

    def reported(self) -> tuple[str, bool]:
        """Return the reason of the end, after a check that the verdict has the same one."""
        verdict, end = (json.loads(self.bucket.read(mail_key(MANAGER, ID, name)) or "") for name in ("verdict", "end"))
        assert (verdict["verdict"], verdict["exit_code"], verdict["reason"]) == ("fail", 2, end["reason"])
        return end["reason"], end["stops_pool"]


PRINTS = "import os, sys, json; print('AGENT', sys.argv[1:], json.load(open(os.environ['GPU_AGENT_BOOT']))['machine'])"


def test_the_script_starts_the_pinned_agent_and_no_secret_is_an_argument(tmp_path: Path, bucket: S3Objects) -> None:
    machine = Machine(tmp_path, bucket, PRINTS)
    machine.tools.add("curl", f'printf "%s\\n" "$*" >>"{tmp_path}/argv"; exec {shutil.which("curl", path=PATH)} "$@"')
    output = machine.run()
    assert f"AGENT ['run'] {NAME}-{ID}" in output
    assert "SHUTDOWN" not in output
    assert (machine.boot.stat().st_mode & 0o777, machine.boot.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    arguments = (tmp_path / "argv").read_text()
    assert arguments.count("-K -") == 2
    assert "X-Amz" not in arguments + output


def test_an_agent_that_fails_is_reported_once(tmp_path: Path, bucket: S3Objects) -> None:
    machine = Machine(tmp_path, bucket, "import sys; sys.exit(3)")
    output = machine.run()
    assert output.count("SHUTDOWN -h now") == 1
    assert machine.reported() == ("crashed", False)
    bucket.write(mail_key(MANAGER, ID, "end"), b"the agent's own")
    machine.run()
    assert bucket.read(mail_key(MANAGER, ID, "end")) == b"the agent's own"
    assert "GPU-AGENT-END crashed: the agent's supervisor ended with code 3" in output


FAULTS = {
    "another agent": (lambda machine: machine.bucket.write(machine.agent_key, b"other"), ("no-config", True)),
    "no agent": (lambda machine: machine.bucket.delete(machine.agent_key), ("no-config", True)),
    "no answer now": (lambda machine: with_answer(machine, 503), ("timed-out", False)),
    "too many requests": (lambda machine: with_answer(machine, 429), ("timed-out", False)),
    "no python": (lambda machine: without_python(machine), ("no-tool", True)),
    "old python": (lambda machine: without_python(machine).add("python3", "exit 1"), ("no-tool", True)),
}


def with_answer(machine: Machine, status: int) -> None:
    """Let curl fail as with this answer to the request for the agent."""
    fails = f"echo 'curl: (22) The requested URL returned error: {status}' >&2; exit 22"
    curl = shutil.which("curl", path=PATH)
    machine.tools.add("curl", f'input=$(cat); case $input in *payloads*) {fails};; esac; {curl} "$@" <<<"$input"')


def without_python(machine: Machine) -> Tools:
    (machine.tools.folder / "python3").unlink()
    machine.tools.only(*NEEDED)
    return machine.tools


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_before_the_agent_is_reported(tmp_path: Path, bucket: S3Objects, fault: str) -> None:
    machine = Machine(tmp_path, bucket, PRINTS)
    plant, expected = FAULTS[fault]
    plant(machine)
    output = machine.run()
    assert (machine.reported(), output.count("SHUTDOWN"), "AGENT [" in output) == (expected, 1, False)


@pytest.mark.parametrize("content", [None, b'{"machine": "another"}'])
def test_without_the_pinned_document_nothing_runs(tmp_path: Path, bucket: S3Objects, content: bytes | None) -> None:
    machine = Machine(tmp_path, bucket, PRINTS)
    key = mail_key(MANAGER, ID, "boot.json")
    bucket.write(key, content) if content else bucket.delete(key)
    output = machine.run()
    assert ("SHUTDOWN -h now" in output, "AGENT [" in output, machine.boot.exists()) == (True, False, False)
    assert not [name for name in bucket.names(mail_key(MANAGER, ID)) if name != key]


def test_the_agent_gets_a_stop_signal_and_a_second_script_does_nothing(tmp_path: Path, bucket: S3Objects) -> None:
    source = (
        "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(print('STOPPED', flush=True)))\n"
        "print('READY', flush=True)\ntime.sleep(60)"
    )
    machine = Machine(tmp_path, bucket, source)
    process = machine.start()
    assert process.stdout
    assert process.stdout.readline() == "READY\n"
    assert "already runs" in machine.run()
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=30)[0] == "STOPPED\n"


def test_a_machine_runs_the_script_in_a_unit_also_after_a_restart(tmp_path: Path, bucket: S3Objects) -> None:
    machine = Machine(tmp_path, bucket, PRINTS)
    state, units = tmp_path / "state", tmp_path / "units"
    units.mkdir()
    machine.environ |= {"GPU_AGENT_STATE": str(state), "GPU_AGENT_UNITS": str(units)}
    machine.tools.add("systemctl", f'echo "$*" >>"{tmp_path}/systemctl"')
    assert machine.run() == ""
    assert (tmp_path / "systemctl").read_text() == "daemon-reload\nenable --now --no-block gpu-agent.service\n"
    unit = (units / "gpu-agent.service").read_text()
    assert f'\nExecStart=/usr/bin/env bash "{state}/boot.sh" in-unit\n' in unit
    assert {"KillMode=mixed", "OOMPolicy=continue", "FailureAction=poweroff"} < set(unit.splitlines())
    assert (state / "boot.sh").stat().st_mode & 0o077 == 0
    machine.script = state / "boot.sh"
    assert "AGENT ['run']" in machine.run("in-unit")
    assert "AGENT ['run']" in machine.run("in-unit")  # after a restart
    machine.script = tmp_path / "part-001"
    machine.tools.add("systemctl", "echo 'not booted with systemd' >&2; exit 1")
    output = machine.run()
    assert "not booted with systemd" in output
    assert "AGENT ['run']" in output


def test_a_unit_runs_the_user_data_that_an_instance_has_at_this_boot(tmp_path: Path, bucket: S3Objects) -> None:
    machine, curl = Machine(tmp_path, bucket, PRINTS), shutil.which("curl", path=PATH)
    state, imds = tmp_path / "state", tmp_path / "user-data"
    state.mkdir()
    machine.environ |= {"GPU_AGENT_STATE": str(state)}
    answers = f'*" PUT "*/api/token) echo a-token;; *": a-token "*/user-data) cat {imds};;'
    machine.tools.add("curl", f'case "$*" in {answers} *) exec {curl} "$@";; esac')
    old, renewed = machine.script, state / "boot.sh"
    machine.script = shutil.copy(old, renewed)
    text = post_boot(bucket, MANAGER, NAME, ID, "ec2", Definition(CONFIG | {"pool": "renewed"}, machine.payloads))
    assert "SHUTDOWN" in machine.run("in-unit"), "the document of the earlier script is gone"
    imds.write_text("<html>")
    assert "SHUTDOWN" in machine.run("in-unit")
    imds.write_text(text)
    assert f"AGENT ['run'] {NAME}-{ID}" in machine.run("in-unit")
    assert renewed.read_text() == text
    rented = post_boot(bucket, MANAGER, NAME, ID, "rented", Definition(CONFIG, machine.payloads))
    renewed.write_text(rented)
    assert "AGENT" in machine.run("in-unit")
    assert renewed.read_text() == rented


def test_shellcheck_finds_no_problem_and_the_script_fits_into_user_data() -> None:
    shellcheck = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}:{PATH}")
    assert shellcheck, "shellcheck is not installed; run: make dev"
    source = Path(sys.modules[post_boot.__module__].__file__ or "").with_name("boot.sh")
    done = subprocess.run([shellcheck, str(source)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    # A URL that temporary credentials have signed has 1,500 characters.
    assert len(script(Signed("x" * 1500), "0" * 64)) <= 8192


def test_the_document_has_the_configuration_and_requests_of_this_machine_only(
    tmp_path: Path, bucket: S3Objects
) -> None:
    machine = Machine(tmp_path, bucket, PRINTS)
    request, sha256 = boot_of(machine.script.read_text())
    status, content = send("GET", request)
    assert (status, hashlib.sha256(content).hexdigest()) == (200, sha256)
    document: dict[str, Any] = json.loads(content)
    assert {key: document[key] for key in ("machine", "host", "role", "config")} == {
        "machine": f"{NAME}-{ID}", "host": "ec2", "role": "", "config": CONFIG,
    }  # fmt: skip
    for name, each in document["mailbox"].items():
        assert f"/{MANAGER}/mail/{ID}/{name}?" in each["url"]
        assert each["headers"] == ({} if name == "registration" else {"If-None-Match": "*"})
    assert sorted(document["mailbox"]) == ["end", "key", "notice", "registration", "verdict"]


def test_a_definition_is_read_as_it_was_written() -> None:
    definition = Definition(CONFIG, {"agent": "a" * 64, "smoke": "b" * 64})
    assert Definition.parse(definition.text()) == definition


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "no config"),
        ('{"config": 1}', "no config"),
        ('{"config": {}}', "agent and smoke"),
        (json.dumps({"config": {}, "payloads": {"agent": "a" * 64, "smoke": "../x"}}), "SHA-256 of smoke"),
    ],
)
def test_another_definition_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Definition.parse(text)


def test_an_id_that_is_not_ours_is_refused(bucket: S3Objects) -> None:
    definition = Definition(CONFIG, {"agent": "a" * 64, "smoke": "b" * 64})
    with pytest.raises(ValueError, match="12 hexadecimal"):
        post_boot(bucket, MANAGER, NAME, "i-0123456789abcdef0", "ec2", definition)


def test_systemd_ends_the_agent_after_the_time_limit() -> None:
    text = script(Signed("https://example.com/boot"), "0" * 64, 7200)
    assert "\nRuntimeMaxSec=7200\n" in text
    assert "_SEC@" not in text
