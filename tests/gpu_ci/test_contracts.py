"""Rules every component keeps, checked on all of them at once; a new component is found by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import pulumi
import pytest
from gpu_ci.component import Component
from gpu_ci.pool_args import PoolArgs
from pydantic.alias_generators import to_camel

from tests.gpu_ci import harness
from tests.gpu_ci.harness import Deployment, Row
from tests.gpu_ci.support import CALLS, COMPONENTS, COMPUTED, build

pytestmark = pytest.mark.usefixtures("short_definitions")

# The scope makes the tests of one component neighbours, so that one worker deploys it.
every_component = pytest.mark.parametrize("component", COMPONENTS.values(), ids=COMPONENTS, scope="module")

# What takes labels, and where in its inputs they go; None says that the type takes none.
LABELLED: dict[str, tuple[str, ...] | None] = {
    "aws:autoscaling/tag:Tag": None,
    "aws:cloudwatch/logGroup:LogGroup": ("tags",),
    "aws:ec2/launchTemplate:LaunchTemplate": ("tags",),
    "aws:ec2/securityGroup:SecurityGroup": ("tags",),
    "aws:ecs/cluster:Cluster": ("tags",),
    "aws:ecs/service:Service": ("tags",),
    "aws:ecs/taskDefinition:TaskDefinition": ("tags",),
    "aws:eks/nodeGroup:NodeGroup": ("tags",),
    "aws:iam/instanceProfile:InstanceProfile": ("tags",),
    "aws:imagebuilder/component:Component": ("tags",),
    "aws:imagebuilder/distributionConfiguration:DistributionConfiguration": ("tags",),
    "aws:imagebuilder/imagePipeline:ImagePipeline": ("tags",),
    "aws:imagebuilder/imageRecipe:ImageRecipe": ("tags",),
    "aws:imagebuilder/infrastructureConfiguration:InfrastructureConfiguration": ("tags",),
    "aws:imagebuilder/lifecyclePolicy:LifecyclePolicy": ("tags",),
    "aws:s3/bucket:Bucket": ("tags",),
    "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration": None,
    "aws:s3/bucketObjectv2:BucketObjectv2": ("tags",),
    "aws:s3/bucketPolicy:BucketPolicy": None,
    "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock": None,
    "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration": None,
    "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule": ("tags",),
    "aws:iam/openIdConnectProvider:OpenIdConnectProvider": ("tags",),
    "aws:iam/role:Role": ("tags",),
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment": None,
    "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate": ("labels",),
    # It makes nothing: it changes the node group, which has tags.
    "gpu-ci:aws:NodeGroupLimits": None,
    "gpu-ci:aws:SmokeGate": ("tags",),
    "gpu-ci:gcp:SmokeGate": ("labels",),
    # It makes nothing: it deletes machines that the runner manager made, and labelled.
    "gpu-ci:gcp:StoppedMachines": None,
    # It makes nothing: it undeploys models that `gpu-ci deploy` deployed.
    "gpu-ci:gcp:DeployedModels": None,
    "gcp:vertex/aiEndpoint:AiEndpoint": ("labels",),
    "gcp:monitoring/alertPolicy:AlertPolicy": ("userLabels",),
    # It makes nothing: it waits until GitHub has registered the chart's scale set.
    "kubernetes:actions.github.com/v1alpha1:AutoscalingRunnerSetPatch": None,
    "gcp:serviceaccount/account:Account": None,
    "gcp:projects/iAMMember:IAMMember": None,
    "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager": None,
    "gcp:artifactregistry/repository:Repository": ("labels",),
    "gcp:artifactregistry/repositoryIamMember:RepositoryIamMember": None,
    "gcp:cloudbuild/trigger:Trigger": None,
    "gcp:cloudbuild/workerPool:WorkerPool": None,
    "gcp:cloudrunv2/workerPool:WorkerPool": ("labels",),
    "gcp:compute/firewall:Firewall": None,
    "gcp:compute/network:Network": None,
    "gcp:compute/router:Router": None,
    "gcp:compute/routerNat:RouterNat": None,
    "gcp:compute/subnetwork:Subnetwork": None,
    "gcp:iam/workloadIdentityPool:WorkloadIdentityPool": None,
    "gcp:iam/workloadIdentityPoolProvider:WorkloadIdentityPoolProvider": None,
    "gcp:cloudscheduler/job:Job": None,
    # The labels of the nodes' VMs and disks. A node pool has none of its own.
    "gcp:container/nodePool:NodePool": ("nodeConfig", "resourceLabels"),
    "gcp:projects/iAMCustomRole:IAMCustomRole": None,
    "gcp:kms/cryptoKeyIAMMember:CryptoKeyIAMMember": None,
    "gcp:pubsub/topic:Topic": ("labels",),
    "gcp:pubsub/topicIAMMember:TopicIAMMember": None,
    "gcp:secretmanager/secretIamMember:SecretIamMember": None,
    "gcp:serviceaccount/iAMMember:IAMMember": None,
    "gcp:storage/bucket:Bucket": ("labels",),
    "gcp:storage/bucketIAMMember:BucketIAMMember": None,
    "gcp:storage/bucketObject:BucketObject": None,
    "github:index/actionsRunnerGroup:ActionsRunnerGroup": None,
    "github:index/actionsSecret:ActionsSecret": None,
    "github:index/actionsVariable:ActionsVariable": None,
    "github:index/repositoryRuleset:RepositoryRuleset": None,
    # A part that is a component of its own labels what it makes.
    "gpu-ci:aws:GpuNodeGroup": None,
    "gpu-ci:gcp:GkeGpuNodePool": None,
    "gpu-ci:kubernetes:GpuNamespace": None,
    "gpu-ci:kubernetes:ImagePrePull": None,
    "gpu-ci:kubernetes:RunnerScaleSet": None,
    "gpu-ci:kubernetes:SmokeJob": None,
    # What is in a cluster is paid for by its nodes, and these have labels.
    "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinitionPatch": None,
    "kubernetes:apps/v1:DaemonSet": None,
    "kubernetes:batch/v1:Job": None,
    "kubernetes:core/v1:ConfigMap": None,
    "kubernetes:core/v1:Namespace": None,
    "kubernetes:core/v1:ResourceQuota": None,
    "kubernetes:core/v1:Secret": None,
    "kubernetes:core/v1:ServiceAccount": None,
    "kubernetes:core/v1:ServiceAccountPatch": None,
    "kubernetes:helm.sh/v3:Release": None,
    "kubernetes:kueue.x-k8s.io/v1beta2:ClusterQueue": None,
    "kubernetes:kueue.x-k8s.io/v1beta2:ResourceFlavor": None,
    "kubernetes:monitoring.coreos.com/v1:PodMonitor": None,
    "kubernetes:monitoring.coreos.com/v1:PrometheusRule": None,
    "kubernetes:networking.k8s.io/v1:Ingress": None,
    "kubernetes:networking.k8s.io/v1:NetworkPolicy": None,
    "kubernetes:operator.tekton.dev/v1alpha1:TektonConfig": None,
    "kubernetes:rbac.authorization.k8s.io/v1:ClusterRole": None,
    "kubernetes:rbac.authorization.k8s.io/v1:ClusterRoleBinding": None,
    "kubernetes:rbac.authorization.k8s.io/v1:Role": None,
    "kubernetes:rbac.authorization.k8s.io/v1:RoleBinding": None,
    "kubernetes:tekton.dev/v1:Pipeline": None,
    "kubernetes:tekton.dev/v1:Task": None,
    "kubernetes:triggers.tekton.dev/v1beta1:EventListener": None,
    "kubernetes:triggers.tekton.dev/v1beta1:TriggerTemplate": None,
}

# The resources of all components that are the check of the GPUs, or say what was checked.
FIXED = ("pool-check", "pool-job", "pool-smoke-check", "pool-smoke-job", "pool-configuration", "pool-settings")


class Outer(pulumi.ComponentResource):
    def __init__(self, name: str) -> None:
        super().__init__("test:index:Outer", name)


@dataclass(frozen=True)
class Built:
    """A component as one program made it, and what else that program registered."""

    component: Component
    deployment: Deployment


@cache
def alone(component: type[Component]) -> Built:
    """The component and nothing else."""
    made: list[Component] = []
    deployment = harness.deploy(lambda: made.append(build(component)), computed=COMPUTED, calls=CALLS)
    return Built(made[0], deployment)


@cache
def beside_another(component: type[Component]) -> dict[str, Row]:
    """Return the resources by name: "first", then "one" inside of "outer" with options of its own, which waits for
    "first", and another component, "two", at the top."""
    options: dict[str, Any] = {
        "aliases": [pulumi.Alias(name="old")],
        "ignore_changes": ["zones"],
        "custom_timeouts": pulumi.CustomTimeouts(create="7m"),
    }

    def program() -> None:
        first = pulumi.CustomResource("test:index:First", "first")
        build(component, "one", parent=Outer("outer"), depends_on=[first], **options)
        build(component, "two")

    rows = harness.deploy(program, computed=COMPUTED, calls=CALLS).rows
    assert len({row.name for row in rows}) == len(rows)
    return {row.name: row for row in rows}


def children(rows: Mapping[str, Row], name: str) -> list[Row]:
    """Return the resources of the component of this name."""
    return [row for row in rows.values() if row.name.startswith(f"{name}-")]


def test_their_tokens_name_the_package_the_cloud_and_the_class() -> None:
    for component in COMPONENTS.values():
        package, cloud = component.__module__.split(".")[:2]
        # A kind of pool has a folder of its own, in this package or in another one.
        cloud = component.TYPE.split(":")[1] if issubclass(component.ARGS, PoolArgs) or package != "gpu_ci" else cloud
        assert f"gpu-ci:{cloud}:{component.__name__}" == component.TYPE


@every_component
def test_it_can_be_built_twice_and_its_children_are_named_after_it(component: type[Component]) -> None:
    rows = beside_another(component)
    assert rows["one"].type == rows["two"].type == component.TYPE
    assert (rows["one"].parent_name, rows["two"].parent_name) == ("outer", "project-stack")
    named = [row.name for name in ("one", "two") for row in (rows[name], *children(rows, name))]
    assert sorted(named) == sorted(rows.keys() - {"first", "outer"})
    assert len(children(rows, "one")) == len(children(rows, "two")) > 0


@every_component
def test_its_children_are_parented_to_it_inside_another_component_and_outside(component: type[Component]) -> None:
    rows = beside_another(component)
    for name in ("one", "two"):
        made = children(rows, name)
        # Its own, or those of a part of it that is a component too.
        parts = {child.urn for child in made if child.type in COMPONENTS}
        assert rows[name].urn in {child.parent for child in made} <= {rows[name].urn, *parts}


@every_component
def test_the_callers_options_stay_with_it(component: type[Component]) -> None:
    """Pulumi itself hands `protect` down; what is only the component's own must not reach its children."""
    rows = beside_another(component)
    assert list(rows["one"].request.ignoreChanges) == ["zones"]
    for child in children(rows, "one"):
        assert "zones" not in child.request.ignoreChanges, child.name
        assert child.request.customTimeouts.create != "7m", child.name
        assert "old" not in [alias.spec.name for alias in child.request.aliases], child.name


