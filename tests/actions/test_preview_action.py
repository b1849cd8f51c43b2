"""The scripts of our actions, run here over a stand-in; tests/engine/test_preview_action.py has the real gpu-ci."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT

from .composite import Job

# Notes how it was called, and does what the test says.
STAND_IN = """#!/usr/bin/env bash
here=$(dirname "$0")
printf '%s\\n' "$PWD" "$@" > "$here/called"
printf '%s' "$PULUMI_SANDBOX_ENGINE" > "$here/engine"
for word in "$@"; do
  folder=${word#--output=}
  [ "$folder" = "$word" ] || { mkdir -p "$folder" && [ -f "$here/report" ] && cp "$here/report" "$folder/report.json"; }
done
exit "$(cat "$here/code")"
"""


class Action:
    """A checkout of the action, whose folder has a space in its name, and a job that uses it."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "an action"
        shutil.copytree(ROOT / ".github/actions", self.root / ".github/actions")
        (self.root / "tools").mkdir()
        (self.root / "tools" / "install.py").write_text("import sys\nprint('installs', *sys.argv[1:])\n")
        self.bin = self.root / ".venv" / "bin"
        self.bin.mkdir(parents=True)
        (self.bin / "gpu-ci").write_text(STAND_IN)
        (self.bin / "gpu-ci").chmod(0o755)
        (self.bin / "python").symlink_to(sys.executable)
        self.job = Job(folder / "workspace", folder / "temp", {"GITHUB_BASE_REF": "main"})
        self.job.workspace.mkdir()
        self.job.temp.mkdir()
        self.answers(0)

    def answers(self, code: int, **counts: int) -> None:
        every = dict.fromkeys(("create", "update", "replace", "delete", "same", "moved"), 0)
        stack = {"counts": every, "outputs": [], "findings": [], "status": "previewed"}
        self.reports(stack, {**stack, "counts": every | counts})
        (self.bin / "code").write_text(str(code))

    def reports(self, *stacks: dict[str, Any]) -> None:
        (self.bin / "report").write_text(json.dumps({"stacks": stacks}))

    def run(self, **inputs: str) -> tuple[int, str, dict[str, str]]:
        return self.job.run(self.root / ".github/actions" / "preview", **inputs)

    @property
    def called(self) -> list[str]:
        return (self.bin / "called").read_text().splitlines()


@pytest.fixture
def action(tmp_path: Path) -> Action:
    return Action(tmp_path)


def test_a_pull_request_is_compared_with_its_base_branch(action: Action) -> None:
    code, printed, outputs = action.run()
    report = str(action.job.temp / "gpu-ci-preview")
    assert (code, printed) == (0, "installs runtime\n")
    assert outputs == {"exit-code": "0", "changed": "false", "dangers": "0", "report": report}
    assert action.called == [
        str(action.job.workspace), "preview", "--base=origin/main", "--head=HEAD", f"--output={report}", "--annotate",
        "--require-walls", "--timeout-sec=300", "--memory-gib=6", "--disk-gib=10",
    ]  # fmt: skip


def test_a_merge_queue_is_compared_with_the_branch_that_it_merges_into(action: Action) -> None:
    action.job.variables["GITHUB_BASE_REF"] = ""
    action.job.merge_group_base = "refs/heads/release/v1"
    assert action.run(head="1f1f1f")[0] == 0
    assert action.called[2:4] == ["--base=origin/release/v1", "--head=1f1f1f"]


def test_every_input_becomes_an_option_and_lists_one_for_each_line(action: Action) -> None:
    (action.job.workspace / "infra").mkdir()
    action.run(
        base="v1", head="v2", stacks="staging\n  prod  \n\n", policy_packs="policies\nmore policies\n",
        policy_pack_config="policies.json\n more.json", with_network="true",
        exact_base="true", require_walls="true", disk_gib="3",
        working_directory="infra", install="pip install -r x.txt", output="a report",
        max_usd_month="500", timeout_sec="60", memory_gib="2",
    )  # fmt: skip
    assert action.called == [
        str(action.job.workspace / "infra"), "preview", "--base=v1", "--head=v2", "--output=a report", "--annotate",
        "--stack=staging", "--stack=prod", "--policy-pack=policies", "--policy-pack=more policies",
        "--policy-pack-config=policies.json", "--policy-pack-config=more.json",
        "--with-network", "--exact-base", "--require-walls",
        "--install=pip install -r x.txt", "--max-usd-month=500", "--timeout-sec=60", "--memory-gib=2",
        "--disk-gib=3",
    ]  # fmt: skip


HOSTILE = "$(touch pwned) `touch pwned` \"; touch pwned; ' && touch pwned | * ${GITHUB_OUTPUT} --json"


@pytest.mark.parametrize(
    "name",
    [
        "base", "head", "stacks", "policy_packs", "policy_pack_config", "install",
        "max_usd_month",
    ],
)  # fmt: skip
def test_no_input_becomes_a_part_of_a_script(action: Action, name: str) -> None:
    code, printed, _ = action.run(**{name: HOSTILE})
    assert (code, printed) == (0, "installs runtime\n")
    assert [word.partition("=")[2] for word in action.called if "touch" in word] == [HOSTILE]
    assert list(action.job.workspace.iterdir()) == []


@pytest.mark.parametrize("name", ["with_network", "exact_base"])
def test_a_switch_that_is_neither_on_nor_off_is_refused_and_not_repeated(action: Action, name: str) -> None:
    code, printed, _ = action.run(**{name: HOSTILE})
    assert (code, printed) == (1, f"installs runtime\n::error::{name.replace('_', '-')} is neither true nor false\n")
    assert not (action.bin / "called").exists()
    assert list(action.job.workspace.iterdir()) == []


def test_neither_the_codes_that_fail_nor_the_python_are_code(action: Action) -> None:
    action.answers(2, update=1)
    assert action.run(fail_on="x[$(touch pwned)] *")[0] == 0
    assert action.run(python="true; touch pwned;")[0] == 127
    assert list(action.job.workspace.iterdir()) == []


@pytest.mark.parametrize(
    ("said", "counts", "changed", "fails"),
    [
        (0, {"same": 3}, "false", False),
        (1, {}, "false", True),
        (2, {"update": 1}, "true", False),
        (2, {"moved": 1}, "true", False),
        (3, {"delete": 1}, "true", False),
        (4, {"create": 1}, "true", True),
        (4, {"same": 1}, "false", True),
    ],
)
def test_changes_do_not_fail_the_job_and_errors_and_policies_do(
    action: Action, said: int, counts: dict[str, int], changed: str, fails: bool
) -> None:
    action.answers(said, **counts)
    code, _, outputs = action.run()
    assert (outputs["exit-code"], outputs["changed"], code) == (str(said), changed, said if fails else 0)


@pytest.mark.parametrize(
    ("told", "changed", "dangers"),
    [
        ({"outputs": [{"path": "url"}]}, "true", "0"),
        ({"status": "removed"}, "true", "0"),
        ({"findings": [{"severity": "danger"}, {"severity": "warning"}, {"severity": "danger"}]}, "false", "2"),
    ],
)
def test_outputs_and_stacks_that_go_are_changes_and_dangers_are_counted(
    action: Action, told: dict[str, Any], changed: str, dangers: str
) -> None:
    nothing = {"create": 0, "update": 0, "replace": 0, "delete": 0, "same": 1, "moved": 0}
    action.reports({"counts": nothing, "outputs": [], "findings": [], "status": "previewed", **told})
    _, _, outputs = action.run()
    assert (outputs["changed"], outputs["dangers"]) == (changed, dangers)


def test_a_question_that_cannot_be_asked_fails_though_its_code_is_that_of_changes(action: Action) -> None:
    action.answers(2)
    (action.bin / "report").unlink()
    old = action.job.temp / "gpu-ci-preview" / "report.json"
    old.parent.mkdir()
    old.write_text('{"stacks": []}')
    code, _, outputs = action.run()
    assert (code, outputs["exit-code"], outputs["changed"], outputs["dangers"]) == (1, "1", "", "")


def test_the_comment_gets_its_own_environment_the_token_and_nothing_of_the_report(tmp_path: Path) -> None:
    action = Action(tmp_path)
    own = action.root / ".venv-comment" / "bin"
    own.mkdir(parents=True)
    (own / "python").write_text('#!/bin/sh\necho "$GITHUB_TOKEN"; printf "%s\\n" "$@"\n')
    (own / "python").chmod(0o755)
    code, printed, _ = action.job.run(
        action.root / ".github/actions" / "preview-comment", report="$(touch pwned).json", token="a-token"
    )
    assert (code, printed.splitlines()) == (
        0,
        [
            "installs comment", "a-token", "-P", "-m", "gpu_ci.cli", "preview-comment",
            "--author=github-actions[bot]", "--key=", "--", "$(touch pwned).json",
        ],
    )  # fmt: skip
    assert list(action.job.workspace.iterdir()) == []


@pytest.mark.parametrize("script", sorted((ROOT / ".github/actions").rglob("*.sh")), ids=lambda path: path.name)
def test_shellcheck_finds_nothing(script: Path) -> None:
    checked = subprocess.run(
        [str(Path(sys.executable).parent / "shellcheck"), str(script)], capture_output=True, text=True, check=False
    )
    assert (checked.stdout, checked.returncode) == ("", 0)
