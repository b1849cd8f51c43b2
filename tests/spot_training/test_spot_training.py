"""examples/spot-training with the real torch: kills during saves, and a notice of preemption during a save."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from gpu_agent import preempt

from tests.agent.fakes.steps import SHELL, wait_for
from tests.conftest import ROOT

RUNS = Path(__file__).with_name("runs.py")
EXAMPLE = ROOT / "examples" / "spot-training"


pytestmark = pytest.mark.slow
KILLS = 50


def test_a_run_that_is_killed_during_saves_ends_with_the_loss_of_an_unbroken_one(
    tmp_path: Path, torch_python: Path
) -> None:
    command = [str(torch_python), str(RUNS), "kills", str(tmp_path), str(KILLS), "1"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    # Each checkpoint that was loaded after a kill has exactly the numbers of the unbroken run at its step.
    assert found["wrong"] == []
    assert found["resumed"] == found["unbroken"]
    # A kill loses at most the save during which it comes: no run falls behind the newest checkpoint before it.
    assert found["names"] == sorted(found["names"])
    assert found["resumed"].startswith(f"step {6 * KILLS + 10}: loss ")
    # All kills came during or just after a save, and many left an unfinished checkpoint.
    assert found["reached"] == KILLS
    assert found["unfinished"] >= KILLS // 4, found
    assert found["left"] == [f"step-{6 * KILLS + 10:09d}"]


def test_a_notice_during_a_save_ends_the_run_after_it_and_the_next_attempt_continues(
    tmp_path: Path, torch_python: Path
) -> None:
    def start(folder: str, *before: str) -> subprocess.Popen[str]:
        arguments = f"--checkpoints {tmp_path / folder} --steps 30 --save-every 10"
        (tmp_path / "step.sh").write_text(f"{' '.join(before)} {torch_python} {RUNS} slow {tmp_path} {arguments}\n")
        environment = {**os.environ, "GPU_CI_NOTICE_FILE": str(tmp_path / "notice")}
        command = [*SHELL, str(tmp_path / "step.sh")]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)

    with start("own", sys.executable, preempt.__file__, "--") as first:
        wait_for(tmp_path / "saving")
        (tmp_path / "notice").write_text('{"announcement": "preempted", "graceSec": 10}')
        assert first.communicate(timeout=60)[0].splitlines() == ["stopped after step 10"]
    assert first.returncode == 75
    assert [each.name for each in (tmp_path / "own").iterdir()] == ["step-000000010"]
    assert (tmp_path / "own" / "step-000000010" / ".metadata").exists()
    ends = []
    for folder in ("own", "unbroken"):
        with start(folder) as process:
            ends.append(process.communicate(timeout=60)[0].splitlines())
    (continued, resumed), (unbroken,) = ends
    assert continued.endswith("/own/step-000000010")
    assert resumed == unbroken


@pytest.mark.slow
def test_a_checkpoint_below_a_folder_with_a_slash_at_its_end_is_found_in_a_bucket(torch_python: Path) -> None:
    """As in a bucket, two slashes are not one in the file system in memory."""
    program = (
        "import checkpoints, torch; folder = 'memory://bucket/run/'; "
        "checkpoints.save(folder, 7, {'a': torch.tensor(1)}); print(checkpoints.newest_complete(folder))"
    )
    done = subprocess.run([str(torch_python), "-c", program], cwd=EXAMPLE, check=True, capture_output=True, text=True)
    assert done.stdout == "memory:///bucket/run/step-000000007\n"
