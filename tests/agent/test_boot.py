"""A boot from the startup script to the power-off: for any fault, there is one verdict and one end."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.agent.fakes.boot import BASH, NEEDED, SCRIPT, Boot, config, says
from tests.agent.fakes.google import FakeGoogle


@pytest.fixture
def machine(tmp_path: Path, google: FakeGoogle) -> Boot:
    return Boot(tmp_path, google)


def verdict(summary: str, code: int, reason: str) -> dict[str, Any]:
    return {
        "verdict": "fail" if reason != "proven" else "pass",
        "exit_code": code,
        "summary": summary,
        "reason": reason,
    }


def test_shellcheck_finds_no_problem_in_the_boot_script() -> None:
    shellcheck = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    assert shellcheck, "shellcheck is not installed; run: make dev"
    done = subprocess.run([shellcheck, str(SCRIPT)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_a_pass_is_published_and_the_check_machine_switches_itself_off(machine: Boot) -> None:
    found, serial = machine.run(says("1 x NVIDIA L4 computes\nand more"))
    assert found == verdict("1 x NVIDIA L4 computes", 0, "proven")
    assert serial.count("SHUTDOWN -h now") == 1
    assert [key for key in machine.google.written() if key == "gpu-agent/end"] == ["gpu-agent/end"]
    end = machine.google.last("gpu-agent/end")
    assert (end["reason"], end["step"], end["stops_pool"]) == ("proven", "check", False)
    assert f"GPU-AGENT-END {json.dumps(end, separators=(',', ':'))}" in serial.splitlines()
    steps = [json.loads(line.split(" ", 1)[1]) for line in serial.splitlines() if line.startswith("GPU-AGENT-STEP ")]
    assert [step["step"] for step in steps] == ["config", "driver", "check"]
    assert [entry["entries"][0]["severity"] for entry in machine.google.logged] == ["INFO"]


def test_both_killed_the_boot_script_ends_the_machine(machine: Boot) -> None:
    source = (
        "import os; agent = os.getppid(); parent = int(open(f'/proc/{agent}/stat').read().split()[3]);"
        "os.kill(parent, 19); os.kill(agent, 9); os.kill(parent, 9)"
    )
    found, serial = machine.run(source)
    assert found == verdict("the agent's supervisor ended with code 137", 2, "crashed")
    assert serial.count("SHUTDOWN -h now") == 1


def test_nothing_that_looks_like_a_secret_leaves_the_machine(machine: Boot) -> None:
    found, serial = machine.run(f"print('ghs_' + 'a' * 36)\n{says('eyJh.eyJi.sig and ' + 'x' * 201, 1)}")
    assert found["summary"] == "[redacted] and [redacted]"
    assert "aaaa" not in serial


def test_the_agents_processes_have_no_more_in_their_environment_than_the_machine_gave(machine: Boot) -> None:
    source = (
        "import os, sys; open(sys.argv[-1], 'w').write(' '.join(sorted(k for k in os.environ if 'GPU_AGENT' in k)))"
    )
    found, _ = machine.run(source)
    own = [key for key in machine.environ() if "GPU_AGENT" in key]
    assert found["summary"].split() == sorted([*own, "GPU_AGENT_WORK"])


# Google's installer on a machine that it restarts once: systemd stops the boot script and its child processes.
INSTALLER = """import os, pathlib, signal, time
folder = pathlib.Path(__file__).parent.parent
if (folder / "restarted").exists():
    (folder / "driver").touch()
else:
    (folder / "restarted").touch()
    os.kill(int(open(f"/proc/{os.getppid()}/stat").read().split()[3]), signal.SIGTERM)
    time.sleep(60)
