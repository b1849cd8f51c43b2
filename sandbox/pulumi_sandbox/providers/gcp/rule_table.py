"""Which rules a resource is held to, by its type."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pulumi_sandbox.providers.gcp import (
    build_rules,
    group_rules,
    iam_rules,
    network_rules,
    template_rules,
    trigger_rules,
    types,
)
from pulumi_sandbox.providers.resource import Problem

Inputs = dict[str, Any]
# Those that need to know the region the resource is in.
_PLACED: dict[str, Callable[[Inputs, str], Iterable[Problem]]] = {
    types.REGION_TEMPLATE: template_rules.template,
    types.REGION_GROUP: group_rules.group,
}
_PLAIN: dict[str, Callable[[Inputs], Iterable[Problem]]] = {
    types.TEMPLATE: template_rules.template,
    types.GROUP: group_rules.group,
    types.ACCOUNT: iam_rules.account,
    types.SECRET: iam_rules.secret,
    types.SECRET_VERSION: iam_rules.secret_version,
    **dict.fromkeys(types.MEMBERS, iam_rules.member),
    types.SUBNETWORK: network_rules.subnetwork,
    types.FIREWALL: network_rules.firewall,
    types.ROUTER: network_rules.router,
    types.ROUTER_NAT: network_rules.router_nat,
    types.GLOBAL_ADDRESS: network_rules.global_address,
    types.NETWORK_ATTACHMENT: network_rules.network_attachment,
    types.CONNECTION: network_rules.connection,
    types.WORKER_POOL: build_rules.worker_pool,
    types.TRIGGER: trigger_rules.trigger,
    types.REPOSITORY: build_rules.repository,
}


def rules(token: str, inputs: Inputs, region: str) -> Iterable[Problem]:
    """What no schema states and Google says all the same."""
    if placed := _PLACED.get(token):
        return placed(inputs, region)
    plain = _PLAIN.get(token)
    return plain(inputs) if plain else ()
