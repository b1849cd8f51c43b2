"""Valid and invalid secrets and variables on GitHub, with the messages."""

from __future__ import annotations

import pytest
from pulumi.output import UNKNOWN

from tests.gpu_ci.github.mistakes import SECRET, hidden, problems


def test_a_preview_lets_a_secret_pass_that_it_cannot_know_yet() -> None:
    """The result of a lookup is unknown in a preview, and is not yet marked as secret."""
    unknown = {"secrets": {"TOKEN": UNKNOWN}, "variables": {"REGION": UNKNOWN}}
    assert problems(SECRET, lambda: unknown) == []


@pytest.mark.parametrize("secret", ["x", "x" * 49152, "ä" * 24576])
def test_a_secret_may_be_as_large_as_github_takes_it(secret: str) -> None:
    assert problems(SECRET, lambda: {"secrets": {"TOKEN": hidden(secret)}}) == []
