"""Lookups: pure functions computed, the environment answered from fixtures, everything else refused with a remedy."""

from __future__ import annotations

import json
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml
from pulumi_sandbox.providers.invokes import LookupRefusedError, Lookups
from pulumi_sandbox.providers.sdk.shapes import Shapes
from pulumi_sandbox.providers.sdk.types import Type

ZONES = "gcp:compute/getZones:getZones"
# Arguments for the fixtures that cannot be asked without any.
ARGUMENTS = {
    "gcp:container/getCluster:getCluster": {"name": "ci"},
    "gcp:projects/getProject:getProject": {"filter": "id:example-project"},
    "gcp:compute/getNetwork:getNetwork": {"name": "default"},
    "gcp:compute/getSubnetwork:getSubnetwork": {"name": "default"},
    "gcp:compute/getImage:getImage": {"family": "debian-12", "project": "debian-cloud"},
    "gcp:secretmanager/getSecretVersion:getSecretVersion": {"secret": "github-app"},
    "gcp:secretmanager/getSecretVersionAccess:getSecretVersionAccess": {"secret": "github-app"},
    "aws:eks/getCluster:getCluster": {"name": "ci"},
    "aws:eks/getClusterAuth:getClusterAuth": {"name": "ci"},
    "aws:ssm/getParameter:getParameter": {"name": "/aws/service/eks/optimized-ami/1.34/recommended/image_id"},
    "aws:secretsmanager/getSecretVersion:getSecretVersion": {"secretId": "github-app"},
    "github:index/getRepository:getRepository": {"name": "service"},
    "github:index/getUser:getUser": {"username": "octocat"},
    "github:index/getOrganization:getOrganization": {"name": "example-org"},
    "github:index/getTeam:getTeam": {"slug": "platform"},
    "github:index/getActionsPublicKey:getActionsPublicKey": {"repository": "service"},
}
PYTHON = {"string": str, "boolean": bool, "integer": int, "number": (int, float), "list": list, "map": dict}


@pytest.fixture(scope="module")
def shapes() -> dict[str, Shapes]:
    return {package: Shapes(package) for package in ("gcp", "aws", "kubernetes", "github")}


@pytest.fixture
def lookups(shapes: dict[str, Shapes], tmp_path: Path) -> dict[str, Lookups]:
    file = tmp_path / "sandbox.yaml"
    return {package: Lookups(package, partial(shapes.__getitem__, package), file) for package in shapes}


def test_values_need_no_package_of_the_cloud() -> None:
    found = Lookups("gcp", lambda: pytest.fail("reads the package of the cloud"))
    assert found.values["projectNumber"]


def fixtures() -> list[tuple[str, str]]:
    found = []
    for package in ("gcp", "aws", "kubernetes", "github"):
        text = files("pulumi_sandbox").joinpath("fixtures", f"{package}.yaml").read_text()
        found += [(package, token) for token in yaml.safe_load(text)["lookups"]]
    return found


@pytest.mark.parametrize(("package", "token"), fixtures())
def test_every_fixture_answers_as_the_sdk_reads_it(lookups: dict[str, Lookups], package: str, token: str) -> None:
    shape = lookups[package].shapes.function(token)
    assert shape is not None, "the SDK has no such lookup"
    result, secrets = lookups[package].answer(token, ARGUMENTS.get(token, {}), {})
    assert result.keys() <= shape.outputs.keys()
    assert set(secrets) <= result.keys()
    assert isinstance(result["id"], str)
    assert result["id"]
    for name, value in result.items():
        kind: Type = shape.outputs[name]
        assert kind.kind not in PYTHON or isinstance(value, PYTHON[kind.kind]), name  # type: ignore[arg-type]
        assert "${" not in json.dumps(value), name


@pytest.mark.parametrize(("package", "token"), fixtures())
def test_every_fixture_answers_all_that_a_program_may_read(
    lookups: dict[str, Lookups], package: str, token: str
) -> None:
    shape = lookups[package].shapes.function(token)
    assert shape is not None
    result, _ = lookups[package].answer(token, ARGUMENTS.get(token, {}), {})
    # What remains are the arguments that were not given.
    assert shape.outputs.keys() - result.keys() <= shape.inputs.properties.keys() | {"lastLaunchedTime", "uefiData"}


def test_the_configuration_of_the_provider_completes_the_arguments(lookups: dict[str, Lookups]) -> None:
    config = {"project": "acme", "region": "us-east1", "zone": "us-east1-b"}
    client, secrets = lookups["gcp"].answer("gcp:organizations/getClientConfig:getClientConfig", {}, config)
    assert client["id"] == "projects/acme/regions/us-east1/zones/us-east1-b"
    assert secrets == ("accessToken",)
    assert lookups["gcp"].answer(ZONES, {}, config)[0]["region"] == "us-east1"
    assert lookups["gcp"].answer(ZONES, {"region": "us-west1"}, config)[0]["region"] == "us-west1"


