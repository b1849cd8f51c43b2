"""Builds from start to end: a real step, and a machine that boots, checks its GPU, and runs the command."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from gpu_ci.gcp.gpu_bridge.failures import BridgeError
from pulumi_sandbox.providers.gcp.object_storage import StoredObject

from tests.gpu_ci.gcp.gpu_bridge.bridge import BUCKET, Bridge

PROGRAM = ("--settings", f"gs://{BUCKET}/bridge.json")


def test_a_step_runs_its_command_on_a_checked_machine_and_returns_output_artifacts_and_exit_code(
    bridge: Bridge, folder: Path
) -> None:
    command = "python3 test.py; mkdir dist; echo wheel >dist/a.whl; exit 7"
    code = bridge.build(folder, "sh", "-c", command, artifacts=["dist/*.whl"]).run()
    print("\n".join(bridge.lines))
    assert bridge.printed.getvalue() == b"from the workspace\n"
    assert code == 7
    assert (folder / "dist" / "a.whl").read_text() == "wheel\n"
    assert bridge.machines() == []


@pytest.mark.slow
def test_a_command_over_its_time_limit_may_print_why(bridge: Bridge, folder: Path) -> None:
    command = "trap 'echo interrupted; exit 1' TERM; echo begins; while true; do sleep 0.1; done"
    with pytest.raises(BridgeError) as caught:
        bridge.build(folder, "sh", "-c", command, timeout_sec=2).run()
    assert (caught.value.name, caught.value.detail) == ("timed-out", "the command did not end within 2 s")
    lines = bridge.printed.getvalue().splitlines()
    assert (lines[0], lines[-1]) == (b"begins", b"interrupted")
    assert bridge.machines() == []


@pytest.mark.slow
def test_sources_that_were_altered_run_no_command(
    bridge: Bridge, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = bridge.build(folder, "sh", "-c", "echo ran")
    upload = step.storage.upload

    def altered(name: str, path: Path, sha256: str) -> None:
        upload(name, path, sha256)
        content = path.read_bytes()[:-1] + b"\1"
        bridge.objects.buckets[BUCKET][name] = StoredObject(content, 1, {"sha256": sha256})

    monkeypatch.setattr(step.storage, "upload", altered)
    with pytest.raises(BridgeError) as caught:
        step.run()
    assert (caught.value.name, "expected" in caught.value.detail) == ("wrong-digest", True)
    assert (bridge.printed.getvalue(), bridge.machines()) == (b"", [])


@pytest.mark.slow
def test_missing_artifacts_are_a_failure_only_if_the_command_succeeded(bridge: Bridge, folder: Path) -> None:
    with pytest.raises(BridgeError) as caught:
        bridge.build(folder, "true", artifacts=["dist/*.whl"]).run()
    assert (caught.value.name, caught.value.detail) == ("no-artifacts", "no file matches dist/*.whl")
    assert bridge.build(folder, "sh", "-c", "exit 4", artifacts=["dist/*.whl"]).run() == 4


@pytest.mark.slow
def test_a_step_process_that_gets_sigterm_deletes_its_machine(bridge: Bridge, folder: Path) -> None:
    bridge.save_settings()
    process = bridge.start_program(folder, "run", *PROGRAM, "--", "sh", "-c", "echo begins; sleep 300")
    assert process.stdout is not None
    assert process.stdout.readline() == "begins\n"
    assert len(bridge.machines()) == 1
    process.send_signal(signal.SIGTERM)
    printed, logged = process.communicate(timeout=60)
    assert (process.returncode, printed, bridge.machines()) == (210, "", []), logged
