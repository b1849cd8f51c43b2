"""The component GkeRunnerPool: a node pool on GKE, a smoke check of its GPUs, and GitHub runners."""

from __future__ import annotations

from typing import Any, ClassVar

import pulumi

from ... import naming
from ...args import Args
from ...gcp.gke_gpu_node_pool import GkeGpuNodePool
from ...gcp.gke_nodes.args import GkeGpuNodePoolArgs
from ...kubernetes.pool.runners import ClusterRunnerPool
from .args import GkeRunnerPoolArgs
from .kind import KIND

# The label with the name of the node pool, which GKE adds to every node (docs.cloud.google.com/kubernetes-engine/docs/
# concepts/node-pools).
_NODE_POOL_LABEL = "cloud.google.com/gke-nodepool"


class GkeRunnerPool(ClusterRunnerPool):
    """GPU runners on Google Kubernetes Engine. Nodes start on demand, after a check of some nodes has passed.

    Creates: a GkeGpuNodePool, a SmokeJob on smoke.nodes of its nodes, and a RunnerScaleSet. With prePull, also an
    ImagePrePull, and with proveNodes a Deployment. The scale set is created or changed only after the check of the
    current nodes has passed. Containers with GPUs get LD_LIBRARY_PATH with the folder of the driver.
    Costs: nothing while no node runs and minIdle is 0. Each change of the nodes costs smoke.nodes nodes, by default
    one, for the minutes of the check.
    Does not: create the cluster, the namespace or the controller, or grant nodes access to images. GKE changes nodes in
    place for some fields. If the check then fails, the nodes are already changed, and runners of the previous scale set
    start on them.
    Replaces on change of: the check for the node pool, machineType, imageType, driver, and the version of nodes. The
    node pool as GkeGpuNodePool does. The scale set for its name, group and labels.
    """

    TYPE: ClassVar[str] = KIND.resource_type
    ARGS: ClassVar[type[Args]] = GkeRunnerPoolArgs
    ON_CLUSTER: ClassVar[str] = KIND.on_cluster
    EXAMPLE: ClassVar[dict[str, Any]] = KIND.example

    node_pool_name: pulumi.Output[str]
    """Name of the node pool, for programs that change or watch it."""
    service_account_email: pulumi.Output[str]
    """Email of the nodes' service account. Grant it read access to the repositories of images."""

    def __init__(self, name: str, args: GkeRunnerPoolArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, args, opts)
        nodes = GkeGpuNodePool(
            naming.of_part(name, "nodes"),
            GkeGpuNodePoolArgs(
                **{**args.fields_of(GkeGpuNodePoolArgs), "pool": name, "unproven": args.prove_nodes is not None}
            ),
            self.child(),
        )
        self.add_runners(
            name,
            args,
            nodes,
            rerun_on=[nodes.generation],
            node_labels={_NODE_POOL_LABEL: nodes.node_pool_name},
        )
        self.node_pool_name = nodes.node_pool_name
        self.service_account_email = nodes.service_account_email
        self.register()
