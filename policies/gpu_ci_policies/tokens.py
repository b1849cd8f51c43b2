"""The rule that no resource contains a GitHub token. Messages name the path of a token, never the token."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator

from .properties import at, mapping, texts
from .rule import Resource, Rule, RuleContext

# The prefixes and minimum lengths of GitHub tokens.
TOKENS = {
    "a personal access token": re.compile(r"\b(?:ghp_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,})"),
    "a token of an app or of a user's sign-in": re.compile(r"\bgh[ousr]_[A-Za-z0-9_.-]{36,}"),
    "a token that registers runners": re.compile(r"(?:--token[ =]|RUNNER_TOKEN[\"']?\s*[=:]\s*)[\"']?A[A-Z0-9]{28}\b"),
}
# A request in a script for a registration token. Such a token registers any number of runners for an hour.
REGISTRATION_REQUEST = re.compile(r"/actions/runners/registration-token\b")
BASE64 = re.compile(r"[A-Za-z0-9+/\s]{40,}(?:={1,2}\s*)?")


def github_tokens(resource: Resource, _context: RuleContext) -> Iterator[str]:
    if resource.type.startswith("pulumi:providers:"):
        return  # credentials of the deployment itself, which reach no machine and no job
    for path, text in texts(resource.props):
        for readable in (text, decoded(text)):
            for kind, pattern in TOKENS.items():
                if pattern.search(readable):
                    yield f"{path} holds {kind}"
            if REGISTRATION_REQUEST.search(readable):
                yield f"{path} requests a registration token from GitHub"
    yield from arc_token(resource)


def arc_token(resource: Resource) -> Iterator[str]:
    """Yield the path of a scale set's personal access token, with any value."""
    key_paths = {
        "kubernetes:core/v1:Secret": (("data",), ("stringData",)),
        "kubernetes:helm.sh/v3:Release": (("values", "githubConfigSecret"),),
        "kubernetes:helm.sh/v4:Chart": (("values", "githubConfigSecret"),),
    }
    for path in key_paths.get(resource.type, ()):
        if "github_token" in mapping(at(resource.props, *path)):
            yield f"{'.'.join(path)}.github_token is a personal access token for runners"


def decoded(text: str) -> str:
    """Decode base64 as Latin-1, in which every byte is a character. Return an empty text if it is not base64."""
    if not BASE64.fullmatch(text):
        return ""
    try:
        return base64.b64decode(text).decode("latin-1")
    except binascii.Error:
        return ""


RULES = (
    Rule(
        name="no-github-token",
        title="No resource contains a GitHub token.",
        why="Every job can read the user data and metadata of its machine. With a token that registers runners or acts "
        "for a user, a job can take over the pool or the organization.",
        fix="Use a GitHub App with its key in a secret store, and register with a just-in-time configuration. For ARC, "
        "put github_app_id, github_app_installation_id and github_app_private_key into its Secret.",
        sources=(
            "https://github.blog/engineering/platform-security/behind-githubs-new-authentication-token-formats/",
            "https://docs.github.com/en/actions/reference/security/secure-use",
            "https://docs.github.com/en/actions/how-tos/manage-runners/use-actions-runner-controller/authenticate-to-the-api",
        ),
        check=github_tokens,
    ),
)
