"""What root in CI may not leave out: the tests that need a machine of their own."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from tests.agent.fakes import machine
from tests.agent.fakes.machine import NOBODY

CI_HINT = "; CI installs it in .ci/run, and skips nothing as root"


def how(call: Callable[[], object]) -> tuple[str, str]:
    """Whether it fails or skips, and its words; caught here, as a skip would leave this test out too."""
    try:
        call()
    except (pytest.fail.Exception, pytest.skip.Exception) as ended:
        return type(ended).__name__, str(ended.msg)
    return "", ""


@pytest.mark.parametrize(
    ("ci", "uid", "said"),
    [
        ("true", 0, ("Failed", f"needs no-such: apt-get install {machine.PACKAGES}{CI_HINT}")),
        ("", 0, ("Skipped", f"needs no-such: apt-get install {machine.PACKAGES}")),
        ("true", NOBODY, ("Skipped", "needs root: sudo -E make test")),
    ],
)
def test_a_missing_tool_fails_the_test_where_ci_is_root_and_skips_it_elsewhere(
    ci: str, uid: int, said: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr("os.geteuid", lambda: uid)
    assert how(lambda: machine.needs("sh", "no-such")) == said


@pytest.mark.parametrize(("ci", "ends", "more"), [("true", "Failed", CI_HINT), ("", "Skipped", "")])
def test_a_missing_python_fails_the_test_where_ci_is_root_and_skips_it_elsewhere(
    ci: str, ends: str, more: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(*_: object, **__: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(subprocess, "run", nothing)
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    words = "needs root, and a python3 of 3.11 or newer outside root's home: apt-get install python3"
    assert how(machine.open_python.__wrapped__) == (ends, words + more)
