"""no-github-token: the tokens here are made up, and put together so that no scanner takes them for real ones."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from gpu_ci_policies.properties import UNKNOWN
from gpu_ci_policies.rules import decoded

from .support import LAUNCH_TEMPLATE, RELEASE, SECRET, TEMPLATE, found

CLASSIC = "ghp_" + "a1B2" * 9
FINE = "github_pat_" + "A1b2" * 5 + "_" + "c3D4" * 10
INSTALLATION = "ghs_" + "Zz09" * 9
REGISTRATION = "A" + "B1C2" * 7
PERSONAL = "a personal access token"


@pytest.mark.parametrize(
    ("kind", "props", "violations"),
    [
        ("pulumi:pulumi:Stack", {"token": CLASSIC}, [f"token holds {PERSONAL}"]),
        (TEMPLATE, {"metadata": {"startup-script": f"T={CLASSIC}"}}, [f"metadata.startup-script holds {PERSONAL}"]),
        (
            LAUNCH_TEMPLATE,
            {"userData": base64.b64encode(f"#!/bin/sh\nexport T={FINE}\n".encode()).decode()},
            [f"userData holds {PERSONAL}"],
        ),
        (
            SECRET,
            {"stringData": {"a": INSTALLATION}},
            ["stringData.a holds a token of an app or of a user's sign-in"],
        ),
        (
            TEMPLATE,
            {"metadata": {"startup-script": f"./config.sh --token {REGISTRATION} --ephemeral"}},
            ["metadata.startup-script holds a token that registers runners"],
        ),
        (
            "kubernetes:core/v1:Pod",
            {"spec": {"containers": [{"env": [{"name": "X", "value": f'RUNNER_TOKEN="{REGISTRATION}"'}]}]}},
            ["spec.containers[0].env[0].value holds a token that registers runners"],
        ),
        (
            TEMPLATE,
            {"metadata": {"s": "curl -X POST $API/orgs/acme/actions/runners/registration-token"}},
            ["metadata.s requests a registration token from GitHub"],
        ),
        (
            SECRET,
            {"stringData": {"github_token": UNKNOWN}},
            ["stringData.github_token is a personal access token for runners"],
        ),
        (
            RELEASE,
            {"values": {"githubConfigSecret": {"github_token": "x"}}},
            ["values.githubConfigSecret.github_token is a personal access token for runners"],
        ),
    ],
)
def test_a_token_is_reported_by_its_place_and_never_repeated(
    kind: str, props: dict[str, Any], violations: list[str]
) -> None:
    messages = found("no-github-token", kind, props)
    assert messages == violations
    assert not any(token in text for text in messages for token in (CLASSIC, FINE, INSTALLATION, REGISTRATION))


def test_only_a_text_of_base64_is_decoded() -> None:
    assert decoded(base64.b64encode(b"a text that is long enough for it\n").decode()) == (
        "a text that is long enough for it\n"
    )
    assert decoded("These are words, which base64 would take for something all the same.") == ""


@pytest.mark.parametrize(
    ("kind", "props"),
    [
        (TEMPLATE, {"metadata": {"startup-script": "ghp_short github_pat_no ghs_"}}),
        (TEMPLATE, {"metadata": {"sha": "A" * 29}}),
        (TEMPLATE, {"metadata": UNKNOWN}),
        (SECRET, {"stringData": UNKNOWN}),
        ("pulumi:providers:github", {"token": CLASSIC}),
        (SECRET, {"stringData": {"github_app_id": "1", "github_app_private_key": UNKNOWN}}),
        (RELEASE, {"values": {"githubConfigSecret": "name-of-a-secret"}}),
        (LAUNCH_TEMPLATE, {"userData": base64.b64encode(b"#!/bin/sh\nnvidia-ctk config --set x=false\n" * 3).decode()}),
        (LAUNCH_TEMPLATE, {"userData": "A" * 41}),
    ],
)
def test_a_text_that_is_no_token_passes(kind: str, props: dict[str, Any]) -> None:
    assert found("no-github-token", kind, props) == []
