"""The values of the device plugin's chart."""

from __future__ import annotations

import json
from typing import Any

import pytest
from gpu_ci.kubernetes.device_plugin import DevicePlugin

from tests.gpu_ci.kubernetes.clusters import build, values

NONE = {"flags": {"migStrategy": "none"}}
TOLERATION = {"key": "nvidia.com/gpu", "operator": "Equal", "value": "present", "effect": "NoSchedule"}


def test_the_release_is_the_pinned_chart_in_a_namespace_of_its_own() -> None:
    made = build(DevicePlugin, "nvdp")
    release = made.one(":Release")
    assert {key: value for key, value in release.inputs.items() if key != "values"} == {
        "name": "nvdp",
        "namespace": "nvidia-device-plugin",
        "chart": "nvidia-device-plugin",
        "repositoryOpts": {"repo": "https://nvidia.github.io/k8s-device-plugin"},
        "version": "0.20.0",
        "compat": "true",
    }
    assert release.request.deleteBeforeReplace is True
    assert made.one(":Namespace").inputs["metadata"] == {
        "name": "nvidia-device-plugin",
        "labels": {"pod-security.kubernetes.io/enforce": "privileged"},
    }
    assert made.outputs[made.rows[0].urn] == {"namespace": "nvidia-device-plugin", "version": "0.20.0"}


def test_its_values_are_these_and_no_others() -> None:
    found = values(build(DevicePlugin, "nvdp"))
    configs = {key: json.loads(text) for key, text in found.pop("config")["map"].items()}
    shared = {"renameByDefault": True, "failRequestsGreaterThanOne": True}
    gpus = [{"name": "nvidia.com/gpu", "replicas": 4}]
    assert configs == {
        "default": {"version": "v1", **NONE},
        "four-tests-a-gpu": {"version": "v1", **NONE, "sharing": {"timeSlicing": {**shared, "resources": gpus}}},
    }
    assert found == {
        "deviceListStrategy": "volume-mounts",
        "failOnInitError": True,
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [
                                {"key": "nvidia.com/gpu.present", "operator": "In", "values": ["true"]},
                                {"key": "gpu-ci-pool", "operator": "NotIn", "values": ["bottlerocket-l4"]},
                            ]
                        }
                    ]
                }
            }
        },
        "tolerations": [TOLERATION],
        "priorityClassName": "system-node-critical",
        "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}},
    }


@pytest.mark.parametrize(
    ("sharing", "expected"),
    [
        ({"kind": "none"}, NONE),
        (
            {"kind": "time-slicing", "replicas": 2, "renameByDefault": False, "failRequestsGreaterThanOne": False},
            NONE
            | {
                "sharing": {
                    "timeSlicing": {
                        "renameByDefault": False,
                        "failRequestsGreaterThanOne": False,
                        "resources": [{"name": "nvidia.com/gpu", "replicas": 2}],
                    }
                }
            },
        ),
        (
            {"kind": "mps", "replicas": 8},
            NONE
            | {"sharing": {"mps": {"renameByDefault": True, "resources": [{"name": "nvidia.com/gpu", "replicas": 8}]}}},
        ),
        ({"kind": "mig", "strategy": "mixed"}, {"flags": {"migStrategy": "mixed"}}),
    ],
    ids=["none", "time-slicing", "mps", "mig"],
)
def test_each_way_to_share_is_the_plugins_own_configuration(sharing: dict[str, Any], expected: Any) -> None:
    config = values(build(DevicePlugin, "nvdp", sharing=sharing, configs={}))["config"]
    assert config["default"] == "default"
    assert {key: json.loads(text) for key, text in config["map"].items()} == {"default": {"version": "v1", **expected}}


@pytest.mark.parametrize(("strategy", "root"), [("volume-mounts", None), ("envvar", None), ("cdi-cri", "/")])
def test_the_drivers_files_are_mounted_only_to_write_a_cdi_specification(strategy: str, root: str | None) -> None:
    found = values(build(DevicePlugin, "nvdp", deviceListStrategy=strategy))
    assert found["deviceListStrategy"] == strategy
    assert found.get("nvidiaDriverRoot") == root


def test_no_mig_strategy_stands_beside_the_configurations() -> None:
    """With one, the chart would take CAP_SYS_ADMIN away, and the plugin sees no GPU on nodes that hide them."""
    assert "migStrategy" not in values(build(DevicePlugin, "nvdp"))
