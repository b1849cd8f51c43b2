"""Looks up each EKS cluster of a stack, and creates the resources that all pools of a cluster share.

The wiring of a pool is the arguments that the program adds to the fields of the stack file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as kubernetes

from gpu_ci import naming, versions
from gpu_ci.aws.eks_runner_pool import EksRunnerPoolArgs
from gpu_ci.aws.image.args import GpuAmiPipelineArgs
from gpu_ci.errors import Problem
from gpu_ci.kubernetes.arc_controller import ArcController
from gpu_ci.kubernetes.device_plugin import DevicePlugin, DevicePluginArgs
from gpu_ci.kubernetes.gpu_namespace import GpuNamespace, GpuNamespaceArgs, ImagePullSecret
from gpu_ci.kubernetes.scale_set.args import Dind, OwnImage, RunnerChoices
from gpu_ci.stack.cluster import DEVICE_LISTS, STRATEGY_HINT, Cluster
from gpu_ci.stack.clusters import CLUSTERS
from gpu_ci.stack.site import SITE
from gpu_ci.validation_errors import join

from . import secret_values
from .pool import Pipeline, Pool
from .settings import Settings
from .stack_file import stack_file

# The API of credential plugins (docs.aws.amazon.com/eks/latest/userguide/create-kubeconfig.html).
_CREDENTIALS = "client.authentication.k8s.io/v1beta1"
# awslabs/amazon-eks-ami@81fec2e:nodeadm/internal/containerd/config.go, EnableCDI.
_CDI_SINCE = (1, 32)


@dataclass(frozen=True)
class Built:
    """The result for a cluster: the arguments and options for its pools."""

    wiring: Mapping[str, Any]
    options: pulumi.ResourceOptions
    lookups: pulumi.InvokeOptions
    account: aws.Provider | None


def build(settings: Settings) -> dict[str, Built]:
    """Create the shared resources of each cluster that has a pool."""
    pools = {name: _pools_on(name, settings.pools) for name in settings.clusters}
    app = _app(settings) if any(pools.values()) else {}
    return {
        name: _cluster(name, described, pools[name], {**app, **_github(settings)})
        for name, described in settings.clusters.items()
        if pools[name]
    }


def with_cluster(pool: Pool, clusters: Mapping[str, Built]) -> Pool:
    """Return the pool with the arguments and options of its cluster. Return a pool without a cluster unchanged."""
    if not isinstance(pool.args, EksRunnerPoolArgs):
        return pool
    on = clusters[str(pool.args.cluster_name)]
    offered = _offerings(pool.args.instance_types, pool.args.region, on.lookups)
    args = type(pool.args)(**{**dict(pool.args), **on.wiring, "offerings": offered})
    return replace(pool, args=args, options=on.options)


def pipelines_with_cluster(
    pipelines: Iterable[Pipeline], described: Mapping[str, Cluster], clusters: Mapping[str, Built]
) -> list[Pipeline]:
    """Return the pipelines with the arguments of their clusters, of which some may have no pool.

    A pipeline without a cluster is returned unchanged.
    """
    accounts = {name: each.account for name, each in clusters.items()}
    found = []
    for pipeline in pipelines:
        if not isinstance(pipeline.args, GpuAmiPipelineArgs):
            found.append(pipeline)
            continue
        name = str(pipeline.args.cluster_name)
        cluster = described[name]
        if name not in accounts:
            accounts[name] = _account(naming.fit(name, 30), cluster)
        account = accounts[name]
        options = pulumi.InvokeOptions(provider=account)
        looked_up = aws.eks.get_cluster_output(name=name, region=cluster.region, opts=options)
        wiring = {
            "kubernetes_version": looked_up.version,
            "vpc_id": looked_up.vpc_config.vpc_id,
            "subnet_id": next(iter(cluster.subnets.values())),
        }
        args = type(pipeline.args)(**{**dict(pipeline.args), **wiring})
        providers = pulumi.ResourceOptions(providers=[account] if account else [])
        found.append(replace(pipeline, args=args, options=providers))
    return found


def _pools_on(name: str, pools: Iterable[Pool]) -> list[tuple[str, EksRunnerPoolArgs]]:
    return [
        (pool.name, pool.args)
        for pool in pools
        if isinstance(pool.args, EksRunnerPoolArgs) and pool.args.cluster_name == name
    ]


def _cluster(
    name: str, described: Cluster, pools: Sequence[tuple[str, EksRunnerPoolArgs]], wiring: Mapping[str, Any]
) -> Built:
    short_name = naming.fit(name, 30)
    account = _account(short_name, described)
    lookups = pulumi.InvokeOptions(provider=account)
    found = aws.eks.get_cluster_output(name=name, region=described.region, opts=lookups)
    kubeconfig = _kubeconfig(name, described, found)
    provider = kubernetes.Provider(f"{short_name}-cluster", kubeconfig=kubeconfig)
    in_cluster = pulumi.ResourceOptions(providers=[provider])
    controller, gpus_advertised = (
        _create_shared(short_name, described, pools, in_cluster)
        if described.managed
        else _refer_to_shared(short_name, described)
    )
    gpus = _most_gpus(pools)
    namespace = GpuNamespace(
        f"{short_name}-runners",
        GpuNamespaceArgs(
            namespace=described.namespace,
            gpus=gpus,
            pod_security=_pod_security([args.runner for _, args in pools]),
            private_ranges=described.private_ranges,
            image_pull_secrets=_logins(name, described),
        ),
        in_cluster,
    )
    return Built(
        {
            **wiring,
            "kubernetes_version": _checked_version(name, described.device_plugin, pools, found.version),
            "vpc_id": found.vpc_config.vpc_id,
            "cluster_security_group_id": found.vpc_config.cluster_security_group_id,
            **(_joining(found) if any(args.ami_id for _, args in pools) else {}),
            "namespace": namespace.namespace,
            "namespace_gpus": gpus,
            # With private ranges, pods may reach the API server, because it may be in one of these ranges.
            "closed_to_cluster": described.network_policies and not described.private_ranges,
            # A change of this text repeats the check of every pool. So it does not include the list of pools on which
            # the plugin does not run.
            "device_plugin": f"{versions.DEVICE_PLUGIN_CHART} {described.device_plugin.model_dump_json()}",
            "controller": controller,
            "kubeconfig": kubeconfig,
            "profile": described.profile,
            "role_arn": described.role_arn,
        },
        # A check waits until the plugin has registered the GPUs, and pulls its image with the Secrets of the namespace.
        pulumi.ResourceOptions(
            providers=[provider, *([account] if account else [])],
            depends_on=[*gpus_advertised, *([namespace] if described.image_pull_secrets else [])],
        ),
        lookups,
        account,
    )


def _logins(name: str, described: Cluster) -> list[ImagePullSecret]:
    """Return the logins of registries, with their passwords from Secret Manager."""
    places = {
        f"{join(CLUSTERS, name)}.imagePullSecrets[{at}].password": each
        for at, each in enumerate(described.image_pull_secrets)
    }
    if not places:
        return []
    values = secret_values.values_of({place: each.password for place, each in places.items()})
    return [
        ImagePullSecret(name=each.name, registry=each.registry, username=each.username, password=values[place])
        for place, each in places.items()
    ]


def _account(short_name: str, described: Cluster) -> aws.Provider | None:
    """Return the AWS provider for a cluster with its own profile or role.

    Return None for other clusters, which use the stack's `aws:` settings.
    """
    if not described.profile and not described.role_arn:
        return None
    roles = [aws.ProviderAssumeRoleArgs(role_arn=described.role_arn)] if described.role_arn else None
    return aws.Provider(f"{short_name}-account", region=described.region, profile=described.profile, assume_roles=roles)


def _kubeconfig(name: str, described: Cluster, found: pulumi.Output[aws.eks.GetClusterResult]) -> pulumi.Output[str]:
    """Return the kubeconfig of a cluster. The command `aws eks get-token` returns the credentials."""
    role = ["--role-arn", described.role_arn] if described.role_arn else []
    arguments = ["--region", described.region, "eks", "get-token", "--cluster-name", name, "--output", "json", *role]
    command: dict[str, Any] = {"apiVersion": _CREDENTIALS, "command": "aws", "args": arguments}
    if described.profile:
        command["env"] = [{"name": "AWS_PROFILE", "value": described.profile}]

    def render(cluster: aws.eks.GetClusterResult) -> str:
        authority = cluster.certificate_authorities[0].data
        return json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [
                    {
                        "name": name,
                        "cluster": {"server": cluster.endpoint, "certificate-authority-data": authority},
                    }
                ],
                "users": [{"name": name, "user": {"exec": command}}],
                "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
                "current-context": name,
            }
        )

    return found.apply(render)


def _joining(found: pulumi.Output[aws.eks.GetClusterResult]) -> dict[str, Any]:
    """Return the arguments with which a node of an image of the user's own joins the cluster."""
    network = found.kubernetes_network_configs[0]
    return {
        "cluster_endpoint": found.endpoint,
        "cluster_certificate": found.certificate_authorities[0].data,
        # A cluster has either IPv4 or IPv6 services.
        "service_cidr": network.apply(lambda each: str(each.service_ipv4_cidr or each.service_ipv6_cidr)),
    }


