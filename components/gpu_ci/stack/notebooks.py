"""The model of gpu-ci:notebooks: pipelines that run the notebooks of a push on nodes of a pool."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from .. import naming
from ..args import Redacted
from ..errors import Problem, did_you_mean, in_yaml, shape
from ..kinds import cluster_for
from ..kubernetes.name_types import Name, reserved_namespace
from ..kubernetes.notebooks.args import Bucket, Ends, NotebookChoices
from ..kubernetes.tekton import PIPELINES_NAMESPACE
from ..secret_manager import StackSecret
from ..validation_errors import join
from .clusters import CLUSTERS
from .hints import section
from .pools import POOLS, PoolSpec
from .site import GithubApp

if TYPE_CHECKING:
    from ..kubernetes.cluster import Cluster
    from ..kubernetes.pool.rules import Node


class NotifyByReference(Ends):
    """Notifications of ended runs, to an address in a secret store."""

    url: StackSecret = Field(
        description="the secret with the address of the receiver in the form of Apprise, such as slack://…, "
        "which must use port 443",
        examples=["projects/acme-ci/secrets/notebooks-slack"],
    )


class NotebookEntry(NotebookChoices):
    """A pipeline that runs the notebooks of each push on nodes of a pool, and publishes a report."""

    EXAMPLE: ClassVar[dict[str, Any]] = {
        "pool": "l4",
        "image": f"ghcr.io/acme/notebook:1@sha256:{'a1' * 32}",
        "repositories": ["kernels"],
        "storage": {"kind": "bucket", "url": "gs://acme-notebooks"},
        "webhookSecret": "projects/acme-ci/secrets/notebooks-webhook",
    }

    pool: Name = Field(
        description="the pool of gpu-ci:pools, on a cluster with tekton, whose nodes run the notebooks", examples=["l4"]
    )
    webhook_secret: StackSecret = Field(
        description="the secret that signs GitHub's deliveries, at least 16 characters: projects/<project>/secrets/"
        "<name> in Secret Manager, or the ARN of a secret in AWS Secrets Manager",
        examples=["projects/acme-ci/secrets/notebooks-webhook"],
    )
    github: Annotated[GithubApp | None, Redacted()] = Field(
        default=None,
        examples=[
            {
                "id": 456789,
                "installationId": 45678901,
                "privateKey": "projects/acme-ci/secrets/github-notebooks-app-key",
            }
        ],
        description="the GitHub App for private repositories and commit statuses, with Contents: read and Commit "
        "statuses: read and write; by default neither",
    )
    notify: NotifyByReference | None = Field(default=None, description="notifications; by default none")


def check(
    key: str, values: Any, specs: Sequence[PoolSpec], pools: Any, clusters: Mapping[str, Cluster]
) -> tuple[dict[str, NotebookEntry], list[Problem]]:
    """Return the valid entries by name, and every problem.

    Args:
        key: The key of the stack file.
        values: Its value.
        specs: The pools of a known kind.
        pools: The value of gpu-ci:pools. It may be invalid.
        clusters: The clusters without a problem.
    """
    if not isinstance(values, Mapping):
        hint = f"such as {in_yaml({'analysis': NotebookEntry.EXAMPLE})}"
        return {}, [Problem(key, "must be a map", shape(values), "notebook pipelines by name", hint, "wrong-type")]
    names = [str(name) for name in pools] if isinstance(pools, Mapping) else []
    by_name = {spec.name: spec for spec in specs}
    found: dict[str, NotebookEntry] = {}
    problems: list[Problem] = []
    taken: dict[tuple[str, str], str] = {}
    hosts: dict[str, str] = {}
    for name, given in sorted(values.items()):
        path = join(key, name)
        problems += _name_problems(path, name)
        entry, wrong = section(NotebookEntry, path, {} if given is None else given)
        problems += wrong
        if entry is None:
            continue
        found[name] = entry
        if entry.access and (other := hosts.setdefault(entry.access.host, name)) != name:
            text = f"is the host of the pipeline {other}, which gets the pushes of both"
            hint = "give it another host, with an entry of the DNS"
            got = repr(entry.access.host)
            problems.append(
                Problem(f"{path}.access.host", text, got, "a different host for each pipeline", hint, "duplicate-host")
            )
        if entry.pool not in names:
            problems.append(_unknown_pool(path, entry, names))
        elif spec := by_name.get(entry.pool):
            problems += _with_pool(path, entry, spec, clusters)
            problems += _namespaces(path, name, entry, spec.cluster, clusters, taken)
    return found, problems


def _name_problems(path: str, name: str) -> list[Problem]:
    if re.fullmatch(naming.PATTERN, name):
        return []
    text = "the name has a form that is not accepted"
    return [Problem(path, text, repr(name), naming.FORM, "such as analysis", "wrong-name")]


def _unknown_pool(path: str, entry: NotebookEntry, names: Sequence[str]) -> Problem:
    expected = f"one of {', '.join(names)}" if names else f"a pool under {POOLS}"
    hint = did_you_mean(entry.pool, names) or f"describe the pool under {POOLS}"
    return Problem(f"{path}.pool", f"is not a pool of {POOLS}", repr(entry.pool), expected, hint, "unknown-pool")


def _with_pool(path: str, entry: NotebookEntry, spec: PoolSpec, clusters: Mapping[str, Cluster]) -> Iterator[Problem]:
    """Yield the problems of an entry with its pool and the pool's cluster."""
    if not spec.on_cluster:
        text = f"is of kind {spec.kind}, which has no cluster, and notebooks run in pods"
        yield Problem(
            f"{path}.pool", text, repr(spec.name), "a pool on a cluster", "add a pool on EKS or GKE", "pool-off-cluster"
        )
        return
    cluster = clusters.get(spec.cluster)
    if cluster and cluster.managed and cluster.tekton is None:
        at = join(CLUSTERS, spec.cluster)
        text = f"is on the cluster {spec.cluster} without Tekton, which runs the pipeline"
        hint = f"pulumi config set --path '{at}.tekton.retentionDays' 7"
        yield Problem(f"{path}.pool", text, repr(spec.name), f"{at}.tekton", hint, "no-tekton")
    scheme = cluster_for(spec.on_cluster).BUCKETS
    if isinstance(entry.storage, Bucket) and not entry.storage.url.startswith(f"{scheme}://"):
        text = f"is a bucket of another cloud than that of the cluster {spec.cluster}, whose pods get no access to it"
        yield Problem(
            f"{path}.storage.url",
            text,
            repr(entry.storage.url),
            f"{scheme}://BUCKET/FOLDER",
            "use a bucket of the cluster's cloud, or storage: {kind: claim, …}",
            "other-cloud-bucket",
        )
    if spec.args is not None:
        yield from _on_node(path, entry, spec.args.node)


