"""The SDKs' shapes: read for each kind of resource, cached, and the messages for wrong inputs."""

from __future__ import annotations

import inspect
import sys
from typing import Any

import pulumi_github
import pytest
from gpu_common import pulumi_wire
from pulumi._types import input_type_py_to_pulumi_names
from pulumi_sandbox.providers.resource import Problem
from pulumi_sandbox.providers.sdk.shapes import Checked, Shapes
from pulumi_sandbox.providers.sdk.types import Type
from pulumi_sandbox.providers.values import Asset

TEMPLATE = "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate"
JOB = "kubernetes:batch/v1:Job"


@pytest.fixture(scope="module")
def shapes() -> dict[str, Shapes]:
    return {package: Shapes(package) for package in ("gcp", "aws", "kubernetes", "github")}


def template(**changes: Any) -> dict[str, Any]:
    return {"machineType": "g2-standard-8", "disks": [{"boot": True, "sourceImage": "debian-12"}], **changes}


def problems_of(shapes: dict[str, Shapes], token: str, inputs: dict[str, Any], **options: Any) -> list[tuple[str, str]]:
    problems = shapes[token.split(":")[0]].check(token, inputs, **options).problems
    return [(one.path, str(one)) for one in problems]


@pytest.mark.parametrize(("package", "step"), [("gcp", 40), ("aws", 40), ("kubernetes", 10), ("github", 1)])
def test_resources_from_all_over_an_sdk_read_with_all_their_nested_types(package: str, step: int) -> None:
    shapes = Shapes(package)
    objects: set[str] = set()
    waiting: list[Type] = []
    for token in sorted(shapes.tokens)[::step]:
        shape = shapes.shape(token)
        waiting += [one.type for one in shape.inputs.properties.values()]
        while waiting:
            kind = waiting.pop()
            waiting += kind.of
            if kind.kind == "enum":
                assert shapes.enum(kind.name)
            elif kind.kind == "object" and kind.name not in objects:
                objects.add(kind.name)
                waiting += [one.type for one in shapes.object(kind.name).properties.values()]
    assert objects


def test_what_is_read_from_the_source_is_what_the_imported_sdk_says() -> None:
    shapes = Shapes("github")
    for token, (_, name) in shapes.tokens.items():
        # Where an input type of another resource has the name already, the SDK says InitArgs.
        module = sys.modules[getattr(pulumi_github, name).__module__]
        args = getattr(module, f"{name}InitArgs", None) or getattr(module, f"{name}Args")
        names = input_type_py_to_pulumi_names(args)
        parameters = inspect.signature(args.__init__).parameters
        wanted = {
            names.get(one.name, one.name): one.default is inspect.Parameter.empty
            for one in parameters.values()
            if one.kind is inspect.Parameter.KEYWORD_ONLY
        }
        read = shapes.shape(token).inputs.properties
        assert {wire: declared.required for wire, declared in read.items()} == wanted, token


def test_secret_inputs_and_outputs_are_those_the_sdk_names(shapes: dict[str, Shapes]) -> None:
    secret = shapes["github"].shape("github:index/actionsSecret:ActionsSecret")
    assert secret.secret_inputs == {"plaintextValue", "encryptedValue", "value", "valueEncrypted"}
    assert secret.secret_outputs == {"plaintextValue", "encryptedValue", "value", "valueEncrypted"}
    assert shapes["kubernetes"].shape("kubernetes:core/v1:Secret").secret_outputs == {"data", "stringData"}


def test_an_unknown_property_is_named_with_the_one_that_was_meant(shapes: dict[str, Shapes]) -> None:
    assert problems_of(shapes, TEMPLATE, template(disks=[{"autoDelte": True}])) == [
        ("disks[0].autoDelte", "no such property\n  hint: did you mean 'autoDelete'?")
    ]
    assert problems_of(shapes, TEMPLATE, template(can_ip_forward=True)) == [
        ("can_ip_forward", "no such property\n  hint: did you mean 'canIpForward'?")
    ]
    assert problems_of(shapes, TEMPLATE, template(CANIPFORWARD=True)) == [
        ("CANIPFORWARD", "no such property\n  hint: did you mean 'canIpForward'?")
    ]


def test_a_missing_property_is_reported_with_its_path_and_type(shapes: dict[str, Shapes]) -> None:
    assert problems_of(shapes, TEMPLATE, {"machineType": None, "guestAccelerators": [{"type": "nvidia-l4"}]}) == [
        ("guestAccelerators[0].count", "required, and missing\n  expected: an integer"),
        ("disks", "required, and missing\n  expected: a list of objects"),
        ("machineType", "required, and missing\n  expected: a string"),
    ]


def test_a_wrong_type_says_what_it_got_and_what_it_expected(shapes: dict[str, Shapes]) -> None:
    given = template(disks=[{"diskSizeGb": "ten"}, {"diskSizeGb": 1.5}], labels={"a.b": ["x"]}, scheduling=[], tags="a")
    assert problems_of(shapes, TEMPLATE, given, coerces_scalars=True) == [
        ("disks[0].diskSizeGb", 'wrong type\n  got: "ten" (a string)\n  expected: an integer'),
        ("disks[1].diskSizeGb", "wrong type\n  got: 1.5 (a number)\n  expected: an integer"),
        ('labels["a.b"]', "wrong type\n  got: a list\n  expected: a string"),
        ("scheduling", "wrong type\n  got: a list\n  expected: an object"),
        (
            "tags",
            'wrong type\n  got: "a" (a string)\n  expected: a list of strings\n  hint: for one value, write ["a"]',
        ),
    ]