def _checked_version(
    name: str,
    plugin: DevicePluginArgs,
    pools: Sequence[tuple[str, EksRunnerPoolArgs]],
    version: pulumi.Output[str],
) -> pulumi.Output[str]:
    """Return the Kubernetes version of the cluster. Fail if AL2023 nodes of this version do not support cdi-cri."""
    on = [pool for pool, args in pools if args.chosen_ami_type.startswith("AL2023")]

    def check(found: str) -> str:
        if plugin.device_list_strategy == "cdi-cri" and on and tuple(map(int, found.split("."))) < _CDI_SINCE:
            problem = Problem(
                f"{join(CLUSTERS, name)}.devicePlugin.{DEVICE_LISTS}",
                f"gives jobs of {', '.join(on)} no GPU: containerd has CDI off on AL2023 with Kubernetes {found}",
                "'cdi-cri'",
                "volume-mounts, or Kubernetes 1.32 or newer",
                STRATEGY_HINT,
            )
            raise pulumi.RunError(problem.render(stack_file()))
        return found

    return version.apply(check)


def _create_shared(
    short_name: str,
    described: Cluster,
    pools: Sequence[tuple[str, EksRunnerPoolArgs]],
    in_cluster: pulumi.ResourceOptions,
) -> tuple[dict[str, Any], list[pulumi.Resource]]:
    """Create the resources that a cluster has once: the controller of scale sets and the device plugin.

    Returns:
        The fields of `ControllerReference`, and the resources that the checks of nodes must wait for.
    """
    own_plugin = [pool for pool, args in pools if args.chosen_ami_type.startswith("BOTTLEROCKET")]
    plugin = DevicePlugin(
        f"{short_name}-plugin",
        described.device_plugin.model_copy(
            update={"built_in_pools": sorted({*described.device_plugin.built_in_pools, *own_plugin})}
        ),
        in_cluster,
    )
    controller = ArcController(_controller_name(short_name), described.controller, in_cluster)
    return {
        "service_account_name": controller.service_account_name,
        "namespace": controller.namespace,
        "version": controller.version,
    }, [plugin]


