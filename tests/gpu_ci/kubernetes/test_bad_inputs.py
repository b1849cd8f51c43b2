"""One mistake in a component of a cluster is one problem: at its path, with its cause and its way out."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_ci.component import Component
from gpu_ci.kubernetes.arc_controller import ArcController
from gpu_ci.kubernetes.device_plugin import DevicePlugin
from gpu_ci.kubernetes.gpu_namespace import GpuNamespace

FORM = "has a form that is not accepted"
UNKNOWN = "unknown key"
NO_NAMESPACE = "use a namespace for this purpose only, such as gpu-ci"
SLICES = {"kind": "time-slicing", "replicas": 4}


@pytest.mark.parametrize(
    ("component", "changes", "path", "text", "hint"),
    [
        (GpuNamespace, {"gpus": None}, "gpus", "is missing", "such as gpus: 4"),
        (GpuNamespace, {"gpus": 0}, "gpus", "must be at least 1", "such as gpus: 4"),
        (GpuNamespace, {"namespace": "kube-system"}, "namespace", "is a namespace of Kubernetes itself", NO_NAMESPACE),
        (GpuNamespace, {"namespace": "default"}, "namespace", "is a namespace of Kubernetes itself", NO_NAMESPACE),
        (GpuNamespace, {"namespace": "GPU"}, "namespace", FORM, "such as namespace: gpu-ci"),
        (
            GpuNamespace,
            {"namespace": "g" * 64},
            "namespace",
            "must have at most 63 characters",
            "such as namespace: gpu-ci",
        ),
        (
            GpuNamespace,
            {"podSecurity": "strict"},
            "podSecurity",
            "must be one of 'restricted', 'baseline' or 'privileged'",
            "",
        ),
        (GpuNamespace, {"egressPorts": []}, "egressPorts", "needs at least one", "such as egressPorts: [443]"),
        (GpuNamespace, {"egressPorts": [443, 70000]}, "egressPorts[1]", "must be at most 65535", ""),
        (GpuNamespace, {"egressPorts": [443, 443]}, "egressPorts[1]", "is a duplicate", "remove it"),
        (
            GpuNamespace,
            {"privateRanges": ["10.20.0.1/16"]},
            "privateRanges[0]",
            "is not a range of addresses, or does not start at its first address",
            "10.20.0.0/16",
        ),
        *(
            (
                GpuNamespace,
                {"privateRanges": [each]},
                "privateRanges[0]",
                "is not an address followed by / and the length of the prefix",
                "10.20.0.0/16",
            )
            for each in ("10.20.0.7", "10.20.0.0/255.255.0.0", "fd12::%eth0/128")
        ),
        (
            GpuNamespace,
            {"privateRanges": ["10.0.0.0/8", "169.254.169.254/32"]},
            "privateRanges[1]",
            "contains addresses that give the machine's credentials",
            "use a range without these addresses",
        ),
        (
            GpuNamespace,
            {"privateRanges": ["fd00::/8"]},
            "privateRanges[0]",
            "contains addresses that give the machine's credentials",
            "use a range without these addresses",
        ),
        (
            GpuNamespace,
            {"privateRanges": ["140.82.112.0/20"]},
            "privateRanges[0]",
            "is not in a private address range",
            "remove it: pods already reach public addresses",
        ),
        (GpuNamespace, {"gpuResource": "amd.com/gpu"}, "gpuResource", FORM, "such as gpuResource: nvidia.com/gpu"),
        (GpuNamespace, {"memory": 64}, "memory", "unknown key", "did you mean memoryGib"),
        (
            DevicePlugin,
            {"deviceListStrategy": "cdi"},
            "deviceListStrategy",
            "must be one of 'volume-mounts', 'cdi-cri' or 'envvar'",
            "",
        ),
        (
            DevicePlugin,
            {"sharing": {"kind": "mps", "replicas": 1}},
            "sharing.replicas",
            "must be at least 2",
            "such as replicas: 4",
        ),
        (DevicePlugin, {"sharing": {"kind": "time-slicing"}}, "sharing.replicas", "is missing", "such as replicas: 4"),
        (
            DevicePlugin,
            {"sharing": {"kind": "mps", "replicas": 2, "strategy": "single"}},
            "sharing.strategy",
            UNKNOWN,
            "remove it",
        ),
        (
            DevicePlugin,
            {"sharing": {"kind": "mig", "strategy": "single", "replicas": 2}},
            "sharing.replicas",
            UNKNOWN,
            "remove it",
        ),
        (
            DevicePlugin,
            {"sharing": {"kind": "timeslicing"}},
            "sharing.kind",
            "is not one of the choices",
            "did you mean time-slicing",
        ),
        (DevicePlugin, {"sharing": {"replicas": 2}}, "sharing.kind", "is missing", "such as none"),
        (
            DevicePlugin,
            {"configs": {"default": SLICES}},
            "configs.default",
            "is the name of the default configuration",
            "use another name, or set it under sharing",
        ),
        (DevicePlugin, {"configs": {"a b": SLICES}}, 'configs["a b"]', FORM, ""),
        (DevicePlugin, {"builtInPools": ["a", "a"]}, "builtInPools[1]", "is a duplicate", "remove it"),
        (DevicePlugin, {"version": "0.17.0"}, "version", "cannot be set", "remove it: the package sets the version"),
        (ArcController, {"replicas": 0}, "replicas", "must be at least 1", ""),
        (ArcController, {"metrics": "yes"}, "metrics", "must be true or false", ""),
        (ArcController, {"logLevel": "trace"}, "logLevel", "must be one of 'debug', 'info', 'warn' or 'error'", ""),
        (
            ArcController,
            {"tolerations": []},
            "tolerations",
            "cannot be set",
            "remove it: the controller does not run on GPU nodes",
        ),
    ],
)
def test_one_mistake_is_one_problem_at_its_path(
    component: type[Component], changes: dict[str, Any], path: str, text: str, hint: str
) -> None:
    choices = {key: value for key, value in {**component.EXAMPLE, **changes}.items() if value is not None}
    [found] = component.ARGS.choice_problems(choices)
    assert (found.path, found.text, found.hint) == (path, text, hint)