def _on_node(path: str, entry: NotebookEntry, node: Node) -> Iterator[Problem]:
    """Yield the problems of a notebook that fits on no node of its pool."""
    for field, wanted, free, unit in (
        ("gpus", entry.gpus, node.devices, "GPUs"),
        ("cpus", entry.cpus, node.cpus, "CPUs"),
        ("memoryGib", entry.memory_gib, node.memory_gib, "GiB"),
    ):
        if wanted > free:
            text = f"is more than the {free} {unit} that {node.machine.machine_type} has for pods, so no notebook would"
            hint = f"{field}: {free}, or another pool with a larger {node.type_noun}"
            yield Problem(
                f"{path}.{field}", f"{text} start", str(wanted), f"{free} or less", hint, "too-large-for-node"
            )


def _namespaces(
    path: str,
    name: str,
    entry: NotebookEntry,
    cluster_name: str,
    clusters: Mapping[str, Cluster],
    taken: dict[tuple[str, str], str],
) -> Iterator[Problem]:
    """Yield a problem if the namespace of an entry is that of something else. The second creation would fail."""
    if cluster := clusters.get(cluster_name):
        parts = {word: getattr(cluster, field) if field else cluster for field, word in cluster.NAMESPACES.items()}
        of_cluster = {(cluster_name, each.namespace): f"the {word}" for word, each in parts.items() if each}
        taken |= {(cluster_name, PIPELINES_NAMESPACE): "Tekton", **of_cluster}
    namespace = entry.namespace or name
    if not entry.namespace and (reserved := reserved_namespace(name)):
        yield Problem(
            path,
            f"has a namespace of its name, which {reserved}",
            repr(name),
            "another name or namespace",
            "such as namespace: notebooks",
            "reserved-name",
        )
    if owner := taken.get((cluster_name, namespace)):
        yield Problem(
            f"{path}.namespace" if entry.namespace else path,
            f"has the namespace of {owner}",
            repr(namespace),
            "a different namespace for each pipeline",
            "give it another namespace",
            "duplicate-namespace",
        )
    taken[cluster_name, namespace] = f"the pipeline {name}"
