"""The check as one file, written by the command."""

from __future__ import annotations

import base64
import subprocess
import sys
from pathlib import Path

from gpu_ci.payload import smoke_archive

from tests.gpu_ci.cli.conftest import Ask


def test_it_writes_the_archive_of_machines_and_prints_how_to_run_it(ask: Ask) -> None:
    answer = ask("zipapp")
    data = Path("gpu_smoke.pyz").read_bytes()
    assert data == base64.b64decode(smoke_archive())
    assert (
        answer.out
        == f"gpu_smoke.pyz: {len(data) / 1000:.0f} kB; on a machine with torch, run: python3 gpu_smoke.pyz --help\n"
    )
    done = subprocess.run([sys.executable, "-I", "gpu_smoke.pyz", "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout[:10]) == (0, "gpu-smoke ")


def test_it_goes_where_it_is_asked_to_and_tells_a_script(ask: Ask, tmp_path: Path) -> None:
    there = tmp_path / "a folder"
    there.mkdir()
    answer = ask("zipapp", "-o", f"{there}/check.pyz", "--json")
    assert answer.json == {"path": f"{there}/check.pyz", "bytes": (there / "check.pyz").stat().st_size}


def test_a_place_that_cannot_be_written_to_is_an_error_in_words(ask: Ask) -> None:
    answer = ask("zipapp", "-o", "nowhere/check.pyz")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == "nowhere/check.pyz: cannot be written\n  got: No such file or directory\n"
