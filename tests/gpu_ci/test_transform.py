"""Tests of `transform`: what it changes, what it must not change, and the messages about wrong roles and properties."""

from __future__ import annotations

import copy
from typing import Any, cast

import pulumi
import pytest
import yaml
from gpu_ci.aws.eks_runner_pool import EksRunnerPool
from gpu_ci.component import Component
from gpu_ci.errors import ArgsError
from gpu_ci.gcp.gke_gpu_node_pool import GkeGpuNodePool
from gpu_ci.gcp.runner_pool import RunnerPool
from gpu_ci.kubernetes.runner_scale_set import RunnerScaleSet
from gpu_ci.kubernetes.smoke_job import SmokeJob

from tests.gpu_ci.harness import Deployment, Row, deploy
from tests.gpu_ci.program.stack import L4, ON_CLUSTER, SUBNETWORK, config
from tests.gpu_ci.program.test_program import run
from tests.gpu_ci.support import CALLS, COMPUTED, build
from tests.test_docs import ROOT, fences


def made(component: type[Component], **transform: Any) -> Deployment:
    """Deploy the example of a component with this `transform`."""
    return deploy(lambda: build(component, transform=transform), computed=COMPUTED, calls=CALLS)


def one(component: type[Component], role: str, change: Any) -> Row:
    """Return the resource of this role after a change."""
    [row] = [row for row in made(component, **{role: change}).rows if row.name == f"pool-{role}"]
    return row


def refused(component: type[Component], **transform: Any) -> str:
    with pytest.raises(ArgsError) as error:
        made(component, **transform)
    return str(error.value)


def test_a_map_is_merged_at_every_depth_with_the_names_of_the_sdk_or_of_a_stack_file() -> None:
    change = {
        "description": "for speech",
        "advanced_machine_features": {"threads_per_core": 1},
        "scheduling": {"hostErrorTimeoutSeconds": 90},
        "labels": {"team": "speech"},
        "disks": [],
    }
    row = one(RunnerPool, "template", change)
    before = one(RunnerPool, "template", {}).inputs
    assert row.inputs == before | {
        "description": "for speech",
        "advancedMachineFeatures": {"threadsPerCore": 1},
        "scheduling": before["scheduling"] | {"hostErrorTimeoutSeconds": 90},
        "labels": {"gpu-ci-pool": "pool", "team": "speech"},
        "disks": [],
    }
    camel = one(RunnerPool, "template", {"machineType": "g2-standard-12", "scheduling": {"onHostMaintenance": "X"}})
    assert (camel.inputs["machineType"], camel.inputs["scheduling"]["onHostMaintenance"]) == ("g2-standard-12", "X")


def test_a_function_changes_properties_and_options() -> None:
    def protected(args: dict[str, Any], opts: pulumi.ResourceOptions) -> Any:
        args["disks"][0]["labels"] = {"team": "speech"}
        opts.protect = True
        return args, opts

    row = one(RunnerPool, "template", protected)
    assert row.request.protect
    assert row.inputs["disks"][0]["labels"] == {"team": "speech"}


def test_the_examples_of_the_page_change_what_they_say() -> None:
    entry, program, chart = (text for _, text in fences(ROOT / "docs/guides/transform.md"))
    [pool] = yaml.safe_load(entry)["config"]["gpu-ci:pools"].values()
    template = made(RunnerPool, **pool["transform"]).one("Template").inputs
    assert template["advancedMachineFeatures"] == {"threadsPerCore": 1}
    template = deploy(lambda: exec(program, {}), computed=COMPUTED).one("Template").inputs  # noqa: S102 - our own page
    assert template["disks"][0]["diskEncryptionKey"]["kmsKeySelfLink"].endswith("/cryptoKeys/gpu")
    release = made(EksRunnerPool, **yaml.safe_load(chart)["transform"]).one("Release").inputs
    assert release["values"]["template"]["metadata"]["annotations"]["team"] == "speech"


def test_a_stack_file_reaches_the_resources_of_pools_and_of_the_components_on_a_cluster() -> None:
    change = {"release": {"values": {"podAnnotations": {"team": "speech"}}}}
    stack = config(
        {
            "l4": {**L4, "transform": {"template": {"description": "for speech"}}},
            "t4": {"kind": "eks-runners", **EksRunnerPool.EXAMPLE},
        },
        **copy.deepcopy(ON_CLUSTER),
    )
    stack["gpu-ci:site"]["subnetworks"] = {"us-central1": SUBNETWORK}
    stack["gpu-ci:clusters"]["ci"] |= {"devicePlugin": {"transform": change}, "controller": {"transform": change}}
    rows = {row.name: row.inputs for row in run(stack).rows}
    assert rows["l4-template"]["description"] == "for speech"
    found = {name for name, inputs in rows.items() if "podAnnotations" in inputs.get("values", {})}
    assert found == {"ci-arc-release", "ci-plugin-release"}


def test_a_pool_reaches_the_resources_of_its_parts() -> None:
    row = one(EksRunnerPool, "nodes-template", {"ebs_optimized": "true"})
    assert (row.parent_name, row.inputs["ebsOptimized"]) == ("pool-nodes", "true")
    release = one(EksRunnerPool, "runners-release", {"values": {"template": {"spec": {"hostNetwork": True}}}})
    spec = release.inputs["values"]["template"]["spec"]
    assert spec["hostNetwork"]
    assert spec["containers"]


def test_the_gate_checks_the_changed_template_and_the_group_gets_what_the_gate_checked() -> None:
    """The test of the engine in test_pool_life.py shows that a template which fails so reaches no group."""
    deployment = made(RunnerPool, template={"machine_type": "g2-standard-12"})
    template, gate, group = (deployment.one(name) for name in ("Template", "SmokeGate", "GroupManager"))
    assert template.inputs["machineType"] == "g2-standard-12"
    assert list(gate.request.propertyDependencies["template"].urns) == [template.urn]
    assert gate.urn in group.request.propertyDependencies["versions"].urns


