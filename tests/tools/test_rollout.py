"""`make rollout`: a good and a bad model, and the end of all processes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.slow
COMMAND = (sys.executable, "-m", "tools.rollout", "--example")


@contextmanager
def begun(example: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Begin a rollout. Afterwards, no process of it is left."""
    with subprocess.Popen(
        [*COMMAND, example], cwd=ROOT, text=True, stderr=subprocess.PIPE,
        env={**os.environ, "PULUMI_SANDBOX_DIR": str(folder)},
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()  # nothing happens if it has ended
    until = time.monotonic() + 30
    while left := [each for each in Path("/proc").glob("[0-9]*/environ") if str(folder).encode() in content(each)]:
        assert time.monotonic() < until, left
        time.sleep(0.1)


def content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""


def rollout(example: str, folder: Path) -> tuple[int, set[int], list[tuple[str, int]], str]:
    """Return the exit code, the shares of the new model, each deployed model with its share, and the output."""
    with begun(example, folder) as process:
        _, output = process.communicate()
    shares = {int(each) for each in re.findall(r"^\| \S+Z \| (\d+) %", output, re.MULTILINE)}
    models = re.findall(r"^\| \d+ \| (arr-coc@\d) \| (\d+) %", output, re.MULTILINE)
    return process.returncode, shares, [(name, int(share)) for name, share in models], output


def test_good_model_gets_all_traffic(tmp_path: Path) -> None:
    code, shares, models, output = rollout("good", tmp_path)
    assert (code, shares, models) == (0, {0, 10, 25, 50, 100}, [("arr-coc@1", 0), ("arr-coc@2", 100)]), output


def test_bad_model_has_the_traffic_of_one_step_at_most(tmp_path: Path) -> None:
    code, shares, models, output = rollout("bad", tmp_path)
    assert (code, shares, models) == (0, {0, 10}, [("arr-coc@1", 100)]), output
    assert "exit code:  2 of gpu-ci deploy start: rolled back" in output
    assert re.search(r"^requests: +the stable model failed 0 of .* the new model failed [1-9]", output, re.MULTILINE)


def test_no_process_is_left_after_ctrl_c(tmp_path: Path) -> None:
    with begun("good", tmp_path) as process:
        assert process.stderr
        assert any("% of the traffic" in line for line in process.stderr)
        process.send_signal(signal.SIGINT)
        process.communicate()
    assert process.returncode == 130


def test_a_second_rollout_leaves_the_files_of_the_first_one(tmp_path: Path) -> None:
    with begun("good", tmp_path) as process:
        assert process.stderr
        assert any("train wait" in line for line in process.stderr)
        environment = {**os.environ, "PULUMI_SANDBOX_DIR": str(tmp_path)}
        second = subprocess.run(
            [*COMMAND, "bad"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        assert (second.returncode, str(tmp_path / "rollout") in second.stderr) == (1, True)
        assert (tmp_path / "rollout" / "train-1.yaml").exists()