def test_a_bridged_provider_converts_scalars_and_keeps_the_converted_ones(shapes: dict[str, Shapes]) -> None:
    given = template(machineType=5, canIpForward="true", labels={"a": True, "b": 2.5}, disks=[{"diskSizeGb": "100"}])
    checked = shapes["gcp"].check(TEMPLATE, given, coerces_scalars=True)
    assert checked.problems == []
    assert checked.inputs == {
        "machineType": "5",
        "canIpForward": True,
        "labels": {"a": "true", "b": "2.5"},
        "disks": [{"diskSizeGb": 100}],
    }
    assert problems_of(shapes, TEMPLATE, template(canIpForward="yes"), coerces_scalars=True) == [
        ("canIpForward", 'wrong type\n  got: "yes" (a string)\n  expected: a boolean')
    ]


def test_kubernetes_converts_nothing_but_takes_numbers_for_quantities(shapes: dict[str, Shapes]) -> None:
    def job(container: dict[str, Any]) -> dict[str, Any]:
        return {"spec": {"template": {"spec": {"containers": [{"name": "check", **container}]}}}}

    assert problems_of(shapes, JOB, job({"resources": {"limits": {"nvidia.com/gpu": 1}}})) == []
    assert problems_of(shapes, JOB, job({"env": [{"name": "COUNT", "value": 1}]})) == [
        (
            "spec.template.spec.containers[0].env[0].value",
            "wrong type\n  got: 1 (a number)\n  expected: a string",
        )
    ]
    assert problems_of(shapes, JOB, {**job({}), "kind": "CronJob"}) == [
        ("kind", 'wrong value\n  got: "CronJob" (a string)\n  expected: "Job"')
    ]


def test_an_enum_beside_its_plain_type_is_open_and_a_bare_one_is_closed(shapes: dict[str, Shapes]) -> None:
    function = {"role": "arn:aws:iam::123456789012:role/r", "runtime": "python9.9"}
    assert problems_of(shapes, "aws:lambda/function:Function", function) == []
    instance = {"clusterIdentifier": "c", "engine": "aurora-mysq", "instanceClass": "db.r5.large"}
    assert problems_of(shapes, "aws:rds/clusterInstance:ClusterInstance", instance) == [
        (
            "engine",
            (
                'not one of its values\n  got: "aurora-mysq" (a string)\n'
                '  expected: "aurora", "aurora-mysql", "aurora-postgresql", "mysql", "postgres"\n'
                '  hint: did you mean "aurora-mysql"?'
            ),
        )
    ]


def test_assets_fit_where_the_sdk_wants_one_and_nowhere_else(shapes: dict[str, Shapes]) -> None:
    function = "aws:lambda/function:Function"
    archive = Asset({pulumi_wire.SIGNATURE: pulumi_wire.ARCHIVE, "path": "x.zip"})
    assert problems_of(shapes, function, {"role": "r", "code": archive}) == []
    assert problems_of(shapes, function, {"role": archive, "code": 5}) == [
        ("role", "wrong type\n  got: an archive\n  expected: a string"),
        ("code", "wrong type\n  got: 5 (a number)\n  expected: an archive"),
    ]


def test_a_secret_is_never_shown_nor_compared_with_names(shapes: dict[str, Shapes]) -> None:
    secrets = frozenset({("labels",), ("disks", 0, "diskSizeGb")})
    given = template(labels={"a": ["hunter2"]}, disks=[{"diskSizeGb": "hunter2"}])
    problems = problems_of(shapes, TEMPLATE, given, coerces_scalars=True, secrets=secrets)
    assert [path for path, _ in problems] == ["disks[0].diskSizeGb", "labels.a"]
    assert all("[secret]" in text and "hunter2" not in text for _, text in problems)


def test_a_resource_type_that_does_not_exist_is_named_with_the_one_that_was_meant(shapes: dict[str, Shapes]) -> None:
    token = "gcp:compute/regionInstanceTemplat:RegionInstanceTemplat"
    assert shapes["gcp"].check(token, {}).problems == [
        Problem("", f"pulumi_gcp {shapes['gcp'].reader.version} has no resource {token}", f"did you mean {TEMPLATE}?")
    ]
    assert problems_of(shapes, "kubernetes:apps/v1:Deploymnt", {}) == [
        ("", 'no matches for kind "Deploymnt" in version "apps/v1"\n  hint: did you mean Deployment?')
    ]


def test_configuration_of_a_provider_arrives_as_json_and_is_checked(shapes: dict[str, Shapes]) -> None:
    config = {"region": "us-east-1", "skipRegionValidation": "true", "allowedAccountIds": '["1"]', "version": "7.51.1"}
    checked = shapes["aws"].check_config(config)
    assert checked.problems == []
    assert checked.inputs == {"region": "us-east-1", "skipRegionValidation": True, "allowedAccountIds": ["1"]}
    roles = {"assumeRoles": '[{"role_arn": "arn:aws:iam::123456789012:role/ci", "sessionName": "ci"}]'}
    assert shapes["aws"].check_config(roles) == Checked(
        {"assumeRoles": [{"roleArn": "arn:aws:iam::123456789012:role/ci", "sessionName": "ci"}]}, []
    )
    tags = {"defaultTags": '{"tags": {"cost_center": "ci"}}'}
    assert shapes["aws"].check_config(tags).inputs == {"defaultTags": {"tags": {"cost_center": "ci"}}}
    assert shapes["aws"].check_config({"regon": "us-east-1"}).problems == [
        Problem("regon", "no such property", "did you mean 'region'?")
    ]
