"""Select the rules for a resource by its type."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.gcp.rules import build, federation, group, names, network, node_pool, template
from pulumi_sandbox.providers.gcp.rules.common import labels
from pulumi_sandbox.providers.resource import Problem

Inputs = dict[str, Any]
_RULES: dict[str, Callable[[Inputs], Iterable[Problem]]] = {
    **dict.fromkeys(types.TEMPLATES, template.template),
    **dict.fromkeys(types.MEMBERS, federation.member),
    types.SUBNETWORK: network.subnetwork,
    types.FIREWALL: network.firewall,
    types.WORKER_POOL: build.worker_pool,
    types.TRIGGER: build.trigger,
    types.POOL_PROVIDER: federation.provider,
    types.NODE_POOL: node_pool.node_pool,
}


def rules(token: str, inputs: Inputs, region: str) -> Iterator[Problem]:
    """Yield the problems that Google reports but no schema contains."""
    yield from names.check(token, inputs)
    if token in types.LABELLED:
        yield from labels(inputs.get("labels"))
    if token == types.REGION_GROUP:
        yield from group.group(inputs, region)
    if rule := _RULES.get(token):
        yield from rule(inputs)
