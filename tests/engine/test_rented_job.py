"""Jobs on rented hosts from the queue to their end: the real manager, agent and check, with the vendor emulated."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from pulumi_sandbox.providers.machines import ssh

from tests.conftest import ROOT, bring_up, copied, project_of, sandbox_settings
from tests.engine.test_ec2_job import left, make_job
from tests.sandbox_runner import SandboxRunner, read_until

pytestmark = [pytest.mark.engine, pytest.mark.slow]


@pytest.fixture(scope="module")
def staging(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxRunner]:
    """Yield staging with its pool on rented hosts and its runner group, deployed once."""
    config = yaml.safe_load((ROOT / "Pulumi.staging.yaml").read_text())["config"]
    config["gpu-ci:pools"] = {"l4-rented": config["gpu-ci:pools"]["l4-rented"]}
    config["gpu-ci:github"] = {"runnerGroup": config["gpu-ci:github"]["runnerGroup"]}
    del config["gpu-ci:clusters"]
    project = project_of(shared, "rented-job", config, sandbox_settings())
    runner = copied(project, bring_up(project), tmp_path_factory.mktemp("rented") / "a sandbox")
    yield runner
    runner.close()


def test_a_job_runs_on_a_checked_machine_in_the_next_region_and_nothing_is_left(staging: SandboxRunner) -> None:
    staging.run("world", "break", "stockout", "--zone", "IN2", "--times", "0")
    try:
        process = make_job(staging, "sleep 5; echo planted-$((40 + 7))", "rented")
        output = read_until(process, "runs       ")
        rows = [row for row in staging.world() if row["type"].endswith(":Instance")]
        output += process.communicate(timeout=240)[0]
    finally:
        staging.run("world", "mend", "--all")
    assert process.returncode == 0, output
    assert [re.sub(r"\d+$", "", row["outputs"]["region"]) for row in rows] == ["india-chennai-"]
    assert re.findall(r" requested .* in (\S+): ", output) == ["IN1"]
    told = ["queued", "GPU        pass", "the runner registers", "runs ", "deleted", "cost", "| planted-47", "result "]
    places = [output.find(each) for each in told]
    assert -1 not in places, output
    assert places == sorted(places), output
    assert "0.44 USD/h" in output
    assert left(staging) == []
    assert not (staging.folder / "jarvislabs").exists()


def test_the_ssh_of_the_sandbox_refuses_any_other_call(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.touch(mode=0o600)
    options = [f"{name}={value}" for name, value in ssh.NEEDED.items()] + [
        "HostKeyAlias=a",
        f"UserKnownHostsFile={key}",
    ]
    remote = "sudo -n sh -c 'umask 077; cat >/root/b.sh && systemd-run --quiet /usr/bin/env bash /root/b.sh'"
    good = ["-F", "none", "-T", "-i", str(key), *[part for each in options for part in ("-o", each)], "-p", "1", "-l"]
    good += ["ubuntu", "127.0.0.1", remote]

    def refusal(*changes: tuple[str, str]) -> str:
        words = [dict(changes).get(word, word) for word in good]
        found = subprocess.run(
            [sys.executable, ssh.__file__, *words], input="", capture_output=True, text=True, check=False
        )
        assert found.returncode, words
        return found.stderr

    assert "Connection refused" in refusal()
    assert "does not run id" in refusal((remote, "id"))
    assert "StrictHostKeyChecking" in refusal(("StrictHostKeyChecking=accept-new", "StrictHostKeyChecking=no"))
    assert "Host key" in refusal(("HostKeyAlias=a", "LogLevel=ERROR"))
    assert "invalid choice" in refusal(("127.0.0.1", "192.0.2.1"))
    key.chmod(0o640)
    assert "UNPROTECTED" in refusal()
