"""What a stack file may choose for a Cloud Build pool, and what it is told when it chooses wrong."""

from __future__ import annotations

import copy
from typing import Any

import pulumi
import pytest
from gpu_ci.errors import ArgsError, report
from gpu_ci.gcp.build_places import MACHINE_TYPES, REGIONS
from gpu_ci.gcp.build_pool import BuildPool, BuildPoolArgs
from gpu_ci.stack import pools
from gpu_ci.stack.schema import stack_schema
from jsonschema import Draft202012Validator

from tests.gpu_ci.harness import deploy
from tests.gpu_ci.support import COMPUTED

STEPS = {"kind": "steps", "steps": [{"kind": "docker", "image": "kernels"}]}
MAIN = BuildPool.EXAMPLE["triggers"]["main"]
PEERED = {"kind": "peered", "network": "projects/123456789012/global/networks/ci"}
ATTACHED = {
    "kind": "private-service-connect",
    "networkAttachment": "projects/acme-ci/regions/us-central1/networkAttachments/ci",
}


def pool(**changes: Any) -> dict[str, Any]:
    """The example after these changes; None removes a key."""
    choices = {"kind": "cloud-build", **copy.deepcopy(BuildPool.EXAMPLE), **changes}
    return {key: value for key, value in choices.items() if value is not None}


def trigger(**changes: Any) -> dict[str, Any]:
    """The example with one trigger, `main`, that has these changes; None removes a key."""
    changed = {key: value for key, value in {**copy.deepcopy(MAIN), **changes}.items() if value is not None}
    return pool(triggers={"main": changed})


def step(**choices: Any) -> dict[str, Any]:
    return trigger(build={"kind": "steps", "steps": [choices]})


def run(**choices: Any) -> dict[str, Any]:
    return step(kind="run", image="python:3.13-slim", **choices)


