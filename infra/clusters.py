"""The clusters pools are on: described in the stack file, looked up, and given what all of their pools share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as kubernetes
from gpu_ci import naming, versions
from gpu_ci.aws.eks_runner_pool import EksRunnerPoolArgs
from gpu_ci.kubernetes.arc_controller import ArcController
from gpu_ci.kubernetes.device_plugin import DevicePlugin
from gpu_ci.kubernetes.gpu_namespace import GpuNamespace, GpuNamespaceArgs
from gpu_ci.kubernetes.scale_set.args import RunnerChoices
from gpu_ci.kubernetes.scale_set.models import Dind, OwnImage
from gpu_ci.stack.cluster import Cluster

from infra import device_lists, kubeconfig, secret_values
from infra.pool import Pool
from infra.settings import Settings
from infra.site import SITE


@dataclass(frozen=True)
class Built:
    """A cluster with what its pools share."""

    wiring: Mapping[str, Any]
    options: pulumi.ResourceOptions


def build(settings: Settings) -> dict[str, Built]:
    """Each cluster that has a pool."""
    pools = {name: _pools_on(name, settings.pools) for name in settings.clusters}
    app = _app(settings) if any(pools.values()) else {}
    return {
        name: _cluster(name, described, pools[name], {**app, **_github(settings)})
        for name, described in settings.clusters.items()
        if pools[name]
    }


def placed(pool: Pool, clusters: Mapping[str, Built]) -> Pool:
    """The pool on its cluster, where it is on one."""
    if not isinstance(pool.args, EksRunnerPoolArgs):
        return pool
    on = clusters[str(pool.args.cluster_name)]
    offered = _offerings(pool.args.instance_types, pool.args.region)
    args = type(pool.args)(**{**dict(pool.args), **on.wiring, "offerings": offered})
    return replace(pool, args=args, options=on.options)


def _pools_on(name: str, pools: Iterable[Pool]) -> list[tuple[str, EksRunnerPoolArgs]]:
    return [
        (pool.name, pool.args)
        for pool in pools
        if isinstance(pool.args, EksRunnerPoolArgs) and pool.args.cluster_name == name
    ]


def _cluster(
    name: str, described: Cluster, pools: Sequence[tuple[str, EksRunnerPoolArgs]], wiring: Mapping[str, Any]
) -> Built:
    called = naming.fit(name, 30)
    found = aws.eks.get_cluster_output(name=name, region=described.region)
    provider = kubernetes.Provider(f"{called}-cluster", kubeconfig=kubeconfig.of(name, described.region, found))
    inside = pulumi.ResourceOptions(providers=[provider])
    controller, gpus_told = (
        _shared(called, described, pools, inside) if described.managed else _found(called, described)
    )
    gpus = _gpus(pools)
    namespace = GpuNamespace(
        f"{called}-runners",
        GpuNamespaceArgs(
            namespace=described.namespace,
            gpus=gpus,
            pod_security=_pod_security([args.runner for _, args in pools]),
            private_ranges=described.private_ranges,
        ),
        inside,
    )
    return Built(
        {
            **wiring,
            "kubernetes_version": device_lists.checked(name, described.device_plugin, pools, found.version),
            "vpc_id": found.vpc_config.vpc_id,
            "cluster_security_group_id": found.vpc_config.cluster_security_group_id,
            "namespace": namespace.namespace,
            "namespace_gpus": gpus,
            # Which pools it stays away from is no change for the others.
            "device_plugin": f"{versions.DEVICE_PLUGIN_CHART} {described.device_plugin.model_dump_json()}",
            "controller": controller,
        },
        # A check waits for GPUs until the plugin has told of them.
        pulumi.ResourceOptions(providers=[provider], depends_on=gpus_told),
    )


def _shared(
    called: str,
    described: Cluster,
    pools: Sequence[tuple[str, EksRunnerPoolArgs]],
    inside: pulumi.ResourceOptions,
) -> tuple[dict[str, Any], list[pulumi.Resource]]:
    """What there is once in a cluster: the controller, as scale sets name it, and what tells of GPUs."""
    own_plugin = [pool for pool, args in pools if args.chosen_ami_type.startswith("BOTTLEROCKET")]
    plugin = DevicePlugin(
        f"{called}-plugin",
        described.device_plugin.model_copy(
            update={"built_in_pools": sorted({*described.device_plugin.built_in_pools, *own_plugin})}
        ),
        inside,
    )
    controller = ArcController(_arc(called), described.controller, inside)
    return {
        "service_account_name": controller.service_account_name,
        "namespace": controller.namespace,
        "version": controller.version,
    }, [plugin]


def _found(called: str, described: Cluster) -> tuple[dict[str, Any], list[pulumi.Resource]]:
    """The same where another stack has made it: the controller's name follows from the cluster's."""
    return {
        "service_account_name": _arc(called),
        "namespace": described.controller.namespace,
        "version": versions.ARC_CHARTS,
    }, []


def _arc(called: str) -> str:
    return f"{called}-arc"


def _gpus(pools: Sequence[tuple[str, EksRunnerPoolArgs]]) -> int:
    """What all nodes of all pools have, and those of each once more whose check may come while all others have jobs."""
    return sum((args.max + args.smoke.nodes) * max(1, int(args.machines[0].gpu_count)) for _, args in pools)


def _pod_security(runners: Iterable[RunnerChoices]) -> Literal["restricted", "baseline", "privileged"]:
    """The least that lets every runner start: pods that ask for more than their namespace allows are never made."""
    chosen = list(runners)
    if any(isinstance(each.container_mode, Dind) for each in chosen):
        return "privileged"
    if any(each.allow_sudo or not isinstance(each.container_mode, OwnImage) for each in chosen):
        return "baseline"
    return "restricted"


def _offerings(instance_types: Sequence[str], region: str) -> dict[str, pulumi.Output[list[str]]]:
    """The zones that offer each type, which AWS tells whoever asks."""
    found = aws.ec2.get_instance_type_offerings_output(
        location_type="availability-zone",
        filters=[{"name": "instance-type", "values": list(instance_types)}],
        region=region,
    )

    def zones_of(name: str) -> pulumi.Output[list[str]]:
        return found.apply(
            lambda all_of_them: sorted(
                place
                for place, each in zip(all_of_them.locations, all_of_them.instance_types, strict=True)
                if each == name
            )
        )

    return {name: zones_of(name) for name in instance_types}


def _github(settings: Settings) -> dict[str, Any]:
    """Where runners register."""
    owner = settings.site.github
    group = settings.github.runner_group if settings.github else None
    if owner is None:
        return {}
    return {
        "github_config_url": f"https://github.com/{owner.owner}",
        "runner_group": (group.group_name if group else None) or f"gpu-{pulumi.get_stack()}",
    }


def _app(settings: Settings) -> dict[str, Any]:
    """The App that registers them."""
    owner = settings.site.github
    if owner is None or owner.app is None:
        return {}
    place = f"{SITE}.github.app.privateKey"
    key = secret_values.values_of({place: owner.app.private_key})[place]
    return {
        "app": {
            "id": pulumi.Output.secret(owner.app.id),
            "installation_id": pulumi.Output.secret(owner.app.installation_id),
            "private_key": key,
        }
    }
