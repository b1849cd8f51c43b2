"""Previews whole pull requests of a small stack with the real engine, and compares the reports with goldens."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from gpu_preview.model import Report
from gpu_preview.report import markdown

from tests.preview.pull_requests import PULL_REQUESTS, PullRequest
from tests.preview.repository import branch

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]

# Texts that differ between runs: commits, random ends of names, digests of such names, GitHub's IDs, ages of prices.
_STEADY = (
    # A launch template gets a random id from the sandbox.
    (re.compile(r"\blt-[0-9a-f]{17}\b"), "lt-<random>"),
    (re.compile(r"`[0-9a-f]{10}`"), "`<commit>`"),
    (re.compile(r"-[0-9a-f]{7,8}\b|(?<=-builds)-[0-9a-f]{1,6}(?=…)"), "-<random>"),
    (re.compile(r'"[0-9a-f]{16}"'), '"<digest>"'),
    # The program of build steps. Each change of its code gives it another folder.
    (re.compile(r"program/[0-9a-f]{16}/"), "program/<digest>/"),
    (re.compile(r"\b\d{9}\b"), "<id>"),
    (re.compile(r"\d+ days ago"), "<n> days ago"),
    (re.compile(r"\([\d,]+ characters, sha256 [0-9a-f]{8}"), "(<n> characters, sha256 <digest>"),
    (re.compile(r"gpu-ci \d+\.\d+\.\d+"), "gpu-ci <version>"),
    # Of a component. Lines of the stack file stay.
    (re.compile(r"(`components/\S+\.py:)\d+`"), r"\1<line>`"),
    (re.compile(r'(File "components/\S+\.py", line )\d+'), r"\1<line>"),
)


def steady(text: str) -> str:
    for pattern, place in _STEADY:
        text = pattern.sub(place, text)
    return text


@pytest.mark.slow
@pytest.mark.parametrize("change", [pytest.param(each, id=each.name) for each in PULL_REQUESTS])
def test_the_report_matches_its_golden(
    change: PullRequest, preview: Callable[..., Report], golden: Callable[[str, str], None]
) -> None:
    report = preview(change.name, change.stack)
    [stack] = report.stacks
    # The isolation depends on the machine.
    golden(f"preview/pull-requests/{change.name}.md", steady(markdown.render(report.model_copy(update={"walls": ()}))))
    counts = stack.counts
    assert (report.exit_code, counts.moved) == (change.exit_code, change.moved)
    assert (counts.create, counts.update, counts.replace, counts.delete) == change.counts


@pytest.mark.slow
def test_a_change_is_checked_against_the_policies_of_its_base(
    preview: Callable[..., Report], pull_requests: Path
) -> None:
    """The pull request gives machines a public address, and removes the rule against it."""
    [public_address] = [each.edit for each in PULL_REQUESTS if each.name == "public-address"]

    def exempts_itself(folder: Path) -> None:
        public_address(folder)
        (folder / "policies" / "__main__.py").write_text("")

    branch(pull_requests, "exempts-itself", exempts_itself)
    report = preview("exempts-itself")
    assert report.exit_code == 4
    assert [each.policy for each in report.stacks[0].violations if each.level == "mandatory"] == ["no-public-ip"] * 2
