"""Builds from start to end: a real step, and a machine that boots, checks its GPU, and runs the command."""

from __future__ import annotations

from pathlib import Path

from tests.gpu_ci.gcp.gpu_bridge.bridge import Bridge


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
    assert bridge.names("slots/") == []