def _refer_to_shared(short_name: str, described: Cluster) -> tuple[dict[str, Any], list[pulumi.Resource]]:
    """Return the controller that another stack creates. Its name is derived from the name of the cluster."""
    return {
        "service_account_name": _controller_name(short_name),
        "namespace": described.controller.namespace,
        "version": versions.ARC_CHARTS,
    }, []


def _controller_name(short_name: str) -> str:
    return f"{short_name}-arc"


def _most_gpus(pools: Sequence[tuple[str, EksRunnerPoolArgs]]) -> int:
    """Return the maximum number of GPUs in use: of all nodes of the pools, and of the nodes of each smoke check."""
    return sum((args.max + args.smoke.nodes) * max(1, int(args.machines[0].gpu_count)) for _, args in pools)


def _pod_security(runners: Iterable[RunnerChoices]) -> Literal["restricted", "baseline", "privileged"]:
    """Return the strictest pod security level that allows all runners of the namespace."""
    chosen = list(runners)
    if any(isinstance(each.container_mode, Dind) for each in chosen):
        return "privileged"
    if any(each.allow_sudo or not isinstance(each.container_mode, OwnImage) for each in chosen):
        return "baseline"
    return "restricted"


def _offerings(
    instance_types: Sequence[str], region: str, lookups: pulumi.InvokeOptions
) -> dict[str, pulumi.Output[list[str]]]:
    """Return the zones that offer each instance type, looked up at AWS."""
    found = aws.ec2.get_instance_type_offerings_output(
        location_type="availability-zone",
        filters=[{"name": "instance-type", "values": list(instance_types)}],
        region=region,
        opts=lookups,
    )

    def zones_of(name: str) -> pulumi.Output[list[str]]:
        return found.apply(
            lambda offers: sorted(
                zone for zone, each in zip(offers.locations, offers.instance_types, strict=True) if each == name
            )
        )

    return {name: zones_of(name) for name in instance_types}


def _github(settings: Settings) -> dict[str, Any]:
    """Return the organization and the runner group in which runners register."""
    owner = settings.site.github
    group = settings.github.runner_group if settings.github else None
    if owner is None:
        return {}
    return {
        "github_config_url": f"https://github.com/{owner.owner}",
        "runner_group": (group.group_name if group else None) or f"gpu-{pulumi.get_stack()}",
    }


def _app(settings: Settings) -> dict[str, Any]:
    """Return the GitHub App that registers the runners, with its private key."""
    owner = settings.site.github
    if owner is None or owner.runner_app is None:
        return {}
    place = f"{SITE}.github.runnerApp.privateKey"
    key = secret_values.values_of({place: owner.runner_app.private_key})[place]
    return {
        "app": {
            "id": pulumi.Output.secret(owner.runner_app.id),
            "installation_id": pulumi.Output.secret(owner.runner_app.installation_id),
            "private_key": key,
        }
    }
