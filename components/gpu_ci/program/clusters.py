"""Looks up each cluster of a stack, and creates the resources that all pools of a cluster share.

The wiring of a pool is the arguments that the program adds to the fields of the stack file. The kind of a cluster adds
the wiring that only its cloud has (kubernetes/cluster.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pulumi
import pulumi_kubernetes as kubernetes

from gpu_ci import naming, versions
from gpu_ci.kubernetes.arc_controller import ArcController
from gpu_ci.kubernetes.cluster import Cluster, Connection
from gpu_ci.kubernetes.gpu_namespace import GpuNamespace, GpuNamespaceArgs, ImagePullSecret
from gpu_ci.kubernetes.kueue import Kueue
from gpu_ci.kubernetes.scale_set.args import Dind, OwnImage, RunnerChoices
from gpu_ci.kubernetes.tekton import Tekton
from gpu_ci.stack.clusters import CLUSTERS, namespace_of_pool
from gpu_ci.stack.entries import Spec
from gpu_ci.stack.parse import Stack
from gpu_ci.stack.pools import PoolSpec
from gpu_ci.stack.site import SITE, Site
from gpu_ci.validation_errors import join

from .stack_file import stack_file, values_of


@dataclass(frozen=True)
class SharedCluster:
    """The connection to a cluster, and the arguments and options that it gives each pool."""

    described: Cluster
    connection: Connection
    pools: Mapping[str, tuple[Mapping[str, Any], pulumi.ResourceOptions]]
    in_cluster: pulumi.ResourceOptions = field(default_factory=pulumi.ResourceOptions)
    """The options of resources on the cluster."""
    for_tekton: Sequence[pulumi.Resource] = ()
    """What notebook pipelines wait for."""
    logins: Sequence[ImagePullSecret] = ()

    def args_of(self, spec: Spec) -> tuple[Any, pulumi.ResourceOptions]:
        """Return the arguments of a pool or image pipeline, checked against the cluster, and its options."""
        if isinstance(spec, PoolSpec):
            shared, options = self.pools[spec.name]
            wiring = {**shared, **self.connection.pool_wiring(spec.args)}
        else:
            wiring = self.connection.pipeline_wiring()
            options = pulumi.ResourceOptions(providers=list(self.connection.providers))
        return spec.model(**spec.choices, **{**spec.wiring, **wiring}), options


def build(stack: Stack) -> dict[str, SharedCluster]:
    """Connect to each cluster that an entry of the stack uses, and create the resources that its pools share."""
    pools = {name: [(spec.name, spec.args) for spec in stack.specs if spec.cluster == name] for name in stack.clusters}
    apps = _apps(stack.site) if any(pools.values()) else {}
    used = {spec.cluster for spec in (*stack.specs, *stack.pipelines)}
    return {
        name: _cluster(name, described, pools[name], apps) for name, described in stack.clusters.items() if name in used
    }


def _cluster(
    name: str,
    described: Cluster,
    pools: Sequence[tuple[str, Any]],
    apps: Mapping[str, Mapping[str, Any]],
) -> SharedCluster:
    short_name = naming.fit(name, 30)
    connection = described.connect(name, join(CLUSTERS, name), stack_file())
    if not pools:  # image pipelines use the cluster, and create nothing on it
        return SharedCluster(described, connection, {})
    provider = kubernetes.Provider(f"{short_name}-cluster", kubeconfig=connection.kubeconfig)
    in_cluster = pulumi.ResourceOptions(providers=[provider])
    awaited = connection.create_shared(short_name, pools, in_cluster) if described.managed else []
    controller = _controller(f"{short_name}-arc", described, in_cluster)
    # Without Kueue's definitions, no LocalQueue of the namespace can be created.
    kueue = [Kueue(f"{short_name}-kueue", described.kueue, in_cluster)] if described.kueue and described.managed else []
    tekton = (
        [Tekton(f"{short_name}-tekton", described.tekton, in_cluster)] if described.tekton and described.managed else []
    )
    wiring = {
        **connection.wiring(pools),
        # With private ranges, pods may reach the API server, because it may be in one of these ranges.
        "closed_to_cluster": described.network_policies and not described.private_ranges,
        "controller": controller,
    }
    logins = _logins(name, described)
    found: dict[str, Any] = {}
    for own, inside in _by_namespace(pools).items():
        gpus = sum(args.max_gpus for _, args in inside)
        # A job in a pod of its own can read each Secret of its namespace, so the logins of other pools are not there.
        selected = {secret for _, args in inside for secret in args.runner.image_pull_secrets}
        secrets = [each for each in logins if not own or each.name in selected]
        namespace = GpuNamespace(
            naming.of_part(own, "pods") if own else f"{short_name}-runners",
            GpuNamespaceArgs(
                namespace=namespace_of_pool(described.namespace, own) if own else described.namespace,
                gpus=gpus,
                pod_security=_pod_security([args.runner for _, args in inside]),
                private_ranges=described.private_ranges,
                dns_addresses=list(described.DNS_ADDRESSES),
                cached_dns=pulumi.Output.from_input(connection.cached_dns).apply(list),
                image_pull_secrets=secrets,
                # A LocalQueue that no pool of the namespace names would be an open door to the quota of another team.
                queues=sorted({args.queue for _, args in inside if args.queue}),
            ),
            pulumi.ResourceOptions(providers=[provider], depends_on=kueue),
        )
        # A check waits until the shared resources advertise the GPUs, and pulls its image with the Secrets of the
        # namespace.
        options = pulumi.ResourceOptions(
            providers=[provider, *connection.providers],
            depends_on=[*awaited, *([namespace] if secrets else [])],
        )
        for pool, _ in inside:
            app = apps.get(f"poolApps.{pool}", apps.get("runnerApp"))
            placed = {"namespace": namespace.namespace, "namespace_gpus": gpus, **({"app": app} if app else {})}
            found[pool] = ({**wiring, **placed}, options)
    return SharedCluster(described, connection, found, in_cluster, tekton, logins)


def _by_namespace(pools: Sequence[tuple[str, Any]]) -> Mapping[str, list[tuple[str, Any]]]:
    """Return the pools of each namespace, by the name of its only pool, or an empty text for the shared namespace.

    A pool whose jobs run in pods of their own has a separate namespace: its jobs can get the token of their runner, and
    so read each Secret of the namespace, and run commands in its other pods. GitHub's container hooks require these
    rights (stack/warnings.py). ARC reads the key of an App only from the namespace of the scale set
    (actions/actions-runner-controller@2ee6b3b: controllers/actions.github.com/secretresolver/secret_resolver.go), or
    from Azure Key Vault.
    """
    found: defaultdict[str, list[tuple[str, Any]]] = defaultdict(list)
    for pool, args in pools:
        found[pool if args.runner.jobs_in_pods else ""].append((pool, args))
    return found


def _logins(name: str, described: Cluster) -> list[ImagePullSecret]:
    """Return the logins of registries, with their passwords from Secret Manager."""
    places = {
        f"{join(CLUSTERS, name)}.imagePullSecrets[{at}].password": each
        for at, each in enumerate(described.image_pull_secrets)
    }
    if not places:
        return []
    values = values_of({place: each.password for place, each in places.items()})
    return [
        ImagePullSecret(name=each.name, registry=each.registry, username=each.username, password=values[place])
        for place, each in places.items()
    ]


def _controller(name: str, described: Cluster, options: pulumi.ResourceOptions) -> dict[str, Any]:
    """Create the controller of scale sets. Return the fields of `ControllerReference`.

    If another stack creates the controller, its name is the same, because it is derived from the name of the cluster.
    """
    if not described.managed:
        return {
            "service_account_name": name,
            "namespace": described.controller.namespace,
            "version": versions.ARC_CHARTS,
        }
    controller = ArcController(name, described.controller, options)
    return {
        "service_account_name": controller.service_account_name,
        "namespace": controller.namespace,
        "version": controller.version,
    }


def _pod_security(runners: Iterable[RunnerChoices]) -> Literal["restricted", "baseline", "privileged"]:
    """Return the strictest pod security level that allows all runners of the namespace."""
    chosen = list(runners)
    if any(isinstance(each.container_mode, Dind) for each in chosen):
        return "privileged"
    if any(each.allow_sudo or not isinstance(each.container_mode, OwnImage) for each in chosen):
        return "baseline"
    return "restricted"


def _apps(site: Site) -> dict[str, dict[str, Any]]:
    """Return the GitHub Apps that register the runners, with their private keys, by their fields of the site."""
    chosen = site.github.cluster_apps if site.github else {}
    keys = values_of({f"{SITE}.github.{field}.privateKey": app.private_key for field, app in chosen.items()})
    return {
        field: {
            "id": pulumi.Output.secret(app.id),
            "installation_id": pulumi.Output.secret(app.installation_id),
            "private_key": keys[f"{SITE}.github.{field}.privateKey"],
        }
        for field, app in chosen.items()
    }
