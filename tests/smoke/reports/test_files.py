"""Reports and measurements are written as a whole or not at all, at every kind of path."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ..conftest import environment

# What a full disk does: no file of this process grows beyond ten bytes.
FULL = """\
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
"""
# What a file that is mounted by itself does, as /dev/termination-log is in a pod.
MOUNTED = f"""\
import pathlib
def busy(*_): raise OSError({errno.EBUSY}, "Device or resource busy")
pathlib.Path.replace = busy
"""


@pytest.fixture(scope="module")
def receipt(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return a receipt that passed, with speeds."""
    path = tmp_path_factory.mktemp("receipts") / "receipt.json"
    command = [sys.executable, "-m", "gpu_smoke", "--profile", "standard", "--json", path]
    subprocess.run(command, env=environment(gpus=[{}]), check=True, capture_output=True)
    found: dict[str, Any] = json.loads(path.read_text())
    return found


COMMANDS = {
    "a report": lambda receipt, place: ["report", receipt, "--junit", place],
    "a record": lambda receipt, place: ["record", receipt, "--specs", place],
}
every_command = pytest.mark.parametrize("command", COMMANDS)


def run(command: str, receipt: dict[str, Any], place: Path, before: str = "") -> subprocess.CompletedProcess[str]:
    """Write a file in a process that is prepared by some code."""
    given = place.parent / "given.json"
    given.write_text(json.dumps(receipt))
    program = f"import sys; from gpu_smoke.__main__ import main\n{before}sys.exit(main())"
    words = [str(word) for word in COMMANDS[command](given, place)]
    done = subprocess.run(
        [sys.executable, "-c", program, *words], env=environment(), capture_output=True, text=True, check=False
    )
    given.unlink()
    return done


def rows(text: str = '"rows": []') -> str:
    return f'{{"schema": "gpu-smoke-specs/1", {text}}}\n'


@every_command
def test_a_full_disk_leaves_the_old_file(command: str, receipt: dict[str, Any], tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.write_text(rows())
    done = run(command, receipt, place, FULL)
    assert done.returncode != 0
    assert "File too large" in done.stderr
    assert place.read_text() == rows()
    assert [path.name for path in tmp_path.iterdir()] == ["place"]


@every_command
def test_a_file_that_is_a_mount_is_overwritten(command: str, receipt: dict[str, Any], tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.write_text(rows())
    inode = place.stat().st_ino
    done = run(command, receipt, place, MOUNTED)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert "NVIDIA L4" in place.read_text() or "testsuite" in place.read_text()
    assert place.stat().st_ino == inode
    assert [path.name for path in tmp_path.iterdir()] == ["place"]


@every_command
def test_a_link_stays_one_and_what_it_leads_to_is_new(command: str, receipt: dict[str, Any], tmp_path: Path) -> None:
    place = tmp_path / "place"
    (tmp_path / "elsewhere").mkdir()
    place.symlink_to(tmp_path / "elsewhere" / "file")
    assert run(command, receipt, place).returncode == 0
    assert place.is_symlink()
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["file"]


@every_command
def test_a_missing_folder_is_an_error(command: str, receipt: dict[str, Any], tmp_path: Path) -> None:
    given = tmp_path / "given.json"
    given.write_text(json.dumps(receipt))
    words = [str(word) for word in COMMANDS[command](given, tmp_path / "nowhere" / "place")]
    done = subprocess.run(
        [sys.executable, "-m", "gpu_smoke", *words], env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "No such file or directory" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["given.json"]
