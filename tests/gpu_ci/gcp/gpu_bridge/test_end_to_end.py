"""Builds from start to end: a real step, and a machine that boots, checks its GPU, and runs the command."""

from __future__ import annotations

import io
import os
import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from gpu_ci.gcp.gpu_bridge.failures import BridgeError
from gpu_ci.gcp.gpu_bridge.reaper import reap
from gpu_ci.gcp.gpu_bridge.workspace import pack
from pulumi_sandbox.providers.gcp.compute import instances_api, vm_store
from pulumi_sandbox.providers.gcp.object_storage import StorageServer, StoredObject
from pulumi_sandbox.world.faults import Fault

from tests.agent import fakes
from tests.agent.fakes.boot import packed, says
from tests.gpu_ci.gcp.gpu_bridge.bridge import BUCKET, BUILD, Bridge, Running, serving

FAKES = Path(fakes.__file__).parent
PROGRAM = ("--settings", f"gs://{BUCKET}/bridge.json", "--build", BUILD)

SPOT = {
    "provisioningModel": "SPOT",
    "preemptible": True,
    "automaticRestart": False,
    "onHostMaintenance": "TERMINATE",
    "instanceTerminationAction": "DELETE",
}


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


@pytest.mark.slow
def test_a_preempted_step_runs_once_more_on_a_machine_that_is_no_spot_machine(bridge: Bridge, folder: Path) -> None:
    template = bridge.google.template(
        name="spot",
        **bridge.body,
        scheduling=SPOT,
    )
    bridge.settings = replace(bridge.settings, template=template.id)
    step = bridge.build(folder, "sh", "-c", "echo begins; sleep 4; echo ends", retries_preempted=True)
    with Running(step) as running:
        running.until(lambda: b"begins" in bridge.printed.getvalue())
        bridge.google.world.add_fault(Fault("preempt"))
        assert running.code() == 0
    assert bridge.printed.getvalue().split() == [b"begins", b"begins", b"ends"]
    assert bridge.machines() == []
    assert any("running the command once more" in line for line in bridge.lines)


@pytest.mark.slow
def test_a_cancelled_step_ends_its_machine_and_prints_the_output_until_then(bridge: Bridge, folder: Path) -> None:
    step = bridge.build(folder, "sh", "-c", "echo begins; sleep 300")
    with Running(step) as running:
        running.until(lambda: b"begins" in bridge.printed.getvalue())
        bridge.cancel.set()
        assert running.failure().name == "cancelled"
    assert (bridge.printed.getvalue(), bridge.machines(), bridge.names("slots/")) == (b"begins\n", [], [])


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
def test_a_signal_of_the_command_is_in_its_exit_code(bridge: Bridge, folder: Path) -> None:
    assert bridge.build(folder, "sh", "-c", "echo $SEED; kill -9 $$", environment={"SEED": "7"}).run() == 137
    assert bridge.printed.getvalue() == b"7\n"


@pytest.mark.slow
def test_sources_that_were_altered_run_no_command(bridge: Bridge, folder: Path) -> None:
    step = bridge.build(folder, "sh", "-c", "echo ran")
    # An upload of the same workspace finds the object, and does not replace it.
    target = folder.parent / "source"
    source = pack(folder, target, 10, print)
    altered = target.read_bytes()[:-1] + b"\1"
    bridge.objects.buckets[BUCKET][source.object_name] = StoredObject(altered, 1, {"sha256": source.sha256})
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
def test_a_machine_that_fails_its_check_reads_no_sources(bridge: Bridge, folder: Path) -> None:
    template = bridge.google.template(
        name="bad",
        **{**bridge.body, "metadata": {**bridge.body["metadata"], "gpu-smoke-pyz": packed(says("wrong", 1))}},
    )
    bridge.settings = replace(bridge.settings, template=template.id)
    with pytest.raises(BridgeError) as caught:
        bridge.build(folder, "echo", "ran").run()
    assert (caught.value.name, caught.value.detail) == ("check-failed", "us-central1-a: wrong")
    assert bridge.names("builds/") == []


