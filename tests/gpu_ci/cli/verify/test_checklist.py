"""The file with the answers: no secret in it, and no way out of its fences."""

from __future__ import annotations

import pytest
from gpu_ci.cli.verify.checklist import Answer, Finding, NotAskedError, Step, ask_all, document, markdown
from gpu_ci.cli.verify.programs import run_json

STEP: Step[None] = Step("one", "true", "yes", "no", lambda _: Finding("pass", "yes"))


def test_secrets_accounts_and_addresses_are_removed_everywhere() -> None:
    details = {"a@b.example": ["ghp_0123456789abcdef", "arn:aws:iam::111122223333:role/x", {"t": "ya29.secret"}]}
    found = document("x", [Answer(STEP, Finding("pass", "AKIA0123456789ABCDEF", details))])["steps"][0]
    assert found["got"] == "[secret]"
    assert found["details"] == {"[address]": ["[secret]", "arn:aws:iam::[account]:role/x", {"t": "[secret]"}]}


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("not allowed in account 111122223333.", "not allowed in account [account]."),
        ("111122223333.dkr.ecr.us-east-1.amazonaws.com/ci", "[account].dkr.ecr.us-east-1.amazonaws.com/ci"),
        ("bucket ci-111122223333", "bucket ci-[account]"),
        ("commit 1111222233334444, digest a111122223333", "commit 1111222233334444, digest a111122223333"),
    ],
)
def test_an_account_is_removed_whatever_is_next_to_it(text: str, written: str) -> None:
    assert document("x", [Answer(STEP, Finding("pass", text))])["steps"][0]["got"] == written


def test_an_answer_cannot_end_its_fence_or_its_row() -> None:
    page = markdown(document("x", [Answer(STEP, Finding("fail", "a | b\n<b>", "```\n# heading\n````"))]))
    assert "| one | fail | a \\| b &lt;b> |" in page.splitlines()
    assert page.count("`````") == 2


def test_a_step_for_a_person_is_not_asked() -> None:
    assert ask_all([Step("by hand", "", "", "")], None) == []


def test_a_program_that_fails_or_prints_no_json_gives_no_answer() -> None:
    with pytest.raises(NotAskedError, match=r"^sh: the reason$"):
        run_json(["sh", "-c", "echo more >&2; echo the reason >&2; exit 3"])
    with pytest.raises(NotAskedError, match=r"^echo printed no JSON$"):
        run_json(["echo", "no"])
    with pytest.raises(NotAskedError, match=r"^no-such-program-here is not installed$"):
        run_json(["no-such-program-here"])
