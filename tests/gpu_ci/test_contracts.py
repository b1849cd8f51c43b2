"""Rules every component keeps, checked on all of them at once; a new component is found by itself."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import pulumi
import pytest
from gpu_ci.component import Component
from pydantic.alias_generators import to_camel

from tests.gpu_ci import harness
from tests.gpu_ci.harness import Row
from tests.gpu_ci.support import CALLS, COMPONENTS, COMPUTED, build

pytestmark = pytest.mark.usefixtures("short_definitions")

deploy = partial(harness.deploy, calls=CALLS)

every_component = pytest.mark.parametrize("component", COMPONENTS.values(), ids=COMPONENTS)

# What takes labels, and where in its inputs they go; None says that the type takes none.
LABELLED: dict[str, tuple[str, ...] | None] = {
    "aws:autoscaling/tag:Tag": None,
    "aws:ec2/launchTemplate:LaunchTemplate": ("tags",),
    "aws:eks/nodeGroup:NodeGroup": ("tags",),
    "aws:iam/role:Role": ("tags",),
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment": None,
    "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate": ("labels",),
    "gpu-ci:gcp:SmokeGate": ("labels",),
    "gcp:serviceaccount/account:Account": None,
    "gcp:projects/iAMMember:IAMMember": None,
    "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager": None,
    "gcp:artifactregistry/repository:Repository": ("labels",),
    "gcp:artifactregistry/repositoryIamMember:RepositoryIamMember": None,
    "gcp:cloudbuild/trigger:Trigger": None,
    "gcp:cloudbuild/workerPool:WorkerPool": None,
    "gcp:compute/firewall:Firewall": None,
    "gcp:compute/network:Network": None,
    "gcp:compute/router:Router": None,
    "gcp:compute/routerNat:RouterNat": None,
    "gcp:compute/subnetwork:Subnetwork": None,
    "github:index/actionsRunnerGroup:ActionsRunnerGroup": None,
    "github:index/actionsSecret:ActionsSecret": None,
    "github:index/actionsVariable:ActionsVariable": None,
    "github:index/repositoryRuleset:RepositoryRuleset": None,
    # A part that is a component of its own labels what it makes.
    "gpu-ci:aws:GpuNodeGroup": None,
    "gpu-ci:kubernetes:RunnerScaleSet": None,
    "gpu-ci:kubernetes:SmokeJob": None,
    # What is in a cluster is paid for by its nodes, and these have labels.
    "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinitionPatch": None,
    "kubernetes:batch/v1:Job": None,
    "kubernetes:core/v1:ConfigMap": None,
    "kubernetes:core/v1:Namespace": None,
    "kubernetes:core/v1:ResourceQuota": None,
    "kubernetes:core/v1:Secret": None,
    "kubernetes:core/v1:ServiceAccountPatch": None,
    "kubernetes:helm.sh/v3:Release": None,
    "kubernetes:networking.k8s.io/v1:NetworkPolicy": None,
}


class Outer(pulumi.ComponentResource):
    def __init__(self, name: str) -> None:
        super().__init__("test:index:Outer", name)


def test_there_is_a_component() -> None:
    assert sorted(COMPONENTS) == [
        "gpu-ci:aws:EksRunnerPool",
        "gpu-ci:aws:GpuNodeGroup",
        "gpu-ci:gcp:BuildPool",
        "gpu-ci:gcp:GpuInstanceTemplate",
        "gpu-ci:gcp:RunnerNetwork",
        "gpu-ci:gcp:RunnerPool",
        "gpu-ci:github:ActionsSecrets",
        "gpu-ci:github:RepositoryRules",
        "gpu-ci:github:RunnerGroup",
        "gpu-ci:kubernetes:ArcController",
        "gpu-ci:kubernetes:DevicePlugin",
        "gpu-ci:kubernetes:GpuNamespace",
        "gpu-ci:kubernetes:RunnerScaleSet",
        "gpu-ci:kubernetes:SmokeJob",
    ]


@every_component
def test_its_token_names_the_package_the_cloud_and_the_class(component: type[Component]) -> None:
    cloud = component.__module__.split(".")[1]
    assert f"gpu-ci:{cloud}:{component.__name__}" == component.TYPE


@every_component
def test_its_urns_do_not_move(component: type[Component], golden: Callable[[str, str], None]) -> None:
    golden(f"urns/{component.__name__}.txt", deploy(lambda: build(component), computed=COMPUTED).urns())


@every_component
def test_its_children_are_named_after_it_and_parented_to_it(component: type[Component]) -> None:
    top, *children = deploy(lambda: build(component, "one"), computed=COMPUTED).rows
    assert (top.name, top.parent_name) == ("one", "project-stack")
    assert [child.name for child in children if not child.name.startswith("one-")] == []
    # Its own, or those of a part of it that is a component too.
    parts = {child.urn for child in children if child.type in COMPONENTS}
    assert top.urn in {child.parent for child in children} <= {top.urn, *parts}


@every_component
def test_its_children_stay_inside_it_when_it_is_nested(component: type[Component]) -> None:
    rows = deploy(lambda: build(component, parent=Outer("outer")), computed=COMPUTED).rows
    assert [row.name for row in rows if row.parent_name == "outer"] == ["pool"]
    parts = {row.name for row in rows if row.type in COMPONENTS}
    assert "pool" in {row.parent_name for row in rows if row.name not in ("outer", "pool")} <= parts


@every_component
def test_it_can_be_built_twice_in_one_stack(component: type[Component]) -> None:
    rows = deploy(lambda: [build(component, name) for name in ("a", "b")], computed=COMPUTED).rows
    assert [row.name for row in rows if row.type == component.TYPE] == ["a", "b"]


@every_component
def test_the_callers_options_stay_with_it(component: type[Component]) -> None:
    """Pulumi itself hands `protect` down; what is only the component's own must not reach its children."""
    options: dict[str, Any] = {
        "aliases": [pulumi.Alias(name="old")],
        "ignore_changes": ["zones"],
        "custom_timeouts": pulumi.CustomTimeouts(create="7m"),
    }
    top, *children = deploy(lambda: build(component, **options), computed=COMPUTED).rows
    assert list(top.request.ignoreChanges) == ["zones"]
    for child in children:
        assert "zones" not in child.request.ignoreChanges, child.name
        assert child.request.customTimeouts.create != "7m", child.name
        assert "old" not in [alias.spec.name for alias in child.request.aliases], child.name


