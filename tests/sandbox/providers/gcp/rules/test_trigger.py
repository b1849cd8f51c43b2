"""Cloud Build triggers: locations, events and build timeouts."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi_sandbox.providers.gcp.types import TRIGGER
from pulumi_sandbox.providers.values import UNKNOWN

from tests.sandbox.providers.gcp.conftest import Google

GITHUB = {"owner": "acme", "name": "kernels"}


def on(**event: Any) -> dict[str, Any]:
    return {"location": "us-central1", "filename": "cloudbuild.yaml", "github": {**GITHUB, **event}}


def branch(given: Any) -> dict[str, Any]:
    return on(push={"branch": given})


def build(*steps: Any, **changes: Any) -> dict[str, Any]:
    made = {"steps": [{"name": "bash", "timeout": timeout} for timeout in steps], **changes}
    return {"github": {**GITHUB, "push": {"branch": "^main$"}}, "build": made}


def linked(**event: Any) -> dict[str, Any]:
    return {"location": "us-central1", "filename": "cloudbuild.yaml", "repositoryEventConfig": event}


LINKED = "projects/p/locations/us-central1/connections/github/repositories/kernels"
ACCEPTED: dict[str, dict[str, Any]] = {
    "a global one": {**branch("^main$"), "location": "global"},
    "a class that Python does not know": branch(r"^\pL+\z"),
    "a group named in RE2's way": branch("^(?<part>a|b)$"),
    "letters of either case from the middle on": branch("^release-(?i)rc$"),
    "a plus after an escaped one": branch(r"^c\++$"),
    "a branch not known yet": branch(UNKNOWN),
    "a repository of 2nd gen": linked(repository=LINKED, push={"branch": "^main$"}),
    "a build of 24 hours": build(None, timeout="86400s"),
    "steps that fill the build": build("400s", "200s", None, timeout="600s"),
    "steps that fill the ten minutes a build has": build("600s"),
    "a timeout not known yet": build("9999s", timeout=UNKNOWN),
    "a build not known yet": {**branch("^main$"), "filename": None, "build": UNKNOWN},
}


def test_a_trigger_that_google_takes_is_accepted(google: Google) -> None:
    assert {name: found for name, inputs in ACCEPTED.items() if (found := google.problems(TRIGGER, inputs))} == {}


TEMPLATE = {"location": "us-central1", "filename": "cloudbuild.yaml"}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a trigger in a region there is not": (
        {**branch("^main$"), "location": "mars-1"},
        "location: mars-1 is not a location of Cloud Build\n  hint: such as us-central1",
    ),
    "a parenthesis that does not close": (
        branch("("),
        "github.push.branch: ( is not a regular expression: missing ), unterminated subpattern",
    ),
    "a tag of nothing that repeats": (
        on(push={"tag": "*"}),
        "github.push.tag: * is not a regular expression: nothing to repeat",
    ),
    "looking ahead": (
        on(pullRequest={"branch": "^(?!main$)"}),
        "github.pullRequest.branch: RE2 does not support (?!, got ^(?!main$)",
    ),
    "a repository of 1st gen as one of 2nd gen": (
        linked(repository="acme/kernels", push={"branch": "^main$"}),
        (
            "repositoryEventConfig.repository: acme/kernels is not of the form "
            "projects/*/locations/*/connections/*/repositories/*"
        ),
    ),
    "possessive": (branch("^a++$"), "github.push.branch: RE2 does not support ++, got ^a++$"),
    "a branch of a repository that is not GitHub's": (
        {**TEMPLATE, "triggerTemplate": {"repoName": "one", "branchName": "["}},
        "triggerTemplate.branchName: [ is not a regular expression: unterminated character set",
    ),
    "a second more than 24 hours": (
        build(timeout="86401s"),
        "build.timeout: expected timeout to be at most 86400s (24 hours), got 86401s",
    ),
    "steps that take longer than the build": (
        build("3600s", "1s", timeout="3600s"),
        "build.steps: Step timeout sum (1h0m1s) cannot be greater than build timeout (1h0m0s)",
    ),
    "steps that take longer than the ten minutes a build has": (
        build("601s"),
        "build.steps: Step timeout sum (10m1s) cannot be greater than build timeout (10m0s)",
    ),
    "a step that takes longer than a short build": (
        build("31s", timeout="30s"),
        "build.steps: Step timeout sum (31s) cannot be greater than build timeout (30s)",
    ),
}


@pytest.mark.parametrize(("inputs", "expected"), REFUSED.values(), ids=REFUSED)
def test_a_trigger_that_google_refuses_is_refused(google: Google, inputs: dict[str, Any], expected: str) -> None:
    assert google.problems(TRIGGER, inputs) == [expected]
