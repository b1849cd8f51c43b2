"""Valid and invalid secrets and variables on GitHub, with the messages."""

from __future__ import annotations

import pulumi
import pytest
from pulumi.output import UNKNOWN

from tests.gpu_ci.github.mistakes import HUSH, SECRET, Case, hidden, judge, problems

NAMES = "letters, digits and underscores, such as API_TOKEN"
A_SECRET = "must be a secret Output, so that neither state nor logs have it in plain text"
HOW = "pulumi.Output.secret(...), config.require_secret(...), or what get_secret_version_output(...) returns"

REFUSED: dict[str, Case] = {
    "a secret in plain text": (SECRET, lambda: {"secrets": {"TOKEN": HUSH}}, "secrets.TOKEN", A_SECRET, HOW),
    "an Output that is not secret": (
        SECRET,
        lambda: {"secrets": {"TOKEN": pulumi.Output.from_input(HUSH)}},
        "secrets.TOKEN",
        A_SECRET,
        HOW,
    ),
    "a secret that is a number": (SECRET, lambda: {"secrets": {"TOKEN": 5}}, "secrets.TOKEN", A_SECRET, HOW),
    "secrets that are no map": (SECRET, lambda: {"secrets": HUSH}, "secrets", "must be a map", ""),
    "secrets that are one Output": (
        SECRET,
        lambda: {"secrets": pulumi.Output.secret({"TOKEN": HUSH})},
        "secrets",
        "must be known before anything is created, so it cannot be an Output",
        "",
    ),
    "a secret that is too large": (
        SECRET,
        lambda: {"secrets": {"TOKEN": hidden("ä" * 24577)}},
        "secrets.TOKEN",
        "has more than 49152 bytes",
        "store it encrypted in a file, and only its key here",
    ),
    "an empty secret": (
        SECRET,
        lambda: {"secrets": {"TOKEN": hidden("")}},
        "secrets.TOKEN",
        "must not be empty",
        "",
    ),
    "a variable that is a secret": (
        SECRET,
        lambda: {"variables": {"REGION": hidden()}},
        "variables.REGION",
        "is a secret, but this field is stored in plain text",
        "put it under secrets",
    ),
    "a variable that is a number": (SECRET, lambda: {"variables": {"MAX": 5}}, "variables.MAX", "must be text", ""),
    "a variable that is too large": (
        SECRET,
        lambda: {"variables": {"REGION": "x" * 49153}},
        "variables.REGION",
        "has more than 49152 bytes",
        "store it encrypted in a file, and only its key here",
    ),
    "a name of GitHub's own": (
        SECRET,
        lambda: {"secrets": {"github_token": hidden()}},
        "secrets.github_token",
        "starts with GITHUB_, which GitHub reserves",
        "use another prefix",
    ),
    "a name that starts with a digit": (
        SECRET,
        lambda: {"variables": {"2FA": "on"}},
        "variables.2FA",
        "starts with a digit, which GitHub does not allow",
        "add a letter or an underscore at the start",
    ),
    "a name with a dash": (
        SECRET,
        lambda: {"variables": {"API-TOKEN": "x"}},
        "variables.API-TOKEN",
        "is not a valid name on GitHub",
        NAMES,
    ),
    "a name with a space": (
        SECRET,
        lambda: {"secrets": {"API TOKEN": hidden()}},
        'secrets["API TOKEN"]',
        "is not a valid name on GitHub",
        NAMES,
    ),
    "an empty name": (
        SECRET,
        lambda: {"variables": {"": "x"}},
        'variables[""]',
        "is not a valid name on GitHub",
        NAMES,
    ),
    "a name twice": (
        SECRET,
        lambda: {"secrets": {"TOKEN": hidden(), "Token": hidden()}},
        "secrets.Token",
        "is a duplicate of TOKEN; names are case-insensitive",
        "remove it",
    ),
    "nothing at all": (
        SECRET,
        lambda: {"variables": {}},
        "variables",
        "is empty, and secrets is empty, too",
        "set at least one secret or variable",
    ),
    "more secrets than a repository keeps": (
        SECRET,
        lambda: {"secrets": {f"S{number}": hidden() for number in range(101)}},
        "secrets",
        "are 101, but GitHub allows at most 100",
        "put the others into a second scope",
    ),
    "more variables than an environment keeps": (
        SECRET,
        lambda: {
            "scope": {"kind": "environment", "repository": "web", "environment": "prod"},
            "variables": {f"V{number}": "x" for number in range(101)},
        },
        "variables",
        "are 101, but GitHub allows at most 100",
        "put the others into a second scope",
    ),
    "variables for Dependabot": (
        SECRET,
        lambda: {"scope": {"kind": "dependabot", "repository": "web"}},
        "variables",
        "are not supported for Dependabot, which has only secrets",
        "use kind: repository for variables",
    ),
    "a scope there is not": (
        SECRET,
        lambda: {"scope": {"kind": "repo", "repository": "web"}},
        "scope.kind",
        "is not one of the choices",
        "such as kind: repository",
    ),
    "a misspelt scope": (
        SECRET,
        lambda: {"scope": {"kind": "organisation"}},
        "scope.kind",
        "is not one of the choices",
        "did you mean organization",
    ),
    "an environment without its name": (
        SECRET,
        lambda: {"scope": {"kind": "environment", "repository": "web"}},
        "scope.environment",
        "is missing",
        "",
    ),
    "a scope with a key of another": (
        SECRET,
        lambda: {"scope": {"kind": "repository", "repository": "web", "environment": "prod"}},
        "scope.environment",
        "unknown key",
        "remove it",
    ),
    "an organization that selects nothing": (
        SECRET,
        lambda: {"scope": {"kind": "organization"}},
        "scope.repositories",
        "must list a repository, because otherwise no repository has access",
        "or set visibility: private",
    ),
    "repositories for all": (
        SECRET,
        lambda: {"scope": {"kind": "organization", "visibility": "all", "repositories": ["web"]}},
        "scope.repositories",
        "is only for visibility selected, not for all",
        "remove one of the two",
    ),
    "a repository with its owner": (
        SECRET,
        lambda: {"scope": {"kind": "repository", "repository": "acme/web"}},
        "scope.repository",
        "contains an owner, but the owner is always github:owner of the provider",
        "web",
    ),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_one_cause_is_one_problem_with_one_hint(case: Case) -> None:
    judge(case)


def test_all_mistakes_are_reported_together() -> None:
    found = problems(
        SECRET,
        lambda: {
            "scope": {"kind": "environment", "repository": "a b"},
            "secrets": {"GITHUB_X": hidden(), "A": HUSH},
            "variables": {"1": "x"},
        },
    )
    assert [problem.path for problem in found] == [
        "scope.repository",
        "scope.environment",
        "secrets.GITHUB_X",
        "secrets.A",
        "variables.1",
    ]


def test_a_preview_lets_a_secret_pass_that_it_cannot_know_yet() -> None:
    """The result of a lookup is unknown in a preview, and is not yet marked as secret."""
    unknown = {"secrets": {"TOKEN": UNKNOWN}, "variables": {"REGION": UNKNOWN}}
    assert problems(SECRET, lambda: unknown) == []


@pytest.mark.parametrize("secret", ["x", "x" * 49152, "ä" * 24576])
def test_a_secret_may_be_as_large_as_github_takes_it(secret: str) -> None:
    assert problems(SECRET, lambda: {"secrets": {"TOKEN": hidden(secret)}}) == []
