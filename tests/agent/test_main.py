"""The command line of the agent."""

from __future__ import annotations

import pytest
from gpu_agent.__main__ import USAGE, main
from gpu_agent.ends import ENDS


def test_ends_lists_every_end_and_which_stop_the_pool(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ends"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(ENDS)
    (line,) = [line for line in lines if line.startswith("no-secret")]
    assert line.endswith(": stops the pool; grant the pool's account the secret")


def test_help_says_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert capsys.readouterr().out == USAGE


@pytest.mark.parametrize("words", [["shutdown"], ["run", "twice"]])
def test_what_is_no_command_runs_nothing(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert capsys.readouterr().out.startswith(f"gpu_agent.pyz: {' '.join(words)}: no such command\n")
