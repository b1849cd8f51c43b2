"""A boot from the startup script to the power-off: for any fault, there is one verdict and one end."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gpu_agent.outcomes import OUTCOMES

from tests.agent.fakes.boot import BASH, NEEDED, SCRIPT, Boot, config, says
from tests.agent.fakes.google import FakeGoogle, Fault


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


def until(condition: Callable[[], bool]) -> None:
    for _ in range(600):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("it did not come to that within 30 s")


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


@pytest.mark.slow
def test_a_serial_port_that_is_not_read_delays_neither_verdict_nor_end(machine: Boot) -> None:
    """Everything is published meanwhile. The serial port gets it in the same order when it is read again."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writer, b"x" * 4095 + b"\n")
    os.set_blocking(writer, True)
    process = machine.start(says("fine"), writer)
    os.close(writer)
    until(lambda: "gpu-agent/end" in machine.google.written())
    assert process.poll() is None
    with os.fdopen(reader) as serial:
        said = [line for line in serial.read().splitlines() if not line.startswith("x")]
    assert process.wait(30) == 0
    assert machine.verdict("\n".join(said)) == verdict("fine", 0, "proven")
    words = [line.split(" ")[0] for line in said if line.startswith(("GPU-AGENT", "SMOKE-RESULT", "SHUTDOWN"))]
    assert [word for word in words if word != "SHUTDOWN"] == [*["GPU-AGENT-STEP"] * 3, "SMOKE-RESULT", "GPU-AGENT-END"]


def test_a_closed_serial_port_does_not_prevent_the_report_of_the_end(machine: Boot) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = machine.start(says("fine"), writer)
    os.close(writer)
    assert process.wait(60) == 0
    assert machine.google.last("gpu-smoke/verdict") == verdict("fine", 0, "proven")
    assert machine.google.last("gpu-agent/end")["reason"] == "proven"


@pytest.mark.parametrize("has_agent", [True, False])
def test_the_end_reaches_the_serial_port_if_the_output_goes_to_the_journal(machine: Boot, has_agent: bool) -> None:
    port, device = os.openpty()
    machine.console = os.ttyname(device)
    if not has_agent:
        (machine.tools.folder / "python3").unlink()
        machine.tools.only(*NEEDED, "curl")
    process = machine.start(says("fine"), subprocess.DEVNULL)
    assert process.wait(60) == 0
    os.close(device)
    lines = b""
    with contextlib.suppress(OSError):  # All of the output has been read.
        while piece := os.read(port, 65_536):
            lines += piece
    os.close(port)
    words = [line.split(" ")[0] for line in lines.decode().split("\r\n") if line]
    steps = ["GPU-AGENT-STEP"] * 3 if has_agent else []
    assert [word for word in words if word != "gpu-ci:"] == [*steps, "SMOKE-RESULT", "GPU-AGENT-END"]


def test_the_script_writes_its_whole_end_to_the_serial_port_before_guest_attributes(machine: Boot) -> None:
    """A machine that shuts down may be off before a slow metadata server answers."""
    port, device = os.openpty()
    machine.console = os.ttyname(device)
    (machine.tools.folder / "python3").unlink()
    machine.tools.only(*NEEDED)
    machine.tools.add("curl", '[[ $* != *PUT* ]] || echo "PUT ${*: -1}" >"$GPU_AGENT_CONSOLE"; exit 1')
    assert machine.start(says("fine"), subprocess.DEVNULL).wait(60) == 0
    os.close(device)
    lines = b""
    with contextlib.suppress(OSError):  # All of the output has been read.
        while piece := os.read(port, 65_536):
            lines += piece
    os.close(port)
    words = [line.partition(" ")[0] for line in lines.decode().split("\r\n") if line]
    assert [word for word in words if word != "gpu-ci:"] == ["SMOKE-RESULT", "GPU-AGENT-END", "PUT", "PUT"]


def test_nothing_of_the_boot_is_left_on_the_disk(machine: Boot) -> None:
    before = set(machine.folder.iterdir())
    machine.run(says("fine"))
    assert set(machine.folder.iterdir()) == before


def test_a_machine_of_a_pool_that_registers_nothing_stays(machine: Boot) -> None:
    found, serial = machine.run(says("fine"), gpu_ci_role="")
    assert (found["verdict"], machine.google.last("gpu-agent/end")["reason"]) == ("pass", "proven")
    assert "SHUTDOWN" not in serial