T, S = "triggers.main", "triggers.main.build.steps[0]"
STEP = "such as steps: [{kind: docker, image: kernels}]"
FORM = "has a form that is not accepted"
NO_RE2 = "has (?!, which RE2 does not know"
WRONG: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "no region": (pool(region=None), "region", "is missing", "such as region: us-central1"),
    "a zone for a region": (
        pool(region="us-central1-a"),
        "region",
        "is no region of Cloud Build",
        "did you mean us-central1",
    ),
    "a machine type misspelt": (
        pool(machineType="e2-standrad-8"),
        "machineType",
        "is no machine type of Cloud Build pools",
        "did you mean e2-standard-8",
    ),
    "a machine type of another series": (
        pool(machineType="z9-mega"),
        "machineType",
        "is no machine type of Cloud Build pools",
        "they are e2-medium and sizes of e2-standard, e2-highmem, e2-highcpu",
    ),
    "a machine type with a GPU": (
        pool(machineType="g2-standard-8"),
        "machineType",
        "has GPUs, and a Cloud Build pool takes none",
        "a job that needs a GPU goes to a pool of kind gce-runners",
    ),
    "an accelerator": (
        pool(guestAccelerator={"type": "nvidia-tesla-t4"}),
        "guestAccelerator",
        "unknown key",
        "remove it",
    ),
    "too small a disk": (pool(diskGib=64), "diskGib", "must be at least 100", "such as diskGib: 100"),
    "too large a disk": (pool(diskGib=4001), "diskGib", "must be at most 4000", "such as diskGib: 100"),
    "egress in words": (
        pool(publicEgress="sometimes"),
        "publicEgress",
        "must be true or false",
        "such as publicEgress: true",
    ),
    "a network of no kind": (
        pool(network={"network": PEERED["network"]}),
        "network.kind",
        "is missing",
        "such as peered",
    ),
    "a network of a kind there is not": (
        pool(network={**PEERED, "kind": "peerd"}),
        "network.kind",
        "is none of those there are",
        "did you mean peered",
    ),
    "peered and private service connect": (
        pool(network={**PEERED, "networkAttachment": ATTACHED["networkAttachment"]}),
        "network.networkAttachment",
        "unknown key",
        "remove it",
    ),
    "a peered network's project by its id": (
        pool(network={**PEERED, "network": "projects/acme-ci/global/networks/ci"}),
        "network.network",
        FORM,
        "leave network out to get the default",
    ),
    "too small a range": (
        pool(network={**PEERED, "ipRange": "/30"}),
        "network.ipRange",
        "is too small: the smallest is /29, with 8 addresses",
        "such as /24, or 192.168.0.0/24",
    ),
    "a range that is none": (
        pool(network={**PEERED, "ipRange": "192.168.0.0"}),
        "network.ipRange",
        "is no range",
        "such as /24, or 192.168.0.0/24",
    ),
    "a range that begins elsewhere": (
        pool(network={**PEERED, "ipRange": "192.168.0.7/24"}),
        "network.ipRange",
        "does not begin at its first address",
        "write 192.168.0.0/24",
    ),
    "an attachment in another region": (
        pool(region="us-east1", network=ATTACHED),
        "network.networkAttachment",
        "is in another region than the pool",
        "make one there",
    ),
    "no version kept": (
        pool(registry={"keepMostRecent": 0}),
        "registry.keepMostRecent",
        "must be at least 1",
        "such as keepMostRecent: 10",
    ),
    "a log mode there is not": (
        pool(logging="LEGACY"),
        "logging",
        "must be one of 'CLOUD_LOGGING_ONLY' or 'NONE'",
        "such as logging: CLOUD_LOGGING_ONLY",
    ),
    "a trigger's name in capitals": (
        pool(triggers={"Main": MAIN}),
        "triggers.Main",
        "the name has a form that is not accepted",
        "such as main",
    ),
    "a repository without its owner": (
        trigger(repository="kernels"),
        f"{T}.repository",
        FORM,
        "such as repository: acme/kernels",
    ),
    "no event": (
        trigger(event=None),
        f"{T}.event",
        "is missing",
        'such as event: {kind: push, branch: "^main$"}',
    ),
    "an event of a kind there is not": (
        trigger(event={"kind": "pull", "branch": "^main$"}),
        f"{T}.event.kind",
        "is none of those there are",
        "such as kind: push",
    ),
    "a push of branches and tags": (
        trigger(event={"kind": "push", "branch": "^main$", "tag": "^v"}),
        f"{T}.event.tag",
        "unknown key",
        "remove it",
    ),
    "an expression RE2 does not know": (
        trigger(event={"kind": "push", "branch": "^(?!main$)"}),
        f"{T}.event.branch",
        NO_RE2,
        "write what to match; includedFiles and ignoredFiles narrow it further",
    ),
    "an expression that is none": (
        trigger(event={"kind": "tag", "tag": "v[0-9"}),
        f"{T}.event.tag",
        "is no regular expression: unterminated character set",
        r"to match it as it is: v\[0\-9",
    ),
    "a comment control there is not": (
        trigger(event={"kind": "pull-request", "branch": "^main$", "commentControl": "ALWAYS"}),
        f"{T}.event.commentControl",
        "must be one of 'COMMENTS_ENABLED_FOR_EXTERNAL_CONTRIBUTORS_ONLY', 'COMMENTS_ENABLED' or 'COMMENTS_DISABLED'",
        'such as event: {kind: push, branch: "^main$"}',
    ),
    "a build file and steps": (
        trigger(build={**STEPS, "filename": "cloudbuild.yaml"}),
        f"{T}.build.filename",
        "unknown key",
        "remove it",
    ),
    "no step": (
        trigger(build={"kind": "steps", "steps": []}),
        f"{T}.build.steps",
        "must have at least 1 entries",
        STEP,
    ),
    "a timeout of a file's build": (
        trigger(build={"kind": "file", "timeoutSec": 60}),
        f"{T}.build.timeoutSec",
        "unknown key",
        "remove it",
    ),
    "too long a build": (
        trigger(build={**STEPS, "timeoutSec": 86401}),
        f"{T}.build.timeoutSec",
        "must be at most 86400",
        "such as build: {kind: steps, steps: [{kind: docker, image: kernels}]}",
    ),
    "an image with a registry": (step(kind="docker", image="gcr.io/Acme/x:1"), f"{S}.image", FORM, STEP),
    "a script beside arguments": (
        run(script="make", args=["x"]),
        f"{S}.script",
        "stands beside args or entrypoint, and a step has one or the other",
        "remove args and entrypoint",
    ),
    "a substitution in lower case": (
        trigger(substitutions={"python": "3.13"}),
        f"{T}.substitutions.python",
        "is no name of a substitution",
        "such as _PYTHON",
    ),
    "a substitution of the pool's own": (
        trigger(substitutions={"_POOL": "mine"}),
        f"{T}.substitutions._POOL",
        "is filled in by the pool",
        "give yours another name",
    ),
    "wiring": (pool(project="acme-ci"), "project", "is filled in by the program, not by the stack file", "remove it"),
}


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
    "private service connect": pool(network={**ATTACHED, "routeAllTraffic": True}),
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


def test_a_mistake_is_told_in_the_house_form() -> None:
    problems = pools.check({"builds": trigger(event={"kind": "push"})})[1]
    assert report("Pulumi.staging.yaml", problems).splitlines()[:3] == [
        "Pulumi.staging.yaml: gpu-ci:pools.builds.triggers.main.event.branch: is missing",
        "  got: nothing",
        "  expected: branches, as a regular expression (RE2), such as ^main$",
    ]


def test_a_trigger_may_be_called_as_one_of_its_fields_and_its_mistakes_are_still_told_right() -> None:
    [found] = pools.check({"builds": pool(triggers={"build": {**MAIN, "repository": "kernels"}})})[1]
    assert found.path == "gpu-ci:pools.builds.triggers.build.repository"
    assert (
        found.expected
        == "the GitHub repository, owner/name; it has to be connected to Cloud Build in the pool's region"
    )


def test_mistakes_of_one_pool_are_told_together() -> None:
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
        "  expected: the network, its project by number: projects/<number>/global/networks/<name> "
        "(gcloud projects describe <id> --format='value(projectNumber)')"
    )
