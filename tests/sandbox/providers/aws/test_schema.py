"""The check against Amazon's own schemas: what it finds, in which words, and exactly what it cannot see."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from pulumi_sandbox.providers.values import UNKNOWN

from tests.sandbox.providers.aws.conftest import Amazon


def test_the_schemas_are_read_without_importing_the_packages_that_hold_them() -> None:
    code = (
        "import sys; from pulumi_sandbox.providers.aws import schema as s; "
        "list(s.check('aws:eks/nodeGroup:NodeGroup', {'amiType': 'x'}, 'us-east-1')); "
        "print(sorted(sys.modules.keys() & {'cfnlint', 'botocore', 'sympy', 'networkx'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


WRONG_GROUPS: dict[str, tuple[dict[str, Any], str]] = {
    "a taint as Kubernetes writes it": (
        {"taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]},
        (
            'taints[0].effect: expected effect to be one of ["NO_EXECUTE" "NO_SCHEDULE" "PREFER_NO_SCHEDULE"], got '
            "NoSchedule\n  hint: did you mean NO_SCHEDULE?"
        ),
    ),
    "no machine at most": (
        {"scalingConfig": {"minSize": 0, "desiredSize": 0, "maxSize": 0}},
        "scalingConfig.maxSize: maxSize is less than the minimum of 1 (minimum: 1)",
    ),
}


@pytest.mark.parametrize(("changes", "expected"), WRONG_GROUPS.values(), ids=WRONG_GROUPS)
def test_a_node_group_is_held_to_cloudformation(amazon: Amazon, changes: dict[str, Any], expected: str) -> None:
    assert amazon.node_group(**changes) == [expected]


def test_an_unknown_ami_type_is_refused_with_the_nearest(amazon: Amazon) -> None:
    (problem,) = amazon.node_group(amiType="AL2023_x86_64_NVIDA")
    assert problem.startswith('amiType: expected amiType to be one of ["AL2023_ARM_64_NVIDIA" ')
    assert problem.endswith(
        '"WINDOWS_FULL_2025_x86_64"], got AL2023_x86_64_NVIDA\n  hint: did you mean AL2023_x86_64_NVIDIA?'
    )


def test_what_a_preview_does_not_know_is_not_held_against_it(amazon: Amazon) -> None:
    unknown = dict.fromkeys(("amiType", "instanceTypes", "labels", "taints", "scalingConfig", "subnetIds"), UNKNOWN)
    assert amazon.node_group(**unknown) == []
    assert amazon.template(blockDeviceMappings=UNKNOWN, metadataOptions={"httpTokens": UNKNOWN}) == []


def test_a_tag_may_have_any_name_and_one_of_a_scaling_group_has_its_parts(amazon: Amazon) -> None:
    assert amazon.node_group(tags={"Key": "a", "value": "b"}) == amazon.template(tags={"key": "a"}) == []
    tag = {"key": "k" * 129, "value": "v", "propagateAtLaunch": True}
    assert amazon.problems("aws:autoscaling/tag:Tag", {"autoscalingGroupName": "g", "tag": tag}) == [
        "tag.key: key is too long (maxLength: 128)"
    ]
