"""Select the rules for a resource by its type."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pulumi_sandbox.providers.gcp import types
from pulumi_sandbox.providers.gcp.rules import (
    build,
    federation,
    group,
    iam,
    network,
    node_pool,
    observe,
    run,
    template,
    trigger,
)
from pulumi_sandbox.providers.resource import Problem

Inputs = dict[str, Any]
# Rules that depend on the region of the resource.
_REGIONAL: dict[str, Callable[[Inputs, str], Iterable[Problem]]] = {
    types.REGION_TEMPLATE: template.template,
    types.REGION_GROUP: group.group,
}
_OTHER: dict[str, Callable[[Inputs], Iterable[Problem]]] = {
    types.TEMPLATE: template.template,
    types.GROUP: group.group,
    types.ACCOUNT: iam.account,
    types.SECRET: iam.secret,
    types.SECRET_VERSION: iam.secret_version,
    **dict.fromkeys(types.MEMBERS, iam.member),
    types.SUBNETWORK: network.subnetwork,
    types.FIREWALL: network.firewall,
    types.ROUTER: network.router,
    types.ROUTER_NAT: network.router_nat,
    types.GLOBAL_ADDRESS: network.global_address,
    types.NETWORK_ATTACHMENT: network.network_attachment,
    types.CONNECTION: network.connection,
    types.WORKER_POOL: build.worker_pool,
    types.TRIGGER: trigger.trigger,
    types.REPOSITORY: build.repository,
    types.RUN_POOL: run.worker_pool,
    types.CUSTOM_ROLE: run.custom_role,
    types.POOL: federation.pool,
    types.POOL_PROVIDER: federation.provider,
    types.LOG_METRIC: observe.log_metric,
    types.ALERT_POLICY: observe.alert_policy,
    types.CLUSTER: node_pool.cluster,
    types.NODE_POOL: node_pool.node_pool,
}


def rules(token: str, inputs: Inputs, region: str) -> Iterable[Problem]:
    """Return the problems that Google reports but no schema contains."""
    if regional_rule := _REGIONAL.get(token):
        return regional_rule(inputs, region)
    other_rule = _OTHER.get(token)
    return other_rule(inputs) if other_rule else ()
