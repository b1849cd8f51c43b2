"""The check as a real process, with stubs for the programs of an image."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from gpu_agent import check as checks
from gpu_agent.clock import Clock
from gpu_agent.config import Config
from gpu_agent.machine.commands import Machine
from gpu_agent.outcomes import AgentExit
from gpu_agent.report import Verdict

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
        values: dict[str, Any] = {"torch": "9.9.9", **changes}
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


def test_a_check_that_crashes_is_no_fault_of_the_gpu_and_has_no_message_of_an_earlier_check(checked: Checked) -> None:
    assert checked.check(says("1 x NVIDIA L4 computes")).verdict == "pass"
    found = checked.check("raise MemoryError")
    assert (found.verdict, found.exit_code) == ("fail", 2)
    assert found.summary == "the check ended with code 1 and no message; it last printed: MemoryError"


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
        "pip install --quiet --no-cache-dir --only-binary :all: torch==9.9.9",
    ]


@pytest.mark.parametrize(("torch", "lock", "pinned"), [(None, "torch.lock", "torch"), ("9.9.9+cu126", "uv.lock", "uv")])
def test_the_default_torch_and_uv_are_installed_by_their_hashes(
    checked: Checked, tmp_path: Path, torch: str | None, lock: str, pinned: str
) -> None:
    text = (Path(checks.__file__).parent / lock).read_text()
    [version] = [line.split()[0] for line in text.splitlines() if line.startswith(f"{pinned}==")]
    without_torch(checked, "true")
    checked.check(says("fine"), torch=torch or version.removeprefix("torch=="))
    command = f"pip install --quiet --no-cache-dir --only-binary :all: --require-hashes -r {tmp_path / lock}"
    assert checked.serial[1] == command
    assert (tmp_path / lock).read_text() == text
    if torch:
        python = tmp_path / "state/torch/bin/python"
        assert checked.serial[2].startswith("uv pip install --quiet --no-cache --only-binary :all: --python ")
        assert checked.serial[2].endswith(f"{python} --torch-backend cu126 torch==9.9.9")


def test_a_stop_while_torch_is_installed_is_no_verdict(checked: Checked, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object) -> None:
        raise AgentExit("stopped", "the machine received a stop signal")

    monkeypatch.setattr(checks, "_python", stopped)
    with pytest.raises(AgentExit, match="stopped: "):
        checked.check("")