def in_place(args: dict[str, Any], opts: pulumi.ResourceOptions) -> Any:
    args["versions"][0]["instance_template"] = "other"
    return args, opts


def other_version(args: dict[str, Any], opts: pulumi.ResourceOptions) -> Any:
    args["launch_template"].version = "3"
    return args, opts


def other_image(args: dict[str, Any], opts: pulumi.ResourceOptions) -> Any:
    args["node_config"]["imageType"] = "UBUNTU_CONTAINERD"
    return args, opts


@pytest.mark.parametrize(
    ("component", "role", "change", "place"),
    [
        (GkeGpuNodePool, "nodes", other_image, "nodes.node_config.image_type"),
        (EksRunnerPool, "nodes-nodes", other_version, "nodes-nodes.launch_template"),
        (EksRunnerPool, "nodes-nodes", {"instanceTypes": ["g6.2xlarge"]}, "nodes-nodes.instance_types"),
        (RunnerScaleSet, "files", {"data": {"job-pod.json": "{}"}}, "files.data"),
        (RunnerPool, "gate", {"zones": []}, "gate"),
        (RunnerPool, "group", {"versions": []}, "group.versions"),
        (RunnerPool, "group", in_place, "group.versions"),
        (RunnerPool, "group", {"allInstancesConfig": {"metadata": {"a": "b"}}}, "group.all_instances_config"),
        (GkeGpuNodePool, "nodes", {"nodeConfig": {"imageType": "UBUNTU_CONTAINERD"}}, "nodes.node_config.image_type"),
        (EksRunnerPool, "nodes-nodes", {"launch_template": {"version": "1"}}, "nodes-nodes.launch_template"),
        (EksRunnerPool, "nodes-limits", {"maxSize": 9}, "nodes-limits"),
        (EksRunnerPool, "smoke-job", {"metadata": {}}, "smoke-job"),
        (SmokeJob, "check", lambda args, opts: (args, opts), "check"),
        (
            RunnerScaleSet, "release", {"values": {"template": {"spec": {"nodeSelector": {"gpu-ci-pool": "a100"}}}}},
            "release.values.template.spec.nodeSelector",
        ),
    ],
)  # fmt: skip
def test_it_cannot_change_the_check_of_the_gpus_or_what_was_checked(
    component: type[Component], role: str, change: Any, place: str
) -> None:
    text = refused(component, **{role: change})
    assert text.startswith(f"{component.__name__} 'pool': transform.{place}: is ")
    assert "cannot be changed\n  hint: " in text


def test_a_resource_waits_for_the_same_resources_whatever_a_function_returns() -> None:
    row = one(EksRunnerPool, "runners-release", lambda args, opts: (args, pulumi.ResourceOptions(parent=opts.parent)))
    assert any(urn.endswith("::pool-smoke-job") for urn in row.request.dependencies)


def test_an_unknown_role_is_reported_with_the_roles_of_the_component() -> None:
    assert refused(RunnerPool, templat={"labels": {}}) == (
        "RunnerPool 'pool': transform.templat: unknown role of a resource\n"
        "  got: 'templat'\n"
        "  expected: one of account, log-writer, template, group\n"
        "  hint: did you mean template"
    )


@pytest.mark.parametrize(("name", "hint"), [("machineTyp", "machineType"), ("machine_typ", "machine_type")])
def test_an_unknown_property_is_reported_with_the_properties_in_the_same_spelling(name: str, hint: str) -> None:
    text = refused(RunnerPool, template={name: "g2-standard-12"})
    assert text.startswith(f"RunnerPool 'pool': transform.template.{name}: unknown key\n  got: '{name}'\n  expected: ")
    assert text.endswith(f"hint: did you mean {hint}")
    added = refused(RunnerPool, template=lambda args, opts: ({**args, name: 1}, opts))
    assert added == text


def test_wrong_values_are_refused() -> None:
    assert "transform.template: must be a map of properties, or a function" in refused(RunnerPool, template="spot")
    text = refused(RunnerPool, template=lambda args, _: args)
    assert "transform.template: returns a wrong value\n  got: dict\n" in text
    assert text.endswith("hint: such as return args, opts")


def test_what_was_checked_is_fixed_also_in_a_pool_whose_name_is_cut() -> None:
    name = "inference-l4-nightlies-of-staging"
    change = {"nodeConfig": {"imageType": "UBUNTU_CONTAINERD"}}

    def long(transform: dict[str, Any]) -> Deployment:
        return deploy(lambda: build(GkeGpuNodePool, name, transform), computed=COMPUTED, calls=CALLS)

    [row] = [row for row in long({}).rows if row.type.endswith(":NodePool")]
    role = row.name.removeprefix(f"{name}-")
    with pytest.raises(ArgsError, match="image_type: is what the check of the GPUs has checked"):
        long({role: change})


def test_what_a_resource_waits_for_stays_when_a_function_empties_or_replaces_the_options() -> None:
    def empties(args: dict[str, Any], opts: pulumi.ResourceOptions) -> Any:
        cast(list[Any], opts.depends_on).clear()
        return args, opts

    def replaces(args: dict[str, Any], _: pulumi.ResourceOptions) -> Any:
        return args, pulumi.ResourceOptions(protect=True)

    before = one(EksRunnerPool, "runners-release", {}).request
    for change in (empties, replaces):
        row = one(EksRunnerPool, "runners-release", change)
        assert sorted(row.request.dependencies) == sorted(before.dependencies)
        assert row.request.parent == before.parent
    assert row.request.protect
