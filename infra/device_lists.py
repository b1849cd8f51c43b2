"""Whether a cluster's device plugin and the nodes of its pools agree on how a container is given its GPUs."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
from gpu_ci.aws.eks_runner_pool import EksRunnerPoolArgs
from gpu_ci.errors import Problem
from gpu_ci.kubernetes.device_plugin import DevicePluginArgs
from gpu_ci.stack.cluster import DEVICE_LISTS, WHAT_NODES_TAKE
from gpu_ci.stack.clusters import CLUSTERS
from gpu_ci.validation_errors import join

from infra.stack_file import stack_file

# awslabs/amazon-eks-ami@81fec2e:nodeadm/internal/containerd/config.go, EnableCDI.
_CDI_SINCE = (1, 32)


def checked(
    name: str,
    plugin: DevicePluginArgs,
    pools: Sequence[tuple[str, EksRunnerPoolArgs]],
    version: pulumi.Output[str],
) -> pulumi.Output[str]:
    """The cluster's version, once it is known to be one whose AL2023 nodes understand what the plugin says."""
    on = [pool for pool, args in pools if args.chosen_ami_type.startswith("AL2023")]

    def known(found: str) -> str:
        if plugin.device_list_strategy == "cdi-cri" and on and tuple(map(int, found.split("."))) < _CDI_SINCE:
            problem = Problem(
                f"{join(CLUSTERS, name)}.devicePlugin.{DEVICE_LISTS}",
                f"gives jobs of {', '.join(on)} no GPU: containerd has CDI off on AL2023 with Kubernetes {found}",
                "'cdi-cri'",
                "volume-mounts, or Kubernetes 1.32 or newer",
                WHAT_NODES_TAKE,
            )
            raise pulumi.RunError(problem.render(stack_file()))
        return found

    return version.apply(known)
