"""The component DevicePlugin: NVIDIA's device plugin, which makes the GPUs of a node available to pods."""

from __future__ import annotations

import json
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import pulumi
from pydantic import AfterValidator, Field

from .. import versions
from ..args import Args, ComponentArgs, Integer, StrictBool
from ..errors import at_path, invalid, raise_problems
from . import gpu_nodes
from .helm import HelmComponent
from .name_types import EachOnce, Name, NamespaceName, Pool

# "number of replicas must be >= 2" (NVIDIA/k8s-device-plugin, api/config/v1/replicas.go).
Replicas = Annotated[Integer, Field(ge=2, examples=[4])]
_SHARED = "whether the resource is named nvidia.com/gpu.shared, so that no pod gets a part instead of a whole GPU"


class WholeGpus(Args):
    """Each GPU goes to one container at a time."""

    kind: Literal["none"] = Field(description="each GPU goes to one container at a time")

    def configuration(self) -> dict[str, Any]:
        """Return the plugin's configuration."""
        return {"flags": {"migStrategy": "none"}}


class TimeSlicing(Args):
    """Several containers take turns on a GPU. They share its memory without isolation, and a crash affects all."""

    kind: Literal["time-slicing"] = Field(description="containers take turns on a GPU, without isolation")
    replicas: Replicas = Field(description="number of containers that share a GPU, at least 2")
    rename_by_default: StrictBool = Field(default=True, description=_SHARED)
    fail_requests_greater_than_one: StrictBool = Field(
        default=True, description="whether to reject requests for several parts, because they give no more capacity"
    )

    def configuration(self) -> dict[str, Any]:
        shared = {
            "renameByDefault": self.rename_by_default,
            "failRequestsGreaterThanOne": self.fail_requests_greater_than_one,
            "resources": [{"name": gpu_nodes.RESOURCE, "replicas": self.replicas}],
        }
        return {"flags": {"migStrategy": "none"}, "sharing": {"timeSlicing": shared}}


class Mps(Args):
    """Several containers use a GPU at the same time, with equal parts of its memory. NVIDIA calls MPS experimental."""

    kind: Literal["mps"] = Field(
        description="containers use a GPU at the same time, each with an equal part of its memory; NVIDIA calls MPS "
        "experimental. Nodes need the label nvidia.com/mps.capable=true"
    )
    replicas: Replicas = Field(description="number of parts of a GPU, at least 2")
    rename_by_default: StrictBool = Field(default=True, description=_SHARED)

    def configuration(self) -> dict[str, Any]:
        shared = {
            "renameByDefault": self.rename_by_default,
            "resources": [{"name": gpu_nodes.RESOURCE, "replicas": self.replicas}],
        }
        return {"flags": {"migStrategy": "none"}, "sharing": {"mps": shared}}


class Mig(Args):
    """GPUs that are divided in hardware. The creator of a node divides its GPUs."""

    kind: Literal["mig"] = Field(description="GPUs that the creator of the node has divided in hardware")
    strategy: Literal["single", "mixed"] = Field(
        description="single (all partitions alike, advertised as nvidia.com/gpu) or mixed (each by its profile, such "
        "as nvidia.com/mig-1g.10gb)"
    )

    def configuration(self) -> dict[str, Any]:
        return {"flags": {"migStrategy": self.strategy}}


Sharing: TypeAlias = Annotated[WholeGpus | TimeSlicing | Mps | Mig, Field(discriminator="kind")]


def resource_of(sharing: WholeGpus | TimeSlicing | Mps | Mig) -> str:
    """Return the name of the resource that pods request. For MIG's strategy mixed, return the prefix of the names."""
    if isinstance(sharing, Mig) and sharing.strategy == "mixed":
        return "nvidia.com/mig-"
    renamed = isinstance(sharing, TimeSlicing | Mps) and sharing.rename_by_default
    return f"{gpu_nodes.RESOURCE}.shared" if renamed else gpu_nodes.RESOURCE


def as_text(sharing: WholeGpus | TimeSlicing | Mps | Mig) -> str:
    """Return the configuration file for the plugin as JSON, which is also valid YAML."""
    return json.dumps({"version": "v1", **sharing.configuration()}, indent=2, sort_keys=True)


_DEFAULT = "default"
# A name is a key of a ConfigMap and the value of a label. This format is valid for both.
ConfigName = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$", max_length=63)]


def _without_default(value: dict[str, Any]) -> dict[str, Any]:
    if _DEFAULT in value:
        error = invalid(
            "is the name of the default configuration",
            "reserved-name",
            safe_hint="use another name, or set it under sharing",
        )
        raise_problems([at_path(error, value[_DEFAULT], _DEFAULT)])
    return value


