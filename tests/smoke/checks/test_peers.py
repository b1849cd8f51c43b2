"""Machines that are checked at the same time: none passes before it has seen all others.

The sandbox's fake of the cluster's DNS resolves the names, from a file that a test writes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ..conftest import ONE_GPU, ROOT, environment

DNS = ROOT / "tests" / "smoke" / "fakes" / "names"
ABSENT = "see why the pods wait: kubectl get events; machines or quota may be used up, or other pods have the GPUs"
BOTH = "check-0.peers,check-1.peers"


class Machines:
    """Runs of the check at the same time, and the names that resolve."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.file = folder, folder / "names"
        self.named()

    def named(self, *numbers: int) -> None:
        new = self.folder / "names.new"
        new.write_text("".join(f"check-{number}.peers 10.244.0.{number}\n" for number in numbers))
        new.replace(self.file)

    def variables(self, **fake: Any) -> dict[str, str]:
        found = environment(**{"gpus": ONE_GPU, **fake})
        names = {"PULUMI_SANDBOX_NAMES": str(self.file), "PULUMI_SANDBOX_SERVICE": "peers"}
        return {**found, "PYTHONPATH": os.pathsep.join([str(DNS), found["PYTHONPATH"]]), **names}

    def start(self, number: int, *args: str, **fake: Any) -> subprocess.Popen[bytes]:
        words = ["--json", str(self.receipt(number)), "--termination-log", str(self.folder / f"message-{number}")]
        whose = ["--pool", "l4", "--node", f"node-{number}", "--peers", BOTH]
        with (self.folder / f"said-{number}").open("w") as said:
            return subprocess.Popen(
                [sys.executable, "-m", "gpu_smoke", *whose, *words, *args], env=self.variables(**fake), stderr=said
            )

    def receipt(self, number: int) -> Path:
        return self.folder / f"receipt-{number}.json"

    def said(self, number: int) -> str:
        return (self.folder / f"said-{number}").read_text()

    def message(self, number: int) -> list[str]:
        return (self.folder / f"message-{number}").read_text().splitlines()

    def passed(self, number: int) -> bool:
        try:
            return json.loads(self.receipt(number).read_text())["verdict"] == "pass"
        except FileNotFoundError:
            return False

    def wait_until_right(self, number: int) -> None:
        """Wait until the GPUs have passed, and the run waits for its peers."""
        for _ in range(600):
            text = self.receipt(number).read_text() if self.receipt(number).exists() else "{}"
            ids = [check["id"] for check in json.loads(text).get("checks", [])]
            if ids.count("gemm.bitwise") == 3:
                return
            time.sleep(0.05)
        raise AssertionError("it never came to its last product")


@pytest.fixture
def machines(tmp_path: Path) -> Machines:
    return Machines(tmp_path)


@pytest.mark.slow
def test_one_that_is_right_waits_until_the_other_one_is_there_which_may_leave_again(machines: Machines) -> None:
    machines.named(0)
    first = machines.start(0, "--linger-sec", "1")
    machines.wait_until_right(0)
    time.sleep(1)
    assert first.poll() is None
    assert not machines.passed(0)
    machines.named(0, 1)
    assert first.wait(timeout=60) == 0
    assert "gpu-smoke: passed so far; waiting for 2 machines at once\n" in machines.said(0)
    [line] = machines.message(0)
    assert line.startswith("l4 on node-0: 1 x ")
    assert line.endswith("products are right, and the same every time, one of 2 machines at once")
    receipt = json.loads(machines.receipt(0).read_text())
    assert receipt["pool"] == {"name": "l4", "node": "node-0"}
    assert receipt["checks"][-1] == {"id": "peers", "status": "pass", "message": "2 machines at once"}


def test_a_peer_that_was_seen_counts_although_it_has_ended_since(machines: Machines) -> None:
    machines.named(0, 1)
    run = machines.start(0, "--linger-sec", "1", **{"import": "slow"})
    time.sleep(2)  # torch's import takes 4, and the names were asked for at once
    machines.named(0)
    assert run.wait(timeout=60) == 0


def test_stopped_while_it_only_stays_for_the_others_it_leaves_with_its_verdict(machines: Machines) -> None:
    machines.named(0, 1)
    run = machines.start(0, "--linger-sec", "600")
    for _ in range(600):
        if machines.passed(0):
            break
        time.sleep(0.05)
    run.send_signal(signal.SIGTERM)
    assert run.wait(timeout=60) == 0


@pytest.mark.slow
def test_one_that_never_comes_is_named_at_the_end_of_the_time_for_it(machines: Machines) -> None:
    machines.named(0)
    run = machines.start(0, "--peers-sec", "4")
    assert run.wait(timeout=60) == 4
    assert machines.message(0) == [
        "l4 on node-0: after 4 s: 1 of 2 machines were seen, this one passed so far; missing: check-1.peers",
        f"hint: {ABSENT}",
        "peers: after 4 s: 1 of 2 machines were seen, this one passed so far; missing: check-1.peers",
    ]
    receipt = json.loads(machines.receipt(0).read_text())
    assert (receipt["verdict"], receipt["exit_code"], receipt["action"]) == ("fail", 4, "fix-pool")


@pytest.mark.slow
def test_if_no_name_resolves_the_names_are_the_fault_and_not_the_machines(
    machines: Machines,
) -> None:
    run = machines.start(0, "--peers-sec", "4")
    assert run.wait(timeout=60) == 4
    assert machines.message(0)[:2] == [
        "l4 on node-0: after 4 s: none of 2 machines has a name, not even this one (Name or service not known)",
        "hint: pods are named by a headless Service and the cluster's DNS: one of them does not answer",
    ]


@pytest.mark.slow
def test_a_run_stopped_while_it_waits_names_the_missing_peers(machines: Machines) -> None:
    machines.named(1)
    run = machines.start(1)
    machines.wait_until_right(1)
    time.sleep(3)
    run.send_signal(signal.SIGTERM)
    assert run.wait(timeout=60) == 4
    assert machines.message(1)[0] == (
        "l4 on node-1: stopped by SIGTERM: 1 of 2 machines were seen, this one passed so far; missing: check-0.peers"
    )


def test_a_machine_that_fails_does_not_wait_for_its_peers(machines: Machines) -> None:
    machines.named(0)
    run = machines.start(0, faults=[{"kind": "element", "by": 3}])
    assert run.wait(timeout=60) == 1
    assert machines.message(0)[0].startswith("l4 on node-0: GPU 0 gave a wrong float32 product")
