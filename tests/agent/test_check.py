"""The check as a real process, with stubs for the programs of an image."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from gpu_agent import check as checks
from gpu_agent.clock import Clock
from gpu_agent.config import Config, DriverConfig
from gpu_agent.machine.commands import Machine
from gpu_agent.outcomes import AgentExit
from gpu_agent.report import Verdict

from tests.agent.fakes import apt
from tests.agent.fakes.boot import Tools, packed, says


class Checked:
    """A machine whose check runs."""

    def __init__(self, folder: Path, tools: Tools) -> None:
        self.tools = tools
        self.clock = Clock()
        self.raw: list[str] = []
        self.machine = Machine(self.clock, self.hear, folder, folder / "state")
        tools.add("python3", f'[[ $* == *find_spec* ]] || exec "{sys.executable}" "$@"')

    def hear(self, line: str) -> None:
        self.raw.append(line)

    @property
    def serial(self) -> list[str]:
        """Return the lines without the prefix for output of programs."""
        return [line.removeprefix("| ") for line in self.raw]

    def check(self, source: str, *, within_sec: float = 60, archive: str | None = None, **changes: Any) -> Verdict:
        values: dict[str, Any] = {"torch": "9.9.9", "uv": "0.13.8", **changes}
        config = Config("l4", ["--pool", "l 4", "--expect-gpus", "1"], 600, **values)
        text = packed(source) if archive is None else archive
        return checks.check(config, text, self.machine, self.clock.now() + within_sec)


@pytest.fixture
def checked(tmp_path: Path, tools: Tools) -> Checked:
    return Checked(tmp_path, tools)


@pytest.mark.parametrize(
    ("code", "verdict", "reason"),
    [
        (0, "pass", ""),
        (1, "fail", "check-failed"),
        (2, "fail", "check-failed"),
        (3, "fail", "check-failed"),
        (4, "fail", "check-hung"),
    ],
)
def test_the_first_line_of_the_checks_message_is_the_verdict(
    checked: Checked, code: int, verdict: str, reason: str
) -> None:
    assert checked.check(says("the words\nand more", code)) == Verdict(verdict, code, "the words", reason)


def test_a_check_that_crashes_is_a_fail_with_its_last_line(checked: Checked) -> None:
    words = "the check ended with code 1 and no message; it last printed: RuntimeError: CUDA error 999"
    assert checked.check("raise RuntimeError('CUDA error 999')") == Verdict("fail", 1, words, "check-failed")


def test_a_check_that_succeeds_without_a_message_does_not_pass(checked: Checked) -> None:
    words = "the check ended with code 0 and no message"
    assert checked.check("pass") == Verdict("fail", 0, words, "check-failed")


def test_a_check_that_hangs_is_ended_at_the_deadline(checked: Checked) -> None:
    words = "the check did not end within 600 s of the boot"
    source = "import time; time.sleep(60)"
    assert checked.check(source, within_sec=0.5) == Verdict("fail", 4, words, "check-hung")


def test_a_check_for_which_no_time_is_left_counts_as_one_that_hangs(checked: Checked) -> None:
    assert checked.check(says("fine"), within_sec=-1).reason == "check-hung"


@pytest.mark.parametrize("archive", ["", "!!!", "Zm9"])
def test_a_check_that_did_not_arrive_is_a_fail(checked: Checked, archive: str) -> None:
    words = "the machine's metadata has no readable gpu-smoke-pyz, which contains the check"
    assert checked.check("", archive=archive) == Verdict("fail", 2, words, "no-config")


def test_the_check_gets_its_arguments_one_by_one(checked: Checked) -> None:
    verdict = checked.check("import sys; open(sys.argv[-1], 'w').write(repr(sys.argv[1:-1]))")
    assert verdict.summary == "['--pool', 'l 4', '--expect-gpus', '1', '--termination-log']"


def test_what_the_check_prints_is_on_the_serial_port_line_by_line(checked: Checked) -> None:
    checked.check("print('one'); print('two')")
    assert checked.raw == ["| one", "| two"]


def without_torch(checked: Checked, pip: str) -> None:
    """Return a python3 without torch whose venv has this pip, and a uv without a network."""
    checked.tools.only("mkdir", "cp")
    uv = checked.tools.add("uv", 'echo "uv $*"; echo "error: no answer" >&2; exit 2')
    checked.tools.add(
        "python3",
        f"""case "$*" in
          *find_spec*) exit 1 ;;
          "-m venv"*) mkdir -p "$3/bin"; cp "$0" "$3/bin/python"; cp "{uv}" "$3/bin/uv" ;;
          "-m pip install"*) echo "pip ${{*:3}}"; {pip} ;;
          *) exec "{sys.executable}" "$@" ;;
        esac""",
    )


def test_an_image_without_torch_gets_the_pinned_one(checked: Checked) -> None:
    without_torch(checked, "true")
    assert checked.check(says("fine")) == Verdict("pass", 0, "fine")
    assert checked.serial == [
        "gpu-ci: the image has no torch; installing torch 9.9.9",
        "pip install --quiet --no-cache-dir torch==9.9.9",
    ]


def test_a_later_boot_takes_the_torch_that_an_earlier_one_installed(checked: Checked) -> None:
    without_torch(checked, "true")
    # The Python of the environment has torch after pip has installed it.
    checked.tools.add(
        "python3",
        (checked.tools.folder / "python3")
        .read_text()
        .replace("*find_spec*) exit 1", "*find_spec*) [[ $0 == */torch/bin/python ]]"),
    )
    for _ in range(2):
        assert checked.check(says("fine")) == Verdict("pass", 0, "fine")
    assert checked.serial == [
        "gpu-ci: the image has no torch; installing torch 9.9.9",
        "pip install --quiet --no-cache-dir torch==9.9.9",
        "gpu-ci: the image has no torch; torch 9.9.9 was installed by an earlier boot",
    ]


@pytest.mark.parametrize("broken", ["cut off", "no torch", "another version"])
def test_a_torch_of_an_earlier_boot_that_is_not_the_pinned_one_or_not_whole_is_installed_anew(
    checked: Checked, broken: str
) -> None:
    without_torch(checked, "true")
    has_torch = "exit 1" if broken == "no torch" else "[[ $0 == */torch/bin/python ]]"
    checked.tools.add(
        "python3",
        (checked.tools.folder / "python3").read_text().replace("*find_spec*) exit 1", f"*find_spec*) {has_torch}"),
    )
    checked.check(says("fine"))
    home = checked.machine.state / "torch"
    (home / "left").touch()
    if broken == "cut off":
        (home / checks._INSTALLED).unlink()
    checked.check(says("fine"), torch="9.9.10" if broken == "another version" else "9.9.9")
    assert len([line for line in checked.serial if line.startswith("pip install")]) == 2
    assert not (home / "left").exists()


def test_on_a_users_computer_torch_is_removed_after_the_boot(tmp_path: Path, checked: Checked) -> None:
    without_torch(checked, "true")
    checked.machine = Machine(checked.clock, checked.hear, tmp_path, tmp_path / "state", is_google=False)
    assert checked.check(says("fine")) == Verdict("pass", 0, "fine")
    assert ((tmp_path / "torch").exists(), (tmp_path / "state").exists()) == (True, False)


def test_a_torch_that_cannot_be_installed_is_reported_with_pips_message(checked: Checked) -> None:
    without_torch(checked, 'echo "ERROR: No matching distribution found"; exit 1')
    words = (
        "torch 9.9.9 could not be installed: ERROR: No matching distribution found; "
        "the network may lack internet access"
    )
    assert checked.check(says("fine")) == Verdict("fail", 2, words, "check-failed")


def test_a_torch_for_another_cuda_is_installed_from_pytorchs_own_index(checked: Checked) -> None:
    without_torch(checked, "true")
    verdict = checked.check(says("fine"), torch="2.14.0+cu126")
    home = checked.machine.state / "torch" / "bin"
    assert checked.serial[1:3] == [
        "pip install --quiet --no-cache-dir uv==0.13.8",
        f"uv pip install --quiet --no-cache --python {home}/python --torch-backend cu126 torch==2.14.0",
    ]
    words = "torch 2.14.0+cu126 could not be installed: error: no answer; the network may lack internet access"
    assert verdict == Verdict("fail", 2, words, "check-failed")


def test_an_image_without_venv_gets_it_from_its_distribution(checked: Checked) -> None:
    checked.tools.add(
        "apt-get", 'echo "apt-get $* $DEBIAN_FRONTEND $NEEDRESTART_SUSPEND"; echo "E: no network" >&2; exit 100'
    )
    checked.tools.add("python3", "exit 1")
    checked.tools.only("env")
    verdict = checked.check(says("fine"))
    assert verdict == Verdict(
        "fail", 2, "the environment for torch could not be created: E: no network", "check-failed"
    )
    assert "apt-get -qq -o DPkg::Lock::Timeout=300 update noninteractive 1" in checked.serial


@pytest.fixture
def without_venv(checked: Checked, tmp_path: Path) -> Path:
    """Return a machine whose apt can install python3-venv. The folder has the locks of apt that another program has."""
    locks = tmp_path / "locks"
    locks.mkdir()
    apt.install(checked.tools, locks)
    checked.tools.only("mkdir", "cp")
    checked.tools.add(
        "python3",
        f"""case "$*" in
          *find_spec*) exit 1 ;;
          "-m venv"*) [[ -e {locks}/installed ]] || exit 1; mkdir -p "$3/bin"; cp "$0" "$3/bin/python" ;;
          "-m pip install"*) ;;
          *) exec "{sys.executable}" "$@" ;;
        esac""",
    )
    return locks


@pytest.mark.parametrize("lock", [apt.LISTS, apt.DPKG])
def test_a_lock_that_the_images_upgrade_holds_for_a_while_is_waited_for(
    checked: Checked, without_venv: Path, lock: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "_LOCK_SEC", 0.1, raising=False)
    (without_venv / lock).touch()
    threading.Timer(0.6, (without_venv / lock).unlink).start()
    assert checked.check(says("fine")) == Verdict("pass", 0, "fine")


def test_a_lock_that_is_never_given_back_is_a_hang_of_the_check(
    checked: Checked, without_venv: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "_LOCK_SEC", 0.1, raising=False)
    (without_venv / apt.LISTS).touch()
    assert checked.check(says("fine"), within_sec=2).reason == "check-hung"
    assert checked.serial.count("E: Unable to lock directory /var/lib/apt/lists/") > 1


def test_where_there_is_an_image_for_it_the_check_runs_in_a_container(checked: Checked) -> None:
    checked.tools.add(
        "docker",
        f"""echo "docker $*"
        [[ $1 == run ]] || exit 0
        while [[ $1 != python3 ]]; do shift; done
        shift; exec "{sys.executable}" "$@"
        """,
    )
    verdict = checked.check(says("fine"), driver=DriverConfig("cos", "R580", image="registry.example/torch@sha256:00"))
    assert verdict == Verdict("pass", 0, "fine")
    pull, run = checked.serial
    assert pull == "docker pull --quiet registry.example/torch@sha256:00"
    assert f"--volume {checked.machine.work}:{checked.machine.work}" in run
    assert "--volume /var/lib/nvidia/lib64:/usr/local/nvidia/lib64 --volume /var/lib/nvidia/bin:" in run
    assert " registry.example/torch@sha256:00 python3 " in run


def test_a_container_that_cannot_be_fetched_is_a_fail(checked: Checked) -> None:
    checked.tools.add("docker", 'echo "unauthorized" >&2; exit 1')
    verdict = checked.check(says("fine"), driver=DriverConfig("cos", "R580", image="registry.example/torch"))
    words = "the container image of the check could not be downloaded: unauthorized"
    assert verdict == Verdict("fail", 2, words, "check-failed")


def test_a_stop_while_torch_is_installed_is_no_verdict(checked: Checked, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object) -> None:
        raise AgentExit("stopped", "the machine received a stop signal")

    monkeypatch.setattr(checks, "_python", stopped)
    with pytest.raises(AgentExit, match="stopped: "):
        checked.check("")