@every_component
def test_all_that_it_makes_waits_for_what_it_is_to_wait_for_and_no_component_does(component: type[Component]) -> None:
    """Pulumi has a component wait by itself, without its children: a gate would hold nothing. And one that the engine
    leaves out, as what it waits for failed, ends the program."""
    found: dict[str, pulumi.Resource] = {}

    def program() -> None:
        found["first"] = pulumi.CustomResource("test:index:First", "first")
        build(component, depends_on=[found["first"]])

    first, top, *children = deploy(program, computed=COMPUTED).rows
    assert top.type == component.TYPE
    made = [child for child in children if child.request.custom]
    assert made
    assert [child.name for child in made if first.urn not in child.request.dependencies] == []
    components = [top, *(child for child in children if not child.request.custom)]
    assert [one.name for one in components if first.urn in one.request.dependencies] == []


@every_component
def test_it_registers_exactly_the_outputs_it_annotates(component: type[Component]) -> None:
    deployment = deploy(lambda: build(component), computed=COMPUTED)
    registered = deployment.outputs[deployment.rows[0].urn]
    assert sorted(registered) == sorted(to_camel(name) for name in component.output_names())
    assert [name for name, value in registered.items() if value is None] == []


@every_component
def test_its_outputs_are_on_the_object_too(component: type[Component]) -> None:
    found: dict[str, Any] = {}
    deploy(lambda: found.update(built=build(component)), computed=COMPUTED)
    assert [
        name for name in component.output_names() if not isinstance(getattr(found["built"], name), pulumi.Output)
    ] == []


@every_component
def test_everything_that_takes_labels_has_them(component: type[Component]) -> None:
    _, *children = deploy(lambda: build(component), computed=COMPUTED).rows
    assert {child.type for child in children} <= set(LABELLED), "say in LABELLED whether the new type takes labels"
    for child in children:
        if place := LABELLED[child.type]:
            assert _at(child, place) == {"gpu-ci-pool": "pool", "team": "ml"}, child.name


@every_component
def test_its_docstring_says_what_it_creates_costs_leaves_and_replaces(component: type[Component]) -> None:
    text = inspect.cleandoc(component.__doc__ or "")
    assert [word for word in ("Creates:", "Costs:", "Does not:", "Replaces on change of:") if word not in text] == []


@every_component
def test_its_wiring_names_fields_it_has(component: type[Component]) -> None:
    assert component.ARGS.WIRING - set(component.ARGS.model_fields) == frozenset()


@every_component
def test_its_example_is_all_a_stack_file_needs(component: type[Component]) -> None:
    assert component.ARGS.choice_problems(component.EXAMPLE) == []


def _at(row: Row, place: tuple[str, ...]) -> Any:
    value: Any = row.inputs
    for step in place:
        value = value[step]
    return value
