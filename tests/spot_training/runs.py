"""Runs examples/spot-training in processes that share one import of torch. It runs in the Python that has torch.

runs.py kills FOLDER NUMBER SEED     an unbroken run, NUMBER runs that are killed during a save, and the last run
runs.py slow FOLDER ARGUMENT...             one run whose saves take a second longer, with a file `saving` meanwhile
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "spot-training"))
import checkpoints
import torch
import torch._dynamo  # An optimizer imports it at its first step, and each child would do that again.
import train

EVERY, MOST_SAVES = 2, 3


def in_child(work: Callable[[], Any]) -> Callable[[], Any]:
    """Start `work` in a child process. Return the function that waits for its result."""
    answers, answer = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            os.write(answer, json.dumps(work()).encode())
        os._exit(0)
    os.close(answer)

    def result() -> Any:
        with os.fdopen(answers, "rb") as stream:
            text = stream.read()
        os.waitpid(child, 0)
        return json.loads(text)

    result.pid = child  # type: ignore[attr-defined]
    return result


def run(folder: Path) -> str:
    """Train to the end, and return the last line. There are more steps than the killed runs can do."""
    steps = EVERY * MOST_SAVES * int(sys.argv[3]) + 10
    own = ["train.py", "--checkpoints", str(folder), "--steps", str(steps), "--save-every", str(EVERY)]
    said = io.StringIO()
    given, sys.argv = sys.argv, own
    with contextlib.redirect_stdout(said):
        assert train.main() == 0
    sys.argv = given
    return said.getvalue().splitlines()[-1]


def digest(state: dict[str, Any]) -> str:
    """Return the digest of all numbers of a checkpoint."""
    found = hashlib.sha256()
    for part in (state["model"], *state["optimizer"]["state"].values(), state["progress"]):
        for name in sorted(part):
            found.update(torch.as_tensor(part[name]).numpy().tobytes())
    return found.hexdigest()


def unbroken(folder: Path) -> tuple[str, dict[str, str], float]:
    """Return the last line, the digest of each checkpoint, and the seconds of a save."""
    digests: dict[str, str] = {}
    save, took = checkpoints.save, []

    def record(folder: str, step: int, state: dict[str, Any]) -> None:
        digests[f"step-{step:09d}"] = digest(state)
        began = time.monotonic()
        save(folder, step, state)
        took.append(time.monotonic() - began)

    checkpoints.save = record
    return run(folder), digests, sorted(took)[len(took) // 2]


def killed(folder: Path, saves: int, delay_sec: float) -> bool:
    """Kill a run this long after it began a save of this number. Return False if it ended before."""
    began, begins = os.pipe()
    save = checkpoints.dcp.save

    def noted(*args: Any, **kwargs: Any) -> Any:
        os.write(begins, b".")
        return save(*args, **kwargs)

    def work() -> str:
        checkpoints.dcp.save = noted
        return run(folder)

    running = in_child(work)
    os.close(begins)
    reached = all(os.read(began, 1) for _ in range(saves))
    time.sleep(delay_sec)
    os.kill(running.pid, signal.SIGKILL)  # type: ignore[attr-defined]
    os.waitpid(running.pid, 0)  # type: ignore[attr-defined]
    os.close(began)
    return reached


def loaded(folder: Path) -> tuple[str, str]:
    """Load the newest complete checkpoint as a run does. Return its name and its digest."""
    newest = checkpoints.newest_complete(str(folder))
    if newest is None:
        return "", ""
    load = checkpoints.load
    found: list[str] = []

    def record(checkpoint: str, state: dict[str, Any]) -> None:
        load(checkpoint, state)
        found.append(digest(state))
        raise KeyboardInterrupt  # The run must not continue.

    checkpoints.load = record
    with contextlib.suppress(KeyboardInterrupt):
        run(folder)
    return newest.rpartition("/")[2], found[0]


def kills(folder: Path, number: int, seed: int) -> dict[str, Any]:
    """Return what the test compares."""
    line, digests, save_sec = in_child(lambda: unbroken(folder / "unbroken"))()
    chance = random.Random(seed)
    broken, unfinished, ends = folder / "broken", 0, []
    wrong: list[str] = []
    names = [""]
    for _ in range(number):
        ends.append(killed(broken, chance.randint(1, MOST_SAVES), chance.uniform(0, 1.2 * save_sec)))
        unfinished += sum(not (each / ".metadata").exists() for each in broken.iterdir())
        name, content = in_child(lambda: loaded(broken))()
        names.append(name)
        wrong += [name] if name and digests[name] != content else []
    last = in_child(lambda: run(broken))()
    left = sorted(each.name for each in broken.iterdir())
    return {
        "unbroken": line, "resumed": last, "reached": sum(ends), "unfinished": unfinished, "wrong": wrong,
        "names": names, "left": left,
    }  # fmt: skip


def slow(folder: Path) -> int:
    """Train with slow saves."""
    save = checkpoints.dcp.save

    def late(*args: Any, **kwargs: Any) -> Any:
        (folder / "saving").touch()
        time.sleep(1)
        return save(*args, **kwargs)

    checkpoints.dcp.save = late
    return train.main()


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1] == "kills":
        print(json.dumps(kills(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))))
    else:
        where = Path(sys.argv[2])
        sys.argv = ["train.py", *sys.argv[3:]]
        sys.exit(slow(where))
