"""`make test-live`: what it deploys, when it refuses, and that it always destroys, over a fake and the sandbox."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tools.live import stack

SANDBOX = str(Path(sys.executable).with_name("pulumi-sandbox"))


@pytest.fixture
def fake_pulumi(tmp_path: Path) -> Any:
    """A fake `pulumi` that records its arguments, prints outputs, fails at one command, and handles Ctrl-C at another.

    A terminal sends Ctrl-C to every program of its foreground: here to this test, while the program cleans up.
    """

    def make(verdicts: dict[str, Any], fails: str = "", interrupted: str = "") -> list[str]:
        program = tmp_path / "fake.py"
        outputs = json.dumps({"pools": {name: {"verdict": verdict} for name, verdict in verdicts.items()}})
        program.write_text(
            "import os, signal, sys, time\n"
            f"open({str(tmp_path / 'calls')!r}, 'a').write(' '.join(sys.argv[1:3]) + chr(10))\n"
            f"print({outputs!r}) if sys.argv[1:3] == ['stack', 'output'] else None\n"
            f"if sys.argv[1] == {interrupted!r}:\n"
            "    os.kill(os.getppid(), signal.SIGINT)\n"
            "    time.sleep(1)\n"
            f"    open({str(tmp_path / 'calls')!r}, 'a').write('cleaned up' + chr(10))\n"
            f"sys.exit(sys.argv[1] == {fails!r})\n"
        )
        return [sys.executable, str(program)]

    return make


def calls(folder: Path) -> list[str]:
    return (folder / "calls").read_text().splitlines()


ENVIRONMENT = {"GPU_CI_LIVE_PROJECT": "acme-ci-test", "GPU_CI_CONFIRM": "acme-ci-test"}


def test_every_step_runs_and_the_stack_is_destroyed(fake_pulumi: Any, tmp_path: Path) -> None:
    assert stack.main(ENVIRONMENT, fake_pulumi({"live": "pass"})) == 0
    assert calls(tmp_path) == ["stack init", "up --yes", "stack output", "up --yes", "destroy --yes"]


@pytest.mark.parametrize(
    ("verdicts", "fails", "made"),
    [
        ({"live": "pass"}, "up", ["stack init", "up --yes", "destroy --yes"]),
        ({"live": "unproven"}, "", ["stack init", "up --yes", "stack output", "destroy --yes"]),
        ({}, "", ["stack init", "up --yes", "stack output", "destroy --yes"]),
    ],
)
def test_a_step_that_fails_ends_in_a_destruction(
    fake_pulumi: Any, tmp_path: Path, verdicts: dict[str, Any], fails: str, made: list[str]
) -> None:
    assert stack.main(ENVIRONMENT, fake_pulumi(verdicts, fails)) == 1
    assert calls(tmp_path) == made


def test_an_interrupted_up_cleans_up_before_the_stack_is_destroyed(fake_pulumi: Any, tmp_path: Path) -> None:
    assert stack.main(ENVIRONMENT, fake_pulumi({"live": "pass"}, interrupted="up")) == 130
    assert calls(tmp_path) == ["stack init", "up --yes", "cleaned up", "destroy --yes"]


def test_an_interrupted_destruction_ends_and_names_the_command_that_repeats_it(
    fake_pulumi: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert stack.main(ENVIRONMENT, fake_pulumi({"live": "pass"}, interrupted="destroy")) == 130
    assert calls(tmp_path)[-2:] == ["destroy --yes", "cleaned up"]
    assert "NOT DESTROYED. Its state is in " in capfd.readouterr().err


def test_a_destruction_that_fails_keeps_the_state_and_names_the_command(
    fake_pulumi: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    assert stack.main(ENVIRONMENT, fake_pulumi({"live": "pass"}, "destroy")) == 1
    printed = capfd.readouterr().err
    folder = Path(printed.partition("Its state is in ")[2].splitlines()[0])
    assert (folder / "Pulumi.live.yaml").is_file()
    assert f"PULUMI_BACKEND_URL='file://{folder}?metadata=skip' PULUMI_CONFIG_PASSPHRASE='' " in printed


def test_the_passphrase_of_the_user_is_not_printed(fake_pulumi: Any, capfd: pytest.CaptureFixture[str]) -> None:
    environment = {**ENVIRONMENT, "PULUMI_CONFIG_PASSPHRASE": "hush"}
    assert stack.main(environment, fake_pulumi({"live": "pass"}, "destroy")) == 1
    printed = capfd.readouterr()
    assert "NOT DESTROYED" in printed.err
    assert "hush" not in printed.out + printed.err
    assert "PULUMI_CONFIG_PASSPHRASE" not in printed.err


@pytest.mark.parametrize(
    ("environment", "got"),
    [
        ({}, "expected: GPU_CI_LIVE_PROJECT or GPU_CI_LIVE_STACK_FILE"),
        ({"GPU_CI_LIVE_PROJECT": "acme-ci-test"}, "expected: GPU_CI_CONFIRM=acme-ci-test"),
        ({"GPU_CI_LIVE_PROJECT": "acme-ci-test", "GPU_CI_CONFIRM": "yes"}, "expected: GPU_CI_CONFIRM=acme-ci-test"),
        ({"GPU_CI_LIVE_PROJECT": "acme-ci-test", "GPU_CI_LIVE_STACK_FILE": "a.yaml"}, "expected: one of them"),
        ({"GPU_CI_LIVE_PROJECT": "Acme"}, "is not the id of a project"),
        ({"GPU_CI_LIVE_STACK_FILE": "no-such-file.yaml"}, "no-such-file.yaml: cannot be read"),
    ],
)
def test_nothing_starts_without_a_target_and_a_confirmation_that_names_it(
    fake_pulumi: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], environment: dict[str, str], got: str
) -> None:
    assert stack.main(environment, fake_pulumi({})) == 2
    assert got in capsys.readouterr().err
    assert not (tmp_path / "calls").exists()


def test_a_stack_file_with_a_mistake_is_refused_with_its_report(
    fake_pulumi: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "Pulumi.mine.yaml"
    file.write_text("config:\n  gcp:project: acme-ci\n  gpu-ci:pools: {l4: {kind: gce-runner}}\n")
    environment = {"GPU_CI_LIVE_STACK_FILE": str(file), "GPU_CI_CONFIRM": "acme-ci"}
    assert stack.main(environment, fake_pulumi({})) == 2
    assert "gce-runners" in capsys.readouterr().err


@pytest.mark.slow
def test_the_smallest_pool_is_deployed_checked_and_destroyed_in_the_sandbox(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PULUMI_SANDBOX_DIR", str(tmp_path / "sandbox"))
    assert stack.main({**os.environ, **ENVIRONMENT}, [SANDBOX]) == 0
    printed = capfd.readouterr().out
    assert 'test-live: verdicts: {"live": "pass"}' in printed
    assert "test-live: every pool passed its smoke check, and everything is destroyed" in printed
    assert list(stack.ROOT.glob("Pulumi.live-*.yaml")) == []