def test_a_machine_of_the_pool_that_fails_switches_itself_off(machine: Boot) -> None:
    found, serial = machine.run(says("GPU 0: wrong numbers", 1), gpu_ci_role="")
    assert found == verdict("GPU 0: wrong numbers", 1, "check-failed")
    assert serial.count("SHUTDOWN -h now") == 1


def test_the_checks_message_survives_quotes_backslashes_control_characters_and_other_scripts(machine: Boot) -> None:
    found, _ = machine.run(says('a "b" \\n c\\ \t\x1b[31m é 漢', 1))
    assert found["summary"] == 'a "b" \\n c\\  \x20[31m é 漢'


def test_a_machine_without_a_configuration_reports_no_config(machine: Boot) -> None:
    del machine.google.attributes["gpu-agent-config"]
    found, serial = machine.run(says("fine"))
    assert found == verdict("the machine's metadata has no gpu-agent-config", 2, "no-config")
    assert machine.google.last("gpu-agent/end")["stops_pool"] is True
    assert "SHUTDOWN -h now" in serial


def test_a_check_whose_expectations_did_not_arrive_proves_nothing(machine: Boot) -> None:
    text = json.dumps(config(check_args=["--pool", "l4"]))
    found, _ = machine.run(says("fine"), gpu_agent_config=text)
    assert found == verdict("gpu-agent-config: check_args: has no --expect-gpus", 2, "no-config")


@pytest.mark.parametrize("archive", ["", "!!!"])
def test_an_agent_that_did_not_arrive_is_a_fail(machine: Boot, archive: str) -> None:
    words = "the agent did not arrive: the machine's metadata has no readable gpu-agent-pyz"
    found, serial = machine.run(says("fine"), gpu_agent_pyz=archive)
    assert found == verdict(words, 2, "no-config")
    end = machine.google.last("gpu-agent/end")
    assert end.pop("seconds") in range(60)
    assert end == {
        "reason": "no-config",
        "detail": words,
        "meaning": "the machine's metadata has no valid configuration",
        "next_step": "run pulumi up again",
        "stops_pool": True,
        "step": "start",
    }
    assert "SHUTDOWN -h now" in serial


def test_an_image_without_python_is_a_fail(machine: Boot) -> None:
    (machine.tools.folder / "python3").unlink()
    machine.tools.only(*NEEDED, "curl")
    found, serial = machine.run(says("fine"))
    assert found == verdict("the image has no python3, 3.11 or newer", 2, "no-tool")
    assert machine.google.last("gpu-agent/end")["stops_pool"] is True
    assert "SHUTDOWN -h now" in serial


def test_an_image_with_an_old_python_is_a_fail(machine: Boot) -> None:
    machine.tools.add("python3", "echo 3.9; exit 1")
    found, _ = machine.run(says("fine"))
    assert found == verdict("the image's python3 is not 3.11 or newer: 3.9", 2, "no-tool")


def test_the_script_reports_an_end_with_the_agents_texts() -> None:
    words = SCRIPT.read_text()
    tables = words.split("declare -A ")[1:3]
    said = [dict(re.findall(r'^  \[([a-z-]+)\]="(.*)"$', table, re.MULTILINE)) for table in tables]
    reasons = set(re.findall(r"\bend_machine ([a-z-]+) \"", words))
    stop = set(re.findall(r"\[([a-z-]+)\]=true", words))
    assert reasons == {"no-config", "no-tool", "check-failed", "stopped", "crashed"}
    assert said[0] == {reason: OUTCOMES[reason].meaning for reason in reasons}
    assert said[1] == {reason: OUTCOMES[reason].next_step for reason in reasons}
    assert stop == {reason for reason in reasons if OUTCOMES[reason].stops_pool}


def test_an_image_without_curl_is_no_hindrance(machine: Boot) -> None:
    machine.tools.only(*NEEDED)
    found, _ = machine.run(says("fine"))
    assert found == verdict("fine", 0, "proven")


def test_a_metadata_server_that_stumbles_is_no_hindrance(machine: Boot) -> None:
    machine.google.faults = [Fault("gpu-agent-config", 1, status=503), Fault("gpu-smoke-pyz", 1, cut=True)]
    found, _ = machine.run(says("fine"))
    assert found == verdict("fine", 0, "proven")


