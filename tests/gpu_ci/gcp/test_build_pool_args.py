"""Valid and invalid fields of a Cloud Build pool in a stack file, with the messages."""

from __future__ import annotations

import warnings
from typing import Any

import pulumi
import pytest
from gpu_ci.errors import ArgsError, report
from gpu_ci.gcp.build import rules
from gpu_ci.gcp.build.rules import MACHINE_TYPES
from gpu_ci.gcp.build_pool import BuildPool, BuildPoolArgs
from gpu_ci.gcp.regions import CLOUD_BUILD as REGIONS
from gpu_ci.stack import pools
from gpu_ci.stack.schema import stack_schema
from jsonschema import Draft202012Validator
from pydantic_core import PydanticCustomError

from tests.gpu_ci.gcp.build_choices import MAIN, PEERED, WRONG, pool, run, trigger
from tests.gpu_ci.harness import deploy
from tests.gpu_ci.support import COMPUTED


@pytest.mark.parametrize("wrong", WRONG)
def test_one_mistake_is_one_problem_with_one_hint(wrong: str) -> None:
    choices, path, text, hint = WRONG[wrong]
    [found] = pools.check({"builds": choices})[1]
    assert (found.path, found.text) == (f"gpu-ci:pools.builds.{path}", text)
    assert found.hint == hint


RIGHT = {
    "the example": pool(),
    "the least": {"kind": "cloud-build", "region": "europe-west4"},
    "a peered network": pool(network={**PEERED, "ipRange": "/29"}),
    "pull requests": trigger(event={"kind": "pull-request", "branch": ".*", "commentControl": "COMMENTS_ENABLED"}),
    "a build file": trigger(build={"kind": "file"}, includedFiles=["src/**"], ignoredFiles=["docs/**"], approval=True),
    "a script": run(script="make test\n", env={"A": "b"}, dir="src"),
    "arguments": run(entrypoint="python", args=["-m", "build"]),
    "a trigger called as a field of its own": pool(triggers={"event": MAIN, "build": MAIN}),
}


@pytest.mark.parametrize("choices", RIGHT.values(), ids=RIGHT)
def test_a_pool_in_order_is_accepted_by_the_model_and_in_editors(choices: dict[str, Any]) -> None:
    assert pools.check({"builds": choices})[1] == []
    document = {"config": {"gpu-ci:pools": {"builds": choices}}}
    assert list(Draft202012Validator(stack_schema()).iter_errors(document)) == []


def test_every_machine_type_and_region_is_accepted_and_offered_in_editors() -> None:
    assert (len(MACHINE_TYPES), len(REGIONS)) == (15, 42)
    for name in MACHINE_TYPES:
        assert pools.check({"builds": pool(machineType=name)})[1] == []
    for name in REGIONS:
        assert pools.check({"builds": pool(region=name)})[1] == []
    fields = stack_schema()["$defs"]["BuildPoolArgs"]["properties"]
    assert fields["machineType"]["enum"] == list(MACHINE_TYPES)
    assert fields["region"]["enum"] == list(REGIONS)


def test_a_mistake_is_reported_with_got_expected_and_hint() -> None:
    problems = pools.check({"builds": trigger(event={"kind": "push"})})[1]
    assert report("Pulumi.staging.yaml", problems).splitlines()[:3] == [
        "Pulumi.staging.yaml: gpu-ci:pools.builds.triggers.main.event.branch: is missing",
        "  got: nothing",
        "  expected: branches, as a regular expression (RE2), such as ^main$",
    ]


def test_a_trigger_may_have_the_name_of_a_field() -> None:
    [found] = pools.check({"builds": pool(triggers={"build": {**MAIN, "repository": "kernels"}})})[1]
    assert found.path == "gpu-ci:pools.builds.triggers.build.repository"
    assert (
        found.expected
        == "the GitHub repository, as owner/name; without repositoryResource, the repository must be connected to "
        "Cloud Build as 1st gen in the pool's region"
    )


def test_mistakes_of_one_pool_are_reported_together() -> None:
    wrong = pool(
        region="mars", machineType="e2", diskGib=1, network={"kind": "peered"}, logging="x", triggers={"A": MAIN}
    )
    assert [found.path.removeprefix("gpu-ci:pools.builds.") for found in pools.check({"builds": wrong})[1]] == [
        "region", "machineType", "diskGib", "network.network", "logging", "triggers.A",
    ]  # fmt: skip


def test_the_network_may_be_an_output_and_is_checked_when_it_resolves() -> None:
    def program() -> None:
        late = {"kind": "peered", "network": pulumi.Output.from_input("projects/acme-ci/global/networks/ci")}
        BuildPool("builds", BuildPoolArgs(region="us-central1", network=late, project="acme-ci"))

    with pytest.raises(ArgsError) as caught:
        deploy(program, computed=COMPUTED)
    assert str(caught.value) == (
        "BuildPool 'builds': network.network: has a form that is not accepted\n"
        "  got: 'projects/acme-ci/global/networks/ci'\n"
        "  expected: the network, with its project by number: projects/<number>/global/networks/<name> "
        "(gcloud projects describe <id> --format='value(projectNumber)')\n"
        "  hint: such as network: projects/123456789012/global/networks/ci"
    )


RE2 = [
    r"^main$", r"\pL+", r"(?P<n>a)\z", r"(?<n>a)", r"[[:alpha:]]+", r"a{999}", r"a+?", r"c\++", r"a(?i)b", r"\x{41}",
]  # fmt: skip


@pytest.mark.parametrize("branch", RE2)
def test_what_re2_reads_is_taken_and_no_warning_of_pythons_is_printed(branch: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert rules.ref(branch) == branch


@pytest.mark.parametrize("branch", [r"(?=a)", r"(?<!a)b", r"(a)\1", r"(?>x)", r"x++", r"a{1001}", r"a{2,1001}", "("])
def test_what_re2_does_not_read_is_refused(branch: str) -> None:
    with pytest.raises(PydanticCustomError):
        rules.ref(branch)