@every_component
def test_all_that_it_makes_waits_for_what_it_is_to_wait_for_and_no_component_does(component: type[Component]) -> None:
    """Pulumi has a component wait by itself, without its children: a gate would hold nothing. And one that the engine
    leaves out, as what it waits for failed, ends the program."""
    rows = beside_another(component)
    first, made = rows["first"].urn, children(rows, "one")
    waiting = [child for child in made if child.request.custom]
    assert waiting
    assert [child.name for child in waiting if first not in child.request.dependencies] == []
    components = [rows["one"], *(child for child in made if not child.request.custom)]
    assert [one.name for one in components if first in one.request.dependencies] == []


@every_component
def test_it_registers_exactly_the_outputs_it_annotates_and_has_them(component: type[Component]) -> None:
    built = alone(component)
    registered = built.deployment.outputs[built.deployment.rows[0].urn]
    assert sorted(registered) == sorted(to_camel(name) for name in component.output_names())
    assert [name for name, value in registered.items() if value is None] == []
    on_the_object = {name: getattr(built.component, name) for name in component.output_names()}
    assert [name for name, value in on_the_object.items() if not isinstance(value, pulumi.Output)] == []


@every_component
def test_everything_that_takes_labels_has_them(component: type[Component]) -> None:
    _, *made = alone(component).deployment.rows
    assert {child.type for child in made} <= set(LABELLED), "say in LABELLED whether the new type takes labels"
    for child in made:
        if place := LABELLED[child.type]:
            # The rights of a manager on AWS depend on a tag of its role.
            found = {name: value for name, value in _at(child, place).items() if name != "gpu-ci:manager"}
            assert found == {"gpu-ci-pool": "pool", "team": "ml"}, child.name