def test_an_answer_in_sandbox_yaml_comes_before_the_packaged_one(lookups: dict[str, Lookups], tmp_path: Path) -> None:
    (tmp_path / "sandbox.yaml").write_text(
        f"lookups:\n  {json.dumps(ZONES)}:\n    - match: {{region: us-*}}\n"
        "      result: {names: ['${args.region}-x', '${config.project}']}\n"
    )
    assert lookups["gcp"].answer(ZONES, {"region": "us-east1"}, {})[0] == {
        "names": ["us-east1-x", "example-project"],
        "project": "example-project",
        "region": "us-east1",
    }
    assert len(lookups["gcp"].answer(ZONES, {"region": "asia-east1"}, {})[0]["names"]) == 3


def test_a_lookup_without_an_answer_says_which_lines_to_add(lookups: dict[str, Lookups], tmp_path: Path) -> None:
    token = "aws:ec2/getKeyPair:getKeyPair"
    with pytest.raises(LookupRefusedError) as refused:
        lookups["aws"].answer(token, {"keyName": "deploy"}, {})
    text = str(refused.value)
    assert text.startswith(
        f"{token}: the sandbox has no answer\n"
        "  expected: an answer in sandbox.yaml\n"
        "  hint: add the answer of the cloud to sandbox.yaml:\n\n"
        f'    lookups:\n      "{token}":\n        - match: {{"keyName": "deploy"}}\n          result:\n'
        '            arn: ""\n'
    )
    # And the lines do what they promise.
    (tmp_path / "sandbox.yaml").write_text(text.partition("\n\n")[2])
    again = Lookups("aws", lambda: lookups["aws"].shapes, tmp_path / "sandbox.yaml")
    assert again.answer(token, {"keyName": "deploy"}, {})[0]["keyName"] == "deploy"


def test_an_argument_that_sounds_secret_is_not_repeated(lookups: dict[str, Lookups]) -> None:
    token = "aws:rds/getEngineVersion:getEngineVersion"
    assert "postgres" in refusal(lookups["aws"], token, {"engine": "postgres"})
    secret = "aws:sso/getSession:getSession"
    assert "hunter2" not in refusal(lookups["aws"], secret, {"accessToken": "hunter2", "password": "hunter2"})


def refusal(lookups: Lookups, token: str, arguments: dict[str, Any]) -> str:
    with pytest.raises(LookupRefusedError) as refused:
        lookups.answer(token, arguments, {})
    return str(refused.value)


def test_arguments_of_a_lookup_are_checked_by_shape(lookups: dict[str, Lookups]) -> None:
    token = "aws:eks/getCluster:getCluster"
    assert refusal(lookups["aws"], token, {}) == f"{token}: name: required, and missing\n  expected: a string"
    assert refusal(lookups["aws"], token, {"name": "ci", "regoin": "x"}) == (
        f"{token}: regoin: no such property\n  hint: did you mean 'region'?"
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[", "sandbox.yaml: line "),
        (
            "- a",
            'sandbox.yaml: the file: wrong form\n  got: ["a"]\n  expected: a map of guest, exists, github, lookups',
        ),
        (
            "lookup: {}",
            (
                "sandbox.yaml: lookup: no such entry\n  expected: guest, exists, github, lookups, values\n"
                "  hint: did you mean 'lookups'?"
            ),
        ),
        ("values: []", None),
        ("lookups: [a]", 'sandbox.yaml: lookups: wrong form\n  got: ["a"]\n  expected: a map'),
        (
            "exists: {github: acme/web}",
            'sandbox.yaml: exists.github: wrong form\n  got: "acme/web"\n  expected: a list',
        ),
        ("exists: {github: [7]}", "sandbox.yaml: exists.github[0]: wrong form\n  got: 7\n  expected: a text"),
        (
            "lookups: {x: {result: {}}}",
            'sandbox.yaml: lookups.x: wrong form\n  got: {"result": {}}\n  expected: a list',
        ),
        (
            "lookups: {x: [{result: {}, mach: {}}]}",
            (
                "sandbox.yaml: lookups.x[0].mach: no such entry\n  expected: match, result, only, secrets\n"
                "  hint: did you mean 'match'?"
            ),
        ),
        (
            f"lookups: {{{json.dumps(ZONES)}: [{{result: {{nmaes: []}}}}]}}",
            f"sandbox.yaml: lookups.\"{ZONES}\": result.nmaes: no such property\n  hint: did you mean 'names'?",
        ),
    ],
)
def test_a_mistake_in_sandbox_yaml_is_named_with_its_place(
    lookups: dict[str, Lookups], tmp_path: Path, text: str, problem: str | None
) -> None:
    (tmp_path / "sandbox.yaml").write_text(text)
    if problem is None:
        assert lookups["gcp"].answer(ZONES, {}, {})[0]["region"] == "us-central1"
        return
    assert refusal(lookups["gcp"], ZONES, {}).startswith(problem)