@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGSEGV])
def test_an_agent_that_dies_is_a_crash_in_its_step(machine: Boot, blow: signal.Signals) -> None:
    """The check is a child of the agent, and kills it."""
    found, serial = machine.run(f"import os; os.kill(os.getppid(), {int(blow)})")
    assert found == verdict(f"the agent ended with signal {blow.name} in step check", 2, "crashed")
    assert serial.count("SHUTDOWN -h now") == 1


@pytest.mark.slow
def test_a_supervisor_that_dies_leaves_an_agent_that_ends_the_machine(machine: Boot) -> None:
    source = "import os, time; os.kill(int(open(f'/proc/{os.getppid()}/stat').read().split()[3]), 9); time.sleep(30)"
    machine.tools.add("sleep", "read -t 3 <> <(:) || true")
    found, serial = machine.run(source)
    assert (found["verdict"], found["reason"]) == ("fail", "crashed")
    assert found["summary"] == "the agent's supervisor was killed in step check"
    assert machine.google.written().count("gpu-agent/end") == 1
    assert "SHUTDOWN -h now" in serial


def test_both_killed_the_boot_script_ends_the_machine(machine: Boot) -> None:
    source = (
        "import os; agent = os.getppid(); parent = int(open(f'/proc/{agent}/stat').read().split()[3]);"
        "os.kill(parent, 19); os.kill(agent, 9); os.kill(parent, 9)"
    )
    found, serial = machine.run(source)
    assert found == verdict("the agent's supervisor ended with code 137", 2, "crashed")
    assert serial.count("SHUTDOWN -h now") == 1


def test_a_machine_that_is_stopped_reports_the_stop(machine: Boot) -> None:
    process = machine.start(f"open({str(machine.folder / 'begun')!r}, 'w'); import time; time.sleep(60)")
    until((machine.folder / "begun").exists)
    process.send_signal(signal.SIGTERM)
    serial, _ = process.communicate(timeout=30)
    assert machine.verdict(serial) == verdict("the machine received a stop signal in step check", 2, "stopped")


def test_a_preempted_machine_reports_the_preemption(machine: Boot) -> None:
    process = machine.start(f"open({str(machine.folder / 'begun')!r}, 'w'); import time; time.sleep(60)")
    until((machine.folder / "begun").exists)
    machine.google.values["instance/preempted"] = "TRUE"
    serial, _ = process.communicate(timeout=30)
    words = "Google preempts the machine (instance/preempted is TRUE)"
    assert machine.verdict(serial) == verdict(words, 2, "preempted")
    assert machine.google.last("gpu-agent/notice") == {"reason": "preempted", "words": words}


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


def test_a_container_that_cannot_be_fetched_is_a_fail(machine: Boot) -> None:
    cos(machine, pull=1)
    found, _ = machine.run(says("fine"))
    assert found == verdict("the container image of the check could not be downloaded: unauthorized", 2, "check-failed")


def test_no_container_is_started_outside_compute_engine(machine: Boot) -> None:
    cos(machine)
    machine.tools.add("python3", f'exec "{sys.executable}" "$@"')
    machine.is_google = False
    found, serial = machine.run(says("fine"))
    words = "drivers are installed only on Compute Engine VMs, and this is not one"
    assert found == verdict(words, 2, "no-driver")
    assert not any(word in serial for word in ("cos-extensions", "mount", "docker"))


def test_a_check_that_hangs_is_ended_at_the_deadline(machine: Boot) -> None:
    text = json.dumps(config(check_sec=2))
    found, _ = machine.run("import time; time.sleep(3600)", gpu_agent_config=text)
    assert found == verdict("the check did not end within 2 s of the boot", 4, "check-hung")


def test_a_supervisor_stopped_before_it_handles_signals_is_reported_by_the_script(machine: Boot) -> None:
    machine.tools.add("python3", f'[[ $* != *" run" ]] || kill -TERM $PPID $$\nexec "{sys.executable}" "$@"')
    found, serial = machine.run(says("fine"))
    # The signal may come before the shell has stored the id of the process that it has just started.
    assert found in (
        verdict("the machine received a stop signal, and its agent ended with code 143", 2, "stopped"),
        verdict("the machine received a stop signal before its agent was started", 2, "stopped"),
    )
    assert serial.count("SHUTDOWN -h now") == 1


