"""A world in which nothing runs and everything counts as done."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pulumi_sandbox.providers.machines.settings import ASSUME, guest
from pulumi_sandbox.providers.sandbox_file import SettingsError


def test_the_variable_goes_before_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sandbox.yaml").write_text("guest: {path: [nowhere], environment: {A: b}}\n")
    monkeypatch.setenv(ASSUME, json.dumps({"gpu-smoke/verdict": "{}"}))
    found = guest(tmp_path / "sandbox.yaml", tmp_path)
    assert (found.assumed, found.path, found.environment, found.runs) == ({"gpu-smoke/verdict": "{}"}, (), {}, True)


def test_an_empty_one_publishes_nothing_and_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ASSUME, "")
    assert guest(tmp_path / "sandbox.yaml", tmp_path).assumed == {}


@pytest.mark.parametrize("given", ["x", "[]", "4"])
def test_what_is_no_map_is_refused(given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ASSUME, given)
    with pytest.raises(SettingsError, match="PULUMI_SANDBOX_ASSUME: wrong form\n  expected: a map in JSON"):
        guest(tmp_path / "sandbox.yaml", tmp_path)
