"""Calls the command for tests: in this process, on one fixed day, in a folder for each test."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from gpu_ci.cli import clock
from gpu_ci.cli.main import run

TODAY = date(2026, 11, 21)


@dataclass(frozen=True)
class Answer:
    """The output and the exit code of a call."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def rows(self) -> list[list[str]]:
        """The cells of the table's rows, without heading and rule."""
        lines = self.out.splitlines()
        [rule] = [at for at, line in enumerate(lines) if set(line.strip()) == {"─"}]
        below = takewhile(lambda line: "   " in line, lines[rule + 1 :])
        return [[cell.strip() for cell in line.split("   ") if cell.strip()] for line in below]


Ask = Callable[..., Answer]


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Ask:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(clock, "today", lambda: TODAY)

    def call(*words: str) -> Answer:
        capsys.readouterr()
        code = run(list(words))
        printed = capsys.readouterr()
        return Answer(code, printed.out, printed.err)

    return call


STACK = """\
config:
  gcp:project: acme-ci
  gpu-ci:pools:
    l4:
      kind: gce-runners
      machineType: g2-standard-8
      zones: [us-central1-a, us-central1-b]
      market: spot
      max: 4
"""


@pytest.fixture
def stack(tmp_path: Path) -> Callable[..., str]:
    """Writes a stack file; what is replaced in it has to be there."""

    def write(*changes: tuple[str, str], name: str = "Pulumi.dev.yaml", text: str = STACK) -> str:
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        (tmp_path / name).write_text(text)
        return name

    return write
