"""NVIDIA's device plugin: what makes a node's GPUs something that pods can ask for."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import pulumi
import pulumi_kubernetes as kubernetes
from pydantic import Field

from .. import versions
from ..args import Args, Integer
from ..component import Component
from ..errors import at_path, invalid, raise_problems, whole_value
from . import gpu_nodes
from .gpu_sharing import Sharing, WholeGpus, as_text
from .name_types import EachOnce, Name, NamespaceName, Pool

_DEFAULT = "default"
# Keys of a ConfigMap and values of a label at once, so the narrower of both.
ConfigName = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$", max_length=63)]


def _default_once(value: dict[str, Any]) -> dict[str, Any]:
    if _DEFAULT in value:
        error = invalid("is what sharing already is", safe_hint="give it another name, or write it under sharing")
        raise_problems([at_path(error, value[_DEFAULT], _DEFAULT)])
    return value


class DevicePluginArgs(Args):
    """What the plugin does on which nodes."""

    DECIDED: ClassVar[dict[str, str]] = {
        "version": "it is the package's",
        "tolerations": "the plugin tolerates the taint of GPU nodes",
        "affinity": "the plugin runs on nodes with the label nvidia.com/gpu.present=true",
    }

    # On nodes that are not ready for it volume-mounts gives no GPU to anybody. The others give too many
    # (docs/how-it-works/gpu-isolation.md).
    device_list_strategy: Literal["volume-mounts", "cdi-cri", "envvar"] = Field(
        default="volume-mounts",
        description="how a node is told the GPUs of a container, which depends on its toolkit's settings "
        "accept-nvidia-visible-devices-…: volume-mounts (where as-volume-mounts is true, as on nodes of a "
        "GpuNodeGroup), cdi-cri (where envvar-when-unprivileged is false, and containerd has CDI on) or envvar (where "
        "both are as the toolkit has them)",
    )
    namespace: NamespaceName = Field(
        default="nvidia-device-plugin", description="the namespace that is made for it, and for nothing else"
    )
    sharing: Sharing = Field(
        default=WholeGpus(kind="none"),
        description="how the GPUs of nodes are given out that name no configuration",
    )
    configs: Annotated[dict[ConfigName, Sharing], whole_value(_default_once)] = Field(
        default={},
        description="other ways by name, for the nodes with the label nvidia.com/device-plugin.config=<name>",
    )
    built_in_pools: Annotated[list[Pool], EachOnce] = Field(
        default=[],
        description="pools whose nodes bring a device plugin of their own, such as those of Bottlerocket; there it is "
        "not placed",
    )
    priority_class: Name = Field(
        default="system-node-critical", description="priority class of its pods; a node without them has no GPUs"
    )
    cpu_milli: Integer = Field(default=50, ge=1, le=4000, description="CPU each of them asks for, in thousandths")
    memory_mib: Integer = Field(default=128, ge=16, le=4096, description="memory each of them asks for, in MiB")


class DevicePlugin(Component):
    """NVIDIA's device plugin on the GPU nodes of a cluster, with a configuration for each way to share GPUs.

    Creates: a namespace that lets pods mount the node's folders, and the Helm release of the plugin.
    Costs: nothing beyond what its pods take of each GPU node.
    Does not: install drivers or the container toolkit, divide GPUs for MIG, or label nodes. It cannot keep GPUs from
    containers that never asked for one: an image with NVIDIA_VISIBLE_DEVICES=all gets every GPU of its node, whatever
    deviceListStrategy says, unless the node's /etc/nvidia-container-runtime/config.toml has
    accept-nvidia-visible-devices-envvar-when-unprivileged = false, as nodes of a GpuNodeGroup have. Privileged
    containers see every GPU even then.
    Nodes of Bottlerocket and of EKS Auto Mode have a plugin already, and two of them on a node would both hand out its
    GPUs.
    Replaces on change of: the release and its namespace for namespace, with no GPUs for new pods in between. All else
    is updated in place, and running containers keep their GPUs.
    """

    TYPE: ClassVar[str] = "gpu-ci:kubernetes:DevicePlugin"
    ARGS: ClassVar[type[Args]] = DevicePluginArgs
    EXAMPLE: ClassVar[dict[str, Any]] = {
        "configs": {"four-tests-a-gpu": {"kind": "time-slicing", "replicas": 4}},
        "builtInPools": ["bottlerocket-l4"],
    }

    namespace: pulumi.Output[str]
    """The namespace it runs in."""
    version: pulumi.Output[str]
    """The version of the chart, and of the plugin in it; known once it runs."""

    def __init__(self, name: str, args: DevicePluginArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
        made = kubernetes.core.v1.Namespace(
            f"{name}-namespace",
            metadata={
                "name": args.namespace,
                # It mounts the kubelet's folder of sockets, which `baseline` refuses.
                "labels": {"pod-security.kubernetes.io/enforce": "privileged"},
            },
            opts=self.child(),
        )
        release = kubernetes.helm.v3.Release(
            f"{name}-release",
            name=name,
            namespace=made.metadata.name,
            chart="nvidia-device-plugin",
            repository_opts={"repo": "https://nvidia.github.io/k8s-device-plugin"},
            version=versions.DEVICE_PLUGIN_CHART,
            values=_values(args),
            # Its cluster role is named after the release alone, so that two of them cannot be at once.
            opts=self.child(delete_before_replace=True),
        )
        self.namespace = made.metadata.name
        self.version = release.id.apply(lambda _: versions.DEVICE_PLUGIN_CHART)
        self.register()


def _values(args: DevicePluginArgs) -> dict[str, Any]:
    """The chart's values; where they leave nothing out, its own defaults do not matter."""
    configs = {_DEFAULT: args.sharing, **args.configs}
    without = {"key": gpu_nodes.POOL_LABEL, "operator": "NotIn", "values": args.built_in_pools}
    return {
        # With named configurations and no migStrategy beside them, the chart gives the plugin CAP_SYS_ADMIN
        # (_helpers.tpl, requiresCapSysAdmin). By that the toolkit tells who may see all GPUs where not every container
        # may (NVIDIA/nvidia-container-toolkit@d34b304: internal/config/image/privileged.go); without it the plugin
        # crashes on such nodes, as those of EKS have been from April 2026 (awslabs/amazon-eks-ami#2706).
        "config": {"map": {key: as_text(each) for key, each in configs.items()}, "default": _DEFAULT},
        "deviceListStrategy": args.device_list_strategy,
        # The plugin writes the CDI specification itself, from the driver's files on the node (docs/cdi.md).
        **({"nvidiaDriverRoot": "/"} if args.device_list_strategy == "cdi-cri" else {}),
        # A GPU node on which the plugin finds no GPU is broken, and its pod's crash tells so.
        "failOnInitError": True,
        "affinity": gpu_nodes.required(gpu_nodes.on_gpu_nodes(), *([without] if args.built_in_pools else [])),
        "tolerations": [gpu_nodes.toleration()],
        "priorityClassName": args.priority_class,
        "resources": {"requests": {"cpu": f"{args.cpu_milli}m", "memory": f"{args.memory_mib}Mi"}},
    }
