"""A machine that is stopped while it waits for its registration, and boots again from its disk."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from tests.agent.fakes import machine, whole_machine
from tests.agent.fakes.manager import Answer
from tests.agent.fakes.whole_machine import Plan, RunningMachine

PATIENCE_SEC = 30.0


class Twice:
    """A machine that booted twice, and its results."""

    def __init__(self, folder: Path, key: bytes, public_key: RSAPublicKey) -> None:
        self.downloads = folder / "downloads"
        """The file gets a line for each download of the runner. It is a file, because the machine runs in another
        process.
        """
        self._folder, self._key, self._public_key = folder, key, public_key

    def run_machine(self, **plan: Any) -> dict[str, Any]:
        return whole_machine.run_machine(self._folder, self._key, self._public_key, Plan(release=self._release, **plan))

    def _release(self, _: int, archive: bytes) -> tuple[int, bytes, int]:
        with self.downloads.open("a") as file:
            file.write("runner\n")
        return 200, archive, len(archive)


@pytest.fixture
def twice(tmp_path: Path, app_key: bytes, public_key: RSAPublicKey) -> Twice:
    machine.needs("nft", "ip", "curl", "openssl")
    return Twice(tmp_path, app_key, public_key)


def stop_once_it_waits(running: RunningMachine) -> None:
    """Stop the machine after it has published its key, as the manager does if no job needs it."""
    if running.boots > 1:
        return
    until = time.monotonic() + PATIENCE_SEC
    while not running.google.keys() and time.monotonic() < until:
        time.sleep(0.02)
    running.stop()


def test_a_machine_that_was_stopped_while_it_waited_boots_again_and_takes_a_job(twice: Twice) -> None:
    found = twice.run_machine(answer=Answer(), boots=2, at=[("register", stop_once_it_waits)])
    assert found["published"] == ["stopped", "job-done"], found["serial"]
    first = ["config", "driver", "check", "runner", "register"]
    assert steps(found["serial"]) == [*first, *first, "waiting", "job", "after-job"]
    assert (found["end"]["step"], found["end"]["stops_pool"]) == ("register", False)
    assert (found["keys"], found["registered"], found["leaked"], found["alive"]) == (2, 1, [], False)
    # The check ran twice and passed. The runner was downloaded once.
    assert (verdicts(found["serial"]), twice.downloads.read_text()) == (["pass", "pass"], "runner\n")


def test_a_machine_that_has_had_a_registration_takes_none_at_its_next_boot(twice: Twice) -> None:
    def stop_at_work(running: RunningMachine) -> None:
        if running.boots == 1:
            running.stop()

    def seal_to_the_first(running: RunningMachine) -> None:
        running.google.keys = lambda: ["", *type(running.google).keys(running.google)]  # type: ignore[method-assign]

    found = twice.run_machine(answer=Answer(), boots=2, prepare=seal_to_the_first, at=[("waiting", stop_at_work)])
    assert found["published"] == ["stopped", "used"], found["serial"]
    assert (found["registered"], verdicts(found["serial"]), found["leaked"]) == (1, ["pass"], [])


def steps(serial: str) -> list[str]:
    return [json.loads(line.split(" ", 1)[1])["step"] for line in serial.splitlines() if "GPU-AGENT-STEP " in line]


def verdicts(serial: str) -> list[str]:
    said = [line.split(" ", 1)[1] for line in serial.splitlines() if line.startswith("SMOKE-RESULT ")]
    return [json.loads(base64.b64decode(each))["verdict"] for each in said]
