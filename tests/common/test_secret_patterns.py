"""One table of samples for all that looks for secrets: these patterns, and those of the agent and the policy pack."""

from __future__ import annotations

import pytest
from gpu_agent.redact import redact as agent_redact
from gpu_ci.cli.doctor.report import page
from gpu_ci.cli.doctor.steps import Answer, Finding, Step
from gpu_ci_policies.rules import TOKENS, decoded
from gpu_common.secret_patterns import GITHUB_TOKEN_PREFIX, redact

# Tokens of GitHub by their kind, with the number of characters that GitHub gives each.
GITHUB = {
    "ghp": "ghp_" + "aB3" * 12,
    "gho": "gho_" + "aB3" * 12,
    "ghu": "ghu_" + "aB3" * 12,
    "ghs": "ghs_" + "aB3" * 12,
    "ghr": "ghr_" + "aB3" * 12,
    "fine-grained": "github_pat_" + "a" * 22 + "_" + "B3" * 29 + "c",
}
OTHERS = {
    "Google's access token": "ya29.a0AfH6SMBx-" + "Zz9" * 10,
    "a JSON web token": "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiIxMjMifQ.c2lnbmVk",
    "a private key": "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----",
}
# What no machine of a pool ever has, and so the agent's patterns leave out.
DEPLOYERS = {
    "Google's API key": "AIzaSy" + "aB3-" * 8,
    "an access key of AWS": "AKIA" + "ABCD2345" * 2,
    "Slack": "xoxb-123456789012-abcdef",
    "a password in a URL": "https://user:hunter22@example.com/",
}

STEP: Step[None] = Step("name", "expected", lambda _: Finding("pass", "yes"))


@pytest.mark.parametrize("sample", [*GITHUB.values(), *OTHERS.values(), *DEPLOYERS.values()])
def test_reports_show_none_of_them(sample: str) -> None:
    secret = sample.removeprefix("https://").removesuffix("@example.com/")
    shown = redact(f"got {sample}")
    assert secret not in shown
    assert shown.startswith("got ")
    assert shown.count("[secret]") == 1


@pytest.mark.parametrize("sample", [*GITHUB.values(), *OTHERS.values()])
def test_the_boot_agent_says_none_of_those_that_a_machine_may_have(sample: str) -> None:
    said = agent_redact(f"got {sample}")
    assert said.startswith("got ")
    assert sample not in said
    assert "[redacted]" in said


@pytest.mark.parametrize("token", GITHUB.values(), ids=GITHUB)
def test_policies_find_each_token_of_github_by_one_pattern(token: str) -> None:
    assert [kind for kind, pattern in TOKENS.items() if pattern.search(f"x={token}")] != []
    assert GITHUB_TOKEN_PREFIX.match(token)


def test_plain_text_stays_as_it_is() -> None:
    text = "projects/example-ci/zones/us-central1-a/instances/l4-abc, https://github.com/acme/ml"
    assert redact(text) == agent_redact(text) == text
    assert not GITHUB_TOKEN_PREFIX.search(text)


# What an attempt reads to the end and gives up on, from each place where it may begin.
LONG = {
    "one letter": "a",
    "capitals and digits": "A1",
    "JSON web tokens without a dot": "eyJaaaaaaaaaa-",
    "users without a host": "://aaaa:",
    "user names": "://aaaa",
    "keys that do not end": "-----BEGIN ",
    "a path": "/usr/lib/x",
    "an address without a host": "a.b+",
}
SIZE = 1_000_000


@pytest.mark.timeout(60)
@pytest.mark.parametrize("part", LONG.values(), ids=LONG)
def test_a_line_of_a_million_characters_takes_steps_in_proportion_to_it(part: str) -> None:
    """At n * n steps each of these takes minutes, and the test ends with its timeout; it needs under a second."""
    line = (part * SIZE)[:SIZE]
    assert redact(f"{line} ghp_abcd1234") == f"{line} [secret]"
    assert agent_redact(f"got {line} ghp_abcd1234").endswith(" [redacted]")
    assert line.split()[0] in page("x", [Answer(STEP, Finding("pass", line))])
    assert decoded("a" * 40 + " " * SIZE + "!") == ""


def test_a_secret_is_found_behind_what_only_begins_like_one() -> None:
    found = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiIxMjMifQ.c2lnbmVk"
    assert redact(f"eyJaaaaaaaaaaaa-ghp_abcd1234 {found}") == "eyJaaaaaaaaaaaa-[secret] [secret]"
    assert redact(f"://user:no-host-here ://user:hunter22@host {found}") == (
        "://user:no-host-here ://[secret]@host [secret]"
    )
    assert redact("ghp_abcdeyJaaaaaaaaaaa.payload") == "[secret]"