"""


def test_the_installer_may_restart_the_machine_and_no_end_is_reported_before_the_driver_works(machine: Boot) -> None:
    state = machine.folder / "state"
    state.mkdir()
    (state / "cuda_installer.pyz").write_text(INSTALLER)
    machine.tools.add("nvidia-smi", f'[[ -e "{machine.folder}/driver" ]]')
    text = json.dumps(config(driver={"source": "installer", "branch": "lts", "installer": "https://releases.example/"}))
    process = machine.start(says("1 x NVIDIA L4 computes"), gpu_agent_config=text)
    first, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert machine.google.written() == []
    assert not any(word in first for word in ("SMOKE-RESULT", "GPU-AGENT-END", "SHUTDOWN"))
    found, second = machine.run(says("1 x NVIDIA L4 computes"))
    assert found == verdict("1 x NVIDIA L4 computes", 0, "proven")
    assert "SHUTDOWN -h now" in second
    assert list(state.iterdir()) == []


COS = {"source": "cos", "branch": "R580", "image": "registry.example/torch@sha256:00"}


def cos(machine: Boot, *, pull: int = 0) -> None:
    """A fake Container-Optimized OS: without Python, with docker for programs that need one, and nsenter in the
    container.
    """
    (machine.tools.folder / "python3").unlink()
    machine.tools.only(*NEEDED, "curl")
    machine.tools.add("cos-extensions", 'echo "cos-extensions $*"')
    machine.tools.add("mount", 'echo "mount $*"')
    machine.tools.add("nsenter", 'echo "nsenter $*"; shift 3; exec "$@"')
    machine.tools.add(
        "docker",
        f"""echo "docker $*"
        if [[ $1 == pull ]]; then echo "unauthorized" >&2; exit {pull}; fi
        while [[ $1 != python3 ]]; do
          if [[ $1 == --env && $2 == *=* ]]; then export "$2"; fi
          shift
        done
        shift; exec "{sys.executable}" "$@"
        """,
    )
    machine.google.attributes["gpu-agent-config"] = json.dumps(config(driver=COS))


def test_on_container_optimized_os_agent_and_check_run_in_containers(machine: Boot) -> None:
    cos(machine)
    found, serial = machine.run(says("1 x NVIDIA L4 computes"))
    assert found == verdict("1 x NVIDIA L4 computes", 0, "proven")
    words = ("cos-extensions", "mount", "docker")
    said = [line.removeprefix("| ") for line in serial.splitlines()]
    said = [line for line in said if line.startswith(words)]
    assert said[0] == "docker pull --quiet registry.example/torch@sha256:00"
    assert said[1].startswith("docker run --rm --privileged --pid host --network host --volume /dev:/dev --volume ")
    assert said[2:6] == [
        "cos-extensions install gpu -- -version=R580",
        "mount --bind /var/lib/nvidia /var/lib/nvidia",
        "mount -o remount,exec /var/lib/nvidia",
        "docker pull --quiet registry.example/torch@sha256:00",
    ]
    assert said[6].startswith("docker run --rm --network host ")
    assert "--volume /var/lib/nvidia/lib64:/usr/local/nvidia/lib64" in said[6]
    assert "nsenter --target 1 --all shutdown -h now" in serial or "SHUTDOWN -h now" in serial


@pytest.mark.slow
def test_a_machine_that_its_agent_cannot_switch_off_is_switched_off_by_the_boot_script(machine: Boot) -> None:
    tries = machine.folder / "tries"
    machine.tools.add("shutdown", f'echo >>{tries}; (($(wc -l <{tries}) > 3)) && echo "SHUTDOWN $*"')
    found, serial = machine.run(says("GPU 0: wrong numbers", 1))
    assert found == verdict("GPU 0: wrong numbers", 1, "check-failed")
    assert serial.count("SHUTDOWN -h now") == 1
    assert machine.google.written().count("gpu-agent/end") == 1


@pytest.fixture
def without_agent(machine: Boot) -> Boot:
    """Return a machine whose boot script has to switch it off."""
    machine.google.attributes["gpu-agent-pyz"] = "!!!"
    return machine


@pytest.mark.parametrize(
    ("shutdown", "systemctl", "said", "asked"),
    [
        ("echo OFF", "echo SYSTEMD $*", "OFF", ""),
        ("exit 1", "echo SYSTEMD $*", "SYSTEMD poweroff --force --force", ""),
        ("exit 1", "exit 1", "gpu-ci: the guest attribute gpu-agent/end", "o\n"),
    ],
)
def test_a_machine_is_switched_off_by_the_first_way_that_works(
    machine: Boot, shutdown: str, systemctl: str, said: str, asked: str
) -> None:
    """The machine is like a Compute Engine VM and not like one of the sandbox. A file stands for its kernel."""
    trigger, copy, script = machine.folder / "trigger", machine.folder / "boot.sh", SCRIPT.read_text()
    assert script.count("/proc/sysrq-trigger") == 1
    copy.write_text(script.replace("/proc/sysrq-trigger", str(trigger)))
    machine.tools.add("shutdown", shutdown)
    machine.tools.add("systemctl", systemctl)
    machine.tools.add("curl", "exit 22")
    environ = {key: value for key, value in machine.environ().items() if key != "GCE_METADATA_HOST"}
    done = subprocess.run([BASH, str(copy)], env=environ, stdout=subprocess.PIPE, text=True, check=False)
    assert done.stdout.splitlines()[-1].startswith(said)
    assert (trigger.read_text() if trigger.exists() else "") == asked


def test_a_sandboxs_computer_is_left_on_where_it_does_not_go_off_by_itself(without_agent: Boot) -> None:
    without_agent.tools.add("shutdown", "exit 1")
    without_agent.tools.add("systemctl", "echo SYSTEMD")
    process = without_agent.start()
    serial, _ = process.communicate(timeout=60)
    assert (process.returncode, "SYSTEMD" in serial) == (0, False)


def test_the_images_upgrades_are_masked_before_the_agent_starts(machine: Boot) -> None:
    """The systemctl is a fake; end_to_end/test_systemd.py has a real one."""
    asked = machine.folder / "run" / "systemctl"
    machine.tools.add("systemd-run", f'echo "systemd-run $*" >>"{asked}"; exit 1')
    machine.run(says("fine"))
    first, second = asked.read_text().splitlines()
    units = "apt-daily.timer apt-daily-upgrade.timer apt-daily.service apt-daily-upgrade.service"
    assert first == f"mask --runtime --now {units}"
    assert second.startswith("systemd-run --collect --quiet --unit=gpu-agent --property=KillMode=mixed ")
    assert second.endswith(f" bash {machine.folder}/run/gpu-agent-boot.sh in-unit")


def test_a_script_that_starts_while_an_agent_runs_reports_nothing_and_leaves_the_machine_on(machine: Boot) -> None:
    with (machine.folder / "run" / "gpu-agent.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = machine.start(says("fine"))
        serial, _ = process.communicate(timeout=60)
    assert (process.returncode, machine.google.published) == (0, [])
    assert serial.splitlines()[-1] == "gpu-ci: the boot agent already runs on this machine"


@pytest.mark.slow
def test_a_sandboxs_computer_keeps_its_services_as_they_are(machine: Boot) -> None:
    machine.is_google = False
    machine.run(says("fine"))
    assert not (machine.folder / "run" / "systemctl").exists()
    assert not (machine.folder / "run" / "systemd-run").exists()