class DevicePluginArgs(ComponentArgs):
    """The arguments of the device plugin: its placement, and how it shares GPUs."""

    # Each strategy needs settings of the node's container toolkit. Without them, containers get no GPU with
    # volume-mounts, and too many GPUs with the other strategies (docs/how-it-works/gpu-isolation.md).
    device_list_strategy: Literal["volume-mounts", "cdi-cri", "envvar"] = Field(
        default="volume-mounts",
        description="how the plugin passes a container's GPUs to the node. It depends on the toolkit's settings "
        "accept-nvidia-visible-devices-…: volume-mounts (if as-volume-mounts is true, as on nodes of a "
        "GpuNodeGroup), cdi-cri (if envvar-when-unprivileged is false, and containerd has CDI enabled) or envvar (if "
        "both have the toolkit's defaults)",
    )
    namespace: NamespaceName = Field(
        default="nvidia-device-plugin", description="the namespace to create for the plugin only"
    )
    sharing: Sharing = Field(
        default=WholeGpus(kind="none"),
        description="how to share the GPUs of nodes without a named configuration",
    )
    configs: Annotated[dict[ConfigName, Sharing], AfterValidator(_without_default)] = Field(
        default={},
        description="additional configurations by name, for nodes with the label "
        "nvidia.com/device-plugin.config=<name>",
    )
    built_in_pools: Annotated[list[Pool], EachOnce] = Field(
        default=[],
        description="pools whose nodes have a built-in device plugin, such as Bottlerocket; this plugin does "
        "not run there",
    )
    priority_class: Name = Field(
        default="system-node-critical",
        description="priority class of the plugin's pods; nodes without the plugin offer no GPUs",
    )
    cpu_milli: Integer = Field(
        default=50, ge=1, le=4000, description="CPU request of each pod, in thousandths of a CPU"
    )
    memory_mib: Integer = Field(default=128, ge=16, le=4096, description="memory request of each pod, in MiB")


class DevicePlugin(HelmComponent):
    """NVIDIA's device plugin on the GPU nodes of a cluster, with a configuration for each way to share GPUs.

    Creates: a namespace that allows pods to mount folders of the node, and the Helm release of the plugin.
    Costs: only the capacity for its pods on each GPU node.
    Does not: install drivers or the container toolkit, divide GPUs for MIG, or label nodes. It cannot keep GPUs from
    containers that did not request any. An image with NVIDIA_VISIBLE_DEVICES=all gets every GPU of its node with any
    deviceListStrategy, unless the node's /etc/nvidia-container-runtime/config.toml contains
    accept-nvidia-visible-devices-envvar-when-unprivileged = false. Nodes of a GpuNodeGroup have that setting.
    Privileged containers see every GPU even then.
    Nodes of Bottlerocket and of EKS Auto Mode include a plugin. Two plugins on a node would both assign its GPUs.
    Replaces on change of: the release and its namespace for namespace. During the replacement, new pods get no GPUs.
    Everything else is updated in place. Running containers keep their GPUs.
    """

    TYPE: ClassVar[str] = "gpu-ci:kubernetes:DevicePlugin"
    ARGS: ClassVar[type[Args]] = DevicePluginArgs
    EXAMPLE: ClassVar[dict[str, Any]] = {
        "configs": {"four-tests-a-gpu": {"kind": "time-slicing", "replicas": 4}},
        "builtInPools": ["bottlerocket-l4"],
    }

    namespace: pulumi.Output[str]
    """Namespace of the plugin."""
    version: pulumi.Output[str]
    """Version of the chart and of its plugin, known once the plugin runs."""

    def __init__(self, name: str, args: DevicePluginArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
        # The plugin mounts the kubelet's folder of sockets, which the level `baseline` does not allow.
        self.namespace = self.create_namespace(args.namespace, "privileged")
        release = self.install(
            "nvidia-device-plugin",
            versions.DEVICE_PLUGIN_CHART,
            self.namespace,
            _values(args),
            repository="https://nvidia.github.io/k8s-device-plugin",
        )
        self.version = release.id.apply(lambda _: versions.DEVICE_PLUGIN_CHART)
        self.register()


def _values(args: DevicePluginArgs) -> dict[str, Any]:
    """Return the values for the Helm chart."""
    configs = {_DEFAULT: args.sharing, **args.configs}
    off_built_in_pools = {"key": gpu_nodes.POOL_LABEL, "operator": "NotIn", "values": args.built_in_pools}
    return {
        # The plugin needs the capability CAP_SYS_ADMIN on nodes whose container toolkit restricts GPUs, such as nodes
        # of EKS since April 2026 (awslabs/amazon-eks-ami#2706). There, only containers with this capability may see all
        # GPUs (NVIDIA/nvidia-container-toolkit@d34b304:internal/config/image/privileged.go), and the plugin crashes
        # without it. The chart grants the capability if the configurations are a map and migStrategy is not set
        # separately (_helpers.tpl, requiresCapSysAdmin).
        "config": {"map": {key: as_text(each) for key, each in configs.items()}, "default": _DEFAULT},
        "deviceListStrategy": args.device_list_strategy,
        # The plugin writes the CDI specification itself, from the node's driver files (docs/cdi.md).
        **({"nvidiaDriverRoot": "/"} if args.device_list_strategy == "cdi-cri" else {}),
        # If the plugin finds no GPU on a GPU node, the node is broken. The plugin's pod then crashes, which users see.
        "failOnInitError": True,
        "affinity": gpu_nodes.required(
            gpu_nodes.on_gpu_nodes(), *([off_built_in_pools] if args.built_in_pools else [])
        ),
        "tolerations": [gpu_nodes.toleration(), gpu_nodes.toleration_of_unproven()],
        "priorityClassName": args.priority_class,
        "resources": {"requests": {"cpu": f"{args.cpu_milli}m", "memory": f"{args.memory_mib}Mi"}},
    }