@pytest.mark.slow
def test_the_machine_of_a_killed_step_is_deleted_by_the_reaper(bridge: Bridge, folder: Path) -> None:
    step = bridge.build(folder, "sh", "-c", "echo begins; sleep 300")
    (folder.parent / "log").touch()
    process = os.fork()
    if process == 0:
        os.dup2(os.open(folder.parent / "log", os.O_CREAT | os.O_WRONLY), 1)
        step.write = lambda content: os.write(1, content)
        try:
            step.run()
        finally:
            os._exit(1)
    until = time.monotonic() + 60
    while (folder.parent / "log").read_bytes() != b"begins\n":
        assert time.monotonic() < until
        time.sleep(0.1)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    assert len(bridge.machines()) == 1
    builds = SimpleNamespace(status=lambda project, region, build: "CANCELLED")
    [reaped] = reap(step.api, builds, "ci-project", time.time(), print)
    assert (reaped.why, bridge.machines()) == ("its build has ended (CANCELLED)", [])


@pytest.mark.slow
def test_two_builds_at_once_share_no_output(bridge: Bridge, folder: Path) -> None:
    printed = [io.BytesIO(), io.BytesIO()]
    steps = [bridge.build(folder, "sh", "-c", f"echo {number}; exit {number}") for number in range(2)]
    for step, output in zip(steps, printed, strict=True):
        step.write = output.write
    with Running(steps[0]) as first, Running(steps[1]) as second:
        assert (first.code(), second.code()) == (0, 1)
    assert [output.getvalue() for output in printed] == [b"0\n", b"1\n"]
    assert (bridge.machines(), bridge.names("slots/")) == ([], [])


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
    assert bridge.names("slots/") == []


@pytest.mark.slow
def test_the_program_needs_only_its_own_files_and_prints_the_output_of_the_command_alone(
    bridge: Bridge, folder: Path
) -> None:
    bridge.save_settings()
    process = bridge.start_program(folder, "run", *PROGRAM, "--", "sh", "-c", "echo out; echo err >&2; exit 9")
    printed, logged = process.communicate(timeout=90)
    assert (process.returncode, printed) == (9, "out\nerr\n"), logged
    assert all(line.startswith("gpu-ci: ") for line in logged.splitlines())
    assert bridge.machines() == []


IMAGE = f"us-docker.pkg.dev/acme/images/cuda@sha256:{'a' * 64}"
WHERE = "#!/bin/sh\npwd; ls; echo $SEED; test -e /home || echo no home; mkdir out; pwd >out/a; exit 5\n"


@pytest.fixture
def with_docker(
    storage: StorageServer, clients: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Bridge]:
    """Return a bridge whose machines have a stand-in for rootless Docker, and one image with the program `where`."""
    if shutil.which("bwrap") is None and "CI" not in os.environ:
        pytest.skip("needs bubblewrap")
    monkeypatch.setattr(vm_store, "STOPPING_SEC", 0.05)
    monkeypatch.setattr(instances_api, "ACCOUNT_SEC", 0.0)
    image = tmp_path / "images" / IMAGE.replace("/", "_")
    image.mkdir(parents=True)
    (image / "where").write_text(WHERE)
    (image / "where").chmod(0o755)
    variables = {"GPU_AGENT_TEST_IMAGES": str(image.parent)}
    with serving(storage, monkeypatch.setenv, FAKES / "docker_system.py", variables) as made:
        yield made


@pytest.mark.slow
def test_a_step_with_an_image_runs_its_command_in_a_container_with_the_workspace(
    with_docker: Bridge, folder: Path
) -> None:
    step = with_docker.build(folder, "where", image=IMAGE, environment={"SEED": "7"}, artifacts=["out/*"])
    assert step.run() == 5
    assert with_docker.printed.getvalue() == b"/workspace\ntest.py\n7\nno home\n"
    assert (folder / "out" / "a").read_text() == "/workspace\n"
    assert with_docker.machines() == []


@pytest.mark.slow
def test_an_image_that_does_not_exist_starts_no_command_and_names_the_image(with_docker: Bridge, folder: Path) -> None:
    missing = IMAGE.replace("cuda", "other")
    with pytest.raises(BridgeError) as caught:
        with_docker.build(folder, "where", image=missing).run()
    assert caught.value.name == "not-started"
    assert caught.value.detail.startswith(f"{missing}: Error response from daemon: manifest for {missing} not found")
    assert (with_docker.printed.getvalue(), with_docker.machines()) == (b"", [])
