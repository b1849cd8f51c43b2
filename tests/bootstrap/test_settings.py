"""What the settings of the bootstrap stack refuse, and where."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest
from gpu_ci.errors import ArgsError

from bootstrap import settings

GITHUB: dict[str, Any] = {
    "ownerId": "9919",
    "repositoryId": "1296269",
    "deploy": {"environment": "production"},
    "preview": {"environment": "preview"},
}
GOOD: dict[str, Any] = {"location": "us-central1", "github": GITHUB}

MISTAKES: dict[str, tuple[Any, list[str]]] = {
    "nothing": (None, ["gpu-ci-bootstrap:settings"]),
    "text": ("us-central1", ["gpu-ci-bootstrap:settings"]),
    "a project of its own": ({**GOOD, "project": "acme-ci"}, ["gpu-ci-bootstrap:settings.project"]),
    "a location of Cloud KMS alone": ({**GOOD, "location": "europe"}, ["gpu-ci-bootstrap:settings.location"]),
    "no jobs that deploy": (
        {**GOOD, "github": {**GITHUB, "deploy": []}},
        ["gpu-ci-bootstrap:settings.github.deploy"],
    ),
    "one environment for two jobs": (
        {**GOOD, "github": {**GITHUB, "deploy": [{"environment": "prod"}, {"environment": "prod"}]}},
        ["gpu-ci-bootstrap:settings.github.deploy[1]"],
    ),
    "a project without a location": ({"github": GITHUB}, ["gpu-ci-bootstrap:settings.location"]),
    "a zone of AWS": ({**GOOD, "aws": {"region": "us-east-1a"}}, ["gpu-ci-bootstrap:settings.aws.region"]),
}


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The config of the stack; tests change it."""
    values: dict[str, Any] = {"gcp:project": "acme-ci", "gpu-ci-bootstrap:settings": GOOD}

    class Config:
        def __init__(self, namespace: str = "gpu-ci-bootstrap") -> None:
            self.namespace = namespace

        def get(self, key: str) -> Any:
            return values.get(f"{self.namespace}:{key}")

        get_object = get

    monkeypatch.setattr(pulumi, "Config", Config)
    monkeypatch.setattr(pulumi, "get_project", lambda: "gpu-ci-bootstrap")
    monkeypatch.setattr(pulumi, "get_stack", lambda: "acme")
    return values


@pytest.mark.parametrize(("given", "paths"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_named(config: dict[str, Any], given: Any, paths: list[str]) -> None:
    config["gpu-ci-bootstrap:settings"] = given
    with pytest.raises(ArgsError) as caught:
        settings.load()
    assert sorted(problem.path for problem in caught.value.problems) == paths
    assert caught.value.subject == "Pulumi.acme.yaml"


def test_a_missing_project_is_named(config: dict[str, Any]) -> None:
    del config["gcp:project"]
    with pytest.raises(ArgsError) as caught:
        settings.load()
    assert [problem.path for problem in caught.value.problems] == ["gcp:project"]


AWS_ALONE: dict[str, Any] = {"github": GITHUB, "aws": {"region": "us-east-1"}}
SIGNING_KEY = "projects/acme-ci/locations/us-central1/keyRings/r/cryptoKeys/k"


def test_aws_alone_needs_no_project_and_no_location(config: dict[str, Any]) -> None:
    del config["gcp:project"]
    config["gpu-ci-bootstrap:settings"] = AWS_ALONE
    assert settings.load().project == ""


@pytest.mark.parametrize(("field", "value"), [("location", "us-central1"), ("signingKeys", [SIGNING_KEY])])
def test_aws_alone_has_no_settings_of_google(config: dict[str, Any], field: str, value: Any) -> None:
    del config["gcp:project"]
    config["gpu-ci-bootstrap:settings"] = {**AWS_ALONE, field: value}
    with pytest.raises(ArgsError) as caught:
        settings.load()
    assert [(each.path, each.rule) for each in caught.value.problems] == [
        (f"gpu-ci-bootstrap:settings.{field}", "only-for-google")
    ]


def test_good_settings_are_read(config: dict[str, Any]) -> None:
    found = settings.load()
    assert (found.project, found.location, found.aws) == ("acme-ci", "us-central1", None)
    assert [name for name, _, _ in found.github.identities()] == ["deploy", "preview"]