@every_component
def test_transform_reaches_each_of_its_resources_but_the_check_of_the_gpus(component: type[Component]) -> None:
    plain = [row for row in alone(component).deployment.rows if row.request.custom]
    changeable = [row for row in plain if not row.type.startswith("gpu-ci:") and row.name not in FIXED]
    transform = {row.name.removeprefix("pool-"): lambda args, opts: (args, opts) for row in changeable}
    made = harness.deploy(lambda: build(component, transform=transform), computed=COMPUTED, calls=CALLS).rows
    same = [
        {row.urn: (row.inputs, set(row.request.dependencies)) for row in rows if row.request.custom}
        for rows in (plain, made)
    ]
    assert same[0] == same[1]
    assert list(component.ARGS.model_fields)[-1] == "transform"


def test_their_docstrings_say_what_they_create_cost_leave_and_replace() -> None:
    headings = ("Creates:", "Costs:", "Does not:", "Replaces on change of:")
    missing = {
        token: [heading for heading in headings if heading not in (component.__doc__ or "")]
        for token, component in COMPONENTS.items()
    }
    assert {token: headings for token, headings in missing.items() if headings} == {}


def test_their_wiring_names_fields_they_have() -> None:
    unknown = {token: each.ARGS.WIRING - set(each.ARGS.model_fields) for token, each in COMPONENTS.items()}
    assert {token: names for token, names in unknown.items() if names} == {}


def test_their_examples_are_all_a_stack_file_needs() -> None:
    problems = {token: each.ARGS.choice_problems(each.EXAMPLE) for token, each in COMPONENTS.items()}
    assert {token: wrong for token, wrong in problems.items() if wrong} == {}


def _at(row: Row, place: tuple[str, ...]) -> Any:
    value: Any = row.inputs
    for step in place:
        value = value[step]
    return value