@pytest.mark.slow
def test_a_machine_that_its_agent_cannot_switch_off_is_switched_off_by_the_boot_script(machine: Boot) -> None:
    tries = machine.folder / "tries"
    machine.tools.add("shutdown", f'echo >>{tries}; (($(wc -l <{tries}) > 3)) && echo "SHUTDOWN $*"')
    found, serial = machine.run(says("GPU 0: wrong numbers", 1))
    assert found == verdict("GPU 0: wrong numbers", 1, "check-failed")
    assert serial.count("SHUTDOWN -h now") == 1
    assert machine.google.written().count("gpu-agent/end") == 1


ARRIVED = "the agent did not arrive: the machine's metadata has no readable gpu-agent-pyz"


@pytest.fixture
def without_agent(machine: Boot) -> Boot:
    """Return a machine whose boot script has to switch it off."""
    machine.google.attributes["gpu-agent-pyz"] = "!!!"
    return machine


@pytest.mark.parametrize("how", ["closed", "full"])
def test_a_port_that_is_not_read_does_not_keep_the_machine_on(without_agent: Boot, how: str) -> None:
    off = without_agent.folder / "off"
    without_agent.tools.add("shutdown", f"echo >{off}")
    # The waits for the port are shorter.
    without_agent.tools.add(
        "timeout", f'[[ $1 != -k ]] || shift 2; shift; exec {shutil.which("timeout")} -k 1 0.5 "$@"'
    )
    reader, writer = os.pipe()
    if how == "full":
        os.set_blocking(writer, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(writer, b"x" * 4096)
        os.set_blocking(writer, True)
    else:
        os.close(reader)
    process = without_agent.start(port=writer)
    os.close(writer)
    try:
        assert process.wait(30) == 0
    finally:
        process.kill()
        if how == "full":
            os.close(reader)
    assert off.exists()
    assert without_agent.google.last("gpu-agent/end")["detail"] == ARRIVED


def test_the_report_of_the_end_has_short_writes_and_patient_reads(without_agent: Boot) -> None:
    asked = without_agent.folder / "asked"
    without_agent.tools.add("curl", f'echo "$*" >>{asked}; exit 28')
    without_agent.start().communicate(timeout=60)
    lines = asked.read_text().splitlines()
    assert [(" PUT " in line, line.split(" -H")[0]) for line in lines] == [
        *[(False, "-fsS --max-time 60 --retry 5 --retry-connrefused")] * 2,
        *[(True, "-fsS --max-time 10 --retry 1 --retry-connrefused")] * 2,
    ]


@pytest.mark.parametrize("code", [0, 1])
def test_the_end_is_reported_even_if_no_file_can_be_created(without_agent: Boot, code: int) -> None:
    without_agent.tools.add("mktemp", f"echo {without_agent.folder}/nowhere; exit {code}")
    serial, _ = without_agent.start().communicate(timeout=60)
    assert without_agent.verdict(serial) == verdict(ARRIVED, 2, "no-config")
    assert serial.count("SHUTDOWN -h now") == 1
    assert not Path("/ended").exists()


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


def test_a_sandboxs_computer_keeps_its_services_as_they_are(machine: Boot) -> None:
    machine.is_google = False
    machine.run(says("fine"))
    assert not (machine.folder / "run" / "systemctl").exists()
    assert not (machine.folder / "run" / "systemd-run").exists()


def test_a_script_that_starts_while_an_agent_runs_reports_nothing_and_leaves_the_machine_on(machine: Boot) -> None:
    with (machine.folder / "run" / "gpu-agent.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = machine.start(says("fine"))
        serial, _ = process.communicate(timeout=60)
    assert (process.returncode, machine.google.published) == (0, [])
    assert serial.splitlines()[-1] == "gpu-ci: the boot agent already runs on this machine"


def test_vms_of_a_sandbox_lock_a_folder_of_their_own_and_not_the_computers(
    machine: Boot, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = machine.environ()
    del environ["GPU_AGENT_RUN"]
    monkeypatch.setattr(machine, "environ", lambda: environ)
    machine.run(says("fine"))
    assert machine.google.last("gpu-agent/end")["reason"] == "proven"
    assert (machine.folder / "gpu-agent.lock").is_file()
    assert not (machine.folder / "run" / "gpu-agent.lock").exists()
