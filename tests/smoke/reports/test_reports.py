"""The table and the message of a receipt with hostile texts, and files that are written as a whole or not at all."""

from __future__ import annotations

import errno
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from gpu_smoke.output import escape_commands
from gpu_smoke.reports import cut, message, safe_line, table
from hypothesis import given
from hypothesis import strategies as st

from ..conftest import ONE_GPU, environment

HOSTILE = [
    "\n::error::forged", "\r\n::stop-commands::x", "::add-mask::a", "##[error]forged", "%0A::error::", "\x1b[31mred",
    "\x00", "\x85", "\u2028", "\ud800", "\udfff", "\uffff", "\u202e", "é", "漢", "🎉", "x" * 300,
]  # fmt: skip
texts = st.lists(st.sampled_from(HOSTILE) | st.text(st.characters(exclude_categories=()), max_size=20), max_size=6).map(
    "".join
)
good = st.fixed_dictionaries(
    {"id": texts, "status": st.sampled_from(["pass", "warn", "skip"]), "message": texts},
    optional={"gpu": st.integers(0, 3), "hint": texts, "fail_below": st.floats(0, 9), "unit": texts},
)
bad = st.fixed_dictionaries(
    {
        "id": texts, "status": st.sampled_from(["fail", "error"]), "message": texts,
        "severity": st.sampled_from(["env", "gpu", "perf", "hang"]),
    },
    optional={"gpu": st.integers(0, 3), "hint": texts},
)  # fmt: skip
records = st.fixed_dictionaries(
    {"device": st.sampled_from(["cpu", "cuda"]), "summary": texts, "checks": st.lists(good | bad, max_size=15)}
)
# A line that GitHub's runner executes (actions/runner@079cdb1: ActionCommand.cs).
COMMAND = re.compile(r"^\s*::(error|warning|add-mask|stop-commands|set-output)\b.*?::|##\[\w+\]", re.IGNORECASE)


@given(records)
def test_the_message_and_the_table_are_printable_lines(found: dict[str, Any]) -> None:
    said = message(found)
    assert len(said.encode()) <= 4000
    assert said.split("\n")[0] == safe_line(found["summary"])
    lines = table(found).split("\n")
    assert all(line.isprintable() for line in [*said.split("\n"), *lines])
    hints = {safe_line(check["hint"]) for check in found["checks"] if check.get("hint")}
    assert len(lines) == 1 + len(found["checks"]) + len(hints) + 1
    assert lines[-1] == f"gpu-smoke: {safe_line(found['summary'])}"


@given(texts)
def test_a_text_in_a_log_is_no_workflow_command(text: str) -> None:
    assert not [line for line in re.split(r"[\r\n]", escape_commands(text)) if COMMAND.search(line)]


@pytest.mark.parametrize("text", ["##[add-mask]L4", "::error::forged"])
def test_a_text_of_torch_is_no_workflow_command(text: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gpu_smoke", "--json", "-", "--pool", text],
        env=environment(gpus=ONE_GPU, faults=[{"kind": "raise", "text": text}]),
        capture_output=True,
        text=True,
        check=False,
    )
    assert not [line for line in (done.stderr + done.stdout).splitlines() if COMMAND.search(line)]
    assert json.loads(done.stdout)["pool"]["name"] == text


@given(texts, st.integers(0, 50))
def test_cut_returns_the_longest_prefix_that_fits(text: str, limit: int) -> None:
    clean = text.encode("utf-8", "replace").decode()
    kept = cut(clean, limit)
    assert clean.startswith(kept)
    assert len(kept.encode()) <= limit
    assert kept == clean or len(clean[: len(kept) + 1].encode()) > limit


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


def write(place: Path, before: str) -> subprocess.CompletedProcess[str]:
    """Write a file in a process that is prepared by some code."""
    program = f"from gpu_smoke.reports import write\n{before}write({str(place)!r}, 'x' * 100)"
    return subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("before", [FULL, MOUNTED], ids=["full", "mounted"])
def test_a_file_is_left_as_it_was_on_a_full_disk_and_overwritten_if_it_is_a_mount(tmp_path: Path, before: str) -> None:
    place = tmp_path / "place"
    place.write_text("old\n")
    inode = place.stat().st_ino
    done = write(place, before)
    assert (done.returncode != 0, "File too large" in done.stderr) == (before == FULL, before == FULL)
    assert place.read_text() == ("old\n" if before == FULL else "x" * 100)
    assert place.stat().st_ino == inode
    assert list(tmp_path.iterdir()) == [place]


def test_a_link_stays_one_and_what_it_leads_to_is_new(tmp_path: Path) -> None:
    place = tmp_path / "place"
    (tmp_path / "elsewhere").mkdir()
    place.symlink_to(tmp_path / "elsewhere" / "file")
    assert write(place, "").returncode == 0
    assert place.is_symlink()
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["file"]
