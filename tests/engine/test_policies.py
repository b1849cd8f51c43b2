"""Tests of policy packs with the real engine: this project's, another one, and both together."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gpu_preview.engine.events import violations
from gpu_preview.model import Violation

from tests.conftest import ROOT
from tests.sandbox_runner import Finished, SandboxRunner

pytestmark = pytest.mark.engine

PACK = str(ROOT / "policies")
BUCKET = "urn:pulumi:dev::unrelated::gcp:storage/bucket:Bucket::assets"
WITHOUT_KEY = Violation(
    policy="own-keys",
    pack="gpu-ci",
    level="mandatory",
    text="If required, disks, buckets and registries are encrypted with your own key.\n"
    "encryption.defaultKmsKeyName names no key.\n"
    "To fix it: Set a KMS key: kmsKeyName, kmsKeySelfLink, defaultKmsKeyName or kmsKeyId.",
    urn=BUCKET,
)

UP = ("up", "--stack", "dev", "--yes", "--skip-preview", "--policy-pack", PACK)


@pytest.fixture
def unrelated(tmp_path: Path) -> Iterator[SandboxRunner]:
    runner = SandboxRunner(project=ROOT / "tests" / "programs" / "unrelated", folder=tmp_path / "a sandbox")
    yield runner
    runner.close()


def config(folder: Path, **rules: Any) -> str:
    file = folder / "policies.json"
    file.write_text(json.dumps({name.replace("_", "-"): settings for name, settings in rules.items()}))
    return str(file)


def logged(runner: SandboxRunner, *args: str, ok: bool = True) -> tuple[Finished, list[Violation], str]:
    runner.folder.mkdir(parents=True, exist_ok=True)
    log = runner.folder / "events.json"
    log.unlink(missing_ok=True)
    finished = runner.run(*args, "--event-log", str(log), ok=ok, PULUMI_DEBUG_COMMANDS="true")
    return finished, *violations(log)


EXEMPT = {"resource": "assets", "reason": "a key next week", "until": "9999-12-31"}


@pytest.mark.slow
def test_a_violation_fails_the_preview_and_an_exemption_lets_the_up_through(
    unrelated: SandboxRunner, policy_python: Path, tmp_path: Path
) -> None:
    preview = ("preview", "--stack", "dev", "--policy-pack", PACK, "--policy-pack-config")
    chosen = config(tmp_path, own_keys={"required": True})
    failed, found, asked = logged(unrelated, *preview, chosen, ok=False)
    assert (failed.code, found, asked) == (1, [WITHOUT_KEY], "ran gpu-ci 0.1.0 (14 rules)")

    chosen = config(tmp_path, own_keys={"required": True, "exempt": [EXEMPT]})
    _, found, _ = logged(unrelated, *UP, "--policy-pack-config", chosen)
    assert found == []
    assert "assets" in {row["name"] for row in unrelated.world()}
    assert unrelated.gone() == {}, "the pack outlived the up"


@pytest.mark.slow
def test_a_violation_stops_the_up_before_the_resource_is_created(
    unrelated: SandboxRunner, policy_python: Path, tmp_path: Path
) -> None:
    chosen = config(tmp_path, own_keys={"required": True})
    stopped, found, _ = logged(unrelated, *UP, "--policy-pack-config", chosen, ok=False)
    assert (stopped.code, found) == (1, [WITHOUT_KEY])
    assert "assets" not in {row["name"] for row in unrelated.world()}


@pytest.mark.slow
@pytest.mark.parametrize("stack", ["staging", "prod"])
def test_the_shipped_stacks_break_no_mandatory_rule(stack: str, tmp_path: Path, policy_python: Path) -> None:
    runner = SandboxRunner(project=ROOT, folder=tmp_path / "sandbox")
    _, found, asked = logged(runner, "preview", "--stack", stack, "--policy-pack", PACK, "--suppress-outputs")
    assert [each for each in found if each.level == "mandatory"] == []
    assert {each.policy for each in found} <= {"runner-fresh"}, "the day decides on that one"
    assert asked == "ran gpu-ci 0.1.0 (14 rules)"
    runner.close()
