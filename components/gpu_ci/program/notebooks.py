"""Creates the notebook pipelines of a stack, after the checks of their pools, and the webhooks on GitHub."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi

from gpu_ci import naming
from gpu_ci.kubernetes.notebook_pipeline import NotebookPipeline
from gpu_ci.kubernetes.notebooks.args import Bucket, GithubAccess, NotebookPipelineArgs, Notify
from gpu_ci.kubernetes.notebooks.objects import PUSH, RUN
from gpu_ci.stack.notebooks import NotebookEntry
from gpu_ci.stack.parse import NOTEBOOKS, Stack
from gpu_ci.validation_errors import join

from .clusters import SharedCluster
from .pools import Built
from .stack_file import stack_file, values_of


def build(
    stack: Stack,
    clusters: Mapping[str, SharedCluster],
    built: Sequence[Built],
    at_github: pulumi.ResourceOptions | None,
) -> dict[str, dict[str, Any]]:
    """Create the pipelines, and return their outputs by name.

    Args:
        stack: The stack.
        clusters: The clusters.
        built: The pools. A pipeline waits for the check of its pool.
        at_github: The options of resources on GitHub; None if no pipeline has an address for a webhook.
    """
    values = values_of(_references(stack.notebooks))
    pools = {each.pool.name: each for each in built}
    found = {}
    for name, entry in sorted(stack.notebooks.items()):
        pool, path = pools[entry.pool], join(NOTEBOOKS, name)
        shared = clusters[pool.pool.cluster]
        args = _args(stack, entry, pool, shared, {key: values.get(f"{path}.{key}") for key in _SECRETS})
        args.set_source(stack_file(), path)
        namespace = args.namespace or name
        granted: list[pulumi.Resource] = []
        if isinstance(args.storage, Bucket):
            account = (namespace, f"{name}-{RUN}")
            granted = shared.connection.grant_bucket(naming.of_part(name, "run"), args.storage.url, account)
        waits = pulumi.ResourceOptions(depends_on=[*shared.for_tekton, *granted, pool.component])
        made = NotebookPipeline(name, args, pulumi.ResourceOptions.merge(shared.in_cluster, waits))
        if at_github:
            _webhooks(name, args, made, at_github)
        found[name] = {"pool": entry.pool, **made.state()}
    return found


_SECRETS = ("webhookSecret", "github.privateKey", "notify.url")


def _references(entries: Mapping[str, NotebookEntry]) -> dict[str, str]:
    """Return every reference to a secret by its path in the stack file."""
    found: dict[str, str] = {}
    for name, entry in sorted(entries.items()):
        path = join(NOTEBOOKS, name)
        private_key = entry.github.private_key if entry.github else None
        named = (entry.webhook_secret, private_key, entry.notify.url if entry.notify else None)
        found |= {f"{path}.{key}": each for key, each in zip(_SECRETS, named, strict=True) if each}
    return found


def _args(
    stack: Stack, entry: NotebookEntry, pool: Built, shared: SharedCluster, values: Mapping[str, Any]
) -> NotebookPipelineArgs:
    """Return the arguments: what the user chose, the values of the secrets, and what the pool and its cluster have."""
    chosen = {key: each for key, each in dict(entry).items() if key in NotebookPipelineArgs.model_fields}
    of_pool: Any = pool.pool.args
    secret, private_key, url = (values[key] for key in _SECRETS)
    app, owner = entry.github, stack.site.github.owner if stack.site.github else ""
    secrets = {
        "webhook_secret": secret,
        "github": app and GithubAccess(id=app.id, installation_id=app.installation_id, private_key=private_key),
        "notify": entry.notify and Notify(on=entry.notify.on, url=url),
    }
    wiring = {
        "owner": owner,
        "pool": pool.pool.name,
        "node_gpus": of_pool.node.devices,
        "gpu_resource": of_pool.runner.gpu_resource,
        "environment": dict(of_pool.pod_environment),
        "tolerations": list(of_pool.pod_tolerations),
        "logins": [each for each in shared.logins if each.name in entry.image_pull_secrets],
        "dns_addresses": list(shared.described.DNS_ADDRESSES),
        "cached_dns": pulumi.Output.from_input(shared.connection.cached_dns).apply(list),
        "credentials": dict(shared.described.CREDENTIALS),
    }
    return NotebookPipelineArgs(**{**chosen, **secrets, **wiring})


def _webhooks(name: str, args: NotebookPipelineArgs, made: NotebookPipeline, options: pulumi.ResourceOptions) -> None:
    """Create the webhook of each repository. It waits for the listener, and signs with the listener's secret."""
    if args.access is None:
        return
    import pulumi_github as github  # only pipelines with an address need it

    for repository in args.repositories:
        github.RepositoryWebhook(
            naming.fit(f"{name}-webhook-{repository.lower()}", 100),
            repository=repository,
            events=[PUSH],
            configuration={
                "url": made.webhook_url,
                "content_type": "json",
                "insecure_ssl": False,
                "secret": args.webhook_secret,
            },
            opts=pulumi.ResourceOptions.merge(options, pulumi.ResourceOptions(depends_on=[made])),
        )
