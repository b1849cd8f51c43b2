"""Tests of `gpu-ci drift` with a fake CLI. tests/engine/test_drift.py uses the real engine."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from gpu_ci.cli.main import run

URN = "urn:pulumi:prod::ci::gcp:storage/bucket:Bucket::models"
STATE = {"urn": URN, "type": "gcp:storage/bucket:Bucket", "inputs": {"location": "EU"}}


def step(op: str, **more: Any) -> dict[str, Any]:
    return {"op": op, "urn": URN, "oldState": STATE, **more}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a project with one stack. Its fake `pulumi` prints answer.json, and writes its arguments to called.txt."""
    monkeypatch.chdir(tmp_path)
    Path("Pulumi.yaml").write_text("name: ci\nruntime: python\n")
    Path("Pulumi.prod.yaml").write_text("{}\n")
    program = tmp_path / "bin" / "pulumi"
    program.parent.mkdir()
    program.write_text(
        '#!/bin/sh\necho "$A_CREDENTIAL $*" >> called.txt\ncat answer.json\n'
        "test ! -e error.txt || { cat error.txt >&2; exit 255; }\n"
        "test ! -e hang || { trap 'exit 0' TERM; sleep 60 & wait; }\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("A_CREDENTIAL", "given")
    answer()
    return tmp_path


def answer(*steps: dict[str, Any], **more: Any) -> None:
    Path("answer.json").write_text(json.dumps({"steps": list(steps), **more}))


def drift(*words: str) -> int:
    return run(["drift", "--json", *words])


def reported(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


CHANGED = step("update", newState={**STATE, "inputs": {"location": "US"}})


@pytest.mark.parametrize(
    ("steps", "code"),
    [
        ([step("refresh", newState=STATE)], 0),
        ([CHANGED], 2),
        ([step("delete")], 3),
        ([CHANGED, {**step("delete"), "urn": f"{URN}-2"}], 3),
    ],
)
def test_the_exit_code_is_that_of_a_preview(project: Path, steps: list[dict[str, Any]], code: int) -> None:
    answer(*steps)
    assert drift() == code


def test_the_cli_reads_and_never_writes_with_the_callers_credentials(project: Path) -> None:
    drift()
    assert Path("called.txt").read_text() == (
        "given refresh --preview-only --json --show-sames --non-interactive --stack prod\n"
    )


def test_before_is_the_state_and_after_is_what_exists(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer(CHANGED)
    drift()
    report = reported(capsys)
    [stack] = report["stacks"]
    [resource] = stack["resources"]
    assert (report["how"], stack["stack"], stack["file"], stack["status"]) == (
        "drift",
        "prod",
        "Pulumi.prod.yaml",
        "previewed",
    )
    assert [(one["path"], one["before"], one["after"]) for one in resource["properties"]] == [
        ("location", '"EU"', '"US"')
    ]
    assert [(one["rule"], one["severity"], one["hint"]) for one in stack["findings"]] == [
        (
            "drift",
            "note",
            "pulumi up --refresh restores the resources; pulumi refresh writes their present values into the state",
        )
    ]


def test_a_firewall_that_was_opened_by_hand_is_a_danger(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    urn = "urn:pulumi:prod::ci::gcp:compute/firewall:Firewall::ssh"
    rule = {"direction": "INGRESS", "allows": [{"protocol": "tcp", "ports": ["22"]}]}
    left, found = (
        {"urn": urn, "type": "gcp:compute/firewall:Firewall", "inputs": {**rule, "sourceRanges": ranges}}
        for ranges in (["10.0.0.0/8"], ["0.0.0.0/0"])
    )
    answer({"op": "update", "urn": urn, "oldState": left, "newState": found})
    drift()
    [stack] = reported(capsys)["stacks"]
    assert [(one["rule"], one["urn"]) for one in stack["findings"]] == [("public", urn), ("drift", "")]
    assert stack["findings"][0]["hint"] == "", "the hints of dangers are for whoever asks for a change"


def test_drift_has_no_findings_about_planned_changes(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    details = {"location": {"kind": "update-replace", "inputDiff": True}}
    diagnostics = [{"severity": "warning", "message": f"{STATE['type']}: only its shape is checked"}]
    answer({**CHANGED, "detailedDiff": details, "replaceReasons": ["location"]}, diagnostics=diagnostics)
    drift()
    [stack] = reported(capsys)["stacks"]
    [resource] = stack["resources"]
    assert (stack["counts"]["update"], stack["counts"]["mayReplace"]) == (1, 0)
    assert (resource["replacedFor"], resource["mayReplace"]) == ([], False)
    assert [(one["path"], one["forcesReplacement"]) for one in resource["properties"]] == [("location", False)]


def test_without_a_login_it_says_how_to_log_in(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("answer.json").write_text("")
    engine_error = "error: PULUMI_ACCESS_TOKEN must be set for login during non-interactive CLI sessions"
    Path("error.txt").write_text(f"{engine_error}\n")
    assert drift() == 1
    [stack] = reported(capsys)["stacks"]
    assert stack["error"] == f"{engine_error}\n  hint: run pulumi login first, or read the sandbox with --sandbox"


def test_a_cloud_that_refuses_is_an_error_with_its_words(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer(step("refresh", newState=STATE), diagnostics=[{"severity": "error", "message": "403: no access"}])
    Path("error.txt").write_text("error: it failed\n")
    assert drift() == 1
    [stack] = reported(capsys)["stacks"]
    assert (stack["status"], stack["error"]) == ("failed", "403: no access")


def test_a_cli_that_hangs_is_ended(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("hang").touch()
    assert drift("--timeout-sec", "1") == 1
    [stack] = reported(capsys)["stacks"]
    assert stack["error"].startswith("the program took longer than 1 s (--timeout-sec)")


def test_every_stack_with_a_file_is_asked_about_or_those_that_are_named(project: Path) -> None:
    Path("Pulumi.dev.yaml").write_text("{}\n")
    drift()
    drift("--stack", "org/prod")
    asked = [line.split()[-1] for line in Path("called.txt").read_text().splitlines()]
    assert asked == ["dev", "prod", "org/prod"]


def test_without_a_project_a_stack_or_a_cli_it_says_so(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("HOME", str(project))
    assert drift() == 1
    assert capsys.readouterr().err.startswith(
        f"gpu-ci drift: no pulumi on PATH or in {project}/.pulumi/bin\n  hint: install the Pulumi CLI"
    )
    Path("Pulumi.prod.yaml").unlink()
    assert drift() == 1
    assert "no stack file\n  expected: a Pulumi.<stack>.yaml" in capsys.readouterr().err
    Path("Pulumi.yaml").unlink()
    assert drift() == 1
    assert "not in a Pulumi project\n" in capsys.readouterr().err


def test_the_cli_may_be_in_the_installers_folder_and_never_in_the_folder_that_it_is_called_in(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    home = project / "home"
    home.mkdir()
    (home / ".pulumi").mkdir()
    (project / "bin").rename(home / ".pulumi" / "bin")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(home))
    assert drift() == 0
    for place in (Path("pulumi"), Path(".pulumi/bin/pulumi")):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("#!/bin/sh\ntouch stolen\n")
        place.chmod(0o755)
    monkeypatch.setenv("PATH", ":.:/usr/bin:/bin")
    monkeypatch.setenv("HOME", "")
    capsys.readouterr()
    assert drift() == 1
    assert "no pulumi on PATH or in /.pulumi/bin" in capsys.readouterr().err
    assert not Path("stolen").exists()
