"""Lists every resource type of each rule, so that a type cannot be removed from a table unnoticed."""

from __future__ import annotations

from typing import Any

import pytest

from .support import found, pod

PLAIN = {"containers": [{"name": "a", "image": "x:1", "resources": {"requests": {"amd.com/gpu": 1}}}]}
TEMPLATE = {"spec": {"template": {"spec": PLAIN}}}

BAD: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    # rule -> settings, properties, types
    "no-public-ip": (
        {},
        {
            "networkInterfaces": [{"accessConfigs": [{}], "associatePublicIpAddress": True}],
            "associatePublicIpAddress": True,
            "mapPublicIpOnLaunch": True,
        },
        [
            "aws:ec2/defaultSubnet:DefaultSubnet",
            "aws:ec2/instance:Instance",
            "aws:ec2/launchConfiguration:LaunchConfiguration",
            "aws:ec2/launchTemplate:LaunchTemplate",
            "aws:ec2/subnet:Subnet",
            "gcp:compute/instance:Instance",
            "gcp:compute/instanceFromTemplate:InstanceFromTemplate",
            "gcp:compute/instanceTemplate:InstanceTemplate",
            "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate",
        ],
    ),
    "imds-v2": (
        {},
        {},
        [
            "aws:ec2/instance:Instance",
            "aws:ec2/launchConfiguration:LaunchConfiguration",
            "aws:ec2/launchTemplate:LaunchTemplate",
        ],
    ),
    "encrypted-disks": (
        {},
        {"blockDeviceMappings": [{"ebs": {}}], "rootBlockDevice": {}, "ebsBlockDevices": [{}]},
        [
            "aws:ebs/volume:Volume",
            "aws:ec2/instance:Instance",
            "aws:ec2/launchConfiguration:LaunchConfiguration",
            "aws:ec2/launchTemplate:LaunchTemplate",
        ],
    ),
    "own-keys": (
        {"required": True},
        {"blockDeviceMappings": [{"ebs": {}}], "rootBlockDevice": {}, "disks": [{}]},
        [
            "aws:ebs/volume:Volume",
            "aws:ec2/instance:Instance",
            "aws:ecr/repository:Repository",
            "gcp:artifactregistry/repository:Repository",
            "gcp:compute/disk:Disk",
            "gcp:compute/instanceTemplate:InstanceTemplate",
            "gcp:storage/bucket:Bucket",
        ],
    ),
    "ephemeral-runners": (
        {},
        {"spec": {"ephemeral": False, "template": {"spec": {"ephemeral": False}}}},
        [
            "kubernetes:actions.summerwind.dev/v1alpha1:Runner",
            "kubernetes:actions.summerwind.dev/v1alpha1:RunnerDeployment",
            "kubernetes:actions.summerwind.dev/v1alpha1:RunnerSet",
        ],
    ),
    "no-github-token": (
        {},
        {"data": {"github_token": "x"}, "values": {"githubConfigSecret": {"github_token": "x"}}},
        ["kubernetes:core/v1:Secret", "kubernetes:helm.sh/v3:Release", "kubernetes:helm.sh/v4:Chart"],
    ),
    "pinned-images": (
        {},
        {**PLAIN, "spec": {**PLAIN, **TEMPLATE["spec"], "jobTemplate": TEMPLATE}},
        [
            "kubernetes:actions.github.com/v1alpha1:AutoscalingRunnerSet",
            "kubernetes:batch/v1:CronJob",
            "kubernetes:batch/v1:Job",
            "kubernetes:core/v1:Pod",
        ],
    ),
    "gpu-request-is-limit": (
        {},
        {**PLAIN, "spec": {**PLAIN, **TEMPLATE["spec"], "jobTemplate": TEMPLATE}},
        [
            "kubernetes:actions.github.com/v1alpha1:AutoscalingRunnerSet",
            "kubernetes:apps/v1:DaemonSet",
            "kubernetes:apps/v1:Deployment",
            "kubernetes:apps/v1:ReplicaSet",
            "kubernetes:apps/v1:StatefulSet",
            "kubernetes:batch/v1:CronJob",
            "kubernetes:batch/v1:Job",
            "kubernetes:core/v1:Pod",
        ],
    ),
}


def test_a_rule_checks_each_type_it_is_for_and_no_other() -> None:
    passed = {
        rule: kinds_without
        for rule, (settings, props, kinds) in BAD.items()
        if (kinds_without := [kind for kind in kinds if not found(rule, kind, props, **settings)])
    }
    assert passed == {}
    others = {
        rule: found(rule, "kubernetes:core/v1:ConfigMap", props, **given) for rule, (given, props, _) in BAD.items()
    }
    assert {rule: violations for rule, violations in others.items() if violations} == {}


@pytest.mark.parametrize("kind", ["kubernetes:helm.sh/v3:Release", "kubernetes:helm.sh/v4:Chart"])
@pytest.mark.parametrize("rule", ["pinned-images", "gpu-request-is-limit"])
def test_a_chart_is_looked_into_where_it_is_that_of_a_scale_set(rule: str, kind: str) -> None:
    values = {"template": {"spec": PLAIN}}
    assert found(rule, kind, {"chart": "gha-runner-scale-set", "values": values})
    assert found(rule, kind, {"chart": "another", "values": values, **pod()}) == []
