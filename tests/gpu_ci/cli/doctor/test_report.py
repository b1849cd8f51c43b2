"""The page of `gpu-ci doctor --report`: no secret in it, and no way out of its fences."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu_ci.cli.doctor.report import page
from gpu_ci.cli.doctor.steps import Answer, Finding, Step
from gpu_ci.cli.programs import NotAskedError, run_json

from tests.gpu_ci.cli.doctor.conftest import Environment

STEP: Step[None] = Step("one", "yes", lambda _: Finding("pass", "yes"))


def test_the_page_has_every_step_and_the_answers_of_services(environment: Environment, tmp_path: Path) -> None:
    environment.cloud.nats = []
    answer = environment.doctor("--json", "--report", "doctor.md")
    written = (tmp_path / "doctor.md").read_text()
    assert written.startswith("# gpu-ci doctor Pulumi.dev.yaml\n")
    rows = [line.split(" | ")[:2] for line in written.splitlines() if line.startswith("| ")][1:]
    assert rows == [[f"| {step['name']}", step["status"]] for step in answer.json["steps"]]
    assert '"privateIpGoogleAccess": true' in written


def test_a_page_that_cannot_be_written_is_an_error_before_any_request(environment: Environment) -> None:
    answer = environment.doctor("--report", "no/such/folder/doctor.md")
    assert (answer.code, environment.cloud.asked) == (2, [])
    assert "no/such/folder/doctor.md: cannot be written" in answer.err


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("not allowed in account 111122223333.", "not allowed in account [account]."),
        ("111122223333.dkr.ecr.us-east-1.amazonaws.com/ci", "[account].dkr.ecr.us-east-1.amazonaws.com/ci"),
        ("commit 1111222233334444, digest a111122223333", "commit 1111222233334444, digest a111122223333"),
        ("AKIA0123456789ABCDEF", "[secret]"),
        ("for a@b.example", "for [address]"),
    ],
)
def test_secrets_accounts_and_addresses_are_removed_from_rows_and_details(text: str, written: str) -> None:
    found = page("x", [Answer(STEP, Finding("pass", text, {text: [text, {"t": text}]}))])
    assert f"| one | pass | {written} | yes |" in found
    assert (text in found) is (text == written)
    assert found.count(written) == 4


def test_an_answer_cannot_end_its_fence_or_its_row() -> None:
    found = page("x", [Answer(STEP, Finding("fail", "a | b\n<b>", "```\n# heading\n````"))])
    assert "| one | fail | a \\| b &lt;b> | yes |" in found.splitlines()
    assert found.count("`````") == 2


def test_a_program_that_fails_or_prints_no_json_gives_no_answer() -> None:
    with pytest.raises(NotAskedError, match=r"^sh: the reason$"):
        run_json(["sh", "-c", "echo more >&2; echo the reason >&2; exit 3"])
    with pytest.raises(NotAskedError, match=r"^echo printed no JSON$"):
        run_json(["echo", "no"])
    with pytest.raises(NotAskedError, match=r"^no-such-program-here is not installed$"):
        run_json(["no-such-program-here"])
