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
UNLABELLED = Violation(
    policy="required-labels",
    pack="gpu-ci",
    level="mandatory",
    text="Resources that cost money have labels (Google Cloud) or tags (AWS) that name their owner.\n"
    "labels has no team.\n"
    "To fix it: Set gpu-ci:site.labels. In another program, set the labels or tags of the resource, or the defaults of "
    "its provider.",
    urn=BUCKET,
)

STRANGER = """
from pulumi_policy import EnforcementLevel, PolicyConfigSchema, PolicyPack, ResourceValidationPolicy

def named(args, report):
    if args.resource_type == "gcp:storage/bucket:Bucket" and len(args.name) > args.get_config()["longest"]:
        report("it is longer than " + str(int(args.get_config()["longest"])))

schema = {"longest": {"type": "integer", "default": 3}}
PolicyPack(
    "short-names",
    [
        ResourceValidationPolicy(
            "short", "Names are short.", named, EnforcementLevel.ADVISORY,
            PolicyConfigSchema(schema),
        )
    ],
)
"""

UP = ("up", "--stack", "dev", "--yes", "--skip-preview", "--policy-pack", PACK)


@pytest.fixture
def unrelated(tmp_path: Path) -> Iterator[SandboxRunner]:
    runner = SandboxRunner(project=ROOT / "tests" / "programs" / "unrelated", folder=tmp_path / "a sandbox")
    yield runner
    runner.close()


@pytest.fixture
def stranger(tmp_path: Path, policy_python: Path) -> Path:
    """Return a pack outside of the repository, in a folder with a space, with an environment of its own."""
    folder = tmp_path / "a pack"
    folder.mkdir()
    (folder / "PulumiPolicy.yaml").write_text(
        "version: 2.1.0\nruntime: {name: python, options: {virtualenv: its own}}\n"
    )
    (folder / "__main__.py").write_text(STRANGER)
    (folder / "its own").symlink_to(policy_python.parent.parent)
    return folder


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


EXEMPT = {"resource": "assets", "reason": "labelled next week", "until": "9999-12-31"}


@pytest.mark.slow
def test_a_violation_fails_the_preview_and_an_exemption_lets_the_up_through(
    unrelated: SandboxRunner, policy_python: Path, tmp_path: Path
) -> None:
    failed, found, asked = logged(unrelated, "preview", "--stack", "dev", "--policy-pack", PACK, ok=False)
    assert (failed.code, found, asked) == (1, [UNLABELLED], "ran gpu-ci 0.1.0 (16 rules)")

    chosen = config(tmp_path, required_labels={"exempt": [EXEMPT]})
    _, found, _ = logged(unrelated, *UP, "--policy-pack-config", chosen)
    assert found == []
    assert "assets" in {row["name"] for row in unrelated.world()}
    assert unrelated.gone() == {}, "the pack outlived the up"


@pytest.mark.slow
def test_a_violation_stops_the_up_before_the_resource_is_created(unrelated: SandboxRunner, policy_python: Path) -> None:
    stopped, found, _ = logged(unrelated, *UP, ok=False)
    assert (stopped.code, found) == (1, [UNLABELLED])
    assert "assets" not in {row["name"] for row in unrelated.world()}


@pytest.mark.slow
def test_a_mistake_in_the_settings_of_the_rules_is_named(
    unrelated: SandboxRunner, policy_python: Path, tmp_path: Path
) -> None:
    preview = ("preview", "--stack", "dev", "--policy-pack", PACK, "--policy-pack-config")
    chosen = config(tmp_path, required_labels={"exempt": [{"resource": "assets", "until": "9999-12-31"}]})
    refused, _, _ = logged(unrelated, *preview, chosen, ok=False)
    assert "required-labels: exempt.0: reason is required" in refused.output

    chosen = config(tmp_path, spend_ceiling={"maxUsd": 2}, nope="mandatory")
    refused, _, _ = logged(unrelated, *preview, chosen, ok=False)
    assert refused.has(
        "nope: no such rule", "spend-ceiling.maxUsd: no such setting", "hint: did you mean maxUsdPerHour?"
    )


@pytest.mark.slow
def test_another_pack_runs_in_its_own_environment_next_to_this_projects_pack(
    unrelated: SandboxRunner, stranger: Path
) -> None:
    both = ("preview", "--stack", "dev", "--policy-pack", PACK, "--policy-pack", str(stranger))
    _, found, asked = logged(unrelated, *both, ok=False)
    short = Violation(
        policy="short",
        pack="short-names",
        level="advisory",
        text="Names are short.\nit is longer than 3",
        urn=BUCKET,
    )
    assert found == [UNLABELLED, short]
    assert asked == "ran gpu-ci 0.1.0 (16 rules), short-names 2.1.0 (1 rule)"

    passed, found, _ = logged(unrelated, "preview", "--stack", "dev", "--policy-pack", str(stranger))
    assert (passed.code, found) == (0, [short]), "advice fails nothing"


@pytest.mark.slow
@pytest.mark.parametrize("stack", ["staging", "prod"])
def test_the_shipped_stacks_break_no_mandatory_rule(stack: str, tmp_path: Path, policy_python: Path) -> None:
    runner = SandboxRunner(project=ROOT, folder=tmp_path / "sandbox")
    _, found, asked = logged(runner, "preview", "--stack", stack, "--policy-pack", PACK, "--suppress-outputs")
    assert [each for each in found if each.level == "mandatory"] == []
    assert {each.policy for each in found} <= {"runner-fresh"}, "the day decides on that one"
    assert asked == "ran gpu-ci 0.1.0 (16 rules)"
    runner.close()
